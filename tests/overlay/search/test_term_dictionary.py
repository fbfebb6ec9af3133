"""The term dictionary: what is near, what begins so, and that it follows listings that come and go."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.search import term_dictionary
from overlay.search.analysis import is_correctable, stem
from overlay.search.term_dictionary import TermCounts, TermDictionary, signatures

LETTERS = st.text("abcdé", min_size=1, max_size=10)
QUERIES = st.text("abcdé", min_size=5, max_size=10)
LISTING = st.frozensets(LETTERS, max_size=6)


def distance(one: str, other: str) -> int:
    """Insertions, deletions, substitutions and transpositions of neighbours, none of whose letters is edited again."""
    table = {(row, 0): row for row in range(len(one) + 1)} | {(0, column): column for column in range(len(other) + 1)}
    for row, left in enumerate(one, 1):
        for column, right in enumerate(other, 1):
            ways = [
                table[row - 1, column] + 1,
                table[row, column - 1] + 1,
                table[row - 1, column - 1] + (left != right),
            ]
            if row > 1 and column > 1 and left == other[column - 2] and one[row - 2] == right:
                ways.append(table[row - 2, column - 2] + 1)
            table[row, column] = min(ways)
    return table[len(one), len(other)]


def of_listings(listings: list[frozenset[str]]) -> TermCounts:
    counts = TermCounts()
    for listing in listings:
        counts.add(listing)
    return counts


def counted(listings: list[frozenset[str]]) -> Counter[str]:
    return Counter(word for listing in listings for word in listing)


@given(st.lists(LISTING, max_size=8), st.lists(LISTING, max_size=8), QUERIES, st.integers(1, 2), st.booleans())
@settings(max_examples=200)
def test_near_words_are_all_the_words_within_so_many_edits(
    early: list[frozenset[str]], late: list[frozenset[str]], word: str, edits: int, looked: bool
) -> None:
    vocabulary = TermDictionary([of_listings(early)])
    if looked:
        vocabulary.similar(word, edits)  # so that later words are added to what it keeps for this
    vocabulary.apply(of_listings(late))
    counts = counted([*early, *late])
    expected = {
        (other, distance(word, other), counts[other])
        for other in counts
        if 4 <= len(other) <= 26 and is_correctable(other) and distance(word, other) <= edits
    }
    suggestions = vocabulary.similar(word, edits)
    assert set(suggestions) == expected
    assert suggestions == sorted(suggestions, key=lambda near: (near.edits, -near.listings, near.word))


@given(st.text("abcdefghij", min_size=4, max_size=26), st.text("abcdefghij", min_size=4, max_size=26))
def test_signatures_never_differ_by_more_than_edits_allow(one: str, other: str) -> None:
    away = distance(one, other)
    differing = (int(signatures([one])[0]) ^ int(signatures([other])[0])).bit_count()
    assert differing <= 2 * away - abs(len(one) - len(other))


@given(st.lists(st.text("aAbéß語7", min_size=9, max_size=9), min_size=1, max_size=40))
def test_a_signature_says_which_letters_a_word_holds_once_and_which_twice(words: list[str]) -> None:
    for word, bits in zip(words, signatures(words).tolist(), strict=True):
        held = Counter(ord(letter) % 32 for letter in word)
        assert bits == sum(1 << number | (count > 1) << (number + 32) for number, count in held.items())


@given(st.lists(LISTING, max_size=8), st.lists(LISTING, max_size=8), st.text("abcdé", max_size=3), st.integers(1, 5))
def test_completions_are_the_commonest_words_with_that_beginning(
    early: list[frozenset[str]], late: list[frozenset[str]], prefix: str, limit: int
) -> None:
    vocabulary = TermDictionary([of_listings(early)])
    for listings in (early, [*early, *late]):
        counts = counted(listings)
        expected = sorted((-n, word) for word, n in counts.items() if word.startswith(prefix) and word != prefix)
        assert vocabulary.completions(prefix, limit) == [word for _, word in expected[:limit]]
        vocabulary.apply(of_listings(late))


def test_completions_of_a_short_prefix_follow_changes() -> None:
    terms = TermDictionary([of_listings([frozenset({"apple"})])])
    assert terms.completions("a", 5) == ["apple"]
    terms.apply(of_listings([frozenset({"avocado"}), frozenset({"avocado"})]))
    assert terms.completions("a", 5) == ["avocado", "apple"]
    changes = TermCounts()
    changes.remove(frozenset({"apple"}))
    terms.apply(changes)
    assert terms.completions("a", 5) == ["avocado"]


@pytest.mark.parametrize("limit", [1, 8, 99, 500])
def test_of_many_completions_the_commonest_are_found_too(limit: int) -> None:
    chance = Random(limit)
    words = [f"data{number:03}" for number in range(300)]
    listings = [frozenset(chance.sample(words, 20)) for _ in range(40)]
    expected = sorted((-n, word) for word, n in counted(listings).items())[:limit]
    assert TermDictionary([of_listings(listings)]).completions("data", limit) == [word for _, word in expected]


@given(st.lists(st.tuples(st.booleans(), LISTING), max_size=20), st.integers(0, 20))
def test_counts_follow_listings_that_come_and_go(steps: list[tuple[bool, frozenset[str]]], unused: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(term_dictionary, "MAX_UNUSED", unused)
        come_and_go(steps)


def come_and_go(steps: list[tuple[bool, frozenset[str]]]) -> None:
    """Compare with what is counted anew after each step."""
    vocabulary, present = TermDictionary(), []
    lines = []
    for comes, listing in steps:
        change = TermCounts()
        if comes:
            present.append(listing)
            change.add(listing)
        elif present:
            change.remove(present.pop())
        vocabulary.apply(change)
        lines.append(change.encode())
        assert sorted(vocabulary.completions("", 99)) == sorted(counted(present))
    surfaces, terms = counted(present), counted([frozenset(map(stem, listing)) for listing in present])
    for item in (vocabulary, TermDictionary(map(TermCounts.decode, lines))):
        assert item.listings == len(present)
        assert +item.counts.surfaces == surfaces
        assert +item.counts.terms == terms
        assert all(item.frequency(term) == count for term, count in terms.items())
        assert set(item.completions("", 99)) == {*surfaces}
    assert TermCounts.decode(vocabulary.counts.encode()) == TermCounts(len(present), surfaces, terms)
    assert bool(vocabulary.counts) == bool(present)
