"""Matching in reverse: which of many saved queries a listing meets, without a search for each.

A listing is compared only with the queries that share a term with it: each query is filed under the alternatives of one
thing that it requires, its rarest word or its narrowest filter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from overlay.search.document import Document
from overlay.search.facts import facts, selection, unwanted, wanted
from overlay.search.forward import Analysed
from overlay.search.planner import required_terms
from overlay.search.prices import asks_offer, meets, pack
from overlay.search.query import Query

_WORD = "word:"
_NARROW = ("owner", "domain", "skill", "tag", "currency", "interval", "chain")
"""The filters that few listings meet, the narrowest first."""


class _Saved(NamedTuple):
    """A query and its keys: the groups of facts and `word:` terms of which a listing needs one each, the facts and
    phrases that it must not have, and the phrases that it needs."""

    query: Query
    keys: list[str]
    groups: tuple[frozenset[str], ...]
    unwanted: frozenset[str]
    phrases: tuple[str, ...]
    excluded: tuple[str, ...]


class Percolator:
    """Queries in memory, by any key. Heights, times and the order of a query are not considered."""

    def __init__(self, queries: Iterable[tuple[str, Query]], frequency: Callable[[str], int] = lambda _: 0) -> None:
        """`frequency` is the number of listings that contain a term."""
        keys = defaultdict[Query, list[str]](list)
        for key, query in queries:
            keys[query].append(key)
        self._filed = defaultdict[str, list[_Saved]](list)
        for query, own in keys.items():
            saved = _saved(query, own)
            for term in _rarest(saved, frequency):
                self._filed[term].append(saved)

    def matching(self, document: Document) -> Iterator[str]:
        """The keys of the queries of which a document holds all words, and whose filters it meets."""
        analysed = Analysed.of(document)
        terms = {*facts(document), *(_WORD + term for term in analysed.terms())}
        near = {id(saved): saved for term in terms & self._filed.keys() for saved in self._filed[term]}
        texts: list[str] | None = None
        offers: bytes | None = None
        for saved in near.values():
            if any(map(terms.isdisjoint, saved.groups)) or not terms.isdisjoint(saved.unwanted):
                continue
            if saved.phrases or saved.excluded:
                texts = texts or [f" {sequence} " for sequence in analysed.sequences()]
                if not all(_holds(texts, phrase) for phrase in saved.phrases) or any(
                    _holds(texts, phrase) for phrase in saved.excluded
                ):
                    continue
            if asks_offer(saved.query):
                offers = offers or pack(document)
                if not meets(offers, saved.query):
                    continue
            yield from saved.keys


def _saved(query: Query, keys: list[str]) -> _Saved:
    words = (frozenset(_WORD + term for term in group) for group in required_terms(query.text))
    filters = map(frozenset, (*selection(query), *wanted(query)))
    operators = query.operators
    phrases = (operators.phrases, operators.excluded) if operators else ((), ())
    return _Saved(query, keys, (*words, *filters), frozenset(unwanted(query)), *phrases)


def _rarest(saved: _Saved, frequency: Callable[[str], int]) -> frozenset[str]:
    """The group of terms that the fewest listings have, by the best knowledge: words by their frequency, and filters
    by their kind."""

    def commonness(group: frozenset[str]) -> tuple[int, int]:
        kind = next(iter(group)).partition(":")[0]
        if f"{kind}:" == _WORD:
            return 0, sum(frequency(term.removeprefix(_WORD)) for term in group)
        return (1, _NARROW.index(kind)) if kind in _NARROW else (2, len(group))

    return min(saved.groups, key=commonness)


def _holds(texts: Iterable[str], phrase: str) -> bool:
    return any(f" {phrase} " in text for text in texts)
