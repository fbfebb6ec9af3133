"""From the pointers to one id, and what fetching came to, how its listing stands (laws 9 and 10). Pure.

Any number of strangers may point at an id. What they say can only add anchors: the order in which hashes were met
decides, and a hash that is listed already is not listed anew because somebody repeats it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from indexer.facts import EventKind
from parsers.cards import Kind
from parsers.tx import Outpoint


class Integrity(StrEnum):
    """What a listing's card was held to. The same words stand in the API and in the tests."""

    INSCRIBED = "inscribed"
    HASH_VERIFIED = "hash-verified"
    UNHASHED = "unhashed"
    DRIFTED = "drifted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """A pointer on chain. `place` orders the anchors of a chain, `time` is of its block (seconds since 1970);
    `seen_at` is when it was first seen (milliseconds since 1970), None where it cannot be fetched. `locator` is what is
    fetched for it (`PointerAnchor.locator`), None where that is nothing."""

    chain: str
    place: int
    height: int
    time: int
    txid: bytes
    outpoint: Outpoint | None
    locator: str | None
    digest: bytes | None
    seen_at: int | None
    kind: Kind = Kind.AGENT
    form: str = "raw32"
    valid: bool = True
    event: EventKind = EventKind.POINTED
    owner: str | None = None


class Fact(NamedTuple):
    """A locator served bytes with this SHA-256 in fetches begun from `first_at` to `last_at` (milliseconds since 1970),
    the last of them at `url`. `by_cid`: the CID that the locator is made of names these bytes."""

    sha256: bytes
    first_at: int
    last_at: int
    url: str = ""
    by_cid: bool = False


class Drift(NamedTuple):
    """The locator now serves something else (`sha256`), at the latest since `since` (milliseconds since 1970)."""

    sha256: bytes
    since: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How the listing of an id stands: the anchor that lists it and the SHA-256 of its card, by the name of law 10.

    `newest` is the anchor that says who owns it: the same, but for an entry that changed hands. `anchors` are all that
    were given, the oldest first, and `met` says of each whether it was met. `fact` is that of the card.
    """

    anchor: Anchor
    newest: Anchor
    card: bytes
    fact: Fact
    integrity: Integrity
    anchors: tuple[Anchor, ...]
    met: tuple[bool, ...]
    drift: Drift | None = None


Facts = Mapping[str, Sequence[Fact]]
"""What is known of fetching, by locator."""

Readable = Callable[[bytes, Kind], bool]
"""Whether the bytes with a SHA-256 are kept and are a card of a kind (law 12): no others are ever listed."""


def in_order(anchors: Iterable[Anchor]) -> list[Anchor]:
    """Anchors, the oldest first: on a chain as it has them, between chains by time. The clock of a chain never goes
    back here, though the times that miners write may."""
    latest: dict[str, int] = {}
    timed = []
    for anchor in sorted(anchors, key=lambda each: (each.chain, each.place)):
        latest[anchor.chain] = max(latest.get(anchor.chain, anchor.time), anchor.time)
        timed.append((latest[anchor.chain], anchor.chain, anchor.place, anchor))
    return [anchor for _, _, _, anchor in sorted(timed, key=lambda each: each[:3])]


def met_by(anchor: Anchor, facts: Facts) -> Fact | None:
    """The fact that meets an anchor (law 9): its own locator served its hash, or what its CID names, in a fetch begun
    after the anchor was seen. None when there is none."""
    if anchor.locator is None or anchor.seen_at is None or not anchor.valid:
        return None
    for fact in facts.get(anchor.locator, ()):
        named = fact.sha256 == anchor.digest if anchor.digest is not None else fact.by_cid
        if named and fact.last_at > anchor.seen_at:
            return fact
    return None


