"""The compiled loop that puts a page together: stored items, each copied once from where it lies, with the offer that
is shown and its score.

A page of 51 kB takes 9 µs, most of it to fetch what lies apart in memory; item by item it takes 15 µs, and 90 µs where
offers are asked for (same run).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from overlay.search.listed import U8, U64
from overlay.search.ranking import BEST
from overlay.telling import CHEAPEST, scored
from parsers.compiled import Address, compiled, copy, kernel, load8, load32, load64, prefetch

I64 = npt.NDArray[np.int64]

_SHIFT = np.uint64(24)
_HEAD, _ITEM, _ITEM_END, _TOLD, _CHOICES, _AGES = 38, 8, 12, 16, 20, 37
"""In numbers, since what is compiled is kept until this file changes, whatever it imports. Of a record
(`records.Record.pack`): the bits of a place that say its length; the bytes of its head, and where in it stands where
the item begins and ends, where what is told and the choices end, and whether a warning is told for a time only."""
_ROW, _KEYS_END, _TEXT_END = 16, 8, 12
"""Of a row of choices (`choosing.choices`): its bytes, and where in it stands where its keys and its text end."""
_INTO, _LOW, _HIGH, _GROUPS, _ENDS_OF_GROUPS = range(5)  # what is asked for (`choosing.asked`)
_BEYOND, _AGING, _ALIKE, _NO_OFFER = -1, -2, -3, -4
_POINTS, _PLACE = 0, 2  # lines of what is found
_MADE = 1 << 16  # points
_USUAL = 96 * 1024  # bytes that nearly every page of twenty fits in
_BEFORE = 64  # bytes that are left before the items
_LINES = 6  # of memory, that are asked for before an item is copied: the processor asks for the rest by itself


def _scores() -> tuple[U8, I64]:
    """How an item ends, for all points that can be made, and where these texts end."""
    texts = [scored.__wrapped__(points / BEST) for points in range(_MADE)]
    return np.frombuffer(b"".join(texts), np.uint8), np.cumsum([0, *map(len, texts)], dtype=np.int64)


_TEXTS, _ENDS = _scores()
_NULL = np.frombuffer(CHEAPEST + b"null", np.uint8)


class Gathered(NamedTuple):
    """Items, each with a comma behind it, up to `end` of `room`, which has some before them and most often behind."""

    room: memoryview
    end: int

    def enclosed(self, before: bytes, after: bytes) -> bytes | memoryview:
        """The items without the last comma, between what is put before and after them: into the same room, where it
        can be, so that what was put there earlier is gone."""
        start, end = _BEFORE - len(before), max(_BEFORE, self.end - 1)
        stop = end + len(after)
        if start < 0 or stop > len(self.room):
            return b"".join((before, self.room[_BEFORE:end], after))
        self.room[start:_BEFORE], self.room[end:stop] = before, after
        return self.room[start:stop]


def gathered(records: U8, found: U64, first: int, stop: int, asked: U64) -> Gathered | None:
    """The items of what is `found` from column `first` to `stop` (`postings.Counted`), up to their ends, each with the
    cheapest of the offers that are `asked` for (`choosing`), the end that its points make and a comma. `records` are
    the bytes of the whole file.

    None where a warning is told for a time only, and where two offers cost the same to twelve digits and not beyond.
    Raises ValueError where a record is not in the file, and for points that none can make: 65,536 and more.
    """
    page = np.empty(_USUAL, np.uint8)
    end = _gather(records, found, first, stop, asked, _TEXTS, _ENDS, _NULL, page)
    if end > len(page):
        page = np.empty(end, np.uint8)
        end = _gather(records, found, first, stop, asked, _TEXTS, _ENDS, _NULL, page)
    if end == _BEYOND:
        raise ValueError(f"the records end after {len(records):,} bytes, before one that is told of: rebuild the index")
    return None if end < 0 else Gathered(page.data, end)


@compiled
def _meets(keys: Address, first: int, last: int, asked: U64) -> bool:
    """Whether the keys number `first` to `last` hold one of each group."""
    groups, before = np.int64(asked[_GROUPS]), np.int64(0)
    wanted = asked[_ENDS_OF_GROUPS + groups :]
    for group in range(groups):
        stop = np.int64(asked[_ENDS_OF_GROUPS + group])
        held = False
        for at in range(first, last):
            key = load64(keys + 8 * at)
            for number in range(before, stop):
                held = held or wanted[number] == key
        if not held:
            return False
        before = stop
    return True


@compiled
def _choose(start: Address, end: Address, asked: U64, text: I64) -> int:
    """Find the cheapest offer among the choices that stand from one address to another: its number, and from where to
    where its `text` stands; or why there is none."""
    if end - start < 4:
        return _BEYOND
    count, rows = load32(start), start + 4
    keys = rows + _ROW * count
    if keys > end:
        return _BEYOND
    texts = keys + 8 * (load32(keys - _ROW + _KEYS_END) if count > 0 else 0)
    if texts > end or (texts + load32(keys - _ROW + _TEXT_END) if count > 0 else texts) != end:
        return _BEYOND
    into, best, lowest = asked[_INTO], _NO_OFFER, np.uint64(0)
    for number in range(count):
        row = rows + _ROW * number
        first = load32(row - _ROW + _KEYS_END) if number > 0 else 0
        last = load32(row + _KEYS_END)
        if first >= last or last > (texts - keys) // 8:
            return _BEYOND
        amount, currency = load64(row), load64(keys + 8 * first)
        if amount < asked[_LOW] or amount > asked[_HIGH] or not _meets(keys, first, last, asked):
            continue
        if into == 0:
            into = currency
        if currency != into:
            continue
        if best == _NO_OFFER or amount < lowest:
            best, lowest = number, amount
        elif amount == lowest and amount & np.uint64(1) != 0:
            return _ALIKE
    if best >= 0:
        row = rows + _ROW * best
        text[0] = texts + (load32(row - _ROW + _TEXT_END) if best > 0 else 0)
        text[1] = texts + load32(row + _TEXT_END)
        if text[0] > text[1] or text[1] > end:
            return _BEYOND
    return best


@kernel
def _gather(
    records: U8, found: U64, first: int, stop: int, asked: U64, scores: U8, ends: I64, null: U8, page: U8
) -> int:
    """Where the items of all end, which are put into `page` behind what is left before them as far as they fit; or why
    there are none."""
    base, score_text = np.int64(records.ctypes.data), np.int64(scores.ctypes.data)
    start_of_page, size, end = np.int64(page.ctypes.data), len(page), _BEFORE
    text = np.zeros(2, np.int64)
    for at in range(first, stop):  # records lie apart, so each is asked for before its turn comes
        prefetch(base + np.int64(found[_PLACE, at] >> _SHIFT))
    for at in range(first, stop):
        if at + 1 < stop:
            start = np.int64(found[_PLACE, at + 1] >> _SHIFT)
            if start + _HEAD <= len(records):
                start += load32(base + start + _ITEM)
                for line in range(_LINES):
                    prefetch(base + start + 64 * line)
        start, points = np.int64(found[_PLACE, at] >> _SHIFT), np.int64(found[_POINTS, at])
        if start + _HEAD > len(records) or found[_POINTS, at] >= np.uint64(_MADE):
            return _BEYOND
        item, item_end = load32(base + start + _ITEM), load32(base + start + _ITEM_END)
        told, choices = load32(base + start + _TOLD), load32(base + start + _CHOICES)
        if item > item_end or item_end > told or told > choices or start + choices > len(records):
            return _BEYOND
        if load8(base + start + _AGES) != 0:
            return _AGING
        text[0], text[1] = base + start + item_end, base + start + told
        if len(asked) > 0:
            chosen = _choose(base + start + told, base + start + choices, asked, text)
            if chosen == _NO_OFFER:
                text[0] = np.int64(null.ctypes.data)
                text[1] = text[0] + len(null)
            elif chosen < 0:
                return chosen
        of_item, of_text, of_score = item_end - item, text[1] - text[0], ends[points + 1] - ends[points]
        if end + of_item + of_text + of_score <= size:
            to = start_of_page + end
            copy(to, base + start + item, of_item)
            copy(to + of_item, text[0], of_text)
            copy(to + of_item + of_text, score_text + ends[points], of_score)
        end += of_item + of_text + of_score
    return end
