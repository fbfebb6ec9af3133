"""Postings of some listed documents in flat arrays, looked through by a compiled loop (`scoring`).

A search engine's library, asked from Python, takes most of its time for what it has to be told and for counting
exactly; here, a question of two words over 50,000 listings costs 60 µs with its exact total. Documents are numbered in
the order that ties are shown in (the most senior first, then by id), so the first that tie are the ones to show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from overlay.search.listed import U8, U32, U64, Block, fact_key

if TYPE_CHECKING:
    from overlay.search.marks import Marks

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_Kind = TypeVar("_Kind", bound=np.generic)
_Filter = TypeVar("_Filter", "tuple[str, ...]", "tuple[Offered, ...]")
_MOST_KNOWN = 20_000  # keys whose place is remembered
_MOST_MASKS = 64  # filters whose listings are remembered, one byte a listing
_MASKED = 64  # one listing of so many: a fact of fewer is as quickly looked up anew


class Offered(NamedTuple):
    """What one offer must be: one fact of each group, with an amount from `low` to `high` (`prices.amount_key`)."""

    groups: tuple[tuple[str, ...], ...]
    low: int | None = None
    high: int | None = None


class Wanted(NamedTuple):
    """What a listing must be: one fact of each group; and one of its offers one of `offers`, if there are any."""

    groups: tuple[tuple[str, ...], ...] = ()
    offers: tuple[Offered, ...] = ()


_PLACED, _SENIOR, LINES = 4, 7, 10  # lines of columns, as in `scoring`

Found = tuple[int, int, int]
"""Points, the number that puts it first of those that tie, and the place of a document."""


class Counted(NamedTuple):
    """How many documents were found, and the first of them: at least so many as were asked for, or all. Of those that
    tie in points and number, all of one segment are in order, and so are all that are here once their ids are compared.

    The first lines of `columns` are their points, the numbers that put those first that tie (their seniority; where
    there are no words, how late they are), and their places; `number` of its columns say something. Where places are
    kept (`kept`), the next lines tell the same of the `several` that are the most senior, and of how all stand where
    so many of these as are `moved` have places of their own."""

    total: int
    columns: U64
    number: int
    several: int = 0
    moved: int = 0

    @property
    def most(self) -> int:
        """The points of the best; 0 where there is none."""
        return int(self.columns[0, 0]) if self.number else 0

    @property
    def first(self) -> list[Found]:
        """The first of them, one by one."""
        return _one_by_one(self.columns[:3, : self.number])

    @property
    def senior(self) -> list[Found]:
        """The most senior."""
        return _one_by_one(self.columns[_SENIOR : _SENIOR + 3, : self.several]) if self.several else []

    @property
    def placed(self) -> U64:
        """How they stand where places are kept."""
        return self.columns[_PLACED : _PLACED + 3] if self.several else self.columns


def _one_by_one(columns: U64) -> list[Found]:
    points, numbers, places = columns.tolist()
    return list(zip(points, numbers, places, strict=True))


NONE = Counted(0, np.empty((3, 0), np.uint64), 0)
NOBODY: U32 = np.empty(0, np.uint32)
"""No rows."""
ANY_NUMBER = 1 << 40
"""More rows than there can be."""


class Flat(NamedTuple):
    """Documents in any order and what is said of each, in columns that name it by its number."""

    newest: U64
    seniority: U64
    places: U64
    ids: list[bytes]
    keys: U64
    holders: U32  # of each key
    levels: U8
    amounts: U64
    owners: U32  # of each amount
    offer_keys: U64
    offers: U32  # of each of these keys

    def of(self, alive: Mask) -> Flat:
        """What is said of some of the documents."""
        number = np.cumsum(alive, dtype=np.uint32) - np.uint32(1)
        held, offering = alive[self.holders], alive[self.owners]
        offer_number = np.cumsum(offering, dtype=np.uint32) - np.uint32(1)
        offered = offering[self.offers]
        return Flat(
            self.newest[alive], self.seniority[alive], self.places[alive],
            [self.ids[at] for at in alive.nonzero()[0].tolist()],
            self.keys[held], number[self.holders[held]], self.levels[held],
            self.amounts[offering], number[self.owners[offering]],
            self.offer_keys[offered], offer_number[self.offers[offered]],
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Table:
    """What rows are found under each key: `rows[starts[n]:starts[n + 1]]` for `keys[n]`."""

    keys: U64
    starts: I64
    rows: U32
    _known: dict[int, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def build(cls, keys: U64, rows: U32) -> tuple[Table, I64]:
        """From pairs in any order; also the order that they were put in."""
        order = np.lexsort((rows, keys))
        distinct, starts = np.unique(keys[order], return_index=True)
        return cls(distinct, np.append(starts, len(keys)), rows[order]), order

    def span(self, key: int) -> tuple[int, int]:
        """From where to where in `rows`; nowhere for a key that is not here."""
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._known[key] = self._look_up(np.uint64(key))
        return found

    def _look_up(self, key: np.uint64) -> tuple[int, int]:
        at = int(self.keys.searchsorted(key))
        if at == len(self.keys) or self.keys[at] != key:
            return 0, 0
        return int(self.starts[at]), int(self.starts[at + 1])

    def under(self, key: int) -> U32:
        """The rows under a key."""
        start, end = self.span(key)
        return self.rows[start:end]

    def key_of_each(self) -> U64:
        """The key that each of `rows` stands under."""
        return np.repeat(self.keys, np.diff(self.starts))


@dataclass(slots=True)
class Segment:
    """Listed documents in rows, their offers numbered by amount. `alive` is None while all are listed. A segment does
    not change but for what it remembers of questions; `without` gives another."""

    newest: U64
    seniority: U64
    places: U64
    ids: list[bytes]
    held: Table
    levels: U8
    amounts: U64
    owners: U32
    offered: Table
    by_place: I64
    by_time: U32
    alive: Mask | None = None
    count: int = 0
    _masks: dict[tuple[str, ...] | tuple[Offered, ...], Mask] = field(default_factory=dict)
    _marks: list[Marks] = field(default_factory=list)  # not in use by a search just now

    @classmethod
    def build(cls, flat: Flat) -> Segment:
        """Of documents in any order."""
        order = _in_order(flat.seniority, flat.ids)
        ids, newest = [flat.ids[at] for at in order.tolist()], flat.newest[order]
        row = np.empty(len(order), np.uint32)
        row[order] = np.arange(len(order), dtype=np.uint32)
        held, by_key = Table.build(flat.keys, row[flat.holders])
        by_amount = np.argsort(flat.amounts, kind="stable")
        number = np.empty(len(by_amount), np.uint32)
        number[by_amount] = np.arange(len(by_amount), dtype=np.uint32)
        offered, _ = Table.build(flat.offer_keys, number[flat.offers])
        places = flat.places[order]
        return cls(
            newest=newest, seniority=flat.seniority[order], places=places, ids=ids,
            held=held, levels=flat.levels[by_key],
            amounts=flat.amounts[by_amount], owners=row[flat.owners[by_amount]], offered=offered,
            by_place=np.argsort(places), by_time=_in_order(newest, ids).astype(np.uint32), count=len(order),
        )  # fmt: skip

    def flat(self) -> Flat:
        """What is listed of it, to be built anew with other things."""
        whole = Flat(
            self.newest, self.seniority, self.places, self.ids, self.held.key_of_each(), self.held.rows, self.levels,
            self.amounts, self.owners, self.offered.key_of_each(), self.offered.rows,
        )  # fmt: skip
        return whole if self.alive is None else whole.of(self.alive)

    @property
    def size(self) -> int:
        """How many postings it holds."""
        return len(self.levels)

    def without(self, gone: U64) -> Segment:
        """Itself without documents at such places; those it does not hold are passed over."""
        at = np.searchsorted(self.places, gone, sorter=self.by_place)
        rows = self.by_place[np.minimum(at, len(self.places) - 1)]
        rows = rows[self.places[rows] == gone]
        alive = np.ones(len(self.places), np.bool_) if self.alive is None else self.alive.copy()
        alive[rows] = False
        count = int(np.count_nonzero(alive))
        if count == self.count:
            return self
        return Segment(
            newest=self.newest, seniority=self.seniority, places=self.places, ids=self.ids,
            held=self.held, levels=self.levels,
            amounts=self.amounts, owners=self.owners, offered=self.offered, by_place=self.by_place,
            by_time=self.by_time,
            alive=alive, count=count, _masks=self._masks, _marks=self._marks,
        )  # fmt: skip

    def taken(self) -> Marks:
        """Room to count in, for one search at a time, to be `given` back."""
        try:
            return self._marks.pop()
        except IndexError:  # not asked before: another search may take the last at any moment
            return _marks(len(self.places))

    def given(self, marks: Marks) -> None:
        """Take back what was `taken`."""
        self._marks.append(marks)

    def latest(self, mask: Mask | None, number: int, enough: int, ahead: int) -> Counted:
        """The latest of the rows in `mask`, which have no points; of more than `enough` also the most senior, placed
        behind those `ahead`: told with how late they are in place of points."""
        from overlay.search.marks import latest  # with Numba, which only those who hold postings need

        return latest(self, mask, number, enough, ahead)

    def allowed(self, wanted: Wanted) -> Mask | None:
        """Which rows are listed and wanted; None for all."""
        masks = [] if self.alive is None else [self.alive]
        masks += [self._masked(group, self._one_of) for group in wanted.groups]
        if wanted.offers:
            masks.append(self._masked(wanted.offers, self._offering_one_of))
        return reduce(np.logical_and, masks) if masks else None

    def _masked(self, filter_: _Filter, rows: Callable[[_Filter], list[U32]]) -> Mask:
        """The rows that pass a filter. What many pass is asked for again and again, and so remembered."""
        known = self._masks.get(filter_)
        if known is not None:
            return known
        spans = rows(filter_)
        mask = _mask(len(self.places), spans)
        if _MASKED * sum(map(len, spans)) >= len(self.places):
            if len(self._masks) >= _MOST_MASKS:
                self._masks.clear()
            self._masks[filter_] = mask
        return mask

    def _one_of(self, group: tuple[str, ...]) -> list[U32]:
        """The rows of which each fact holds."""
        return [self.held.under(fact_key(fact)) for fact in group]

    def _offering_one_of(self, offers: tuple[Offered, ...]) -> list[U32]:
        return [self._offering(each) for each in offers]

    def _offering(self, wanted: Offered) -> U32:
        """The rows of which an offer is as wanted, some of them more than once."""
        low = 0 if wanted.low is None else int(self.amounts.searchsorted(np.uint64(wanted.low)))
        high = len(self.amounts)
        if wanted.high is not None:
            high = int(self.amounts.searchsorted(np.uint64(wanted.high), side="right"))
        groups = [[_within(self.offered.under(fact_key(fact)), low, high) for fact in group] for group in wanted.groups]
        if not groups:
            return self.owners[low:high]
        groups.sort(key=lambda spans: sum(map(len, spans)))
        found = groups[0][0] if len(groups[0]) == 1 else np.concatenate(groups[0])
        for spans in groups[1:]:
            found = found[_mask(len(self.amounts), spans).take(found)]
        return self.owners.take(found)


def flattened(block: Block) -> Flat:
    """The documents of a block of the log."""
    ids = block.id_bytes.tobytes()
    ends = block.id_ends.tolist()
    starts = [0, *ends[:-1]]
    return Flat(
        block.newest, block.seniority, block.places, [ids[start:end] for start, end in zip(starts, ends, strict=True)],
        block.keys, _of_each(block.key_ends), block.levels,
        block.amounts, _of_each(block.offer_ends), block.offer_keys, _of_each(block.fact_ends),
    )  # fmt: skip


def joined(flats: Sequence[Flat]) -> Flat:
    """Documents of several, numbered on."""
    if len(flats) == 1:
        return flats[0]
    documents = np.cumsum([0, *(len(each.places) for each in flats)]).tolist()
    offers = np.cumsum([0, *(len(each.amounts) for each in flats)]).tolist()

    def column(of: Callable[[Flat], npt.NDArray[_Kind]]) -> npt.NDArray[_Kind]:
        return np.concatenate([of(each) for each in flats])

    def numbers(of: Callable[[Flat], U32], before: Iterable[int]) -> U32:
        return np.concatenate([of(each) + np.uint32(base) for each, base in zip(flats, before, strict=False)])

    return Flat(
        column(lambda each: each.newest), column(lambda each: each.seniority), column(lambda each: each.places),
        [id_ for each in flats for id_ in each.ids],
        column(lambda each: each.keys), numbers(lambda each: each.holders, documents), column(lambda each: each.levels),
        column(lambda each: each.amounts), numbers(lambda each: each.owners, documents),
        column(lambda each: each.offer_keys), numbers(lambda each: each.offers, offers),
    )  # fmt: skip


def _in_order(numbers: U64, ids: list[bytes]) -> I64:
    """The largest first, then by id."""
    order = np.argsort(~numbers, kind="stable")
    ordered = numbers[order]
    edges = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] + np.uint64(1), append=ordered[-1:] + np.uint64(1)))
    for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        if end - start > 1:
            order[start:end] = sorted(order[start:end].tolist(), key=ids.__getitem__)
    return order


def _of_each(ends: U32) -> U32:
    """To which group each belongs, of groups that end there."""
    return np.repeat(np.arange(len(ends), dtype=np.uint32), np.diff(ends, prepend=np.uint32(0)))


def _mask(length: int, spans: Sequence[U32]) -> Mask:
    mask = np.zeros(length, np.bool_)
    for rows in spans:
        mask[rows] = True
    return mask


def _marks(rows: int) -> Marks:
    from overlay.search.marks import Marks  # with Numba, which only those who hold postings need

    return Marks(rows)


def _within(numbers: U32, low: int, high: int) -> U32:
    """The numbers from `low` to below `high`, of ascending ones."""
    start, end = numbers.searchsorted(np.array((low, high), np.uint32)).tolist()
    return numbers[start:end]
