"""How much a word says about a listing: quantised BM25 with field weights, the same numbers in every engine.

The part of BM25 that a listing decides (weighted term frequency, saturated and normalised by length: BM25F, Robertson,
Zaragoza and Taylor 2004) is rounded to a level when it is indexed; the part that the registry decides (how rare a word
is) comes from the vocabulary when it is asked. Sums of whole numbers are exact in any order, so two engines, or an
index and its rebuilt copy, put the same listings in the same order.

Nobody gets to the first page by writing more: a word said fifty times counts no more than one that stands in a name
and a description, and it makes the listing longer, so that all of its words count less; a name that is a list of words,
or many tags, share among them what a usual one weighs. What cannot be had for a few satoshis raises a listing instead,
by one level of six at most (`counted`); and of those who say nearly the same, or have a word in all their names, only
the first are heard (`copies.crowds`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from overlay.search.text import has_digit, sequences, stem, words

if TYPE_CHECKING:
    from overlay.document import Document
    from parsers.cards import AgentCard, Server

LEVELS = 6
_EACH = range(1, LEVELS + 1)
QUARTERS = 4
"""Parts of a level that a listing's standing is counted in."""
QUIET = 2
"""The highest level of a word of a name that many earlier listings have."""
BEST = 2000
"""Points of a listing that says every word as loudly as can be; `bonus` of the Tantivy engine says why so few."""
NAME, TAG, SKILL, WORD, DESCRIPTION, EXAMPLE = 6, 3, 3, 3, 2, 1
USUAL_NAME = 10
"""Words of a name that weigh all that a name can: of 18,000 servers in public lists 10 have more."""
USUAL_TAGS = 36
"""The same for all tags of a listing: 150 have more, and so have 6 of 232 agents."""
NAMING = "="
"""Before a term that stands in a listing's name: counted among the words that it is written with."""
_ENOUGH = NAME + 2 * DESCRIPTION + EXAMPLE  # weight of a word of one listing
_SATURATION = 2.4  # BM25's k1 = 1.2 at the weight of a word in a description
_BY_LENGTH = 0.75  # BM25's b
_USUAL_LENGTH = 40  # words; a constant, so that a listing's levels never depend on other listings
_NAMES = 0.3  # the power of a word's part in names: what things are called tells more than what all of them do
_LITTLE = frozenset("abcdefghijklmnopqrstuvwxyz") | frozenset(
    ("an", "and", "by", "for", "from", "in", "mcp", "of", "on", "or", "server", "the", "to", "with", "your")
)
_UNNAMED = 0.1  # that part for words that no name holds


def texts(document: Document) -> Iterator[tuple[int, str]]:
    """Everything in a listing that is searched, with its field weight."""
    return weighed(document, document.words)


def weighed(said: Document | AgentCard | Server, words: Iterable[str]) -> Iterator[tuple[int, str]]:
    """The same of a listing or its card, with the `words` beside name, description, tags and skills."""
    yield _shared(NAME, USUAL_NAME, (said.name,)), said.name
    yield DESCRIPTION, said.description
    each_tag = _shared(TAG, USUAL_TAGS, said.tags)
    for tag in said.tags:
        yield each_tag, tag
    for skill in said.skills:
        yield SKILL, skill.name or skill.id
        if skill.name and skill.id != skill.name:
            yield EXAMPLE, skill.id
        yield DESCRIPTION, skill.description
        for tag in skill.tags:
            yield EXAMPLE, tag
        for example in skill.examples:
            yield EXAMPLE, example
    for word in words:
        yield WORD, word


