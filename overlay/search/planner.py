"""The query planner: query expansion into groups of weighted alternative terms, one group per word.

A listing that contains any alternative of any group is a result; engines look up exact terms only. The alternatives of
a word and their weights:

* its stem, 1;
* the word joined with its neighbour in the query (`qr code`: `qrcode`, `3 d`: `3d`), the compound it is part of, or
  itself without symbols (`.net`: `net`), 0.9;
* corrections, if no listing contains the word: terms one or two edits away, weighted by the square root of their share
  of the listings that contain one of them; in a short query also terms one edit away that fifty times as many contain;
* the two words that compose such a word (`weatherapi`), 0.6 each;
* completions of the last word of a short query, 0.4 each;
* with `OR` between two words, those of the other.

Rarity is BM25's inverse document frequency to the power `POWER` (1.3 to 1.6 measured the same). Stop words are dropped
from texts of more than `NAME_WORDS` words; in shorter ones they add to the score of a listing (`The Graph`), but no
listing is a result by them alone, unless there is no other word. So do `agent`, `mcp`, `server`, `tool` and `api` in
texts of any length.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from itertools import chain, pairwise
from math import log
from typing import TYPE_CHECKING, NamedTuple

from overlay.search.analysis import (
    Compound,
    allowed_edits,
    digits_of,
    has_digit,
    is_correctable,
    is_spelt,
    query_words,
    stem,
)
from overlay.search.stop_words import GENERIC, stop_words

if TYPE_CHECKING:
    from overlay.search.term_dictionary import Terms

MAX_GROUPS = 128  # 96 words as typed may be more after compounds are split
SHORT = 4
NAME_WORDS = 6
"""Words of the longest names: in these texts every word counts."""
CANDIDATES = 60
"""Results that the re-ranker orders."""
POWER = 1.45
JOINED, SPLIT, COMPLETED, CORRECTED = 0.9, 0.6, 0.4, 0.9
RELATED = "related"
"""The match of a term that only orders results, and is added where meaning counts (`related_words`)."""
RARE = 2  # listings that contain a part of a composed word, where something else can be meant
MAX_CORRECTIONS, MAX_CORRECTIONS_IN_LONG, MAX_COMPLETIONS = 8, 3, 6
OUTNUMBERED = 50
"""So many times as many listings contain a word that another one of a short query, one edit away and in use itself, may
be meant as (`postgress`). In long ones it cost 0.007 of misspelt descriptions."""
MAX_UNKNOWN = 8
"""The number of unknown and outnumbered words of a question, the first ones, that are corrected or split: each is
compared with all words."""
_SECOND_EDIT = 0.05  # likelihood of two errors relative to one
_SHORTEST_PART, _SHORTEST_SPLIT = 3, 6
_TOO_SHORT = 2  # letters of a word that is completed only where no listing contains it
_LOST_ONE = 4  # letters: in long queries a word of four is corrected as one of five that lost a letter


_OR = re.compile(r"(?<=\S)\s+OR\s+(?=\S)")


class Alternative(NamedTuple):
    """An alternative term of a word. `weight` is 1 for the word itself; `value` is weight times rarity; `match` is one
    of exact, joined, corrected (by `edits` edits to the word `written` so in listings), split and completed."""

    term: str
    weight: float
    value: float
    match: str
    edits: int = 0
    written: str = ""


class TermGroup(NamedTuple):
    """A word of the query as typed, or several with `OR` between them, and the alternatives. `rarity` is that of the
    best alternative. A word that `is_stop` adds to the score only, also where it `is_generic` and no function word; one
    that `is_unknown` is neither in a listing nor in the table of meaning."""

    word: str
    alternatives: tuple[Alternative, ...]
    rarity: float
    is_stop: bool = False
    is_unknown: bool = False
    is_generic: bool = False

    def either(self, other: TermGroup) -> TermGroup:
        """The group of this word or another one."""
        by_term = {alternative.term: alternative for alternative in self.alternatives}
        for alternative in other.alternatives:
            if alternative.term not in by_term or by_term[alternative.term].value < alternative.value:
                by_term[alternative.term] = alternative
        return TermGroup(
            f"{self.word} OR {other.word}",
            tuple(by_term.values()),
            max(self.rarity, other.rarity),
            is_unknown=self.is_unknown and other.is_unknown,
        )

    def is_held_by(self, chosen: int) -> bool:
        """Whether a listing has the word, where the alternative with this number counts (-1: none): one that is only
        related to it does not."""
        return chosen >= 0 and self.alternatives[chosen].match != RELATED


class QueryPlan(NamedTuple):
    """A planned query. Without groups every listing is a result, unless the query `finds_nothing` because it consists
    of punctuation only. With `all_words`, only listings that contain every word are results. There is a group that is
    no stop word where there is any group. `meaning` is the weight of text vectors (`search.meaning`) in the order of an
    engine that has any."""

    groups: tuple[TermGroup, ...] = ()
    finds_nothing: bool = False
    all_words: bool = False
    meaning: float = 0.0

    def finds_by_meaning(self, matched: int) -> bool:
        """Whether listings without a word of the query can be among the results, of which so many contain all words: of
        a short query only where none does."""
        return self.meaning > 0 and (not matched or self.is_long)

    @property
    def is_long(self) -> bool:
        """Whether the query has more than `SHORT` content and generic words."""
        return len(self.groups) > SHORT and sum(not group.is_stop or group.is_generic for group in self.groups) > SHORT

    @property
    def content(self) -> tuple[TermGroup, ...]:
        """The groups of content words, all but stop words: a result holds at least one of them."""
        return tuple([group for group in self.groups if not group.is_stop])

    def tier(self, held: int) -> int:
        """The tier of a listing that contains so many content words, 0 with all of them (`query.TIERS`)."""
        content = len(self.content)
        return 0 if held == content else 1 if 3 * held >= 2 * content else 2

    def share(self, lacks: Collection[str]) -> float:
        """The share of the rarity of all content words that a listing holds which `lacks` some of them, from 0 to 1."""
        total = sum(group.rarity for group in self.content)
        return 1 - sum(group.rarity for group in self.content if _is_in(group.word, lacks)) / total if total else 1.0

    @property
    def corrected(self) -> tuple[tuple[str, str], ...]:
        """The words of which nothing but corrections is in use, or the word itself hardly, each with the likeliest."""
        likeliest = []
        for group in self.content:
            others = group.alternatives[1:]  # the first is the word itself
            if others and all(alternative.match == "corrected" for alternative in others):
                likeliest.append((group.word, max(others, key=lambda alternative: alternative.weight).written))
        return tuple(likeliest)

    @property
    def unknown(self) -> tuple[str, ...]:
        """The content words that are neither in a listing nor in the table of meaning."""
        return tuple([group.word for group in self.content if group.is_unknown])

    @property
    def stop(self) -> tuple[TermGroup, ...]:
        """The groups that add to the score only."""
        return tuple(group for group in self.groups if group.is_stop)


def _is_in(word: str, lacks: Collection[str]) -> bool:
    """Whether a word is one of these, or a pair of characters of one in a script without spaces."""
    return word in lacks or (not is_spelt(word) and any(word in other for other in lacks))


ALL = QueryPlan()
"""The plan of a query without text."""

_NOTHING = QueryPlan(finds_nothing=True)


def rarity(held: int, listings: int) -> float:
    """The rarity of a term that so many of the listings contain."""
    return float(log(1 + (max(0, listings - held) + 0.5) / (held + 0.5)) ** POWER)


class _QueryWord(NamedTuple):
    """A part of a word of the query, folded, the compound that contains it, and the number of that in the text. One
    that `is_alternative` follows an `OR` after the content word before; one that `is_generic` is a stop word, too."""

    text: str
    compound: Compound
    is_stop: bool
    position: int
    is_alternative: bool = False
    is_generic: bool = False


def plan(text: str, terms: Terms) -> QueryPlan:
    """Plan a text. A text without words (punctuation only) finds nothing, an empty one everything."""
    if not text.strip():
        return ALL
    words = _words(text)
    if not words:
        return _NOTHING
    groups: list[TermGroup] = []
    for word, group in zip(words, _Planner(terms, words).groups(), strict=True):
        if word.is_alternative:
            last = max(number for number, before in enumerate(groups) if not before.is_stop)
            groups[last] = groups[last].either(group)
        else:
            groups.append(group)
    return QueryPlan(tuple(groups))


def required_terms(text: str) -> list[frozenset[str]]:
    """The terms that can stand for each word of a text: its stem, and compounds with its neighbours; a listing that
    holds the word has one of them. Without corrections and completions, which depend on other listings."""
    from overlay.search.term_dictionary import TermDictionary  # with numpy, which most that read queries do not load

    words = _words(text)
    planner = _Planner(TermDictionary(), words)
    required: list[frozenset[str]] = []
    for position, word in enumerate(words):
        terms = frozenset((stem(word.text), *planner.joined(position, word)))
        if word.is_alternative:
            required[-1] |= terms
        elif not word.is_stop:
            required.append(terms)
    return required


def _words(text: str) -> list[_QueryWord]:
    """The parts of all words, without repeated stems, and without stop words in a long text."""
    sides = [query_words(side) for side in _OR.split(text)]
    compounds = list(dict.fromkeys(chain.from_iterable(sides))) if len(sides) > 1 else sides[0]
    listed = stop_words(part for compound in compounds for part in compound.parts)
    stop = _stop_words(compounds, listed)
    generic = _generic_words(compounds, stop)
    scoring_only = stop | generic
    is_long = len(compounds) > NAME_WORDS
    by_stem: dict[str, _QueryWord] = {}
    position, last, follows_or = 0, None, False
    for side in sides:
        for compound in side:
            position += 1
            if is_long and compound in stop:
                continue
            for part in compound.parts:
                is_stop = compound in scoring_only or (part in listed and not listed >= set(compound.parts))
                is_alternative = follows_or and not is_stop and len(compound.parts) == 1
                word = _QueryWord(part, compound, is_stop, position, is_alternative, compound in generic)
                is_new = by_stem.setdefault(stem(part), word) is word
                follows_or = follows_or and is_stop
                last = word if is_new and not is_stop else last
        position += 1  # `OR` separates neighbours
        follows_or = last is not None and len(last.compound.parts) == 1
    return list(by_stem.values())[:MAX_GROUPS]


def _stop_words(compounds: Sequence[Compound], listed: Set[str]) -> frozenset[Compound]:
    """The words that are stop words; none where no other word would be left. In a text that is not all in capitals, a
    word in capitals is a name (`IT`)."""
    has_names = not all(compound.written.isupper() for compound in compounds)
    stop = frozenset(
        compound
        for compound in compounds
        if len(compound.parts) == 1
        and compound.parts[0] in listed
        and not (has_names and len(compound.written) > 1 and compound.written.isupper())
    )
    return stop if len(stop) < len(compounds) else frozenset()


def _generic_words(compounds: Sequence[Compound], stop: Set[Compound]) -> frozenset[Compound]:
    """The words for what every listing is; none where no other word would be left."""
    generic = frozenset(compound for compound in compounds if len(compound.parts) == 1 and compound.parts[0] in GENERIC)
    return generic if len(stop | generic) < len(compounds) else frozenset()


def _is_spelt_right(word: str) -> bool:
    """Whether the table of meaning knows a word whole: it is a right one, although no listing contains it."""
    from overlay.search.piece_table import is_known  # with numpy, which most that read queries do not load

    return is_known(word)


class _NearTerm(NamedTuple):
    """A term that a word can be corrected to, a word whose stem it is, the edits, and the number of listings that
    contain the term."""

    term: str
    written: str
    edits: int
    listings: int


class _Planner:
    """Plans the words of one query."""

    def __init__(self, terms: Terms, words: Sequence[_QueryWord]) -> None:
        self._terms, self._words = terms, words
        self._is_long = len(words) > SHORT
        self._frequencies: dict[str, int] = {}
        self._completed: list[str] = []
        self._doubtful = 0

    def _look_up(self, texts: Collection[str]) -> None:
        """Read the frequencies of terms, in one look-up."""
        others = [term for term in dict.fromkeys(texts) if term not in self._frequencies]
        self._frequencies.update(zip(others, self._terms.frequencies(others), strict=True))

    def groups(self) -> Iterator[TermGroup]:
        stems = [stem(word.text) for word in self._words]
        joined = [tuple(self.joined(position, word)) for position, word in enumerate(self._words)]
        last = self._words[-1].text
        self._completed = [] if self._is_long or len(last) <= _TOO_SHORT else self._completions(last)
        self._look_up([*stems, *chain.from_iterable(joined), *self._completed])
        for position, (word, exact) in enumerate(zip(self._words, stems, strict=True)):
            weights = self._alternatives(position, word, exact, joined[position])
            held = {term: weighted for term, weighted in weights.items() if term == exact or self._frequency(term)}
            best = max(held, key=lambda term: (bool(self._frequency(term)), held[term][0]))
            rarities = {term: rarity(self._frequency(term), self._terms.listings) for term in held}
            most = rarities[best]
            alternatives = tuple(
                Alternative(term, weight, weight * min(rarities[term], most), match, edits, written)
                for term, (weight, match, edits, written) in held.items()
            )
            is_unknown = not self._frequency(best) and not _is_spelt_right(word.text)
            yield TermGroup(word.text, alternatives, most, word.is_stop, is_unknown, word.is_generic)

    def _frequency(self, term: str) -> int:
        if term not in self._frequencies:
            self._look_up((term,))
        return self._frequencies[term]

    def _alternatives(
        self, position: int, word: _QueryWord, exact: str, joined: Iterable[str]
    ) -> dict[str, tuple[float, str, int, str]]:
        """Weight, kind of match, edits and correction of each alternative term of a word, whose stem is `exact`, and
        which is perhaps part of the compounds `joined`."""
        weights = {exact: (1.0, "exact", 0, "")}

        def add(term: str, weight: float, match: str, edits: int = 0, written: str = "") -> None:
            if term not in weights or weights[term][0] < weight:
                weights[term] = weight, match, edits, written

        for compound in joined:
            add(compound, JOINED, "joined")
        held = max(map(self._frequency, weights))
        most = 0 if self._is_long else self._terms.listings // OUTNUMBERED
        is_doubtful = held <= most and not _is_spelt_right(word.text)
        self._doubtful += is_doubtful
        if is_doubtful and self._doubtful <= MAX_UNKNOWN:
            corrections = list(self._corrections(word, held))
            for near, weight in corrections:
                add(near.term, weight, "corrected", near.edits, near.written)
            for part in () if held else self._split(word.text, RARE if corrections else 0):
                add(part, SPLIT, "split")
        if position == len(self._words) - 1 and not self._is_long:
            is_short = len(word.text) <= _TOO_SHORT and not held
            for completion in self._completions(word.text) if is_short else self._completed:
                add(completion, COMPLETED, "completed")
        return weights

    def _completions(self, word: str) -> list[str]:
        """The stems of the most frequent words that begin with a word."""
        return list(map(stem, self._terms.completions(word, MAX_COMPLETIONS)))

    def joined(self, position: int, word: _QueryWord) -> Iterator[str]:
        """The compounds that a word may be part of."""
        if word.compound.whole:
            yield stem(word.compound.whole)
        for first, second in pairwise(self._words[max(0, position - 1) : position + 2]):
            is_next = second.position - first.position <= 1  # no stop word between them was dropped
            is_joinable = all(is_spelt(word.text) or word.text.isdigit() for word in (first, second))
            if is_next and is_joinable and not (first.text.isdigit() and second.text.isdigit()):
                yield stem(first.text + second.text)

    def _corrections(self, word: _QueryWord, held: int) -> Iterator[tuple[_NearTerm, float]]:
        """Corrections of a word that so many listings contain, and their weights."""
        near = self._near(word) or ([] if held else self._near_without_ending(word))
        if held:
            near = [term for term in near if term.edits == 1 and term.listings >= OUTNUMBERED * held]
        if self._is_long:
            near = [candidate for candidate in near if candidate.edits == 1] or near
            near.sort(key=lambda candidate: -candidate.listings)
        near = near[: MAX_CORRECTIONS_IN_LONG if self._is_long else MAX_CORRECTIONS]
        likely = [term.listings * (1.0 if term.edits == 1 else _SECOND_EDIT) for term in near]
        for term, part in zip(near, likely, strict=True):
            yield term, CORRECTED * (part / sum(likely)) ** 0.5

    def _near(self, word: _QueryWord) -> list[_NearTerm]:
        """The terms within the allowed edits of a word."""
        text = word.text
        edits = allowed_edits(word.compound.written if len(word.compound.parts) == 1 else text, text)
        lost_one = not edits and len(text) == _LOST_ONE and is_spelt(text) and self._is_long
        exact, candidates = stem(text), dict[str, _NearTerm]()
        for near in self._terms.similar(text, 1 if lost_one else edits) if lost_one or edits else ():
            if lost_one and len(near.word) != _LOST_ONE + 1:
                continue
            term = stem(near.word)
            count = self._frequency(term)
            if count and term != exact and (not has_digit(text) or digits_of(near.word) == digits_of(text)):
                candidates.setdefault(term, _NearTerm(term, near.word, near.edits, count))
        return list(candidates.values())

    def _near_without_ending(self, word: _QueryWord) -> list[_NearTerm]:
        """The terms near to a word that is glued to a generic one at its end (`githbmcp`)."""
        ending = next((ending for ending in GENERIC if word.text.endswith(ending)), None)
        return self._near(word._replace(text=word.text.removesuffix(ending))) if ending else []

    def _split(self, word: str, rarest: int) -> Iterator[str]:
        """The parts of a word that is composed of two words, where more than `rarest` listings contain each of them."""
        if len(word) < _SHORTEST_SPLIT or not is_correctable(word):
            return
        for cut in range(_SHORTEST_PART, len(word) - _SHORTEST_PART + 1):
            if word[cut - 1 : cut + 1].isdigit():
                continue
            parts = stem(word[:cut]), stem(word[cut:])
            if min(map(self._frequency, parts)) > rarest:
                yield from parts
