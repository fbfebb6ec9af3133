"""How the listings of pointers stand, asked of the store: `indexer.pointers` decides, with the cards at hand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice

from indexer import pointers
from indexer.facts import EventKind
from indexer.pointers import Anchor, Drift, Facts, Standing, resolve, resolve_entry
from indexer.store import Known, Store, pointed
from parsers import cards
from parsers.cards import Kind
from parsers.erc8004 import is_entry
from parsers.errors import CardError

_OUTPOINT = re.compile(r"[0-9a-f]{64}_[0-9]+\Z")

AT_ONCE = 64
"""Ids looked at together: of each at least one card of up to 1 MiB is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointing:
    """What points at an id (`total` pointers, of which `anchors` can decide), how its listing stands and its card's
    bytes, both None while nothing is to be listed; and how fetching what they name stands, by locator."""

    id: str
    anchors: tuple[Anchor, ...]
    total: int
    standing: Standing | None
    body: bytes | None
    known: Mapping[str, Known]

    @property
    def ended(self) -> bool:
        """Whether the entry of a registry that this is was burned."""
        return self.standing is not None and self.standing.newest.event is EventKind.BURNED

    @property
    def fetching(self) -> Known | None:
        """How fetching stands of what lists it, else of what was named last."""
        locator = self.standing.anchor.locator if self.standing else None
        if locator is None:
            named = [anchor for anchor in self.anchors if anchor.locator is not None and anchor.valid]
            locator = max(named, key=lambda anchor: anchor.seen_at or 0).locator if named else None
        return self.known.get(locator) if locator is not None else None


def is_outpoint(id_: str) -> bool:
    """Whether an id is that of a registration on a chain of transactions (law 3), at which nothing can point."""
    return _OUTPOINT.match(id_) is not None


def pointings(store: Store, ids: Iterable[str]) -> Iterator[Pointing]:
    """What points at these ids; those that nothing points at are left out."""
    wanted = iter(ids)
    while batch := list(islice(wanted, AT_ONCE)):
        yield from _look(store, batch)


def pointing(store: Store, id_: str) -> Pointing | None:
    """What points at an id, None when nothing does."""
    return next(pointings(store, [id_]), None)


def drifts(store: Store, id_: str) -> list[Drift]:
    """What the locator of an id served instead of the card that was listed, the newest first; nothing of entries of
    registries, which name no hash."""
    found = next(iter(pointed.anchors(store.engine, [id_]).values()), None)
    if found is None or is_entry(id_):
        return []
    locators = {anchor.locator for anchor in found.anchors if anchor.locator is not None}
    facts = pointed.facts(store.engine, locators)
    is_card = partial(_Shelf(store).is_card, id_)
    past = pointers.drifts(found.anchors, facts, is_card, pointed.served(store.engine, locators))
    now = standing.drift if (standing := resolve(found.anchors, facts, is_card)) is not None else None
    if now is not None and now.sha256 not in {each.sha256 for each in past}:
        past.append(now)  # seen by an earlier version, which did not write down what was served one after the other
    return past[::-1]


def _look(store: Store, ids: list[str]) -> Iterator[Pointing]:
    found = pointed.anchors(store.engine, ids)
    locators = {anchor.locator for each in found.values() for anchor in each.anchors if anchor.locator is not None}
    facts = pointed.facts(store.engine, locators)
    known = store.known_locators(locators)
    shelf = _Shelf(store)
    shelf.fetch({digest for each in found.values() for digest in _likely(each.anchors, facts)})
    for id_ in ids:
        if id_ not in found:
            continue
        anchors, total = found[id_]
        decide = resolve_entry if is_entry(id_) else resolve
        standing = decide(anchors, facts, partial(shelf.is_card, id_))
        body = shelf.body(standing.card) if standing else None
        mine = {anchor.locator: known[anchor.locator] for anchor in anchors if anchor.locator in known}
        yield Pointing(id=id_, anchors=anchors, total=total, standing=standing, body=body, known=mine)


def _likely(anchors: Iterable[Anchor], facts: Facts) -> Iterator[bytes]:
    """The cards that will be asked for: what anchors name and was served, and what was served last."""
    for anchor in anchors:
        served = facts.get(anchor.locator or "", ())
        if anchor.digest is not None:
            yield from (fact.sha256 for fact in served if fact.sha256 == anchor.digest)
        elif served:
            yield max(served, key=lambda fact: fact.last_at).sha256


class _Shelf:
    """Card bytes, fetched together as far as it is known which are asked for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._bodies: dict[bytes, bytes | None] = {}
        self._judged: dict[tuple[bytes, Kind, bool], bool] = {}

    def fetch(self, digests: Iterable[bytes]) -> None:
        """Take these down."""
        missing = [digest for digest in dict.fromkeys(digests) if digest not in self._bodies]
        self._bodies |= dict.fromkeys(missing) | self._store.cards(missing) if missing else {}

    def body(self, digest: bytes) -> bytes | None:
        """The bytes with this SHA-256, None where they are not kept."""
        self.fetch([digest])
        return self._bodies[digest]

    def is_card(self, id_: str, digest: bytes, kind: Kind) -> bool:
        """Whether they are a card of that kind, as what points at `id_` may name."""
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
