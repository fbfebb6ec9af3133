"""A query and its plan as queries of Tantivy: which documents the filters admit, and how words score."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import tantivy
from tantivy import FieldType, Occur

from overlay.engines.tantivy.offers import COMPLEX, OWN_SKILL, OfferTerms
from overlay.engines.tantivy.schema import NEVER, UNLISTED
from overlay.query import Query
from overlay.search.facts import is_plain, selection, unwanted, wanted
from overlay.search.forward import FIELDS
from overlay.search.planner import Alternative, Group, QueryPlan
from overlay.search.prices import asks_price, meets
from overlay.search.records import Record

Part = tantivy.Query

NAME_BOOST = 2.0
_MAX_COMPLEX = 10_000  # listings whose offers are checked one by one


@dataclass(slots=True)
class Translator:
    """Translates for one commit of the index; `read` gives the records of the first results of a part."""

    schema: tantivy.Schema
    searcher: tantivy.Searcher
    offers: OfferTerms
    read: Callable[[Part, int], list[Record]]

    def fact(self, value: str, *, plain: bool = False) -> Part:
        """Documents with a fact."""
        return tantivy.Query.term_query(self.schema, "listed" if plain else "fact", value, "basic")

    def admitted(self, query: Query) -> list[Part]:
        """What every result meets beside the words; empty where the words alone decide."""
        plain = is_plain(query)
        groups = [*(() if plain else selection(query)), *self._facts(query)]
        parts = [either([self.fact(value, plain=plain) for value in group]) for group in groups]
        parts += self._numbers(query)
        if _asks_one_offer(query):
            parts.append(self._offers(query, parts))
        operators = query.operators
        if operators is not None:
            parts += map(self._phrase, operators.phrases)
            excluded = [*map(self._phrase, operators.excluded), *map(self.fact, unwanted(query))]
            if excluded:
                parts = [without(every(parts or [self.listed(query)]), either(excluded))]
        return parts

    def listed(self, query: Query) -> Part:
        """All documents of the statuses that a query asks for."""
        return either([self.fact(f"status:{status}", plain=is_plain(query)) for status in query.statuses])

    def _facts(self, query: Query) -> Iterator[tuple[str, ...]]:
        """The facts that a query asks for, but for those of offers where one offer must meet several."""
        if _asks_one_offer(query):
            query = query._replace(currencies=(), intervals=(), skills=())
        return wanted(query)

    def _numbers(self, query: Query) -> Iterator[Part]:
        if query.as_of is not None:
            yield self._between("since", 0, query.as_of)
            yield self._between("until", query.as_of + 1, None)
        if query.from_height is not None or query.to_height is not None:
            yield self._between("height", query.from_height, query.to_height)
        if query.updated_since is not None:
            yield self._between("time", query.updated_since, None)

    def _between(self, name: str, low: int | None, high: int | None) -> Part:
        return tantivy.Query.range_query(
            self.schema, name, FieldType.Unsigned, min(low or 0, NEVER), NEVER if high is None else high
        )

    def _offers(self, query: Query, parts: list[Part]) -> Part:
        """Listings of which one offer meets all filters for offers."""
        named, shared = self.offers.meeting(query)
        found = [self.offers.any_of(named)]
        if shared:
            own = either([self.fact(OWN_SKILL + skill) for skill in query.skills])
            found.append(every([self.offers.any_of(shared), own]))
        if (query.skills or query.currencies) and self.searcher.doc_freq("fact", COMPLEX):
            records = self.read(every([*parts, self.fact(COMPLEX)]), _MAX_COMPLEX)
            found += [self.fact(f"id:{each.id}") for each in records if meets(each.offers, query)]
        return either(found)

    def _phrase(self, sequence: str) -> Part:
        """Documents with terms one after the other."""
        terms = sequence.split(" ")
        if len(terms) == 1:
            return tantivy.Query.term_query(self.schema, "text", sequence, "position")
        return tantivy.Query.phrase_query(self.schema, "text", list(terms))

    def any_word(self, plan: QueryPlan, query: Query) -> Part:
        """Documents that hold any word, scored."""
        return either([self._group(group, _fields(query)) for group in plan.groups])

    def all_words(self, plan: QueryPlan, query: Query) -> Part:
        """Documents that hold every word, scored."""
        return every([self._group(group, _fields(query)) for group in plan.groups])

    def _group(self, group: Group, fields: list[str]) -> Part:
        """The best of the alternatives for a word."""
        alternatives = [self._alternative(each, group.boost, fields) for each in group.alternatives]
        return alternatives[0] if len(alternatives) == 1 else tantivy.Query.disjunction_max_query(alternatives)

    def _alternative(self, alternative: Alternative, boost: float, fields: list[str]) -> Part:
        parts = []
        for name in fields:
            part = tantivy.Query.term_query(self.schema, name, alternative.term, "freq")
            weight = alternative.weight * boost * (NAME_BOOST if name.endswith("name") else 1.0)
            parts.append(part if weight == 1 else tantivy.Query.boost_query(part, weight))
        return either(parts)


def _fields(query: Query) -> list[str]:
    """The fields of text to look in."""
    return list(FIELDS) if is_plain(query) else [*FIELDS, *(UNLISTED + name for name in FIELDS)]


def _asks_one_offer(query: Query) -> bool:
    """Whether one offer must meet several filters, or a bound."""
    return asks_price(query) or sum(map(bool, (query.currencies, query.intervals, query.skills))) > 1


def unscored(parts: Iterable[Part]) -> list[Part]:
    """The same documents, without a score."""
    return [tantivy.Query.const_score_query(part, 0.0) for part in parts]


def every(parts: list[Part]) -> Part:
    """Documents that all parts find; scores add up."""
    return parts[0] if len(parts) == 1 else tantivy.Query.boolean_query([(Occur.Must, part) for part in parts])


def either(parts: list[Part]) -> Part:
    """Documents that any part finds; scores add up."""
    if not parts:
        return tantivy.Query.empty_query()
    return parts[0] if len(parts) == 1 else tantivy.Query.boolean_query([(Occur.Should, part) for part in parts])


def without(found: Part, excluded: Part) -> Part:
    """Documents that the first finds and the second does not."""
    return tantivy.Query.boolean_query([(Occur.Must, found), (Occur.MustNot, excluded)])
