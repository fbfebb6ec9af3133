"""The query planner: query expansion into groups of weighted alternative terms, one group per word.

A listing that contains any alternative of any group is a result; engines look up exact terms only. The alternatives of
a word and their weights:

* its stem, 1;
* the word joined with its neighbour in the query (`qr code`: `qrcode`), or the compound it is part of, 0.9;
* corrections, if at most `RARE` listings contain the word: terms one or two edits away, weighted by the square root of
  their share of the listings that contain one of them;
* the two words that a rare word is composed of (`weatherapi`), 0.6 each;
* completions of the last word of a short query, 0.4 each.

Rarity is BM25's inverse document frequency to the power `POWER` (1.3 to 1.6 measured the same). In queries of more than
`SHORT` words the first words count up to 1.5 times as much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import log
from typing import NamedTuple

from overlay.search.analysis import Compound, allowed_edits, digits_of, has_digit, is_spelt, query_words, stem
from overlay.search.term_dictionary import TermDictionary

MAX_GROUPS = 64  # 32 words as typed may be more after compounds are split
SHORT = 4
CANDIDATES = 60
"""Results that the re-ranker orders."""
POWER = 1.45
JOINED, SPLIT, COMPLETED, CORRECTED = 0.9, 0.6, 0.4, 0.9
RARE = 2  # listings that may contain a word that is still corrected
MAX_CORRECTIONS, MAX_CORRECTIONS_IN_LONG, MAX_COMPLETIONS = 8, 3, 6
_SECOND_EDIT = 0.05  # likelihood of two errors relative to one
_EARLY, _FADING = 0.5, 0.08
_SHORTEST_PART, _SHORTEST_SPLIT = 3, 6
_LOST_ONE = 4  # letters: in long queries a word of four is corrected as one of five that lost a letter


class Alternative(NamedTuple):
    """An alternative term of a word. `weight` is 1 for the word itself; `value` is weight times rarity; `match` is one
    of exact, joined, corrected (by `edits` edits), split and completed."""

    term: str
    weight: float
    value: float
    match: str
    edits: int = 0


class TermGroup(NamedTuple):
    """A word of the query as typed, and its alternatives. `rarity` is that of the best alternative; `boost` is above 1
    for the first words of long queries."""

    word: str
    alternatives: tuple[Alternative, ...]
    rarity: float
    boost: float


class QueryPlan(NamedTuple):
    """A planned query. Without groups every listing is a result, unless the query `finds_nothing` because it consists
    of punctuation only. With `all_words`, only listings that contain every word are results."""

    groups: tuple[TermGroup, ...] = ()
    finds_nothing: bool = False
    all_words: bool = False


ALL = QueryPlan()
"""The plan of a query without text."""

_NOTHING = QueryPlan(finds_nothing=True)


class _QueryWord(NamedTuple):
    """A part of a word of the query, folded, and the compound that contains it."""

    text: str
    compound: Compound


def plan(text: str, terms: TermDictionary) -> QueryPlan:
    """Plan a text. A text without words (punctuation only) finds nothing, an empty one everything."""
    if not text.strip():
        return ALL
    words = _words(text)
    if not words:
        return _NOTHING
    return QueryPlan(tuple(_Planner(terms, words).groups()))


def required_terms(text: str) -> list[frozenset[str]]:
    """For each word of a text the terms of which a listing that holds it has one: its stem, and compounds with its
    neighbours. Without corrections and completions, which depend on other listings."""
    words = _words(text)
    planner = _Planner(TermDictionary(), words)
    return [frozenset((stem(word.text), *planner.joined(position, word))) for position, word in enumerate(words)]


def _words(text: str) -> list[_QueryWord]:
    """The parts of all words, without repeated stems."""
    by_stem: dict[str, _QueryWord] = {}
    for compound in query_words(text):
        for part in compound.parts:
            by_stem.setdefault(stem(part), _QueryWord(part, compound))
    return list(by_stem.values())[:MAX_GROUPS]


class _Planner:
    """Plans the words of one query."""

    def __init__(self, terms: TermDictionary, words: Sequence[_QueryWord]) -> None:
        self._terms, self._words = terms, words
        self._is_long = len(words) > SHORT

    def groups(self) -> Iterator[TermGroup]:
        for position, word in enumerate(self._words):
            weights = self._alternatives(position, word)
            exact = stem(word.text)
            held = {term: weighted for term, weighted in weights.items() if term == exact or self._frequency(term)}
            best = max(held, key=lambda term: (bool(self._frequency(term)), held[term][0]))
            rarity = self._rarity(best)
            alternatives = tuple(
                Alternative(term, weight, weight * min(self._rarity(term), rarity), match, edits)
                for term, (weight, match, edits) in held.items()
            )
            yield TermGroup(word.text, alternatives, rarity, self._boost(position))

    def _boost(self, position: int) -> float:
        return 1 + _EARLY * max(0.0, 1 - _FADING * position) if self._is_long else 1.0

    def _frequency(self, term: str) -> int:
        return self._terms.frequency(term)

    def _rarity(self, term: str) -> float:
        held, listings = self._frequency(term), self._terms.listings
        return float(log(1 + (max(0, listings - held) + 0.5) / (held + 0.5)) ** POWER)

    def _alternatives(self, position: int, word: _QueryWord) -> dict[str, tuple[float, str, int]]:
        """Weight, kind of match and edits of each alternative term of a word."""
        exact = stem(word.text)
        weights = {exact: (1.0, "exact", 0)}

        def add(term: str, weight: float, match: str, edits: int = 0) -> None:
            if term not in weights or weights[term][0] < weight:
                weights[term] = weight, match, edits

        for joined in self.joined(position, word):
            add(joined, JOINED, "joined")
        held = self._frequency(exact)
        if held <= RARE:
            for term, edits, weight in self._corrections(word):
                add(term, weight, "corrected", edits)
            for part in self._split(word.text):
                add(part, SPLIT, "split")
        if position == len(self._words) - 1 and not self._is_long and (len(word.text) > 2 or not held):
            for completion in self._terms.completions(word.text, MAX_COMPLETIONS):
                add(stem(completion), COMPLETED, "completed")
        return weights

    def joined(self, position: int, word: _QueryWord) -> Iterator[str]:
        """The compounds that a word may be part of."""
        if word.compound.whole:
            yield stem(word.compound.whole)
        for one, other in pairwise(self._words[max(0, position - 1) : position + 2]):
            if is_spelt(one.text) and is_spelt(other.text):
                yield stem(one.text + other.text)

    def _corrections(self, word: _QueryWord) -> Iterator[tuple[str, int, float]]:
        """Corrections of a word, their edits and weights."""
        near = self._near(word)
        if self._is_long:
            near = [candidate for candidate in near if candidate[1] == 1] or near
            near.sort(key=lambda candidate: -candidate[2])
        near = near[: MAX_CORRECTIONS_IN_LONG if self._is_long else MAX_CORRECTIONS]
        likely = [count * (1.0 if edits == 1 else _SECOND_EDIT) for _, edits, count in near]
        for (term, edits, _), part in zip(near, likely, strict=True):
            yield term, edits, CORRECTED * (part / sum(likely)) ** 0.5

    def _near(self, word: _QueryWord) -> list[tuple[str, int, int]]:
        """Terms within the allowed edits of a word, their edits and document frequencies."""
        text = word.text
        edits = allowed_edits(word.compound.written if len(word.compound.parts) == 1 else text, text)
        if not edits and len(text) == _LOST_ONE and is_spelt(text) and self._is_long:
            edits = 1
        exact, candidates = stem(text), dict[str, tuple[str, int, int]]()
        for near in self._terms.similar(text, edits) if edits else ():
            term = stem(near.word)
            count = self._frequency(term)
            if count and term != exact and (not has_digit(text) or digits_of(near.word) == digits_of(text)):
                candidates.setdefault(term, (term, near.edits, count))
        return list(candidates.values())

    def _split(self, word: str) -> Iterator[str]:
        """The parts of a word that is composed of two words in use."""
        if len(word) < _SHORTEST_SPLIT or not (word.isascii() and word.isalpha()):
            return
        for cut in range(_SHORTEST_PART, len(word) - _SHORTEST_PART + 1):
            parts = stem(word[:cut]), stem(word[cut:])
            if min(map(self._frequency, parts)) > RARE:
                yield from parts
