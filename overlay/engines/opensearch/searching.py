"""Run a plan with the filters of a query: by score or sorted, to any depth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any

from overlay.engines.opensearch import translation
from overlay.engines.opensearch.cluster import Cluster, Json
from overlay.engines.opensearch.mapping import record_of
from overlay.engines.opensearch.translation import anchored, every, nested
from overlay.search.facet_counts import CountedValues
from overlay.search.facts import FACET_FIELDS, MAX_COUNTED
from overlay.search.planner import QueryPlan
from overlay.search.prices import asks_price, cheapest_for, price_key
from overlay.search.query import NO_MATCHES, PRICE_SORTS, TIERS, EngineHit, Matches, Query
from overlay.search.sorting import compares_cost, compares_per_day, is_reversed, order, order_field
from parsers.cards.intervals import PER_CALL
from parsers.cards.money import amount_of_key, decimal_key
from parsers.cards.rate_table import amount_bounds

if TYPE_CHECKING:
    from overlay.engines.opensearch.state import OpenSearchCommitState
    from overlay.search.record_file import IndexRecord

Key = tuple[Any, ...]

_SHARD_VALUES = 20_000
_MOST_BUCKETS = 65_000  # of an answer: OpenSearch refuses more than 65,535
_MOST_COMPARED, _MOST_WALKED = 256, 64
"""Currencies of prices, those of most offers: that bounds are translated to, each a clause of the 1,024 that OpenSearch
allows, or that an order without rates goes through, a search each. Strangers name any number of others."""
_FIRST_STEP, _MOST_STEP = 64, 1_000
_LAST = "\U0010ffff"
"""Sorts after every id."""


@dataclass(slots=True)
class Searcher:
    """Searches one index at a state."""

    cluster: Cluster
    index: str
    state: OpenSearchCommitState

    def search(self, query: Query, plan: QueryPlan, start: int, stop: int) -> Matches:
        """Run a query; the results from position `start` to `stop` are read."""
        if plan.finds_nothing:
            return NO_MATCHES
        filters = [*self.state.visible(), *translation.filters(query, self._in_use(query))]
        query_body, all_words, most_words = self._query(plan, filters)
        body: Json = {"query": query_body, "track_total_hits": True, "aggs": _facets(query)}
        if all_words is not None:
            body["aggs"]["matched"] = {"filter": all_words}
        tiers = [query_body]
        if all_words is not None:
            others = every(query_body, _none(all_words))
            tiers = [every(query_body, all_words), every(others, most_words), every(others, _none(most_words))]
        sort = order(query)
        is_price = sort in PRICE_SORTS
        if not is_price and sort != "relevance":
            body["query"] = _tiered(query_body, all_words, most_words)
        size = 0 if is_price else max(0, stop - start)
        body |= {"sort": _sort(sort, query), "from": start if size else 0, "size": size}
        if size and query.after is not None and sort != "relevance":
            tier, *values = query.after
            body["search_after"] = [TIERS - 1.0 - tier, *(values if sort == "name" else (-values[0], values[1]))]
        result = self._search(body)
        total, aggregations = result["hits"]["total"]["value"], result.get("aggregations", {})
        rows = [_row(hit, sort) for hit in result["hits"]["hits"]]
        if is_price:
            rows = list(islice(self._by_price(query, tiers), start, max(start, stop)))
        matched = total if all_words is None else aggregations["matched"]["doc_count"]
        return Matches(
            rows, total, matched, {name: CountedValues(_counts(aggregations[name])) for name in query.facets}
        )

    def _query(self, plan: QueryPlan, filters: list[Json]) -> tuple[Json, Json | None, Json]:
        """The query body, scored; the filter for results with all words, None where all have them; and that for results
        with two thirds of them."""
        if not plan.groups:
            return every(*filters), None, {"match_all": {}}
        any_word, all_words, most_words = translation.words(plan)
        if plan.all_words:
            filters = [*filters, all_words]
        body = {"bool": {"must": any_word, "filter": filters}}
        return body, None if plan.all_words or len(plan.content) == 1 else all_words, most_words

    def _search(self, body: Json) -> Json:
        return self.cluster.search(self.index, {"_source": False, "stored_fields": ["record"]} | body)

    # -- by price

    def _by_price(self, query: Query, tiers: list[Json]) -> Iterator[EngineHit]:
        """Results by currency, amount and id; those without a compared price last, by id, in both directions. After the
        key of the query, if it has one."""
        after = query.after
        for tier, part in enumerate(tiers):
            begins = None if after is None else after[:2]
            if begins is None or (tier, 0) >= begins:
                within = after[1:] if after is not None and (tier, 0) == begins else None
                for key, record in self._priced(query, part, within):
                    yield EngineHit((tier, *key), 0.0, record)
            if begins is None or (tier, 1) >= begins:
                last = [after[-1]] if after is not None and (tier, 1) == begins else None
                unpriced = every(part, _none(self._has_price(query)))
                for hit in self._walk(unpriced, [{"id": _direction(query)}], last):
                    record = record_of(hit)
                    yield EngineHit((tier, 1, record.id), 0.0, record)

    def _has_price(self, query: Query) -> Json:
        """Documents with an offer in a compared currency."""
        return nested([*self._compared(query), {"terms": {"offers.currency": self._anchors(query)}}])

    def _compared(self, query: Query) -> list[Json]:
        """The conditions for an offer to be compared by price."""
        conditions = translation.offer(query, self._in_use(query))
        if compares_cost(query):
            return [*conditions, {"bool": {"should": [_FOR_A_TIME, _PER_CALL]}}]
        return [*conditions, _FOR_A_TIME] if compares_per_day(query) else conditions

    def _priced(self, query: Query, part: Json, after: Key | None) -> Iterator[tuple[Key, IndexRecord]]:
        """One walk per currency, merged; a listing belongs to the walk of the currency of its cheapest offer. Of the
        cost of a month there is one walk for prices per call, and one for those of a time."""
        kinds = (_PER_CALL, _FOR_A_TIME) if compares_cost(query) else (None,)
        walks = [
            self._of_currency(query, part, currency, begin, kind)
            for currency in self._anchors(query)
            for kind in kinds
            if (begin := _begin(query, currency, after)) is not None
        ]
        merged = merge(*walks, key=lambda pair: pair[0], reverse=is_reversed(query))
        if after is None:
            return merged
        return (pair for pair in merged if (pair[0] < after if is_reversed(query) else pair[0] > after))

    def _of_currency(
        self, query: Query, part: Json, currency: str, begin: Sequence[str], kind: Json | None
    ) -> Iterator[tuple[Key, IndexRecord]]:
        conditions, direction = [*self._compared(query), anchored(currency)], _direction(query)
        conditions += [kind] if kind else []
        field = "offers.day" if compares_per_day(query) or kind is _FOR_A_TIME else "offers.key"
        chosen = {"path": "offers", "filter": every(*conditions)}
        sort: list[Json] = [{field: {"order": direction, "mode": "min", "nested": chosen}}, {"id": direction}]
        cheapest = cheapest_for(query)
        for hit in self._walk(every(part, nested(conditions)), sort, begin):
            record = record_of(hit)
            offer = cheapest(record.offers)
            is_kind = kind is None or (kind is _PER_CALL) == (offer is not None and offer.interval == PER_CALL)
            if offer is not None and offer.currency == currency and is_kind:
                yield price_key(offer, record.id, query), record

    def _walk(self, part: Json, sort: Sequence[Json], after: Sequence[str] | None = None) -> Iterator[Json]:
        """All results of a part in an order, read in pages; after these sort values, if there are any."""
        body: Json = {"query": part, "sort": sort, "size": _FIRST_STEP, "track_total_hits": False}
        if after:
            body["search_after"] = after
        while hits := self._search(body)["hits"]["hits"]:
            yield from hits
            if len(hits) < body["size"]:
                return
            body |= {"search_after": hits[-1]["sort"], "size": min(4 * body["size"], _MOST_STEP)}

    def _anchors(self, query: Query) -> list[str]:
        """The currencies of the compared offers, in the order of results."""
        return self._used(None if query.price_currency is None else [query.price_currency, *query.rates])

    def _in_use(self, query: Query) -> translation.InUse:
        used = frozenset(self._used(list(query.rates)) if query.rates and asks_price(query) else ())
        return used.__contains__

    def _used(self, quoted: Sequence[str] | None) -> list[str]:
        """The most frequent quoted currencies of all offers."""
        size = _MOST_WALKED if quoted is None else _MOST_COMPARED
        values: Json = {"field": "offers.currency", "size": size, "shard_size": _SHARD_VALUES}
        values |= {} if quoted is None else {"include": list(quoted)}
        aggs = {"offers": {"nested": {"path": "offers"}, "aggs": {"currencies": {"terms": values}}}}
        body = {"query": every(*self.state.visible()), "size": 0, "aggs": aggs}
        return sorted(bucket["key"] for bucket in self._search(body)["aggregations"]["offers"]["currencies"]["buckets"])


def _begin(query: Query, currency: str, after: Key | None) -> Sequence[str] | None:
    """The sort values (price and id) at which the walk of a currency begins, so that no result after a key is left out;
    empty for the whole walk, None where the walk has no result after the key."""
    if after is None:
        return ()
    of, price, id_ = after[1:]
    reverse = is_reversed(query)
    if compares_cost(query) and (currency == of or (not of and query.price_currency is None)):
        return ()
    if currency == of or (not of and query.price_currency is None):  # `of` is empty for what is free
        return price, id_
    if query.price_currency is None:  # what is free is first, in any currency; then each currency by itself
        return (decimal_key(Decimal(0)), _LAST) if currency > of else () if reverse else None
    if compares_per_day(query) or compares_cost(query):
        return ()
    least, most = (None, amount_of_key(price)) if reverse else (amount_of_key(price), None)
    bounds = amount_bounds(least, most, query.rates[currency])
    limit = None if bounds is None else bounds[1 if reverse else 0]
    return None if limit is None else (decimal_key(limit), _LAST if reverse else "")


_FOR_A_TIME: Json = {"exists": {"field": "offers.day"}}
_PER_CALL: Json = {"term": {"offers.interval": PER_CALL}}
"""The offers whose price is for a time, and for a call."""


def _none(part: Json) -> Json:
    return {"bool": {"must_not": [part]}}


def _tiered(query_body: Json, all_words: Json | None, most_words: Json) -> Json:
    """A query for the same documents, scored 2 if they contain all words, 1 with two thirds of them, else 0."""
    held = (most_words, all_words) if all_words else ({"match_all": {}}, {"match_all": {}})
    should = [{"constant_score": {"filter": part, "boost": 1.0}} for part in held]
    return {"bool": {"filter": [query_body], "should": should}}


def _direction(query: Query) -> str:
    return "desc" if is_reversed(query) else "asc"


def _sort(sort: str, query: Query) -> list[Json]:
    score: Json = {"_score": "desc"}
    if sort in ("relevance", *PRICE_SORTS):
        return [score, {"id": "asc"}]
    forward, backward = ("asc", "desc") if is_reversed(query) else ("desc", "asc")
    if sort == "name":
        return [score, {"name_order": backward}]
    return [score, {order_field(query): forward}, {"id": backward}]


def _row(hit: Json, sort: str) -> EngineHit:
    """A result; its key ascends in the natural order of the sort, and ends in the id."""
    record, (score, *values) = record_of(hit), hit["sort"]
    if sort == "relevance":
        return EngineHit((1, -score, record.id), score, record)
    tier = TIERS - 1 - round(score)
    return EngineHit((tier, *values) if sort == "name" else (tier, -values[0], record.id), 0.0, record)


def _facets(query: Query) -> Json:
    size = min(MAX_COUNTED, _MOST_BUCKETS // max(1, len(query.facets)))
    return {
        name: {"terms": {"field": FACET_FIELDS[name], "size": size, "shard_size": _SHARD_VALUES}}
        for name in query.facets
    }


def _counts(aggregation: Json) -> dict[str, int]:
    return {bucket["key"]: bucket["doc_count"] for bucket in aggregation["buckets"]}
