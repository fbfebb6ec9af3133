"""The loop of one chain: find the newest common block, delete the blocks above it, read and append to the tip, wait."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import aclosing

from indexer.chains import Chain
from indexer.errors import SourceError, SourceUnavailableError
from indexer.model import LATE, BlockRef
from indexer.resolution.origins import MISSING
from indexer.retries import Backoff
from indexer.state_hash import outdated
from indexer.store import Revision, Store, Writer, block_writer, chain_marks
from indexer.sync.catchup import Catchup
from indexer.sync.mempool import Mempool
from indexer.sync.outpoint_monitor import OutpointMonitor
from indexer.sync.progress import SyncProgress
from parsers.bitcoin.tx import Outpoint

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
MEMPOOL_SECONDS = 0.5
"""Pause between two refreshes of the mempool; as long as the refresh took where that is longer."""

RETRY_SECONDS = 600.0
"""Pause between attempts to decide undecided events."""

RETRIED, RETRYING_SECONDS = 64, 5.0
"""The limits of undecided events and seconds of one attempt; the next one continues, so blocks do not wait."""

BACKOFF = Backoff(1.0, 60.0)
"""Between attempts to reach a source that does not answer."""


class DeepReorgError(SourceError):
    """The source contradicts blocks that were final: the follower stops, and an operator decides."""


class Follower:
    """Keeps the store in sync with one chain. `changed` is called, in the event loop, after each write. While `again`
    is set, opening deletes the stored blocks of the chain."""

    def __init__(self, chain: Chain, store: Store, writer: Writer, changed: Callable[[], None] = lambda: None) -> None:
        self._chain, self._store, self._writer, self._changed = chain, store, writer, changed
        self.again = False
        self._retried = 0.0
        self._retried_last: Revision | None = None
        self.progress = SyncProgress(chain.name)
        self._catchup = Catchup(chain, store, writer, self.progress, changed)
        self.mempool, self._mempool_due = Mempool(chain, store, writer), 0.0
        self.outpoint_monitor = OutpointMonitor(chain, store, writer) if chain.filtered else None

    async def open(self) -> None:
        """Connect to the source and load the stored state. Raises SourceError or StoreError."""
        await asyncio.to_thread(self.mempool.begin)
        await self._chain.open()
        self.progress.caip2 = self._chain.caip2
        await asyncio.to_thread(chain_marks.name_chain, self._writer, self._chain.name, self._chain.caip2)
        if self.again:
            await self._begin_again()
        await asyncio.to_thread(self._load_state)

    async def _begin_again(self) -> None:
        """Delete the stored blocks, unless the source cannot deliver the first one: a node may have pruned it. Raises
        SourceError."""
        chain = self._chain
        if not chain.has_history:
            raise SourceError(f"{chain.name}: this source has only the present state: nothing can be read again")
        async with aclosing(chain.blocks(chain.first, chain.first)) as stream:
            async for _ in stream:
                break
        count = await asyncio.to_thread(block_writer.forget, self._writer, chain.name, -1)
        self.again = False
        log.warning("%s: %d blocks are forgotten, to be read again from block %d", chain.name, count, chain.first)
        self._changed()

    def _load_state(self) -> None:
        if not self._chain.has_history:
            chain_marks.mark_current(self._writer, self._chain.name)
        if not self._chain.complete:
            chain_marks.mark_partial(self._writer, self._chain.name)
        self._mark_unproved_headers()
        self._catchup.watch()
        self._note_newest(self._store.blocks.newest(self._chain.name))
        if self._catchup.origins.is_late():
            log.warning("%s: %s", self._chain.name, LATE)
        if note := outdated(self._store, self._chain.name):
            log.warning("%s: %s", self._chain.name, note)
        start = self._store.blocks.lowest_height(self._chain.name)
        if start is not None and start > self._chain.first and not self._chain.sparse:
            log.warning(
                "%s: the database begins at block %d and not at %d, and keeps its start; a new one would begin there",
                self._chain.name, start, self._chain.first,
            )  # fmt: skip

    def _mark_unproved_headers(self) -> None:
        """Mark a chain with merge-mined headers that may lack their proof of work. Raises SourceError for one that
        is marked and now configured with the check: headers without a proof are stored among the others."""
        name = self._chain.name
        if self._chain.headers_unproved:
            chain_marks.mark_unproved(self._writer, name)
        elif self._store.is_unproved(name):
            raise SourceError(
                f"{name}: the database holds merge-mined headers that came without their proof of work; keep "
                "?auxpow=unchecked in the URL, or index into a new database"
            )

    async def run(self) -> None:
        """Follow until cancelled, or until an operator must act (state `stopped`)."""
        failures = 0
        while True:
            try:
                await self.catch_up()
                if time.monotonic() >= self._mempool_due:
                    await self.refresh_mempool()
                failures = 0
                await self._chain.wait(self._pause())
            except SourceUnavailableError as error:
                self._set_state("unreachable", str(error))
                failures += 1
                await asyncio.sleep(BACKOFF.pause(failures))
            except SourceError as error:
                self._set_state("stopped", str(error))
                return

    def _pause(self) -> float:
        """Seconds until the next look at the source, unless the source wakes the follower before."""
        return POLL_SECONDS if self.progress.mempool is None else max(0.05, self._mempool_due - time.monotonic())

    def give_up(self, error: str) -> None:
        """Stop this chain with an error, until an operator acts."""
        self._set_state("stopped", error)

    def _set_state(self, state: str, error: str) -> None:
        if error != self.progress.error:
            log.error("%s is %s: %s", self._chain.name, state, error.removeprefix(f"{self._chain.name}: "))
        self.progress.state, self.progress.error = state, error
        self._note_source()

    def _note_source(self) -> None:
        """Copy the warnings of the source into the progress."""
        self.progress.note, self.progress.caught = self._chain.warning, self._chain.violation_count

    async def catch_up(self) -> None:
        """Bring the store to the source's tip, in as many batches as it takes. Raises SourceError or StoreError."""
        tip = await self._chain.tip()
        if tip is None:
            self.progress.state, self.progress.error = "following", ""
            return
        self.progress.tip, self.progress.checked = tip.height, self._chain.checked
        newest = await self._reread_filtered(await self._retry_undecided(await self._agree()))
        if (newest.height + 1 if newest else self._chain.first) <= tip.height:
            self.progress.state = "catching-up"
            await self._catchup.read(newest, tip.height)
        self._note_source()
        self.progress.state, self.progress.error = "following", ""

    @property
    def chain(self) -> Chain:
        """The source."""
        return self._chain

    def offer(self, txid: bytes) -> None:
        """Have the mempool refreshed at once, with this transaction (txid in internal byte order) that the source
        has."""
        self.mempool.offer(txid)
        self._mempool_due = 0.0

    async def refresh_mempool(self) -> None:
        """Replace the unconfirmed events in the store by those of the source's mempool, unless blocks are missing."""
        began = time.monotonic()
        if await self.mempool.refresh(self._catchup.watched):
            self._changed()
        self.progress.mempool = self.mempool.size
        self._mempool_due = time.monotonic() + max(MEMPOOL_SECONDS, time.monotonic() - began)

    async def _agree(self) -> BlockRef | None:
        """The newest stored block that the source has too; stored blocks above it are deleted."""
        newest = await asyncio.to_thread(self._store.blocks.newest, self._chain.name)
        if newest is None:
            return None
        common: BlockRef | None = newest
        while common is not None:
            theirs = await self._chain.ref(common.height)
            if theirs is not None and theirs.hash == common.hash:
                break
            if theirs is None and await self._is_merely_behind(common):
                return newest
            self._check_final(newest.height - common.height + 1)
            common = await asyncio.to_thread(self._store.blocks.below, self._chain.name, common.height)
        if common != newest:
            await self._reorganise(newest, common)
        return common

    def _check_final(self, depth: int) -> None:
        """Raise DeepReorgError when a reorganisation of `depth` blocks is deeper than the chain's finality."""
        if self._chain.finality is not None and depth > self._chain.finality:
            raise DeepReorgError(
                f"{self._chain.name}: the source contradicts more than the last {self._chain.finality:,} stored blocks,"
                " which are all that may change; if the source is right, give the chain a larger ?finality="
                " or index into a new database"
            )

    async def _is_merely_behind(self, stored: BlockRef) -> bool:
        """Whether the source has no block at this height yet and agrees below: it is syncing, not reorganising."""
        tip = await self._chain.tip()
        if tip is None:
            return True
        if tip.height >= stored.height:
            return False
        ours = await asyncio.to_thread(self._store.blocks.below, self._chain.name, tip.height + 1)
        theirs = await self._chain.ref(ours.height) if ours else None
        return ours is not None and theirs is not None and ours.hash == theirs.hash

    async def _reorganise(self, newest: BlockRef, common: BlockRef | None) -> None:
        above = common.height if common else -1
        depth = newest.height - above
        self._catchup.origins.forget()
        await self._forget(common, above)
        self.progress.reorgs += 1
        log.warning("%s: %d blocks above %d are no longer in the best chain; forgotten", self._chain.name, depth, above)

    async def _forget(self, newest: BlockRef | None, above: int) -> None:
        spent = await asyncio.to_thread(self._store.registrations.spent_above, self._chain.name, above)
        await asyncio.to_thread(block_writer.forget, self._writer, self._chain.name, above)
        self._catchup.watched.add(spent)
        self._note_newest(newest)
        self.progress.state = "catching-up"  # no state hash is computed before the blocks that replace these
        self._changed()

    def _note_newest(self, ref: BlockRef | None) -> None:
        self.progress.height = ref.height if ref else None
        self.progress.hash = ref.hash if ref else b""

    async def _reread_filtered(self, newest: BlockRef | None) -> BlockRef | None:
        """For a source of partial blocks: delete from the lowest block with new transactions on, to read it again.

        `newest` is the newest stored block; the result is the newest one after that.
        """
        if newest is None or self.outpoint_monitor is None:
            return newest
        height, has_changes = await self.outpoint_monitor.look(newest)
        if has_changes:
            self._changed()
        if height is None or height > newest.height:
            return newest
        log.info("%s: the source has more of block %d; reading again from there", self._chain.name, height)
        before = await asyncio.to_thread(self._store.blocks.below, self._chain.name, height)
        await self._forget(before, height - 1)
        return before

    async def _retry_undecided(self, newest: BlockRef | None) -> BlockRef | None:
        """Law 3: try again to decide undecided events; delete from the lowest block with an event that can be decided
        now.

        `newest` is the newest stored block; the result is the newest one after that.
        """
        if newest is None or (self._retried and time.monotonic() - self._retried < RETRY_SECONDS):
            return newest
        self._retried = time.monotonic()
        self._catchup.origins.forget_missing()
        lowest: BlockRef | None = None
        for revision in await asyncio.to_thread(self._next_undecided):
            ref = await asyncio.to_thread(self._store.blocks.get, self._chain.name, revision.height)
            if ref is not None and await self._is_decidable(revision, ref):
                lowest = ref if lowest is None or ref.height < lowest.height else lowest
            self._retried_last = revision
            if time.monotonic() - self._retried > RETRYING_SECONDS:
                break
        if lowest is None:
            return newest
        log.info(
            "%s: undecided events of block %d can be decided; reading again from there", self._chain.name, lowest.height
        )
        before = await asyncio.to_thread(self._store.blocks.below, self._chain.name, lowest.height)
        await self._forget(before, lowest.height - 1)
        return before

    def _next_undecided(self) -> list[Revision]:
        """The undecided events of this attempt: those after the last attempt's, and then the first ones again."""
        chain, last = self._chain.name, self._retried_last
        revisions = self._store.history.undecided(chain, after=last, limit=RETRIED)
        if last is not None and len(revisions) < RETRIED:
            revisions += self._store.history.undecided(chain, up_to=last.height, limit=RETRIED - len(revisions))
        return revisions

    async def _is_decidable(self, revision: Revision, ref: BlockRef) -> bool:
        """Whether an undecided event of the stored block `ref` can be decided now."""
        event, codes = revision.event, {reason.code for reason in revision.event.reasons}
        if MISSING in codes and event.outpoint is not None:
            return await self._catchup.is_traced(event.outpoint, ref)
        if "values-unknown" not in codes:
            return False
        undecided_by = {Outpoint.parse(text) for reason in event.reasons for text in reason.detail.split()}
        return len(await self._catchup.look_up(undecided_by, ref)) == len(undecided_by)
