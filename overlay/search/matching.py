"""A question to a plan: which index terms stand for each of its words, and how much each of them says.

Engines only look up exact terms; whatever is forgiving happens here, once, so that all engines find the same listings:

* a compound (`web_search`) is found written together or as its parts;
* a word that no listing holds is also sought as the words that are a typing error away (`text.edits`), at most
  `MOST_NEAR`, the nearest and commonest first; a word that some listing holds means itself;
* the last word, which may not be finished, is also sought as the `MOST_COMPLETIONS` commonest words that begin with it
  (from three letters, or shorter when no listing holds it as it stands).

Up to `SHORT` words, the listings that hold all words are the answer, if there are any; else those that hold any.
"""

from __future__ import annotations

from typing import NamedTuple

from overlay.search.ranking import LEVELS, points, rarity, scale
from overlay.search.text import Compound, asked, edits, is_spelt, stem
from overlay.search.vocabulary import Vocabulary

SHORT = 3
MOST_WORDS = 64  # of one question; a question of 32 words as typed may hold more, written together
MOST_NEAR = 8
MOST_COMPLETIONS = 8
_PARTS, _COMPLETED, _EDITED = 0.9, 0.7, (1.0, 0.6, 0.4)
_UNKNOWN = 0.1  # rarity of a term of no current listing: it may stand in an older one


class Gain(NamedTuple):
    """What finding a choice of terms is worth; `flat`: at whatever level."""

    worth: float
    flat: bool = False


Gains = dict[tuple[str, ...], Gain]


class Choice(NamedTuple):
    """Terms that together stand for a word; each adds points[level - 1]. With `flat` all levels add the same, so they
    need not be looked up."""

    terms: tuple[str, ...]
    points: tuple[int, ...]
    flat: bool = False


class Word(NamedTuple):
    """A word of the question; it counts as much as the best of the choices a listing holds."""

    choices: tuple[Choice, ...]


class Plan(NamedTuple):
    """A question as an engine looks for it. `all_first`: listings that hold every word drive out the others."""

    words: tuple[Word, ...]
    all_first: bool


def plan(text: str, vocabulary: Vocabulary) -> Plan:
    """How to look for a text. No words: it says nothing that could be found, and matches no listing."""
    compounds = asked(text)[:MOST_WORDS]
    gains = [_known_gains(each, vocabulary, last=each is compounds[-1]) for each in compounds]
    if not gains:
        return Plan((), all_first=True)
    unit, found = scale([max(gain.worth for gain in each.values()) for each in gains], long=len(gains) > SHORT)
    return Plan(tuple(_word(each, unit, found) for each in gains), all_first=len(gains) <= SHORT)


def _word(gains: Gains, unit: float, found: float) -> Word:
    return Word(tuple(_choice(terms, gain, unit, found) for terms, gain in gains.items()))


def _choice(terms: tuple[str, ...], gain: Gain, unit: float, found: float) -> Choice:
    made = points(gain.worth / len(terms), unit, found)
    return Choice(terms, (made[LEVELS // 2],) * LEVELS if gain.flat else tuple(made), gain.flat)


def _known_gains(compound: Compound, vocabulary: Vocabulary, *, last: bool) -> Gains:
    """Not to be changed: common words are asked for again and again."""
    return vocabulary.derived((compound, last), lambda: _gains(compound, vocabulary, last=last))


def _gains(compound: Compound, vocabulary: Vocabulary, *, last: bool) -> Gains:
    """What finding each choice of terms is worth: its rarity, less when it is not what was written."""
    found: Gains = {}
    if len(compound.parts) > 1:
        _add_parts(found, compound, vocabulary, last=last)
    else:
        _add_single(found, compound, vocabulary, last=last)
    return found


def _add_single(found: Gains, compound: Compound, vocabulary: Vocabulary, *, last: bool) -> None:
    (word,) = compound.parts
    term = stem(word)
    _keep(found, (term,), _rarity((term,), vocabulary))
    held = vocabulary.frequency(term) > 0
    if last and (len(word) >= 3 or not held):
        _add_completions(found, word, vocabulary)
    if not held:
        for other, away in _near(word, edits(compound), vocabulary):
            _keep(found, (other,), _EDITED[away] * _rarity((other,), vocabulary))


def _add_parts(found: Gains, compound: Compound, vocabulary: Vocabulary, *, last: bool) -> None:
    parts = tuple(_nearest(part, vocabulary) for part in compound.parts)
    weight = _PARTS if compound.whole else 1.0
    _keep(found, parts, weight * _rarity(parts, vocabulary))
    if compound.whole is None:
        return
    whole = stem(compound.whole)
    _keep(found, (whole,), _rarity((whole,), vocabulary))
    if last:
        _add_completions(found, compound.whole, vocabulary)
        for more in vocabulary.completions(compound.parts[-1], MOST_COMPLETIONS):
            terms = (*parts[:-1], stem(more))
            _keep(found, terms, _COMPLETED * _PARTS * _rarity(terms, vocabulary), flat=True)


def _add_completions(found: Gains, prefix: str, vocabulary: Vocabulary) -> None:
    """Words that begin as the last one does, as one group: a rare completion says no more than a common one."""
    if not is_spelt(prefix) and not prefix.isascii():
        return
    terms = dict.fromkeys(map(stem, vocabulary.completions(prefix, MOST_COMPLETIONS)))
    if terms:
        together = rarity(sum(map(vocabulary.frequency, terms)), vocabulary.listings)
        for term in terms:
            _keep(found, (term,), _COMPLETED * together, flat=True)


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
    counts = map(vocabulary.frequency, terms)
    return sum(rarity(count, vocabulary.listings) if count else _UNKNOWN for count in counts) / len(terms)


def _keep(found: Gains, terms: tuple[str, ...], worth: float, *, flat: bool = False) -> None:
    if terms not in found or found[terms].worth < worth:
        found[terms] = Gain(worth, flat)
