"""How two sources of one chain differ: which has more work, and whether they are on the same branch."""

from __future__ import annotations

from typing import NamedTuple

from indexer.chains import Chain
from indexer.chainwork import work
from indexer.facts import BlockRef

COUNTED = 2016
"""Blocks whose work is added up one by one; a longer branch is taken to have worked as hard as at its tip."""


class Lead(NamedTuple):
    """What one source has before another: `work` in hashes, negative when it has less; `common` the height of the last
    block they share (-1: none), and whether they are on different branches above it."""

    work: int
    common: int
    is_fork: bool


async def lead(ours: Chain, our_tip: BlockRef, theirs: Chain, their_tip: BlockRef) -> Lead | None:
    """How far `theirs` is before `ours`; None when one of them moved on meanwhile. Raises SourceError."""
    low = min(our_tip.height, their_tip.height)
    common = await _last_common(ours, theirs, low)
    mine, other = await _work_above(ours, our_tip, common), await _work_above(theirs, their_tip, common)
    return None if mine is None or other is None else Lead(other - mine, common, common < low)


async def _last_common(ours: Chain, theirs: Chain, height: int) -> int:
    """The greatest height up to `height` at which both have the same block: steps that double, and then halves."""
    apart, step = height + 1, 1
    while height >= 0 and not await _agree(ours, theirs, height):
        apart, height, step = height, height - step, step * 2
    common = max(height, -1)
    while apart - common > 1:
        middle = (apart + common) // 2
        if await _agree(ours, theirs, middle):
            common = middle
        else:
            apart = middle
    return common


async def _agree(ours: Chain, theirs: Chain, height: int) -> bool:
    """Whether both have the same block there. A source that begins later than at genesis contradicts nobody below."""
    mine, other = await ours.ref(height), await theirs.ref(height)
    return mine is None or other is None or mine.hash == other.hash


async def _work_above(chain: Chain, tip: BlockRef, common: int) -> int | None:
    """The work of a chain's blocks above the height `common`, None when it does not end in `tip` any more."""
    if tip.height - common > COUNTED:
        return (tip.height - common) * _work(tip)
    total, at = 0, tip
    for height in range(tip.height, common, -1):
        ref = await chain.ref(height)
        if ref is None or ref.hash != (tip.hash if height == tip.height else at.prev):
            return None
        total, at = total + _work(ref), ref
    return total


def _work(ref: BlockRef) -> int:
    """The work of a block; where it is not in the header, as on chains that stake, the longer branch is the better."""
    if not ref.header:
        return 1
    return work(int.from_bytes(ref.header[72:76], "little"))
