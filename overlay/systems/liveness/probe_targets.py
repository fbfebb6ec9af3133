"""The URLs of live listings, kept in step with the store by its outbox."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import urlsplit

from indexer.failures import LeftOut
from indexer.store import Store, Writer
from indexer.store.observed_tools import is_endpoint
from overlay.api.systems import Parts
from overlay.jobs import PeriodicJob, Role
from overlay.listings import from_pointer
from overlay.listings.listing import Listing, listings_of
from overlay.listings.records import Registration
from overlay.listings.repository import ListingRepository
from overlay.systems.liveness.store import CHANGED, POSITION, ProbeMethod, ProbeTarget, record_targets, retire
from parsers import cards
from parsers.cards import AgentCard, McpServer
from parsers.cards.probe_opt_out import opts_out
from parsers.local_hosts import is_public_url
from parsers.pointers.locator import url_host

EVERY_SECONDS, BATCH = 2.0, 200
"""Seconds between two looks for changes, and registrations of one look."""

RETIRE_SECONDS = 600.0
"""Seconds between two looks for states that are too old."""

MAX_KEY = 2_500
"""Bytes of a registration and a URL that it names: PostgreSQL indexes no row of more than 2.7 kB."""

_WORK = "probe target"
"""The kind of work in `LeftOut`: reading which URLs a registration names."""


class TargetQueue:
    """Keeps the URLs to visit in step with the store. `changed` is called, in the event loop, after a state has
    changed; `clock` gives seconds since 1970. Not `is_probing`: it only gives up old states."""

    def __init__(
        self,
        store: Store,
        writer: Writer,
        changed: Callable[[], None],
        *,
        is_probing: bool,
        clock: Callable[[], float] = time.time,
        left_out: LeftOut | None = None,
    ) -> None:
        self._left_out = left_out if left_out is not None else LeftOut()
        self._store, self._writer, self._changed, self._clock = store, writer, changed, clock
        self._repository, self._is_probing = ListingRepository(store), is_probing
        self._scan: tuple[int, Iterator[list[str]]] | None = None
        self._retire_at = float("-inf")

    async def run(self) -> float | None:
        """Read a batch of changes; 0 where there may be more. Raises StoreError."""
        more, changed = await asyncio.to_thread(self.step)
        if changed:
            self._changed()
        return 0.0 if more else None

    def step(self) -> tuple[bool, int]:
        """Read a batch of changes. Returns whether there may be more, and how many listings may have changed."""
        now = self._clock()
        changed = 0
        if now >= self._retire_at:
            changed = retire(self._writer, int(now * 1_000))
            self._retire_at = now if changed else now + RETIRE_SECONDS
        if not self._is_probing:
            return bool(changed), changed
        position = self._store.badges.position(POSITION)
        if position is None:
            return True, changed + self._scan_all()
        news = self._store.outbox.after(position, BATCH)
        failed = self._left_out.due(_WORK, BATCH)
        ids = list(dict.fromkeys([*(change.id for change in news if change.reason != CHANGED), *failed]))
        if news or failed:
            changed += self._read(ids, news[-1].seq if news else position)
        return bool(news), changed

    def _scan_all(self) -> int:
        """Read the next registrations of all: the outbox was never read, or is a new one."""
        newest, batches = self._scan or (self._store.outbox.newest_seq(), self._all())
        self._scan = None  # a batch that is not stored is read again, with those before
        ids = next(batches, [])
        changed = self._read(ids, None if ids else newest)
        self._scan = (newest, batches) if ids else None
        return changed

    def _all(self) -> Iterator[list[str]]:
        after: tuple[str, str] | None = None
        while rows := self._store.registrations.ids(after, BATCH):
            yield list(dict.fromkeys(id_ for _, id_ in rows))
            after = rows[-1]
        last: str | None = None
        while ids := list(self._store.pointers.ids(last, BATCH)):
            yield ids
            last = ids[-1]

    def _read(self, ids: list[str], seq: int | None) -> int:
        targets: list[ProbeTarget] = []
        for id_, registration in self._repository.listings(ids).items():
            with self._left_out.leaving_out(_WORK, id_):
                targets += targets_of(registration)
        return record_targets(self._writer, targets, ids, seq, int(self._clock() * 1_000))


def targets_of(registration: Registration) -> Iterable[ProbeTarget]:
    """The public URLs of the listings of a registration, each once; none of one that is not live."""
    body, id_ = registration.card_body, registration.state.id
    if body is None:
        return ()
    listings = listings_of(registration, cards.read_of(id_, body, registration.state.kind))
    is_off, targets = opts_out(body), dict[str, ProbeTarget]()
    for listing in listings:
        url = listing.card.url
        if listing.status != "live" or url in targets or not _is_visible(id_, url):
            continue
        named = is_named_by_host(listing)
        method = ProbeMethod.PARTS if _has_parts(url) else ProbeMethod.OFF if is_off else _method(listing, named=named)
        targets[url] = ProbeTarget(id_, url, method.value, named)
    return targets.values()


def _is_visible(id_: str, url: str) -> bool:
    """Whether a URL is one that others reach, too, and can be stored with the registration that names it."""
    return is_public_url(url) and is_endpoint(url) and len(f"{id_}{url}".encode()) <= MAX_KEY


def is_named_by_host(listing: Listing) -> bool:
    """Whether the host of its URL names the listing, or the URL: by a badge, by the card that it serves, or by the
    handshake of its endpoint."""
    url = listing.card.url
    motebit = listing.members_of_systems.get("motebit")
    handshake = motebit.handshake if motebit is not None and motebit.endpoint == url else None
    if handshake is not None and handshake.state == "verified":
        return True
    resolution = listing.pointers.resolution if listing.pointers else None
    if url_host(url) != listing.host:
        return False
    if resolution is None:
        return listing.is_confirmed_by_domain
    return bool(from_pointer.host(resolution.anchor.locator or ""))


def _method(listing: Listing, *, named: bool) -> ProbeMethod:
    card = listing.card
    if isinstance(card, McpServer):
        return ProbeMethod.SSE if card.transport == "sse" else ProbeMethod.MCP
    if not named or not isinstance(card, AgentCard) or "jsonrpc" not in listing.usage.transports:
        return ProbeMethod.READ
    stated = next((entry for entry in card.interfaces if entry["url"] == card.url), {})
    version = stated.get("protocolVersion") or card.protocol
    return ProbeMethod.A2A_1 if str(version).startswith("1") else ProbeMethod.A2A


def _has_parts(url: str) -> bool:
    """Whether a URL has userinfo, a query or a fragment, which may be secrets."""
    return bool({"?", "#"} & {*url}) or "@" in urlsplit(url).netloc


def jobs(parts: Parts) -> list[PeriodicJob]:
    """The job of the process that writes facts."""
    if parts.writer is None:
        return []
    queue = TargetQueue(
        parts.store, parts.writer, parts.notifier.notify, is_probing=parts.settings.is_probing, left_out=parts.left_out
    )
    return [PeriodicJob(name="probe targets", run=queue.run, every=EVERY_SECONDS, role=Role.INDEXER)]
