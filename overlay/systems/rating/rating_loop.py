"""Rates listings: those with new receipts, those that changed, those with payments that left or joined the chain, and
the others once a day."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from hashlib import sha256

from indexer.failures import LeftOut
from indexer.store import Store, Writer
from overlay.api.systems import Parts
from overlay.jobs import PeriodicJob, Role
from overlay.listings.repository import ListingRepository
from overlay.systems.rating.listing_facts import FactsReader, listing_of
from overlay.systems.rating.store import (
    DAY_MS,
    POSITION,
    ReceiptQueries,
    StoredRating,
    prove_payments,
    rate_again,
    record_rating,
)
from overlay.systems.rating.store_complaint_rows import ComplaintCounts
from overlay.systems.rating.store_complaints import ComplaintQueries
from parsers.claims.canonical_json import jcs
from parsers.claims.rating import RATED_AT, Rating, rate

log = logging.getLogger(__name__)

PAUSE_SECONDS, BATCH = 2.0, 200
"""Seconds between two looks for listings to rate, and listings of one look."""

CHANGES = 2_000
"""Changes of listings that are looked at in one step."""

REORG_BLOCKS = 1_000
"""Blocks below the tip that are checked for payments again when the tip changes."""

_WORK = "rating"
"""The kind of work in `LeftOut`: rating a listing."""

NO_RATING = Rating(None, 0, 0, 0, 0, 0, ())


class RatingLoop:
    """Keeps the ratings in step with the receipts. `changed` is called, in the event loop, after ratings have changed;
    `clock` gives seconds since 1970."""

    def __init__(
        self,
        store: Store,
        writer: Writer,
        changed: Callable[[], None],
        clock: Callable[[], float] = time.time,
        left_out: LeftOut | None = None,
    ) -> None:
        self._left_out = left_out if left_out is not None else LeftOut()
        self._store, self._writer, self._changed, self._clock = store, writer, changed, clock
        self._facts, self._repository = FactsReader(store), ListingRepository(store)
        self._receipts, self._complaints = ReceiptQueries(store.engine), ComplaintQueries(store.engine)
        self._tips: dict[str, bytes] = {}
        self._epoch, self._seq = "", 0
        self._is_changed = False

    async def run(self) -> float | None:
        """Rate a batch; 0 where there may be more. Raises StoreError."""
        count = await asyncio.to_thread(self.step)
        if self._is_changed:
            self._is_changed = False
            self._changed()
        return 0.0 if count else None

    def step(self) -> int:
        """Look at the blocks of payments where a tip has changed, and rate a batch of listings; their number."""
        for chain in self._store.chains():
            self._check_blocks(chain)
        self._follow_changes()
        due = self._receipts.due(self._now() - DAY_MS, BATCH)
        due = [(listing, submitted) for listing, submitted in due if not self._left_out.is_waiting(_WORK, listing)]
        is_changed = []
        for listing, submitted in due:
            with self._left_out.leaving_out(_WORK, listing):
                is_changed.append(self._rate(listing, submitted))
        if any(is_changed):
            log.info("ratings: %d listings rated, %d ratings changed", len(due), sum(is_changed))
            self._is_changed = True
        return len(due)

    def _follow_changes(self) -> None:
        """Mark listings to be rated again that have changed: in their card, owner, or host."""
        outbox = self._store.outbox
        if not outbox.has(self._epoch, self._seq):
            stored, newest = self._store.badges.position(POSITION), outbox.position()
            self._epoch, self._seq = newest.epoch, newest.newest_seq if stored is None else stored
        changes = outbox.page(self._seq, CHANGES).changes
        listings = {change.id for change, _ in changes if change.reason != "rated"}
        if changes:
            last, self._epoch = changes[-1]
            rate_again(self._writer, sorted(listings), last.seq)
            self._seq = last.seq

    def _now(self) -> int:
        return int(self._clock() * 1_000)

    def _check_blocks(self, chain: str) -> None:
        tip = self._store.blocks.newest(chain)
        if tip is None or self._tips.get(chain) == tip.hash:
            return
        changed = []
        for block in self._receipts.payment_blocks(chain, tip.height - REORG_BLOCKS):
            headers = self._store.headers.run(chain, block.height, 1)
            is_proved = bool(headers) and headers[0][36:68] == block.root
            if is_proved != block.is_proved:
                changed.append(block._replace(is_proved=is_proved))
        if changed:
            prove_payments(self._writer, chain, changed)
        self._tips[chain] = tip.hash

    def _rate(self, listing_id: str, submitted: int) -> bool:
        now = self._now()
        listing = listing_of(self._repository.listing(listing_id))
        rating, base, complained = NO_RATING, NO_RATING, ComplaintCounts()
        if listing is not None:
            rows = self._receipts.counted(listing_id)
            facts = self._facts.facts(listing, rows)
            records = list(map(facts.record, rows))
            rating = rate(records, facts.rated, now)
            complained = self._complaints.counts(listing_id, facts.transfer)
            base = rating if not facts.rated.rated else rate(records, facts.without_rated(), now)
        basis = sha256(jcs(rating.as_json()["basis"])).digest()
        counts = (rating.rung, rating.completed, rating.failed, rating.paid_tasks, rating.customers)
        stored = StoredRating(rating.score, base.score, *counts, *complained, now, basis)
        return record_rating(self._writer, listing_id, submitted, stored, RATED_AT)


def jobs(parts: Parts) -> list[PeriodicJob]:
    """The job of the process that writes facts."""
    if parts.writer is None:
        return []
    run = RatingLoop(parts.store, parts.writer, parts.notifier.notify, left_out=parts.left_out).run
    return [PeriodicJob(name="ratings", run=run, every=PAUSE_SECONDS, role=Role.INDEXER)]
