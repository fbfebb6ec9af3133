"""Resolves the pointers of ids to listings, with the stored anchors, fetches and cards."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from indexer.model import Anchor, Drift, EventKind
from indexer.resolution import pointer_resolution as pointers
from indexer.resolution.pointer_resolution import FetchFacts, PointerResolution, resolve, resolve_entry
from parsers import cards
from parsers.cards import Kind, is_entry
from parsers.errors import CardError

if TYPE_CHECKING:
    from indexer.store import LocatorStatus, Store

_OUTPOINT = re.compile(r"[0-9a-f]{64}_[0-9]+(#[0-9]{1,10})?\Z")

AT_ONCE = 64
"""Ids resolved together: for each at least one card of up to 1 MiB is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointerListing:
    """The pointers to an id (`total` in all; `anchors` are those that can decide), the `resolution` of its listing and
    the card's bytes, both None while there is nothing to list; and the fetch status of each locator."""

    id: str
    anchors: tuple[Anchor, ...]
    total: int
    resolution: PointerResolution | None
    body: bytes | None
    statuses: Mapping[str, LocatorStatus]

    @property
    def ended(self) -> bool:
        """Whether the entry of a registry that this is was burned."""
        return self.resolution is not None and self.resolution.newest.event is EventKind.BURNED

    @property
    def fetching(self) -> LocatorStatus | None:
        """The fetch status of the locator that lists it, else of the one named last."""
        locator = self.resolution.anchor.locator if self.resolution else None
        if locator is None:
            named = [anchor for anchor in self.anchors if anchor.locator is not None and anchor.valid]
            locator = max(named, key=lambda anchor: anchor.seen_at or 0).locator if named else None
        return self.statuses.get(locator) if locator is not None else None


def is_outpoint(id_: str) -> bool:
    """Whether an id is that of a registration on a chain of transactions (law 3), at which nothing can point."""
    return _OUTPOINT.match(id_) is not None


def pointer_listings(store: Store, ids: Iterable[str]) -> Iterator[PointerListing]:
    """The listings of these ids; ids without a pointer are left out. Raises StoreError."""
    remaining = iter(ids)
    while batch := list(islice(remaining, AT_ONCE)):
        yield from _look(store, batch)


def pointer_listing(store: Store, id_: str) -> PointerListing | None:
    """The listing of an id, None without a pointer to it. Raises StoreError."""
    return next(pointer_listings(store, [id_]), None)


def drifts(store: Store, id_: str) -> list[Drift]:
    """The bytes that the locator of an id served instead of the listed card, the newest first; empty for entries of
    registries, which name no hash."""
    anchored = next(iter(store.pointers.anchors([id_]).values()), None)
    if anchored is None or is_entry(id_):
        return []
    locators = {anchor.locator for anchor in anchored.anchors if anchor.locator is not None}
    facts = store.pointers.facts(locators)
    is_card = partial(_CardCache(store).is_card, id_)
    past = pointers.drifts(anchored.anchors, facts, is_card, store.pointers.servings(locators))
    now = resolution.drift if (resolution := resolve(anchored.anchors, facts, is_card)) is not None else None
    if now is not None and now.sha256 not in {drift.sha256 for drift in past}:
        past.append(now)  # seen by an earlier version, which did not store the history of what was served
    return past[::-1]


def _look(store: Store, ids: list[str]) -> Iterator[PointerListing]:
    anchored = store.pointers.anchors(ids)
    locators = {anchor.locator for entry in anchored.values() for anchor in entry.anchors if anchor.locator is not None}
    facts = store.pointers.facts(locators)
    fetch_status = store.fetches.statuses(locators)
    cache = _CardCache(store)
    cache.fetch({digest for entry in anchored.values() for digest in _likely(entry.anchors, facts)})
    for id_ in ids:
        if id_ not in anchored:
            continue
        anchors, total = anchored[id_]
        decide = resolve_entry if is_entry(id_) else resolve
        resolution = decide(anchors, facts, partial(cache.is_card, id_))
        body = cache.body(resolution.card) if resolution else None
        mine = {anchor.locator: fetch_status[anchor.locator] for anchor in anchors if anchor.locator in fetch_status}
        yield PointerListing(id=id_, anchors=anchors, total=total, resolution=resolution, body=body, statuses=mine)


def _likely(anchors: Iterable[Anchor], facts: FetchFacts) -> Iterator[bytes]:
    """The SHA-256 of the cards that resolving will read: those that anchors name and that were served, and the card
    that was served last."""
    for anchor in anchors:
        served = facts.get(anchor.locator or "", ())
        if anchor.digest is not None:
            yield from (fact.sha256 for fact in served if fact.sha256 == anchor.digest)
        elif served:
            yield max(served, key=lambda fact: fact.last_at).sha256


class _CardCache:
    """Card bytes, read from the store in batches."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._bodies: dict[bytes, bytes | None] = {}
        self._judged: dict[tuple[bytes, Kind, bool], bool] = {}

    def fetch(self, digests: Iterable[bytes]) -> None:
        """Read these cards, by SHA-256."""
        missing = [digest for digest in dict.fromkeys(digests) if digest not in self._bodies]
        self._bodies |= dict.fromkeys(missing) | self._store.content.cards(missing) if missing else {}

    def body(self, digest: bytes) -> bytes | None:
        """The bytes with this SHA-256, None where they are not stored."""
        self.fetch([digest])
        return self._bodies[digest]

    def is_card(self, id_: str, digest: bytes, kind: Kind) -> bool:
        """Whether these bytes are a card of that kind that a pointer to `id_` may name."""
        key = (digest, kind, is_entry(id_))
        if key not in self._judged:
            self._judged[key] = self._judge(id_, digest, kind)
        return self._judged[key]

    def _judge(self, id_: str, digest: bytes, kind: Kind) -> bool:
        body = self.body(digest)
        if body is None:
            return False
        if not is_entry(id_):
            return not cards.faults(body, kind)
        try:
            cards.read_of(id_, body)
        except CardError:
            return False
        return True
