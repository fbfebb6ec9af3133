"""Translation of plans and filters to Tantivy queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import tantivy
from tantivy import FieldType, Occur

from overlay.engines.tantivy.offers import COMPLEX, OWN_SKILL, OfferTerms
from overlay.engines.tantivy.schema import NEVER, UNLISTED
from overlay.search.facts import FIRST, is_plain, selection, unwanted, wanted
from overlay.search.forward import FIELDS
from overlay.search.planner import Alternative, TermGroup
from overlay.search.prices import asks_price, meets
from overlay.search.query import Query
from overlay.search.record_file import IndexRecord

Part = tantivy.Query


@dataclass(slots=True)
class Translator:
    """Translates for one commit of the index; `read` returns the records of all results of a part."""

    schema: tantivy.Schema
    searcher: tantivy.Searcher
    offers: OfferTerms
    read: Callable[[Part], Iterator[IndexRecord]]

    def fact(self, value: str, *, plain: bool = False) -> Part:
        """Documents with a fact."""
        return tantivy.Query.term_query(self.schema, "listed" if plain else "fact", value, "basic")

    def admitted(self, query: Query) -> list[Part]:
        """The filters of a query; empty where the words alone decide."""
        plain = is_plain(query)
        groups = [*(() if plain else selection(query)), *self._facts(query)]
        parts = [either([self.fact(value, plain=plain) for value in group]) for group in groups]
        parts += self._numbers(query)
        if _asks_one_offer(query):
            parts.append(self._offers(query, parts))
        excluded = list(map(self.fact, unwanted(query)))
        if query.operators is not None:
            parts += map(self._phrase, query.operators.phrases)
            excluded += map(self._phrase, query.operators.excluded)
        if excluded:
            parts = [without(every(parts or [self._listed()]), either(excluded))]
        return parts

    def required(self, query: Query) -> list[Part]:
        """The filters of a query without words, which select among the documents that a plain search finds."""
        parts = self.admitted(query)
        return [self._listed(), *parts] if is_plain(query) and not any(self._facts(query)) else parts

    def _listed(self) -> Part:
        """All documents that a plain search finds."""
        return self.fact(FIRST, plain=True)

    def _facts(self, query: Query) -> Iterator[tuple[str, ...]]:
        """The facts that a query requires, without those of offers where one offer must meet two or more."""
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
        """Listings with one offer that meets all filters on offers."""
        named, shared = self.offers.meeting(query)
        alternatives = [self.offers.any_of(named)]
        if shared:
            own = either([self.fact(OWN_SKILL + skill) for skill in query.skills])
            alternatives.append(every([self.offers.any_of(shared), own]))
        if (query.skills or query.currencies) and self.searcher.doc_freq("fact", COMPLEX):
            alternatives.append(self._complex(query, parts))
        return either(alternatives)

    def _complex(self, query: Query, parts: list[Part]) -> Part:
        """Listings whose offers are not fully indexed (`COMPLEX`) and that have one offer that meets all filters. The
        records of all candidates are read."""
        unpriced = Query(skills=query.skills, currencies=query.currencies, intervals=query.intervals)
        candidates = [either([self.fact(value) for value in group]) for group in wanted(unpriced)]
        if asks_price(query):
            priced, _ = self.offers.meeting(query._replace(skills=(), currencies=()))
            candidates.append(self.offers.any_of(priced))
        records = self.read(every([*parts, self.fact(COMPLEX), *candidates]))
        ids = [f"id:{record.id}" for record in records if meets(record.offers, query)]
        return tantivy.Query.term_set_query(self.schema, "fact", ids) if ids else tantivy.Query.empty_query()

    def _phrase(self, sequence: str) -> Part:
        """Documents with a sequence of terms."""
        terms = sequence.split(" ")
        if len(terms) == 1:
            return tantivy.Query.term_query(self.schema, "text", sequence, "position")
        return tantivy.Query.phrase_query(self.schema, "text", list(terms))

    def words(self, groups: Iterable[TermGroup], query: Query) -> list[Part]:
        """Documents that contain a word, for each of these words, scored."""
        return [self._group(group, _fields(query)) for group in groups]

    def _group(self, group: TermGroup, fields: list[str]) -> Part:
        """The best alternative of a word."""
        alternatives = [self._alternative(alternative, fields) for alternative in group.alternatives]
        return alternatives[0] if len(alternatives) == 1 else tantivy.Query.disjunction_max_query(alternatives)

    def _alternative(self, alternative: Alternative, fields: list[str]) -> Part:
        parts = []
        for name in fields:
            part = tantivy.Query.term_query(self.schema, name, alternative.term, "freq")
            parts.append(part if alternative.weight == 1 else tantivy.Query.boost_query(part, alternative.weight))
        return either(parts)


def _fields(query: Query) -> list[str]:
    """The text fields that a query searches."""
    return list(FIELDS) if is_plain(query) else [*FIELDS, *(UNLISTED + name for name in FIELDS)]


def _asks_one_offer(query: Query) -> bool:
    """Whether one offer must meet two or more filters, or price bounds."""
    return asks_price(query) or sum(map(bool, (query.currencies, query.intervals, query.skills))) > 1


def unscored(parts: Iterable[Part]) -> list[Part]:
    """The same documents, not scored."""
    return [tantivy.Query.const_score_query(part, 0.0) for part in parts]


def every(parts: list[Part]) -> Part:
    """Documents that match all parts; scores add up."""
    return parts[0] if len(parts) == 1 else tantivy.Query.boolean_query([(Occur.Must, part) for part in parts])


def either(parts: list[Part]) -> Part:
    """Documents that match any part; scores add up."""
    if not parts:
        return tantivy.Query.empty_query()
    return parts[0] if len(parts) == 1 else tantivy.Query.boolean_query([(Occur.Should, part) for part in parts])


def better_with(part: Part, more: list[Part]) -> Part:
    """Documents that match `part`; each of `more` adds to the score of those that match it, too."""
    if not more:
        return part
    return tantivy.Query.boolean_query([(Occur.Must, part), *((Occur.Should, other) for other in more)])


def without(part: Part, excluded: Part) -> Part:
    """Documents that match `part` and not `excluded`."""
    return tantivy.Query.boolean_query([(Occur.Must, part), (Occur.MustNot, excluded)])
