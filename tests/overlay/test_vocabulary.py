"""The vocabulary: what is near, what begins so, and that it follows listings that come and go."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.search.lexicon import Lexicon, signature, signatures
from overlay.search.text import is_spelt, stem
from overlay.search.vocabulary import Change, Vocabulary
from tests.oracles.search import distance

LETTERS = st.text("abcdé", min_size=1, max_size=10)
ASKED = st.text("abcdé", min_size=5, max_size=10)
LISTING = st.frozensets(LETTERS, max_size=6)


def test_a_flood_of_words_alike_is_looked_through_to_a_limit_by_the_compiled_loop_as_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("overlay.search.vocabulary.MOST_CHECKED", 7)
    words = [frozenset({f"alpha{one}{other}"}) for one in "bcdefgh" for other in "klmnop"]
    vocabularies = [vocabulary_of(words).merged() for _ in range(2)]
    vocabularies[1].hold()
    files, compiled = ([near.word for near in each.similar("alphabk", 2)] for each in vocabularies)
    assert len(files) == 7
    assert files == compiled


def vocabulary_of(listings: list[frozenset[str]]) -> Vocabulary:
    vocabulary, change = Vocabulary(), Change()
    for listing in listings:
        change.come(listing, {stem(word): 1 for word in listing})
    vocabulary.apply(change.listings, change.rows())
    return vocabulary


def counted(listings: list[frozenset[str]]) -> Counter[str]:
    return Counter(word for listing in listings for word in listing)


@pytest.mark.parametrize("held", [False, True])
@given(st.lists(LISTING, max_size=8), st.lists(LISTING, max_size=8), ASKED, st.integers(1, 2), st.booleans())
@settings(max_examples=200)
def test_near_words_are_all_the_words_within_so_many_edits(
    held: bool, early: list[frozenset[str]], late: list[frozenset[str]], word: str, edits: int, merging: bool
) -> None:
    vocabulary = vocabulary_of(early)
    if held:
        vocabulary.hold()
    vocabulary = vocabulary.merged()
    change = Change()
    for listing in late:
        change.come(listing, {stem(each): 1 for each in listing})
    vocabulary.apply(change.listings, change.rows())
    vocabulary = vocabulary.merged() if merging else vocabulary
    counts = counted([*early, *late])
    wanted = {
        (other, distance(word, other), counts[other])
        for other in counts
        if 4 <= len(other) <= 26 and is_spelt(other) and distance(word, other) <= edits
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
        patch.setattr("overlay.search.lexicon._AT_ONCE", at_once)
        assert signatures(words).tolist() == [signature(word) for word in words]


@given(st.lists(LISTING, max_size=8), st.lists(LISTING, max_size=4), ASKED)
def test_words_that_were_counted_are_those_that_came_one_after_the_other(
    early: list[frozenset[str]], gone: list[frozenset[str]], word: str
) -> None:
    change = Change()
    for listing in [*early, *gone]:
        change.come(listing, {stem(each): 2 for each in listing})
    for listing in gone:
        change.go(listing)
    told = Vocabulary()
    told.apply(change.listings, change.rows())
    told = told.merged()
    rows = [row for row in sorted(change.rows()) if row[1] > 0 or row[2] > 0]
    counted_so = Vocabulary.counted(change.listings, rows)
    assert (counted_so.listings, counted_so.counts()) == (told.listings, told.counts())
    assert counted_so.similar(word, 2) == told.similar(word, 2)
    assert counted_so.completions("a", 9) == told.completions("a", 9)
    assert [counted_so.levels(each) for each in told.counts()] == [told.levels(each) for each in told.counts()]


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
    chance, change = Random(limit), Change()
    words = [f"data{number:03}" for number in range(300)]
    listings = [frozenset(chance.sample(words, 20)) for _ in range(40)]
    for listing in listings:
        change.come(listing, {})
    vocabulary = Vocabulary()
    vocabulary.apply(change.listings, change.rows())
    counts = counted(listings)
    wanted = sorted((-n, word) for word, n in counts.items())[:limit]
    assert vocabulary.merged().completions("data", limit) == [word for _, word in wanted]


@given(st.lists(st.tuples(st.booleans(), LISTING), max_size=20), st.sets(st.integers(0, 19)))
def test_counts_follow_listings_that_come_and_go_however_often_the_arrays_are_renewed(
    steps: list[tuple[bool, frozenset[str]]], renewals: set[int]
) -> None:
    vocabulary, present = Vocabulary(), []
    for number, (comes, listing) in enumerate(steps):
        change = Change()
        if comes:
            present.append(listing)
            change.come(listing, {stem(word): 1 for word in listing})
        elif present:
            change.go(present.pop())
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
    loaded = Vocabulary.load(path)
    assert (loaded.counts(), loaded.listings) == (saved.counts(), saved.listings)
    loaded.apply(1, [("neue", 1, 1, 1)])  # the file stays as it is
    assert Vocabulary.load(path).counts() == saved.counts()


def test_a_file_that_is_no_vocabulary_is_refused(tmp_path: Path) -> None:
    (tmp_path / "words").write_bytes(b"something else" * 100)
    with pytest.raises(ValueError, match="does not hold words"):
        Lexicon.load(tmp_path / "words")


def test_levels_are_remembered_for_terms_that_stay() -> None:
    vocabulary, change = Vocabulary(), Change()
    change.come(["payment"], {"payment": 3})
    change.come(["payment"], {"payment": 5})
    vocabulary.apply(change.listings, change.rows())
    assert vocabulary.levels("payment") == vocabulary.merged().levels("payment") == 0b10100
    assert vocabulary.levels("gateway") == 0


def test_what_is_derived_is_kept_while_it_is_asked_for_and_until_the_counts_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("overlay.search.vocabulary._MOST_DERIVED", 2)
    vocabulary, made = vocabulary_of([frozenset({"alpha"})]), Counter[str]()

    def ask(key: str) -> str:
        def make() -> str:
            made[key] += 1
            return f"{key} {vocabulary.frequency('alpha')}"

        return vocabulary.derived(key, make)

    assert [ask(key) for key in "ababacacad"][:2] == ["a 1", "b 1"]
    assert made == {"a": 1, "b": 1, "c": 1, "d": 1}
    for key in "efgh":
        ask(key)
    ask("a")
    assert made["a"] == 2
    change = Change()
    change.come({"alpha"}, {"alpha": 1})
    vocabulary.apply(change.listings, change.rows())
    assert ask("a") == "a 2"
