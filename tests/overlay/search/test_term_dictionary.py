"""The term dictionary: what is near, what begins so, and that it follows listings that come and go."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.search.analysis import is_correctable, stem
from overlay.search.term_dictionary import TermChanges, TermDictionary
from overlay.search.term_table import TermTable, signature, signatures

LETTERS = st.text("abcdé", min_size=1, max_size=10)
ASKED = st.text("abcdé", min_size=5, max_size=10)
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


def vocabulary_of(listings: list[frozenset[str]]) -> TermDictionary:
    vocabulary, change = TermDictionary(), TermChanges()
    for listing in listings:
        change.add(listing)
    vocabulary.apply(change.listings, change.rows())
    return vocabulary


def counted(listings: list[frozenset[str]]) -> Counter[str]:
    return Counter(word for listing in listings for word in listing)


@given(st.lists(LISTING, max_size=8), st.lists(LISTING, max_size=8), ASKED, st.integers(1, 2), st.booleans())
@settings(max_examples=200)
def test_near_words_are_all_the_words_within_so_many_edits(
    early: list[frozenset[str]], late: list[frozenset[str]], word: str, edits: int, merging: bool
) -> None:
    vocabulary = vocabulary_of(early)
    vocabulary = vocabulary.merged()
    change = TermChanges()
    for listing in late:
        change.add(listing)
    vocabulary.apply(change.listings, change.rows())
    vocabulary = vocabulary.merged() if merging else vocabulary
    counts = counted([*early, *late])
    wanted = {
        (other, distance(word, other), counts[other])
        for other in counts
        if 4 <= len(other) <= 26 and is_correctable(other) and distance(word, other) <= edits
    }
    found = vocabulary.similar(word, edits)
    assert {(near.word, near.edits, near.listings) for near in found if counts[near.word]} == wanted
    assert found == sorted(found, key=lambda near: (near.edits, -near.listings, near.word))


@given(st.text("abcdefghij", min_size=4, max_size=26), st.text("abcdefghij", min_size=4, max_size=26))
def test_signatures_never_differ_by_more_than_edits_allow(one: str, other: str) -> None:
    away = distance(one, other)
    differing = (signature(one) ^ signature(other)).bit_count()
    assert differing <= 2 * away - abs(len(one) - len(other))


@given(st.lists(st.text(max_size=30) | st.text("aAbéß語7", max_size=30), max_size=40), st.integers(1, 50))
def test_signatures_of_many_words_are_those_of_each(words: list[str], at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("overlay.search.term_table._AT_ONCE", at_once)
        assert signatures(words).tolist() == [signature(word) for word in words]


@given(st.lists(LISTING, max_size=8), st.lists(LISTING, max_size=4), ASKED)
def test_words_that_were_counted_are_those_that_came_one_after_the_other(
    early: list[frozenset[str]], gone: list[frozenset[str]], word: str
) -> None:
    change = TermChanges()
    for listing in [*early, *gone]:
        change.add(listing)
    for listing in gone:
        change.remove(listing)
    told = TermDictionary()
    told.apply(change.listings, change.rows())
    told = told.merged()
    rows = [row for row in sorted(change.rows()) if row[1] > 0 or row[2] > 0]
    counted_so = TermDictionary.counted(change.listings, rows)
    assert (counted_so.listings, counted_so.counts()) == (told.listings, told.counts())
    assert counted_so.similar(word, 2) == told.similar(word, 2)
    assert counted_so.completions("a", 9) == told.completions("a", 9)


@given(st.lists(LISTING, max_size=8), st.text("abcdé", max_size=3), st.integers(1, 5), st.booleans())
def test_completions_are_the_commonest_words_with_that_beginning(
    listings: list[frozenset[str]], prefix: str, limit: int, merged: bool
) -> None:
    vocabulary = vocabulary_of(listings)
    counts = counted(listings)
    wanted = sorted((-n, word) for word, n in counts.items() if word.startswith(prefix) and word != prefix)
    found = (vocabulary.merged() if merged else vocabulary).completions(prefix, limit)
    assert found == [word for _, word in wanted[:limit]]


@pytest.mark.parametrize("limit", [1, 8, 99, 500])
def test_of_many_completions_the_commonest_are_found_too(limit: int) -> None:
    chance, change = Random(limit), TermChanges()
    words = [f"data{number:03}" for number in range(300)]
    listings = [frozenset(chance.sample(words, 20)) for _ in range(40)]
    for listing in listings:
        change.add(listing)
    vocabulary = TermDictionary()
    vocabulary.apply(change.listings, change.rows())
    counts = counted(listings)
    wanted = sorted((-n, word) for word, n in counts.items())[:limit]
    assert vocabulary.merged().completions("data", limit) == [word for _, word in wanted]


@given(st.lists(st.tuples(st.booleans(), LISTING), max_size=20), st.sets(st.integers(0, 19)))
def test_counts_follow_listings_that_come_and_go_however_often_the_arrays_are_renewed(
    steps: list[tuple[bool, frozenset[str]]], renewals: set[int]
) -> None:
    vocabulary, present = TermDictionary(), []
    for number, (comes, listing) in enumerate(steps):
        change = TermChanges()
        if comes:
            present.append(listing)
            change.add(listing)
        elif present:
            gone = present.pop()
            change.remove(gone)
        vocabulary.apply(change.listings, change.rows())
        if number in renewals:
            vocabulary = vocabulary.merged()
    surfaces = counted(present)
    terms = counted([frozenset(map(stem, listing)) for listing in present])
    assert vocabulary.counts() == {word: (surfaces[word], terms[word]) for word in {*surfaces, *terms}}
    assert vocabulary.listings == len(present)
    assert all(vocabulary.frequency(term) == count for term, count in terms.items())


@given(st.lists(LISTING, max_size=8))
@settings(max_examples=25)
def test_a_saved_vocabulary_is_the_same_when_loaded(
    tmp_path_factory: pytest.TempPathFactory, listings: list[frozenset[str]]
) -> None:
    path = tmp_path_factory.mktemp("words") / "words"
    saved = vocabulary_of(listings).merged()
    saved.save(path)
    loaded = TermDictionary.load(path)
    assert (loaded.counts(), loaded.listings) == (saved.counts(), saved.listings)
    loaded.apply(1, [("neue", 1, 1)])  # the file stays as it is
    assert TermDictionary.load(path).counts() == saved.counts()


def test_a_file_that_is_no_vocabulary_is_refused(tmp_path: Path) -> None:
    (tmp_path / "words").write_bytes(b"something else" * 100)
    with pytest.raises(ValueError, match="does not hold words"):
        TermTable.load(tmp_path / "words")
