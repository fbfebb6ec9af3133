"""From a question to a plan: which index terms stand for each of its words, and how much each is worth.

A question becomes groups of weighted alternative terms, one group a word. A listing that holds any alternative of any
group is a result; engines look up exact terms only. What stands for a word:

* its stem, worth 1;
* the form joined with its neighbour in the question (`qr code`: `qrcode`), or of the compound it is part of, 0.9;
* corrections of a word that `RARE` listings hold at most: terms an edit or two away, by their share of all listings
  that hold one of them; less beside a word that is in use;
* two words that a rare one is composed of (`weatherapi`), 0.6 each;
* completions of the last word of a short question, 0.4 each.

Rarity is BM25's inverse document frequency to the power `POWER` (measured: 1.3 to 1.6 are alike). In questions of more
than `SHORT` words the first ones count up to half as much again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import log
from typing import NamedTuple

from overlay.search.analysis import Compound, allowed_edits, digits_of, has_digit, is_spelt, query_words, stem
from overlay.search.term_dictionary import TermDictionary

MAX_GROUPS = 64  # a question of 32 words as typed may hold more, written together
SHORT = 4
CANDIDATES, MANY_CANDIDATES, MANY_WORDS = 60, 200, 6
"""Results that stage two orders: of short questions, and of those with more than `MANY_WORDS` words."""
POWER = 1.45
JOINED, SPLIT, COMPLETED, CORRECTED, BESIDE_RARE = 0.9, 0.6, 0.4, 0.9, 0.6
RARE = 2  # listings that hold a word which may still be mistyped
COMMONER = 20  # times as many listings hold the correction of a word in use
MAX_CORRECTIONS, MAX_CORRECTIONS_IN_LONG, MAX_COMPLETIONS = 8, 3, 6
_SECOND_EDIT = 0.05  # how likely two errors are beside one
_EARLY, _FADING = 0.5, 0.08
_SHORTEST_PART, _SHORTEST_SPLIT = 3, 6
_LOST_ONE = 4  # letters of a word of five that lost one: corrected in long questions


class Alternative(NamedTuple):
    """A term that stands for a word. `weight` is 1 for the word itself, `value` weight times rarity. `match` says why:
    exact, joined, corrected (by so many `edits`), split or completed."""

    term: str
    weight: float
    value: float
    match: str
    edits: int = 0


class Group(NamedTuple):
    """A word of the question as typed, and what stands for it. `rarity` is its share in coverage, `boost` grows the
    first words of long questions."""

    word: str
    alternatives: tuple[Alternative, ...]
    rarity: float
    boost: float


class QueryPlan(NamedTuple):
    """A planned question. Without groups every listing is a result, unless the question `finds_nothing`, as it consists
    of punctuation alone. With `all_words`, only listings that hold every word are results."""

    groups: tuple[Group, ...] = ()
    finds_nothing: bool = False
    all_words: bool = False

    @property
    def candidates(self) -> int:
        """Number of results that stage two orders."""
        return CANDIDATES if len(self.groups) <= MANY_WORDS else MANY_CANDIDATES


ALL = QueryPlan()
"""The plan of a question without words."""

_NOTHING = QueryPlan(finds_nothing=True)


class _Word(NamedTuple):
    """A part of a word of the question, folded, and the compound that it is part of."""

    text: str
    compound: Compound


def plan(text: str, terms: TermDictionary) -> QueryPlan:
    """Plan a text. One that consists of no words at all finds nothing, an empty one everything."""
    if not text.strip():
        return ALL
    words = _words(text)
    if not words:
        return _NOTHING
    return QueryPlan(tuple(_Planner(terms, words).groups()))


def _words(text: str) -> list[_Word]:
    """The parts of all words, each stem once."""
    found: dict[str, _Word] = {}
    for compound in query_words(text):
        for part in compound.parts:
            found.setdefault(stem(part), _Word(part, compound))
    return list(found.values())[:MAX_GROUPS]


class _Planner:
    """Plans the words of one question."""

    def __init__(self, terms: TermDictionary, words: Sequence[_Word]) -> None:
        self._terms, self._words = terms, words
        self._is_long = len(words) > SHORT

    def groups(self) -> Iterator[Group]:
        for at, word in enumerate(self._words):
            weights = self._alternatives(at, word)
            exact = stem(word.text)
            held = {term: each for term, each in weights.items() if term == exact or self._frequency(term)}
            best = max(held, key=lambda term: (bool(self._frequency(term)), held[term][0]))
            rarity = self._rarity(best)
            alternatives = tuple(
                Alternative(term, weight, weight * min(self._rarity(term), rarity), match, edits)
                for term, (weight, match, edits) in held.items()
            )
            yield Group(word.text, alternatives, rarity, self._boost(at))

    def _boost(self, at: int) -> float:
        return 1 + _EARLY * max(0.0, 1 - _FADING * at) if self._is_long else 1.0

    def _frequency(self, term: str) -> int:
        return self._terms.frequency(term)

    def _rarity(self, term: str) -> float:
        held, listings = self._frequency(term), self._terms.listings
        return float(log(1 + (max(0, listings - held) + 0.5) / (held + 0.5)) ** POWER)

    def _alternatives(self, at: int, word: _Word) -> dict[str, tuple[float, str, int]]:
        """Weight, reason and edits of each term that stands for a word."""
        exact = stem(word.text)
        found = {exact: (1.0, "exact", 0)}

        def add(term: str, weight: float, match: str, edits: int = 0) -> None:
            if term not in found or found[term][0] < weight:
                found[term] = weight, match, edits

        for joined in self._joined(at, word):
            add(joined, JOINED, "joined")
        held = self._frequency(exact)
        if held <= RARE:
            for term, edits, weight in self._corrections(word, held):
                add(term, weight, "corrected", edits)
            for part in self._split(word.text):
                add(part, SPLIT, "split")
        if at == len(self._words) - 1 and not self._is_long and (len(word.text) > 2 or not held):
            for completion in self._terms.completions(word.text, MAX_COMPLETIONS):
                add(stem(completion), COMPLETED, "completed")
        return found

    def _joined(self, at: int, word: _Word) -> Iterator[str]:
        if word.compound.whole:
            yield stem(word.compound.whole)
        for one, other in pairwise(self._words[max(0, at - 1) : at + 2]):
            if is_spelt(one.text) and is_spelt(other.text):
                yield stem(one.text + other.text)

    def _corrections(self, word: _Word, held: int) -> Iterator[tuple[str, int, float]]:
        """Terms that a mistyped word may mean, their edits and weights."""
        near = self._near(word)
        if self._is_long:
            near = [each for each in near if each[1] == 1] or near
            near.sort(key=lambda each: -each[2])
        near = near[: MAX_CORRECTIONS_IN_LONG if self._is_long else MAX_CORRECTIONS]
        likely = [count * (1.0 if edits == 1 else _SECOND_EDIT) for _, edits, count in near]
        for (term, edits, count), part in zip(near, likely, strict=True):
            weight = CORRECTED * (part / sum(likely)) ** 0.5
            yield term, edits, weight * (BESIDE_RARE if held and count < COMMONER * held else 1)

    def _near(self, word: _Word) -> list[tuple[str, int, int]]:
        """Terms near a word, their edits and how many listings hold them."""
        text = word.text
        edits = allowed_edits(word.compound.written if len(word.compound.parts) == 1 else text, text)
        if not edits and len(text) == _LOST_ONE and is_spelt(text) and self._is_long:
            edits = 1
        exact, found = stem(text), dict[str, tuple[str, int, int]]()
        for near in self._terms.similar(text, edits) if edits else ():
            term = stem(near.word)
            count = self._frequency(term)
            if count and term != exact and (not has_digit(text) or digits_of(near.word) == digits_of(text)):
                found.setdefault(term, (term, near.edits, count))
        return list(found.values())

    def _split(self, word: str) -> Iterator[str]:
        """The parts of a word where it is composed of two in use."""
        if len(word) < _SHORTEST_SPLIT or not (word.isascii() and word.isalpha()):
            return
        for cut in range(_SHORTEST_PART, len(word) - _SHORTEST_PART + 1):
            parts = stem(word[:cut]), stem(word[cut:])
            if min(map(self._frequency, parts)) > RARE:
                yield from parts
