"""How a pointer's listing stands, slow and obvious: every fetch is remembered on its own, and every moment lived again.

Written down anew from laws 9 and 10. A story is a list of what happened, in the order in which this indexer learnt of
it; nothing is summed up, as the code does with the first and last time that a hash was served.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from indexer.model import Anchor


@dataclass(frozen=True, slots=True)
class Fetch:
    """A fetch begun at `begun` (milliseconds) that was served these hashes."""

    begun: int
    served: frozenset[bytes]


@dataclass(frozen=True, slots=True)
class Listed:
    """The state of a listing: the anchor that lists it, its hash, and whether the host has served something else
    since."""

    anchor: Anchor
    card: bytes
    hashed: bool
    drifted: bool


def is_newer(one: Anchor, other: Anchor, everything: Sequence[Anchor]) -> bool:
    """Whether an anchor stands after another: by place on one chain, else by the time its chain had come to by then."""
    if one.chain == other.chain:
        return one.position > other.position

    def clock(anchor: Anchor) -> int:
        return max(item.time for item in everything if item.chain == anchor.chain and item.position <= anchor.position)

    return (clock(one), one.chain) > (clock(other), other.chain)


def is_met(anchor: Anchor, fetches: Sequence[Fetch]) -> bool:
    """Law 9, as it is written."""
    return any(anchor.seen_at is not None and fetch.begun > anchor.seen_at and anchor.digest in fetch.served
               for fetch in fetches)  # fmt: skip


def listed(anchors: Sequence[Anchor], fetches: Sequence[Fetch], cards: frozenset[bytes]) -> Listed | None:
    """The listing after all these fetches; `cards` are the hashes of bytes that are cards."""
    good = [anchor for anchor in anchors if anchor.digest in cards and is_met(anchor, fetches)]
    if good:
        won = _last_standing(good, anchors, fetches)
        assert won.digest is not None
        last = max(fetch.begun for fetch in fetches if won.digest in fetch.served)
        drifted = any(fetch.begun > last and fetch.served for fetch in fetches)
        return Listed(won, won.digest, True, drifted)
    return _loose(anchors, fetches, cards)


def _last_standing(good: Sequence[Anchor], anchors: Sequence[Anchor], fetches: Sequence[Fetch]) -> Anchor:
    """Every moment again: what stood just before an anchor could first be listed, and whether it changed that."""
    moments = sorted({_moment(anchor, fetches) for anchor in good})
    stands: Anchor | None = None
    existing: list[Anchor] = []
    for moment in moments:
        coming = [anchor for anchor in good if _moment(anchor, fetches) == moment]
        while coming:
            anchor = next(item for item in coming if not any(is_newer(item, other, anchors) for other in coming))
            coming.remove(anchor)
            stands = anchor if stands is None else _against(stands, anchor, existing, anchors)
            existing.append(anchor)
    assert stands is not None
    return stands


def _moment(anchor: Anchor, fetches: Sequence[Fetch]) -> int:
    """When an anchor was there and its hash had been served."""
    assert anchor.seen_at is not None
    return max(anchor.seen_at, min(fetch.begun for fetch in fetches if anchor.digest in fetch.served))


def _against(stands: Anchor, comes: Anchor, existing: Sequence[Anchor], everything: Sequence[Anchor]) -> Anchor:
    if comes.digest != stands.digest:
        return comes if is_newer(comes, stands, everything) else stands
    if is_newer(comes, stands, everything):
        return stands  # a repetition
    between = [item for item in existing if is_newer(item, comes, everything) and is_newer(stands, item, everything)]
    return comes if all(item.digest == comes.digest for item in between) else stands


def _loose(anchors: Sequence[Anchor], fetches: Sequence[Fetch], cards: frozenset[bytes]) -> Listed | None:
    """Without any hash that is met: the oldest pointer without one that was ever fetched for, and the newest card."""
    loose = [anchor for anchor in anchors if anchor.digest is None and anchor.seen_at is not None]
    fetched = [item for item in loose if any(fetch.begun > (item.seen_at or 0) and fetch.served & cards
                                             for fetch in fetches)]  # fmt: skip
    for anchor in fetched:
        if any(is_newer(anchor, other, anchors) for other in fetched):
            continue
        last = max(fetch.begun for fetch in fetches if fetch.served & cards and fetch.begun > (anchor.seen_at or 0))
        (card,) = next(fetch.served for fetch in fetches if fetch.begun == last) & cards
        return Listed(anchor, card, False, False)
    return None
