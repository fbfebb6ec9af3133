"""Resolves the pointers to one id, and the results of fetching, to a listing (laws 9 and 10). Pure.

Anyone may point at an id, which only adds anchors: the order in which hashes were met decides, and repeating a listed
hash changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from indexer.model import Anchor, Drift, EventKind, FetchFact
from parsers.cards import Kind


class Integrity(StrEnum):
    """How a listing's card was verified. The API uses the same values."""

    INSCRIBED = "inscribed"
    HASH_VERIFIED = "hash-verified"
    UNHASHED = "unhashed"
    DRIFTED = "drifted"


@dataclass(frozen=True, slots=True, kw_only=True)
class PointerResolution:
    """The listing of an id: the anchor that lists it and the SHA-256 of its card, by the name of law 10.

    `newest` is the anchor that names the owner: the same, except for a registry entry that was transferred. `anchors`
    are all anchors, the oldest first, and `met` whether each was met. `fact` is the fetch of the card.
    """

    anchor: Anchor
    newest: Anchor
    card: bytes
    fact: FetchFact
    integrity: Integrity
    anchors: tuple[Anchor, ...]
    met: tuple[bool, ...]
    drift: Drift | None = None


FetchFacts = Mapping[str, Sequence[FetchFact]]
"""Results of fetching, by locator."""

Readable = Callable[[bytes, Kind], bool]
"""Whether the bytes with a SHA-256 are stored and are a card of a kind (law 12): no others are listed."""


def in_order(anchors: Iterable[Anchor]) -> list[Anchor]:
    """Anchors, the oldest first: on one chain in its order, between chains by time. Block times that go back count as
    the latest time before them on that chain."""
    latest: dict[str, int] = {}
    timed = []
    for anchor in sorted(anchors, key=lambda entry: (entry.chain, entry.position)):
        latest[anchor.chain] = max(latest.get(anchor.chain, anchor.time), anchor.time)
        timed.append((latest[anchor.chain], anchor.chain, anchor.position, anchor))
    return [anchor for _, _, _, anchor in sorted(timed, key=lambda entry: entry[:3])]


def met_by(anchor: Anchor, facts: FetchFacts) -> FetchFact | None:
    """The fact that meets an anchor (law 9): its own locator served the bytes of its hash or CID, in a fetch begun
    after the anchor was seen. None without one."""
    if anchor.locator is None or anchor.seen_at is None or not anchor.valid:
        return None
    for fact in facts.get(anchor.locator, ()):
        named = fact.sha256 == anchor.digest if anchor.digest is not None else fact.by_cid
        if named and fact.last_at > anchor.seen_at:
            return fact
    return None


def resolve(anchors: Iterable[Anchor], facts: FetchFacts, readable: Readable) -> PointerResolution | None:
    """The listing of an id that anyone may point at; None while there is nothing to list."""
    ordered = in_order(anchors)
    met = tuple(met_by(anchor, facts) for anchor in ordered)
    hashed = _hashed(ordered, met, readable)
    won = _winner(hashed) or _winner(list(_unhashed(ordered, facts, readable)))
    if won is None:
        return None
    held = won.number in {entry.number for entry in hashed}
    drift = _drift(won, facts) if held else None
    integrity = Integrity.UNHASHED if not held else Integrity.DRIFTED if drift else Integrity.HASH_VERIFIED
    return PointerResolution(
        anchor=won.anchor,
        newest=won.anchor,
        card=won.fact.sha256,
        fact=won.fact,
        integrity=integrity,
        anchors=tuple(ordered),
        met=tuple(fact is not None for fact in met),
        drift=drift,
    )


@dataclass(frozen=True, slots=True)
class _MetAnchor:
    """An anchor that may list a card: its number in order, `what` it lists (repeating it changes nothing), and
    `since`, the time from which on it could list it (milliseconds since 1970)."""

    number: int
    anchor: Anchor
    fact: FetchFact
    what: object
    since: int


def _hashed(ordered: Sequence[Anchor], met: Sequence[FetchFact | None], readable: Readable) -> list[_MetAnchor]:
    """The anchors that are met."""
    return [
        _MetAnchor(number, anchor, fact, fact.sha256, max(fact.first_at, anchor.seen_at or 0))
        for number, (anchor, fact) in enumerate(zip(ordered, met, strict=True))
        if fact is not None and readable(fact.sha256, anchor.kind)
    ]