def resolve(anchors: Iterable[Anchor], facts: Facts, readable: Readable) -> Standing | None:
    """How the listing of an id that anybody may point at stands; None while there is nothing to list."""
    ordered = in_order(anchors)
    met = tuple(met_by(anchor, facts) for anchor in ordered)
    hashed = _hashed(ordered, met, readable)
    won = _winner(hashed) or _winner(list(_loose(ordered, facts, readable)))
    if won is None:
        return None
    held = won.number in {claim.number for claim in hashed}
    drift = _drift(won, facts) if held else None
    integrity = Integrity.UNHASHED if not held else Integrity.DRIFTED if drift else Integrity.HASH_VERIFIED
    return Standing(
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
class _Claim:
    """An anchor that may list a card: its number in order, what it claims (the same again changes nothing), and since
    when it could (milliseconds since 1970)."""

    number: int
    anchor: Anchor
    fact: Fact
    what: object
    at: int


def _hashed(ordered: Sequence[Anchor], met: Sequence[Fact | None], readable: Readable) -> list[_Claim]:
    """The claims of the anchors that are met."""
    return [
        _Claim(number, anchor, fact, fact.sha256, max(fact.first_at, anchor.seen_at or 0))
        for number, (anchor, fact) in enumerate(zip(ordered, met, strict=True))
        if fact is not None and readable(fact.sha256, anchor.kind)
    ]


def drifts(anchors: Iterable[Anchor], facts: Facts, readable: Readable, served: Iterable[Drift]) -> list[Drift]:
    """Of what was `served` at the locator of an id, the oldest first: all that was not the card listed by its hash at
    that time (law 10). Bytes that a CID names cannot drift."""
    ordered = in_order(anchors)
    hashed = _hashed(ordered, [met_by(anchor, facts) for anchor in ordered], readable)
    found = []
    for each in served:
        # a fetch begun in the millisecond in which an anchor was seen does not meet it (law 9)
        listed = _winner([c for c in hashed if c.at <= each.since and (c.anchor.seen_at or 0) < each.since])
        if listed is not None and not listed.fact.by_cid and listed.fact.sha256 != each.sha256:
            found.append(each)
    return found


def _loose(ordered: Sequence[Anchor], facts: Facts, readable: Readable) -> Iterator[_Claim]:
    """Anchors without a hash whose locator served a card since they were seen: what it served last that is one."""
    for number, anchor in enumerate(ordered):
        if anchor.digest is not None or anchor.locator is None or anchor.seen_at is None or not anchor.valid:
            continue
        since = [fact for fact in facts.get(anchor.locator, ()) if fact.last_at > anchor.seen_at]
        best = _latest(since, anchor.kind, readable)
        if best is not None:
            at = min(max(fact.first_at, anchor.seen_at) for fact in since)
            yield _Claim(number, anchor, best, (anchor.locator, anchor.kind), at)


def _latest(facts: Iterable[Fact], kind: Kind, readable: Readable) -> Fact | None:
    for fact in sorted(facts, key=lambda fact: (-fact.last_at, -fact.first_at, fact.sha256)):
        if readable(fact.sha256, kind):
            return fact
    return None


def _winner(claims: Sequence[_Claim]) -> _Claim | None:
    """The claim that stands after all were met one after the other, each as it could be.

    A newer anchor that claims something else wins. One that repeats what is listed when it is met changes nothing, so
    that nobody can hold an old card up by pointing at it again before its successor is served. An older anchor of the
    same claim, learnt of later, takes the place that it always had.
    """
    won: _Claim | None = None
    before: list[_Claim] = []
    for claim in sorted(claims, key=lambda each: (each.at, each.number)):
        if won is None:
            won = claim
        elif claim.what == won.what:
            if claim.number < won.number and not _between(before, claim, won):
                won = claim
        elif claim.number > won.number:
            won = claim
        before.append(claim)
    return won


def _between(claims: Iterable[_Claim], first: _Claim, last: _Claim) -> bool:
    """Whether something else was claimed between two anchors of the same claim."""
    return any(first.number < claim.number < last.number and claim.what != first.what for claim in claims)


def _drift(won: _Claim, facts: Facts) -> Drift | None:
    """What the locator served since it served the card last, if anything; bytes that a CID names cannot drift."""
    if won.anchor.locator is None or won.fact.by_cid:
        return None
    later = [fact for fact in facts.get(won.anchor.locator, ()) if fact.last_at > won.fact.last_at]
    if not later:
        return None
    now = max(later, key=lambda fact: (fact.last_at, fact.first_at, fact.sha256))
    since = min(fact.first_at if fact.first_at > won.fact.last_at else fact.last_at for fact in later)
    return Drift(now.sha256, since)


def resolve_entry(anchors: Iterable[Anchor], facts: Facts, readable: Readable) -> Standing | None:
    """How the listing of a registry's entry stands, which only the registry's contract speaks for: the newest of its
    pointers that leads to a card, whoever it was handed to since; None while there is nothing to list."""
    ordered = in_order(anchors)
    found: tuple[Anchor, Fact] | None = None
    for anchor in ordered:
        served = [] if anchor.locator is None or not anchor.valid else facts.get(anchor.locator, ())
        best = _latest(served, anchor.kind, readable)
        is_news = found is None or anchor.event is EventKind.POINTED or anchor.locator != found[0].locator
        if best is not None and is_news:
            found = anchor, best
    if found is None:
        return None
    anchor, fact = found
    met = tuple(met_by(each, facts) is not None for each in ordered)
    return Standing(
        anchor=anchor,
        newest=ordered[-1],
        card=fact.sha256,
        fact=fact,
        integrity=Integrity.HASH_VERIFIED if fact.by_cid else Integrity.UNHASHED,
        anchors=tuple(ordered),
        met=met,
    )
