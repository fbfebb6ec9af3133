"""Keeping places: a law for each function, beside a slow reader that tries everything."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from indexer.store.pending import allocate, unmoved_items

words = st.lists(st.sampled_from("abcdefgh"), max_size=9)


def longest(before: list[str], after: list[str]) -> int:
    """The length of the longest list that both hold in order, where each item of a kind is the one of its number."""
    numbered = [(item, before[:index].count(item)) for index, item in enumerate(before)]
    pairs = [(item, after[:index].count(item)) for index, item in enumerate(after)]
    for size in range(min(len(before), len(after)), 0, -1):
        runs = set(combinations(numbered, size))
        if any(run in runs for run in combinations(pairs, size)):
            return size
    return 0


@given(words, words)
def test_as_many_stay_as_can(before: list[str], after: list[str]) -> None:
    results = sorted(unmoved_items(before, after).items())
    assert all(after[new] == before[old] for new, old in results)
    assert [old for _, old in results] == sorted({old for _, old in results})
    assert len(results) == longest(before, after)


@given(words)
def test_all_of_the_same_list_stays(items: list[str]) -> None:
    assert unmoved_items(items, items) == {number: number for number in range(len(items))}


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 14)), st.integers(0, 15))
def test_places_rise_and_those_that_stay_keep_theirs(taken: set[int], numbers: set[int], count: int) -> None:
    stays = dict(zip(sorted(number for number in numbers if number < count), sorted(taken), strict=False))
    result = allocate(stays, count, range(41))
    edges = [(-1, -1), *stays.items(), (count, 41)]
    fits = all(b - a - 1 <= above - below - 1 for (a, below), (b, above) in pairwise(edges))
    assert (result is not None) == fits
    if result is not None:
        assert len(result) == count
        assert result == sorted(set(result))
        assert all(0 <= item <= 40 for item in result)
        assert {number: result[number] for number in stays} == stays