def drifts(anchors: Iterable[Anchor], facts: FetchFacts, readable: Readable, served: Iterable[Drift]) -> list[Drift]:
    """The `served` bytes of an id's locator, the oldest first, that differ from the card that was listed by its hash at
    that time (law 10). Bytes that a CID names cannot drift."""
    ordered = in_order(anchors)
    hashed = _hashed(ordered, [met_by(anchor, facts) for anchor in ordered], readable)
    drifted = []
    for drift in served:
        # a fetch begun in the millisecond in which an anchor was seen does not meet it (law 9)
        listed = _winner([c for c in hashed if c.since <= drift.since and (c.anchor.seen_at or 0) < drift.since])
        if listed is not None and not listed.fact.by_cid and listed.fact.sha256 != drift.sha256:
            drifted.append(drift)
    return drifted


def _unhashed(ordered: Sequence[Anchor], facts: FetchFacts, readable: Readable) -> Iterator[_MetAnchor]:
    """The anchors without a hash, each with the newest card that its locator served since the anchor was seen."""
    for number, anchor in enumerate(ordered):
        if anchor.digest is not None or anchor.locator is None or anchor.seen_at is None or not anchor.valid:
            continue
        since = [fact for fact in facts.get(anchor.locator, ()) if fact.last_at > anchor.seen_at]
        best = _latest(since, anchor.kind, readable)
        if best is not None:
            since_when = min(max(fact.first_at, anchor.seen_at) for fact in since)
            yield _MetAnchor(number, anchor, best, (anchor.locator, anchor.kind), since_when)


def _latest(facts: Iterable[FetchFact], kind: Kind, readable: Readable) -> FetchFact | None:
    for fact in sorted(facts, key=lambda fact: (-fact.last_at, -fact.first_at, fact.sha256)):
        if readable(fact.sha256, kind):
            return fact
    return None


def _winner(anchors: Sequence[_MetAnchor]) -> _MetAnchor | None:
    """The anchor that lists a card after all took effect in order of time.

    A newer anchor with another hash wins. One that repeats the listed hash changes nothing, so that nobody keeps an
    old card listed by pointing at it again before its successor is served. An older anchor of the same
    card that is seen later takes its position by age.
    """
    won: _MetAnchor | None = None
    before: list[_MetAnchor] = []
    for entry in sorted(anchors, key=lambda met: (met.since, met.number)):
        if won is None:
            won = entry
        elif entry.what == won.what:
            first, last = entry.number, won.number
            if first < last and not any(first < past.number < last and past.what != won.what for past in before):
                won = entry
        elif entry.number > won.number:
            won = entry
        before.append(entry)
    return won


def _drift(won: _MetAnchor, facts: FetchFacts) -> Drift | None:
    """The bytes that the locator served after the card, None without any; bytes that a CID names cannot drift."""
    if won.anchor.locator is None or won.fact.by_cid:
        return None
    later = [fact for fact in facts.get(won.anchor.locator, ()) if fact.last_at > won.fact.last_at]
    if not later:
        return None
    now = max(later, key=lambda fact: (fact.last_at, fact.first_at, fact.sha256))
    since = min(fact.first_at if fact.first_at > won.fact.last_at else fact.last_at for fact in later)
    return Drift(now.sha256, since)


def resolve_entry(anchors: Iterable[Anchor], facts: FetchFacts, readable: Readable) -> PointerResolution | None:
    """The listing of a registry's entry, which only the registry's contract can change: the newest of its pointers with
    a card, also after a change of owner; None without a card."""
    ordered = in_order(anchors)
    winner: tuple[Anchor, FetchFact] | None = None
    for anchor in ordered:
        served = [] if anchor.locator is None or not anchor.valid else facts.get(anchor.locator, ())
        best = _latest(served, anchor.kind, readable)
        is_news = winner is None or anchor.event is EventKind.POINTED or anchor.locator != winner[0].locator
        if best is not None and is_news:
            winner = anchor, best
    if winner is None:
        return None
    anchor, fact = winner
    met = tuple(met_by(candidate, facts) is not None for candidate in ordered)
    return PointerResolution(
        anchor=anchor,
        newest=ordered[-1],
        card=fact.sha256,
        fact=fact,
        integrity=Integrity.HASH_VERIFIED if fact.by_cid else Integrity.UNHASHED,
        anchors=tuple(ordered),
        met=met,
    )
