"""The compiled loop that puts a page together: stored items, each copied once from where it lies, with its score.

A page of 51 kB takes 9 µs, most of it to fetch what lies apart in memory; item by item it takes 15 µs (same run).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from overlay.search.listed import U8, U64
from overlay.search.ranking import BEST
from overlay.telling import scored
from parsers.compiled import copy, kernel, load8, load32

I64 = npt.NDArray[np.int64]

_SHIFT = np.uint64(24)
_HEAD, _ITEM, _TOLD, _AGES = 34, 8, 16, 33
"""In numbers, since what is compiled is kept until this file changes, whatever it imports. Of a record
(`records.Record.pack`): the bits of a place that say its length; the bytes of its head, and where in it
stands where the item begins, where what is told ends, and whether a warning is told for a time only."""
_BEYOND, _AGING = -1, -2
_POINTS, _PLACE = 0, 2  # lines of what is found
_MADE = 1 << 16  # points
_USUAL = 96 * 1024  # bytes that nearly every page of twenty fits in


def _scores() -> tuple[U8, I64]:
    """How an item ends, for all points that can be made, and where these texts end."""
    texts = [scored.__wrapped__(points / BEST) for points in range(_MADE)]
    return np.frombuffer(b"".join(texts), np.uint8), np.cumsum([0, *map(len, texts)], dtype=np.int64)


_TEXTS, _ENDS = _scores()


def gathered(records: U8, found: U64, first: int, stop: int) -> memoryview | None:
    """The items of what is `found` from column `first` to `stop` (`postings.Counted`), up to their ends, each with the
    end that its points make and a comma. `records` are the bytes of the whole file.

    None where a warning is told for a time only. Raises ValueError where a record is not in the file, and for points
    that none can make: 65,536 and more.
    """
    page = np.empty(_USUAL, np.uint8)
    size = _gather(records, found, first, stop, _TEXTS, _ENDS, page)
    if size == _AGING:
        return None
    if size == _BEYOND:
        raise ValueError(f"the records end after {len(records):,} bytes, before one that is told of: rebuild the index")
    if size > len(page):
        page = np.empty(size, np.uint8)
        _gather(records, found, first, stop, _TEXTS, _ENDS, page)
    return page.data[:size]


@kernel
def _gather(records: U8, found: U64, first: int, stop: int, texts: U8, ends: I64, page: U8) -> int:
    """The bytes of all, which are put into `page` if they fit; or why there are none."""
    base, text, total = np.int64(records.ctypes.data), np.int64(texts.ctypes.data), 0
    for at in range(first, stop):
        start, score = np.int64(found[_PLACE, at] >> _SHIFT), np.int64(found[_POINTS, at])
        if start + _HEAD > len(records) or found[_POINTS, at] >= np.uint64(_MADE):
            return _BEYOND
        item, told = load32(base + start + _ITEM), load32(base + start + _TOLD)
        if item > told or start + told > len(records):
            return _BEYOND
        if load8(base + start + _AGES) != 0:
            return _AGING
        total += told - item + ends[score + 1] - ends[score]
    if total > len(page):
        return total
    to = np.int64(page.ctypes.data)
    for at in range(first, stop):
        start, score = np.int64(found[_PLACE, at] >> _SHIFT), np.int64(found[_POINTS, at])
        item, told = load32(base + start + _ITEM), load32(base + start + _TOLD)
        copy(to, base + start + item, told - item)
        to += told - item
        copy(to, text + ends[score], ends[score + 1] - ends[score])
        to += ends[score + 1] - ends[score]
    return total