def _shared(weight: int, usual: int, said: Iterable[str]) -> int:
    """A field's weight for each word of its texts: where they have more than the usual ones, these share what those
    weigh, in whole numbers, down to that of an example. Wholes of compounds are not counted, and of what is cut into
    characters two are a word."""
    terms = [term for text in said for order in sequences(text)[:1] for term in order.split()]
    halves = sum(1 if len(term) == 1 and not term.isascii() else 2 for term in terms)
    return weight if halves <= 2 * usual else max(EXAMPLE, 2 * weight * usual // halves)


def standing(document: Document) -> int:
    """The highest level that words of a listing can have, in quarters of a level: what `counted` says, all together,
    and no more than the best one."""
    return min(LEVELS * QUARTERS, max(QUARTERS, sum(quarters for _, quarters in counted(document))))


COUNTED = ("confirmed", "pending", "verified", "age", "signed", "crowded")
"""What a listing's standing is made of."""


def counted(document: Document) -> list[tuple[str, int]]:
    """What a listing's standing is made of, in quarters of a level.

    Being in a block makes it up. What cannot be inscribed adds to it: a verified domain or a met hash; having had its
    name for long; and then also a signature, which costs nothing, but says the same for all this time. Of a crowd that
    says nearly the same only the first have a standing.
    """
    made = [("confirmed", (LEVELS - 1) * QUARTERS)]
    if document.status == "pending":
        made = [("pending", (LEVELS - 2) * QUARTERS)]
    if document.verified:
        made.append(("verified", QUARTERS))
    if document.age:
        made.append(("age", document.age))
        if document.signed:
            made.append(("signed", 1))
    if document.crowded:
        made.append(("crowded", QUARTERS - sum(quarters for _, quarters in made)))
    return made


def names(name: str, *, wholes: bool = True) -> list[str]:
    """The terms of a name that tell it from others, each once: no digits, no single letters, no little words. Behind
    them the `wholes` of compounds, as they are found by these, too."""
    said = " ".join(sequences(name)[: None if wholes else 1]).split()
    return [term for term in dict.fromkeys(said) if term not in _LITTLE and not has_digit(term)]


def weigh(document: Document) -> tuple[dict[str, int], set[str]]:
    """The level (1 to `LEVELS`) of every index term of a listing, and its words as written (folded, unstemmed), to
    which those of its name are added as terms once more, marked by `NAMING`."""
    weights: dict[str, int] = {}
    length = 0
    for weight, text in texts(document):
        for word in words(text):
            length += 1
            weights[word] = weights.get(word, 0) + weight
    terms: dict[str, int] = {}
    for word, weight in weights.items():
        term = stem(word)
        terms[term] = terms.get(term, 0) + weight
    # said once more than in a name and a description, a word says nothing new
    terms = {term: min(weight, _ENOUGH) for term, weight in terms.items()}
    norm = _SATURATION * (1 - _BY_LENGTH + _BY_LENGTH * length / _USUAL_LENGTH)
    highest = standing(document) / QUARTERS
    levels = {term: math.ceil(highest * weight / (weight + norm)) for term, weight in terms.items()}
    for term in document.quiet:
        if term in levels:
            levels[term] = min(levels[term], math.ceil(QUIET * terms[term] / (terms[term] + norm)))
    return levels, weights.keys() | {NAMING + stem(word) for word in words(document.name)}


def rarity(holding: int, naming: int, listings: int) -> float:
    """What a word tells that so many listings hold, and so many in their names: BM25's inverse document frequency,
    always above 0, less for words that are seldom in names."""
    frequency = math.log(1 + (listings - min(holding, listings) + 0.5) / (holding + 0.5))
    return frequency * math.pow(min(1.0, (naming + 0.1) / (holding + 1)) + _UNNAMED, _NAMES)


def unit(best: Sequence[float]) -> float:
    """Points for each unit of gain, for words whose best gains are given: chosen so that all words at the highest level
    make `BEST` points at most."""
    return (BEST - 2 * len(best)) / sum(best)


def points(gain: float) -> list[int]:
    """The whole points a word adds at each level, 1 to `LEVELS`, when at the highest they are `gain`."""
    return [round(gain * level / LEVELS) or 1 for level in _EACH]
