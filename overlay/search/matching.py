"""A question to a plan: which index terms stand for each of its words, and how much each of them says.

Engines only look up exact terms; whatever is forgiving happens here, once, so that all engines find the same listings:

* a compound (`web_search`) is found written together or as its parts;
* a word that no listing holds is also sought as the words that are a typing error away (`text.edits`), at most
  `MOST_NEAR`, the nearest and commonest first, each by its part of all that is said with these words; and one that
  hardly any holds, who may have mistyped it, as much commoner ones that are one error away;
* the last word, which may not be finished, is also sought as the `MOST_COMPLETIONS` commonest words that begin with it
  (from three letters, or shorter when no listing holds it as it stands).

Up to `SHORT` words, the listings that hold all words are the answer, if there are any that mean them (`coverage`); else
those that hold any. A longer question is a description. There two errors are only forgiven where one explains nothing;
a compound with a part that no listing holds is taken apart; and what is said first counts most.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from math import inf
from struct import Struct
from typing import NamedTuple

from overlay.search.closeness import Closeness, closeness
from overlay.search.listed import key
from overlay.search.ranking import points, rarity, unit
from overlay.search.text import Compound, asked, edits, is_spelt, stem
from overlay.search.vocabulary import Vocabulary

SHORT = 3
MOST_WORDS = 64  # of one question; a question of 32 words as typed may hold more, written together
MOST_NEAR = 8
MOST_COMPLETIONS = 8
_PARTS, _COMPLETED = 0.9, 0.7
_JOINED, _JOINED_IN_LONG = 1.3, 3.0  # what a compound written together is worth at most beside its parts
_UNKNOWN = 0.1  # rarity of a term of no current listing: it may stand in an older one
_FADING = 0.05  # how much less each further word of a long question counts (measured)
_FARTHER = 0.05  # how likely two errors are beside one
_MOST_MEANT = 3  # words in place of one of a long question
_HELD = 0.8  # what a commoner word is worth in place of one that a few listings hold
_FEW, _COMMONER = 3, 20  # listings that hold a word and may have mistyped it, and how much commoner the other is


class Gain(NamedTuple):
    """What finding a choice of terms is worth; `completes`: they begin as the word does, which may be unfinished."""

    worth: float
    completes: bool = False


Gains = dict[tuple[str, ...], Gain]


class Choice(NamedTuple):
    """Terms that together stand for a word; each adds points by the level it stands at, `most` at the highest.
    `completes`: they begin as the word does."""

    terms: tuple[str, ...]
    most: float
    completes: bool = False

    @property
    def points(self) -> tuple[int, ...]:
        """What each term adds at level 1, 2, …"""
        return tuple(points(self.most))


_LINE = Struct("=4Qd")


class Known:
    """What may stand for a word, whatever question it is in; `most` is the largest worth of it. Of each of its `terms`
    there stands in memory, from `address` on, its number, its word (yet to be told), its place among the terms that
    stand together, their number, and what these together are worth, a float (`scoring`)."""

    __slots__ = ("_lines", "address", "gains", "most", "terms")

    def __init__(self, gains: Iterable[tuple[tuple[str, ...], Gain]]) -> None:
        self.gains = tuple(gains)
        self.most = max([gain.worth for _, gain in self.gains])
        lines = [
            _LINE.pack(key(term), 0, step, len(terms), gain.worth)
            for terms, gain in self.gains
            for step, term in enumerate(terms)
        ]
        self._lines = array("B", b"".join(lines))  # which stays where it is as long as this lives
        self.address, self.terms = self._lines.buffer_info()[0], len(lines)


class Word(NamedTuple):
    """A word of the question; it counts as much as the best of the choices a listing holds. `unit` is what it counts
    for in this question."""

    known: Known
    unit: float

    @property
    def choices(self) -> tuple[Choice, ...]:
        """What may stand for it, here."""
        of = self.known.gains
        return tuple([Choice(terms, worth * self.unit / len(terms), completes) for terms, (worth, completes) in of])


class Plan(NamedTuple):
    """A question as an engine looks for it. `all_first`: it is short, and listings that hold every word may drive out
    the others (`coverage`). In a long question, `closeness` is worth points to the best."""

    words: tuple[Word, ...]
    all_first: bool
    closeness: Closeness | None = None
    text: str = ""

    @property
    def covers(self) -> bool:
        """Whether to hold every word is more than to hold some."""
        return self.all_first and len(self.words) > 1


WORDLESS = Plan((), all_first=True)
"""Of a question without words, which all that is listed answers."""


def plan(text: str, vocabulary: Vocabulary) -> Plan:
    """How to look for a text. No words: it says nothing that could be found, and matches no listing."""
    compounds = asked(text)[:MOST_WORDS]
    if not is_short(compounds):
        return _long_plan(compounds, vocabulary)
    known = [_known(each, vocabulary, last=each is compounds[-1], long=False) for each in compounds]
    if not known:
        return WORDLESS
    each = unit([of.most for of in known])
    return Plan(tuple([Word(of, each) for of in known]), all_first=True, text=text)


def is_short(compounds: Sequence[Compound]) -> bool:
    """Whether a question of these words is no description."""
    return len(compounds) <= SHORT


def compounds(text: str, vocabulary: Vocabulary) -> list[Compound]:
    """The words of a text as those of its plan stand for them, in the same order."""
    found = asked(text)[:MOST_WORDS]
    return found if is_short(found) else [each for each, _ in _taken_apart(found, vocabulary)[:MOST_WORDS]]


def _long_plan(compounds: list[Compound], vocabulary: Vocabulary) -> Plan:
    placed = _taken_apart(compounds, vocabulary)[:MOST_WORDS]
    known = [_known(each, vocabulary, last=each is placed[-1][0], long=True) for each, _ in placed]
    leads = [1 / (1 + _FADING * place) for _, place in placed]
    each = unit([of.most * lead for of, lead in zip(known, leads, strict=True)])
    words = tuple([Word(of, each * lead) for of, lead in zip(known, leads, strict=True)])
    return Plan(words, all_first=False, closeness=closeness([[terms for terms, _ in of.gains] for of in known], each))


def _taken_apart(compounds: list[Compound], vocabulary: Vocabulary) -> list[tuple[Compound, int]]:
    """Compounds and their places; in place of those with a part that no listing holds, these parts and the whole."""
    found: dict[tuple[str, ...], tuple[Compound, int]] = {}
    for place, compound in enumerate(compounds):
        pieces = [compound]
        if compound.whole and not all(vocabulary.frequency(stem(part)) for part in compound.parts):
            pieces = [Compound(each, (each,), None) for each in (*compound.parts, compound.whole)]
        for each in pieces:
            found.setdefault(each.parts, (each, place))
    return list(found.values())


def _known(compound: Compound, vocabulary: Vocabulary, *, last: bool, long: bool) -> Known:
    """Not to be changed: common words are asked for again and again."""

    def make() -> Known:
        return Known(_gains(compound, vocabulary, last=last, long=long).items())

    return vocabulary.derived((compound, last, long), make)


def _gains(compound: Compound, vocabulary: Vocabulary, *, last: bool, long: bool) -> Gains:
    """What finding each choice of terms is worth: its rarity, less when it is not what was written."""
    found: Gains = {}
    if len(compound.parts) > 1:
        _add_parts(found, compound, vocabulary, last=last, long=long)
    else:
        _add_single(found, compound, vocabulary, last=last, long=long)
    return _known_first(found, vocabulary)


def _known_first(found: Gains, vocabulary: Vocabulary) -> Gains:
    """The same, where nothing that no listing holds is worth more than what some do, though all of them may."""
    held = [gain.worth for terms, gain in found.items() if all(map(vocabulary.frequency, terms))]
    if not held or len(held) == len(found):
        return found
    most = max(held)
    return {terms: gain._replace(worth=min(gain.worth, most)) for terms, gain in found.items()}


def _add_single(found: Gains, compound: Compound, vocabulary: Vocabulary, *, last: bool, long: bool) -> None:
    (word,) = compound.parts
    term = stem(word)
    exact = _rarity((term,), vocabulary)
    _keep(found, (term,), Gain(exact))
    held, completed = vocabulary.frequency(term), inf
    if last and (len(word) >= 3 or not held):
        completed = _add_completions(found, word, vocabulary, exact if held else inf)
    most = edits(compound)
    if not held and long:
        near = _near(word, min(most, 1) or int(_lost_one(compound)), vocabulary)
        near = near or _near(word, most, vocabulary)
        near.sort(key=lambda each: -vocabulary.frequency(each[0]))
        _add_near(found, near[:_MOST_MEANT], vocabulary, completed)
    elif not held:
        _add_near(found, _near(word, most, vocabulary), vocabulary, completed)
    elif held <= _FEW:
        near = _near(word, min(most, 1), vocabulary)
        commoner = [each for each in near if vocabulary.frequency(each[0]) >= _COMMONER * held]
        _add_near(found, commoner, vocabulary, worth=_HELD)


def _lost_one(compound: Compound) -> bool:
    """Whether four letters may be a word of five that lost one, and are no ticker."""
    (word,) = compound.parts
    return len(word) == 4 and is_spelt(word) and not compound.written.isupper()


def _add_near(
    found: Gains, near: list[tuple[str, int]], vocabulary: Vocabulary, most: float = inf, *, worth: float = 1.0
) -> None:
    """Words that may be meant. A rare one is worth much where it is meant, and is seldom meant; and who is still typing
    means what begins so, as far as it is worth (`most`)."""
    likely = {term: vocabulary.frequency(term) * (1.0 if away == 1 else _FARTHER) for term, away in near}
    together = sum(likely.values())
    for term, part in likely.items():
        _keep(found, (term,), Gain(min(most, worth * (part / together) ** 0.5 * _rarity((term,), vocabulary))))


def _add_parts(found: Gains, compound: Compound, vocabulary: Vocabulary, *, last: bool, long: bool) -> None:
    parts = tuple(_nearest(part, vocabulary) for part in compound.parts)
    exact = _rarity(parts, vocabulary)
    _keep(found, parts, Gain(_PARTS * exact if compound.whole else exact))
    if compound.whole is None:
        return
    whole = _rarity((stem(compound.whole),), vocabulary)
    most = exact if all(vocabulary.frequency(stem(part)) for part in compound.parts) else inf
    _keep(found, (stem(compound.whole),), Gain(min(most * (_JOINED_IN_LONG if long else _JOINED), whole)))
    if last:
        _add_completions(found, compound.whole, vocabulary, most)
        for more in vocabulary.completions(compound.parts[-1], MOST_COMPLETIONS):
            terms = (*parts[:-1], stem(more))
            worth = _COMPLETED * _PARTS * min(most, _rarity(terms, vocabulary))
            _keep(found, terms, Gain(worth, completes=True))


def _add_completions(found: Gains, prefix: str, vocabulary: Vocabulary, most: float) -> float:
    """Words that begin as the last one does, as one group: a rare completion says no more than a common one, and none
    more than a part of what the word as it stands does (`most`), which may be meant. What each is worth, if any."""
    if not is_spelt(prefix) and not prefix.isascii():
        return inf
    terms = dict.fromkeys(map(stem, vocabulary.completions(prefix, MOST_COMPLETIONS)))
    if not terms:
        return inf
    held, named = (sum(map(count, terms)) for count in (vocabulary.frequency, vocabulary.naming))
    worth = _COMPLETED * min(most, rarity(held, named, vocabulary.listings))
    for term in terms:
        _keep(found, (term,), Gain(worth, completes=True))
    return worth


def _near(word: str, most: int, vocabulary: Vocabulary) -> list[tuple[str, int]]:
    """Index terms that a mistyped word may mean, and how many edits away they are."""
    terms: dict[str, int] = {}
    for near in vocabulary.similar(word, most) if most else ():
        term = stem(near.word)
        if vocabulary.frequency(term):
            terms.setdefault(term, near.edits)
        if len(terms) == MOST_NEAR:
            break
    return list(terms.items())


def _nearest(part: str, vocabulary: Vocabulary) -> str:
    """The term for a part of a compound: its own, or the best of its near ones when no listing holds it."""
    term = stem(part)
    if vocabulary.frequency(term):
        return term
    near = _near(part, edits(Compound(part, (part,), None)), vocabulary)
    return near[0][0] if near else term


def _rarity(terms: tuple[str, ...], vocabulary: Vocabulary) -> float:
    """Mean rarity of terms that stand for one word."""
    return sum(_rarity_of(term, vocabulary) for term in terms) / len(terms)


def _rarity_of(term: str, vocabulary: Vocabulary) -> float:
    held = vocabulary.frequency(term)
    return rarity(held, vocabulary.naming(term), vocabulary.listings) if held else _UNKNOWN


def _keep(found: Gains, terms: tuple[str, ...], gain: Gain) -> None:
    if terms not in found or found[terms].worth < gain.worth:
        found[terms] = gain
