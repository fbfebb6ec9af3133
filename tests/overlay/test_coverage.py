"""Which points of those that hold all words drive out those that hold some."""

from __future__ import annotations

import pytest

from overlay.query import Query
from overlay.search.coverage import COVERED, among, drive_out
from overlay.search.ranking import BEST


@pytest.mark.parametrize(
    ("covering", "most", "driven_out"),
    [(BEST, BEST, True), (800, BEST, True), (799, 959, False), (799, 958, True), (600, 720, True), (600, 721, False),
     (599, 599, False), (0, 0, False)],
)  # fmt: skip
def test_who_means_all_words_or_is_no_list_and_hardly_surpassed_drives_out_the_others(
    covering: int, most: int, driven_out: bool
) -> None:
    assert drive_out(covering, lambda points: most > points) is driven_out


def test_nobody_is_asked_who_makes_more_where_it_does_not_matter() -> None:
    def is_more(points: int) -> bool:
        raise AssertionError(points)

    assert [drive_out(points, is_more) for points in (0, 599, 800, BEST)] == [False, False, True, True]


def test_who_is_driven_out_never_makes_more_than_the_best_could() -> None:
    assert 799 + COVERED <= BEST


def test_filters_do_not_decide_but_what_stands_does() -> None:
    query = Query("a b", kind="tool", tags=("x",), statuses=("burned",), as_of=7, height_chain="bsv", limit=3, offset=2)
    assert among(query) == Query("a b", statuses=("burned",), as_of=7, height_chain="bsv")
