"""Texts as numbers of compounds: what is computed of the numbers is what the texts themselves give."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from itertools import chain

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from overlay.search import lexicon as lexicons
from overlay.search.analysis import compounds, has_digit, words
from overlay.search.forward import Analysed
from overlay.search.lexicon import ENDS, Lexicon, lexicon, word_hash
from parsers.cards import Skill
from tests.contracts.listed import listing

PIECES = st.sampled_from(
    (
        "a",
        "B2B",
        "GPT 4",
        " 4",
        "10,000",
        "CI/CD",
        "Q&A",
        "C++",
        "#",
        "/",
        ".",
        ".net",
        "don't",
        "-x",
        "\0",
        "\1",
        "\n",
        "é",
        "支付",
        "🔥",
        " ",
    )
)
TEXTS = st.lists(PIECES, max_size=6).map("".join)


def described(name: str, description: str, tags: list[str], example: str) -> tuple[Analysed, list[list[str]]]:
    """The analysed texts of a listing, and these texts by field."""
    skill = Skill("s", "k", description, examples=(example,))
    name += " "  # has no owner
    one = listing("1", name, description=description, tags=tuple(tags), skills=(skill,))
    fields = [[name], [*tags, "k", "s"], [description, description, example]]
    return Analysed.read(one, ()), [list(dict.fromkeys(filter(None, texts))) for texts in fields]


@example("c", ".net", ["/cd", "10", ",000"], "4")
@example("a\0b", "x\1", ["é", "C+"], "+")
@given(TEXTS, TEXTS, st.lists(TEXTS, max_size=3), TEXTS)
def test_joined_texts_have_the_compounds_of_each_text(
    name: str, description: str, tags: list[str], example: str
) -> None:
    analysed, fields = described(name, description, tags, example)
    assert analysed.compounds == [list(map(compounds, texts)) or [[]] for texts in fields]


@pytest.mark.parametrize("name", ["acme-labs/weather-api", "@acme-labs/weather-api"])
def test_the_owner_in_a_name_is_a_keyword_and_the_whole_a_phrase(name: str) -> None:
    analysed = Analysed.read(listing("1", name, tags=("x",)), ())
    assert analysed.field_terms(0) == ["weather", "api", "weatherapi"]
    assert analysed.field_terms(1)[:3] == ["acm", "lab", "x"]
    assert "acm lab weather api" in analysed.sequences()
    for other in ("CI/CD pipelines", "a/b/c", "acme labs / weather"):
        assert len(Analysed.read(listing("1", other), ()).field_terms(1)) == 0


@given(TEXTS, TEXTS, st.lists(TEXTS, max_size=3), TEXTS)
def test_plain_words_are_the_distinct_words_without_digits(
    name: str, description: str, tags: list[str], example: str
) -> None:
    analysed, fields = described(name, description, tags, example)
    expected = {word for text in chain.from_iterable(fields) for word in words(text) if not has_digit(word)}
    plain, hashes = analysed.plain_words()
    assert sorted(plain) == sorted(expected)
    assert hashes.tolist() == list(map(word_hash, plain))


@given(TEXTS, TEXTS)
def test_numbers_of_another_lexicon_are_of_the_same_compounds(name: str, description: str) -> None:
    first, other = Lexicon(), Lexicon()
    texts = [*compounds(name), ENDS[1], *compounds(description), ENDS[1]]
    analysed = Analysed(first, texts)
    for lexicon_, numbers in ((first, analysed.numbers(first)), (other, analysed.numbers(other))):
        assert [lexicon_.compounds[number] for number in numbers] == texts


def test_a_full_lexicon_is_followed_by_an_empty_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexicons, "_lexicon", Lexicon())
    monkeypatch.setattr(lexicons, "MOST", 100)
    former = lexicon()
    analysed = Analysed(former, map(str, range(1_000)))
    assert former.size >= 100
    assert lexicon() is not former
    assert analysed.compounds == []  # no field has ended
    assert lexicon().size == 0


class InterruptedLock:
    """A lock after whose release another thread runs at once."""

    def __init__(self, then: Callable[[], object]) -> None:
        self._lock, self._then = threading.Lock(), [then]

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        while self._then:
            thread = threading.Thread(target=self._then.pop())
            thread.start()
            thread.join()


def test_a_compound_is_numbered_as_soon_as_the_words_of_another_thread_are_read() -> None:
    shared = Lexicon()
    first, numbers = shared["alpha"], list[int]()
    shared._lock = InterruptedLock(lambda: numbers.append(shared["beta"]))  # type: ignore[assignment]
    assert shared.plain_words([first])[0] == ["alpha"]
    assert len(numbers) == 1
    assert shared.plain_words(numbers)[0] == ["beta"]


def test_threads_give_a_compound_one_number() -> None:
    shared, texts = Lexicon(), [f"word-{number}" for number in range(2_000)]
    numbers: list[list[int]] = []
    threads = [threading.Thread(target=lambda: numbers.append(list(map(shared.__getitem__, texts)))) for _ in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(numbers) == 4
    assert all(same == numbers[0] for same in numbers)
    assert [shared.compounds[number] for number in numbers[0]] == texts
    assert shared.plain_words(numbers[0])[0] == ["word"]
