"""Few or no results: which filters exclude all, and other words to try."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from itertools import islice, pairwise, product
from typing import Any, NamedTuple

from overlay.api.parameters import FILTERS
from overlay.search.analysis import Compound, allowed_edits, is_spelt, query_words, stem
from overlay.search.facts import MOST_FACET_VALUES
from overlay.search.piece_table import is_known
from overlay.search.query import FACETS, Hits, Query
from overlay.search.query_syntax import ParsedText, read
from overlay.search.related_words import in_use
from overlay.search.term_dictionary import Terms

MOST_PROPOSALS = 3
_MOST_TRIED = 12  # suggestions that are counted
_MOST_FOR_A_WORD = 3
_LONGEST = 24  # letters of a word that is corrected or split
_USUAL = ("live", "pending")

_FEWEST_LISTINGS = 3  # that contain a word which is proposed for another one, so that a small registry proposes none

Count = Callable[[Query], tuple[int, int]]
"""Returns the number of results of a query, and of those that contain all words."""


class Emptied(NamedTuple):
    """Parameters that exclude all results, and the number of results without them."""

    parameters: tuple[str, ...]
    total: int


_FILTERS: dict[str, tuple[str, Any]] = {
    name: (parameter.member, Query._field_defaults[parameter.member]) for name, parameter in FILTERS.items()
}
"""The filter parameters, the query field of each, and its value when there is no filter."""


def emptied_by(query: Query, count: Count) -> list[Emptied]:
    """The filters whose removal alone yields results; if there is no single one, all of them at once."""
    bare = _counting(query)
    names = narrowing(query)
    alone = [Emptied((name,), count(_without(bare, [name]))[0]) for name in names]
    sufficient = [emptied for emptied in alone if emptied.total]
    if sufficient or len(names) < 2:
        return sufficient
    total, _ = count(_without(bare, names))
    return [Emptied(tuple(names), total)] if total else []


def _without(query: Query, names: Iterable[str]) -> Query:
    """The query without these filter parameters."""
    return query._replace(**dict(_FILTERS[name] for name in names))


def narrowing(query: Query) -> list[str]:
    """The filter parameters that a query uses."""
    usual = query._replace(statuses=_USUAL) if frozenset(query.statuses) == frozenset(_USUAL) else query
    return [name for name, (field, value) in _FILTERS.items() if getattr(usual, field) != value]


def _counting(query: Query) -> Query:
    """The query for counting only: without hits, facets and order."""
    return query._replace(limit=0, offset=0, after=None, facets=(), sort="relevance", descending=None)


MOST_IN_USE = 6
"""Values that are named instead of one that no listing has."""


def occurrence(query: Query, emptied: Emptied, find: Callable[[Query], Hits]) -> str:
    """A sentence for each filter that excludes all results: how many of all listings meet it by itself, and the most
    frequent values where none does."""
    bare = _counting(query)._replace(text="", operators=None, lookups=())
    everything = _without(bare, narrowing(query))
    total = find(everything).total
    return "; ".join(_occurrence(bare, everything, total, name, find) for name in emptied.parameters)


def _occurrence(bare: Query, everything: Query, total: int, name: str, find: Callable[[Query], Hits]) -> str:
    member = _FILTERS[name][0]
    value = getattr(bare, member)
    condition = f"{name}={','.join(map(str, value)) if isinstance(value, tuple) else value}"[:MOST_SHOWN]
    if alone := find(everything._replace(**{member: value})).total:
        return f"{alone:,} of {total:,} listings meet {condition}, but none of these meets the rest of the search"
    sentence = f"none of {total:,} listings meets {condition}"
    if name not in FACETS:
        return sentence
    facets = find(everything._replace(facets=(name,), facet_limit=MOST_IN_USE)).facets or {}
    in_use = ", ".join(text[:MOST_SHOWN] for text, _ in facets.get(name, ()))
    return f"{sentence}; in use: {in_use}" if in_use else sentence


MOST_SHOWN = 80
"""Characters of a filter, or of a value in use, in a sentence."""

SPELT = {"skillId": "skills", "tag": "tags", "acceptedCurrency": "currencies", "interval": "intervals"}
"""The filters with values that are compared by spelling, and their query fields."""

_FEW_VALUES = frozenset({"acceptedCurrency", "interval"})
"""The filters with so few values that the most frequent are an answer, too."""

MOST_NEAR = 3


def near(query: Query, emptied: Emptied, find: Callable[[Query], Hits]) -> dict[str, list[tuple[str, int]]]:
    """Other values for the skills, tags, currencies and intervals that exclude all results: those near in spelling, the
    nearest first, then the most frequent currencies and intervals; with the number of results if one is chosen
    instead."""
    wide = _without(_counting(query), emptied.parameters)
    nearest = {}
    for name in filter(SPELT.__contains__, emptied.parameters):
        counts: dict[str, int] = {}
        for value in getattr(query, SPELT[name])[:MOST_NEAR]:
            counts |= _near(value, wide._replace(facets=(name,), facet_limit=MOST_FACET_VALUES), find)
        if counts:
            nearest[name] = list(counts.items())[:MOST_NEAR]
    return nearest


def _near(value: str, wide: Query, find: Callable[[Query], Hits]) -> dict[str, int]:
    """The values of a facet that are near in spelling: among those with the same beginning, else among the most
    frequent."""
    for beginning in (value[:2], ""):
        facets = find(wide._replace(facet_prefix=beginning)).facets or {}
        counted = {_letters(text): (text, count) for text, count in facets[wide.facets[0]] if len(text) <= _LONGEST_ID}
        close = get_close_matches(_letters(value[:_LONGEST_ID]), counted, MOST_NEAR)
        values = dict(map(counted.__getitem__, close))
        if wide.facets[0] in _FEW_VALUES:
            values |= dict([*counted.values()][: MOST_NEAR - len(values)])
        if values:
            return values
    return {}


_LONGEST_ID = 64


def _letters(text: str) -> str:
    """A text without the separators of words in ids."""
    return "".join(filter(str.isalnum, text.casefold()))


class Proposal(NamedTuple):
    """An alternative query text, and the number of its results under the same filters."""

    q: str
    total: int


def proposals(query: Query, words: ParsedText, respellings: list[str], count: Count) -> list[Proposal]:
    """Alternative texts: the words without their phrase and exclusion operators, or one of `respellings`, with the
    filters among the words. Only texts that have a result with all words, and parse back to the counted query."""
    bare = _counting(query)._replace(operators=None)
    by_text: dict[str, Proposal] = {}
    tries = [*([words.text] if query.operators is not None else []), *respellings]
    for text in tries[:_MOST_TRIED]:
        typed = " ".join([*text.split(), *_filters(words)])
        if text.strip() and len(by_text) < MOST_PROPOSALS and typed not in by_text and _means(typed, text, words):
            total, matched = count(bare._replace(text=text))
            by_text |= {typed: Proposal(typed, total)} if matched else {}
    return list(by_text.values())


_TYPED = ("tags", "owners", "skills")


def _filters(words: ParsedText) -> Iterator[str]:
    """The filters in a query text, as they are typed."""
    for name in _TYPED:
        for value in getattr(words, name):
            yield f'{name[:-1]}:"{value}"' if any(letter.isspace() for letter in value) else f"{name[:-1]}:{value}"


def _means(typed: str, text: str, words: ParsedText) -> bool:
    """Whether a text parses to these words with these filters, and nothing else."""
    understood = read(typed)
    conditions = ParsedText(text=understood.text, **{name: getattr(words, name) for name in _TYPED})
    return understood == conditions and understood.text.split() == text.split()


def respellings(text: str, terms: Terms) -> list[str]:
    """Respellings of a text in words that are in use, the most likely first: words with one error more than a search
    corrects, split in two, joined with their neighbour, or near in meaning. Empty without any."""
    compounds = query_words(text)
    options = [_options(compound, terms) for compound in compounds]
    written = [compound.written for compound in compounds]
    distinct = len(set(map(stem, written)))  # no way says the same twice
    ways = (" ".join(way) for way in product(*options) if len(set(map(stem, way))) >= distinct)
    spellings = [*_joined(written, terms), *islice(ways, _MOST_TRIED)]
    return [text for text in dict.fromkeys(spellings) if text != " ".join(written)][:_MOST_TRIED]


def _options(compound: Compound, terms: Terms) -> list[str]:
    """The respellings of a word: the word itself when it is in use; words near in meaning for another right word."""
    is_in_use = any(terms.frequency(stem(part)) for part in (*compound.parts, compound.whole or compound.parts[0]))
    word = compound.parts[0]
    if is_in_use or len(compound.parts) > 1 or not is_spelt(word) or not 3 < len(word) <= _LONGEST:
        return [compound.written]
    if is_known(word):
        return [near.word for near in islice(in_use(word, terms, _FEWEST_LISTINGS), _MOST_FOR_A_WORD)] or [word]
    near = terms.similar(word, allowed_edits(compound.written, word) + 1)
    likely = [term.word for term in near if term.listings >= _FEWEST_LISTINGS and term.word[0] == word[0]]
    return [*_cut(word, terms), *likely][:_MOST_FOR_A_WORD] or [compound.written]


def _cut(word: str, terms: Terms) -> Iterator[str]:
    """A word split into two words in use, where the rarer is as frequent as possible."""
    cuts = [(word[:cut_index], word[cut_index:]) for cut_index in range(2, len(word) - 1)]
    weighed = [(min(terms.frequency(stem(part)) for part in cut), cut) for cut in cuts]
    rarer, best = max(weighed, default=(0, ("", "")))
    if rarer:
        yield " ".join(best)


def _joined(written: list[str], terms: Terms) -> Iterator[str]:
    """The text with two neighbours joined, where that is a word in use."""
    for index, (first, second) in enumerate(pairwise(written)):
        if terms.frequency(stem(f"{first}{second}".casefold())):
            yield " ".join([*written[:index], f"{first}{second}", *written[index + 2 :]])
