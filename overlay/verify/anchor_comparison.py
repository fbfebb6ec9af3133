"""Compare the anchors (BRC-136) of two overlays: one comparison decides whether they admitted the same transactions,
and a search finds the first block in which they differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from overlay.verify.anchor_sources import AnchorSource, ContradictionError
from overlay.verify.server_answer import NotCheckedError
from parsers.bitcoin.basm import TopicAnchor
from parsers.bitcoin.basm_answers import ANCHORS_AT_ONCE, AnchorTip, check_chained
from parsers.errors import ParseError

MAX_DIFFERENCES = 8
"""Differing blocks that are looked into; the comparison ends at the last of them."""


@dataclass(frozen=True, slots=True)
class DifferingBlock:
    """A block in which two overlays admitted different transactions."""

    ours: TopicAnchor
    theirs: TopicAnchor


@dataclass(frozen=True, slots=True)
class Comparison:
    """The common part of two overlays: the heights from `first` to `last`, at which both have the same blocks, the
    anchor at the last one, and all differing blocks between. `notes` are their own statements about missing data."""

    first: int
    last: int
    anchor: TopicAnchor
    differences: tuple[DifferingBlock, ...] = ()
    notes: tuple[str, ...] = ()


def compare(ours: AnchorSource, theirs: AnchorSource) -> Comparison:
    """Compare the anchors of two overlays. Raises NotCheckedError where they have no block in common or
    one of the two is not chained, ContradictionError where that is known to be one."""
    tips = ours.tip(), theirs.tip()
    first, last = _common(tips)
    notes = (*_notes(ours, tips[0]), *_notes(theirs, tips[1]))
    pair = _anchor_of(ours, last), _anchor_of(theirs, last)
    has_same_start = None in (tips[0].genesis, tips[1].genesis) or tips[0].genesis == tips[1].genesis
    if pair[0].tac == pair[1].tac and has_same_start:
        return Comparison(first, last, pair[0], (), notes)
    start = _first_difference(ours, theirs, first, last) if has_same_start else first
    differences: list[DifferingBlock] = []
    for our_anchor, their_anchor in zip(walk(ours, start, last), walk(theirs, start, last), strict=True):
        if our_anchor.block_hash != their_anchor.block_hash:
            if our_anchor.height == first:
                raise NotCheckedError(f"{theirs.name} is on another branch: it has other blocks from {first:,} on")
            return Comparison(
                first, our_anchor.height - 1, _anchor_of(ours, our_anchor.height - 1), tuple(differences), notes
            )
        if our_anchor.root != their_anchor.root:
            differences.append(DifferingBlock(our_anchor, their_anchor))
            if len(differences) == MAX_DIFFERENCES:
                return Comparison(first, our_anchor.height, our_anchor, tuple(differences), notes)
    if not differences and has_same_start:
        raise NotCheckedError(
            f"the anchors of {ours.name} and {theirs.name} differ at height {start:,}, and the blocks they are over do "
            "not: one of the two is not chained by BRC-136"
        )
    return Comparison(first, last, pair[0], tuple(differences), notes)


def _common(tips: tuple[AnchorTip, AnchorTip]) -> tuple[int, int]:
    """The first and the last height at which both have anchors. Raises NotCheckedError."""
    chains = {tip.chain for tip in tips if tip.chain is not None}
    if len(chains) > 1:
        raise NotCheckedError(f"the anchors are of different chains: {' and '.join(sorted(chains))}")
    first = max((tip.genesis for tip in tips if tip.genesis is not None), default=1)
    last = min(tip.height for tip in tips)
    if last < first:
        raise NotCheckedError(f"the anchors have no height in common: they begin at {first:,} and end at {last:,}")
    return first, last


def _notes(source: AnchorSource, tip: AnchorTip) -> Iterator[str]:
    if not tip.complete:
        yield f"{source.name} says that it did not read everything"
    if tip.undecided_from is not None:
        yield f"{source.name} has an undecided update in block {tip.undecided_from:,}, and may lack what follows it"


def _anchor_of(source: AnchorSource, height: int) -> TopicAnchor:
    return next(walk(source, height, height))


def _first_difference(ours: AnchorSource, theirs: AnchorSource, first: int, last: int) -> int:
    """The lowest height at which the chained hashes differ, as they do from there on: they differ at `last`."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if _anchor_of(ours, middle).tac == _anchor_of(theirs, middle).tac:
            low = middle + 1
        else:
            high = middle
    # with the one before, which shows the one that is not chained to it
    return max(first, low - 1)


def walk(source: AnchorSource, first: int, last: int) -> Iterator[TopicAnchor]:
    """The anchors from one height to another, page by page, each chained to the one before. Raises
    ContradictionError."""
    before: TopicAnchor | None = None
    height = first
    while height <= last:
        page = source.between(height, min(last, height + ANCHORS_AT_ONCE - 1))
        if not page or page[0].height != height:
            raise ContradictionError(source, f"there is no anchor at height {height:,}, which is below its tip")
        if before is not None:
            _check_link(source, before.tac, page[0])
        yield from islice(page, last - height + 1)
        before = page[-1]
        height = before.height + 1


def _check_link(source: AnchorSource, tac: bytes, anchor: TopicAnchor) -> None:
    try:
        check_chained(tac, anchor)
    except ParseError as error:
        raise ContradictionError(source, str(error)) from None
