"""The compiled loop over postings finds what a slow reader does, however marks were left by other searches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.search import kept, scoring
from overlay.search.kept import KEPT
from overlay.search.listed import key
from overlay.search.marks import Marks
from overlay.search.matching import Gain, Known, Word
from overlay.search.ranking import LEVELS
from overlay.search.segment import ANY_NUMBER, LINES, Counted, Flat, Segment

ROWS = 90
LATE = [2_000 + row * 37 % ROWS for row in range(ROWS)]
TERMS = ("rare", "few", "some", "many", "nowhere")
levels = st.integers(1, LEVELS)
held = st.fixed_dictionaries(
    {
        "rare": st.dictionaries(st.integers(0, ROWS - 1), levels, max_size=2),
        "few": st.dictionaries(st.integers(0, ROWS - 1), levels, max_size=9),
        "some": st.dictionaries(st.integers(0, ROWS - 1), levels, max_size=40),
        "many": levels.map(lambda level: {row: (level + row) % LEVELS + 1 for row in range(0, ROWS, 1 + level % 2)}),
    }
)
Held = dict[str, dict[int, int]]


halves = st.integers(0, 600).map(lambda twice: twice / 2)
gains = st.tuples(
    st.lists(st.sampled_from(TERMS), min_size=1, max_size=3).map(tuple),
    st.builds(Gain, st.floats(0, 300) | halves),
)
words = st.builds(Word, st.lists(gains, min_size=1, max_size=4).map(Known), st.just(1.0) | st.floats(0, 3))


class Asked(NamedTuple):
    words: list[Word]
    every: bool
    mask: list[bool] | None
    number: int


asked = st.builds(
    Asked,
    st.lists(words, min_size=1, max_size=4),
    st.booleans(),
    st.none() | st.lists(st.booleans(), min_size=ROWS, max_size=ROWS),
    st.integers(0, 100),
)


def word(term: str) -> Word:
    """A word that only one term stands for."""
    return Word(Known([((term,), Gain(6.0))]), 1.0)


def segment(held: Held) -> Segment:
    """Row n is document n: the highest number comes first; which is late is `LATE`."""
    triples = [(key(term), row, level) for term, rows in held.items() for row, level in rows.items()]
    keys, rows, levels = zip(*triples, strict=True)
    none, nobody = np.zeros(0, np.uint64), np.zeros(0, np.uint32)
    seniority = np.arange(5_000, 5_000 - ROWS, -1).astype(np.uint64)
    return Segment.build(
        Flat(
            np.array(LATE, np.uint64), seniority, seniority * np.uint64(7), [str(row).encode() for row in range(ROWS)],
            np.array(keys, np.uint64), np.array(rows, np.uint32), np.array(levels, np.uint8),
            none, nobody, none, nobody,
        )
    )  # fmt: skip


def worth(word: Word, row: int, held: Held) -> int | None:
    """The points of the best of the choices that a row holds."""
    made = [
        sum(choice.points[held[term][row] - 1] for term in choice.terms)
        for choice in word.choices
        if all(row in held.get(term, {}) for term in choice.terms)
    ]
    return max(made, default=None)


def slowly(asked: Asked, held: Held) -> tuple[int, list[tuple[int, int, int]]]:
    found: list[tuple[int, int]] = []
    for row in range(ROWS):
        made = [worth(word, row, held) for word in asked.words]
        points = [each for each in made if each is not None]
        if (len(points) == len(made) if asked.every else points) and (asked.mask is None or asked.mask[row]):
            found.append((-sum(points), row))
    first = sorted(found)[: asked.number]
    return len(found), [(-points, 5_000 - row, 7 * (5_000 - row)) for points, row in first]


def ask(segment: Segment, asked: Asked) -> tuple[int, list[tuple[int, int, int]]]:
    mask = None if asked.mask is None else np.array(asked.mask)
    marks = segment.taken()
    found = marks.best(segment, asked.words, mask, asked.number, ANY_NUMBER, 1, every=asked.every)
    segment.given(marks)
    assert found.number == min(found.total, asked.number)
    return found.total, found.first


@given(held, st.lists(asked, min_size=1, max_size=6))
def test_the_loop_finds_what_a_slow_reader_does(held: Held, questions: list[Asked]) -> None:
    here = segment(held)
    for each in questions:
        assert ask(here, each) == slowly(each, held)


@given(held, asked, st.integers(0, 900))
def test_the_most_senior_with_enough_points_are_the_first_rows_that_have_them(
    held: Held, asked: Asked, least: int
) -> None:
    here = segment(held)
    marks = here.taken()
    best = marks.best(here, asked.words, None, 1, 0, 1, every=asked.every)
    _, found = slowly(asked._replace(mask=None, number=ROWS), held)
    half = kept.least(max((points for points, *_ in found), default=0))
    for points, several in ((half, best.senior), (least, marks.senior(here, least))):
        enough = sorted((one for one in found if one[0] >= points), key=lambda one: -one[1])[:KEPT]
        assert several == enough


hits_ = st.lists(st.integers(0, 9), min_size=21, max_size=40).map(lambda points: sorted(points, reverse=True))


@given(hits_, st.data(), st.integers(1, 10))
def test_kept_places_stand_behind_those_ahead_with_their_points(
    points: list[int], data: st.DataObject, ahead: int
) -> None:
    natural = [(made, 5_000 - at, at) for at, made in enumerate(points)]
    senior = data.draw(st.lists(st.sampled_from(natural), max_size=KEPT, unique=True))
    number = data.draw(st.integers(ahead, len(natural)))
    columns = np.zeros((LINES, 40), np.uint64)
    columns[:3, :number] = np.array(natural[:number], np.uint64).T
    columns[-3:, : len(senior)] = np.array(senior, np.uint64).reshape(-1, 3).T
    moved = scoring.place(columns, number, len(senior), ahead)
    between = [one for one in senior if one not in natural[:ahead]]
    assert moved == len(between)
    found = Counted(number, columns, number, max(1, len(senior)), moved)
    others = [one for one in natural[ahead:number] if one not in between]
    expected = [*natural[:ahead], *((*natural[ahead - 1][:2], place) for *_, place in between), *others]
    assert list(map(tuple, found.placed[:, :number].T.tolist())) == expected[:number]
    assert found.senior[: len(senior)] == senior


def test_numbers_that_loops_know_by_themselves_are_those_of_others() -> None:
    assert (scoring.KEPT, (scoring.PART, scoring.PARTS), scoring.LINES) == (kept.KEPT, kept.PART, LINES)


masks = st.none() | st.lists(st.booleans(), min_size=ROWS, max_size=ROWS)


@given(masks, st.integers(0, 100), st.sampled_from([0, 20, ANY_NUMBER]), st.integers(1, 10))
def test_the_latest_and_the_most_senior_of_a_mask(
    mask: list[bool] | None, number: int, enough: int, ahead: int
) -> None:
    here = segment({"many": dict.fromkeys(range(ROWS), 3)})
    found = here.latest(None if mask is None else np.array(mask), number, enough, ahead)
    rows = [row for row in range(ROWS) if mask is None or mask[row]]
    latest = sorted(rows, key=lambda row: -LATE[row])[:number]
    assert (found.total, found.number) == (len(rows), len(latest))
    assert found.first == [(0, LATE[row], 7 * (5_000 - row)) for row in latest]
    senior = rows[:KEPT] if len(rows) > enough else []
    assert found.senior == [(LATE[row], 5_000 - row, 7 * (5_000 - row)) for row in senior]
    if senior and number > ahead:
        moved = [row for row in senior if row not in latest[:ahead]]
        placed = [*latest[:ahead], *moved, *(row for row in latest[ahead:] if row not in moved)][:number]
        edge = LATE[latest[:ahead][-1]]
        expected = [(edge if row in moved else LATE[row], 7 * (5_000 - row)) for row in placed]
        assert list(zip(*found.placed[1:, : len(placed)].tolist(), strict=True)) == expected
        assert found.moved == len(moved)


@pytest.mark.parametrize("left", range(65_500, 65_536, 5))
@given(held, st.lists(asked, min_size=1, max_size=3))
def test_marks_begin_anew_when_their_numbers_end(left: int, held: Held, questions: list[Asked]) -> None:
    here, marks = segment(held), Marks(ROWS)
    marks._counts[:], marks._base = left, left
    here._marks.append(marks)
    for each in questions:
        assert ask(here, each) == slowly(each, held)


def test_a_word_that_nothing_holds_leaves_nothing_of_all_and_the_others_of_any() -> None:
    here = segment({"many": dict.fromkeys(range(ROWS), 3)})
    words = [word(term) for term in ("many", "nowhere")]
    assert ask(here, Asked(words, True, None, 5)) == (0, [])
    assert ask(here, Asked(words, False, None, 1)) == (ROWS, [(3, 5_000, 35_000)])


def test_two_searches_at_once_count_in_rooms_of_their_own() -> None:
    here = segment({"many": dict.fromkeys(range(ROWS), 3)})
    asked = Asked([word("many")], True, None, 1)
    ask(here, asked)
    one = here._marks.pop()
    assert ask(here, asked)[0] == ROWS
    assert here._marks != [one]


class Raced(list[Marks]):
    """Rooms of which another search takes the last between a look and a grasp."""

    def __len__(self) -> int:
        return 1


def test_a_search_whose_room_another_one_took_makes_a_new_one() -> None:
    here = segment({"many": dict.fromkeys(range(ROWS), 3)})
    here._marks = Raced()
    assert ask(here, Asked([word("many")], True, None, 1)) == (ROWS, [(3, 5_000, 35_000)])
