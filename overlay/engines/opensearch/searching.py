"""A query and its plan in, matches out: in the order of scores, or sorted, to any depth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any

from overlay.engines import NO_MATCHES, Matches, Row
from overlay.engines.opensearch import translation
from overlay.engines.opensearch.mapping import record_of
from overlay.engines.opensearch.translation import Json, anchored, nested
from overlay.query import Query
from overlay.search.facts import FACET_FIELDS, MAX_TRIED
from overlay.search.planner import QueryPlan
from overlay.search.prices import asks_price, cheapest, price_key
from overlay.search.sorting import is_reversed, order

if TYPE_CHECKING:
    from overlay.engines.opensearch.cluster import Cluster
    from overlay.engines.opensearch.state import State
    from overlay.search.records import Record

Key = tuple[Any, ...]

WINDOW = 10_000
"""Results that a server reads from the first one on at once, its `index.max_result_window`."""
_SHARD_VALUES = 20_000
_FIRST_STEP, _MOST_STEP = 64, 1_000
_FIELDS = {"updated": "newest", "latest": "newest", "created": "made", "name": "name_order"}


@dataclass(slots=True)
class Searcher:
    """Searches one index as of a state."""

    cluster: Cluster
    index: str
    state: State

    def search(self, query: Query, plan: QueryPlan, start: int, stop: int) -> Matches:
        """Find what is asked for and read the results from place `start` to `stop`."""
        if plan.finds_nothing:
            return NO_MATCHES
        filters = [*self.state.visible(), *translation.filters(query, self._in_use(query))]
        found, all_words = self._found(plan, filters)
        body: Json = {"query": found, "track_total_hits": True, "aggs": _facets(query)}
        if all_words is not None:
            body["aggs"]["matched"] = {"filter": all_words}
        tiers = [found] if all_words is None else [_every(found, all_words), _every(found, _none(all_words))]
        sort = order(query)
        is_price = sort == "price"
        if not is_price and sort != "relevance":
            body["query"] = _tiered(found, all_words)
        body |= {"sort": _sort(sort, query), "from": start, "size": max(0, stop - start)}
        if is_price or stop <= start or stop > WINDOW:
            body |= {"from": 0, "size": 0}
        result = self._search(body)
        total, aggregations = result["hits"]["total"]["value"], result.get("aggregations", {})
        rows = [_row(hit, sort) for hit in result["hits"]["hits"]]
        if is_price:
            rows = list(islice(self._by_price(query, tiers), start, max(start, stop)))
        elif stop > max(start, WINDOW):
            rows = [_row(hit, sort) for hit in self._deep(body, start, stop)]
        matched = total if all_words is None else aggregations["matched"]["doc_count"]
        return Matches(rows, total, matched, {name: _counts(aggregations[name]) for name in query.facets})

    def _found(self, plan: QueryPlan, filters: list[Json]) -> tuple[Json, Json | None]:
        """What is found, scored; and which of it holds all words, where not all of it does."""
        if not plan.groups:
            return _every(*filters), None
        any_word, all_words = translation.words(plan)
        if plan.all_words:
            filters = [*filters, all_words]
        found = {"bool": {"must": any_word, "filter": filters}}
        return found, None if plan.all_words or len(plan.groups) == 1 else all_words

    def _search(self, body: Json) -> Json:
        return self.cluster.search(self.index, {"_source": False, "stored_fields": ["record"]} | body)

    def _deep(self, body: Json, start: int, stop: int) -> Iterator[Json]:
        """Results beyond the window: those before are passed over, each time after the last one."""
        body = body | {"track_total_hits": False, "aggs": {}}
        at = 0
        while at < stop:
            size = min(_MOST_STEP, stop - at) if at >= start else min(WINDOW, start - at)
            fields: Json = {"stored_fields": ["record"]} if at >= start else {"stored_fields": "_none_"}
            hits = self._search(body | fields | {"size": size})["hits"]["hits"]
            if at >= start:
                yield from hits
            if len(hits) < size:
                return
            at += size
            body["search_after"] = hits[-1]["sort"]

    # -- by price

    def _by_price(self, query: Query, tiers: list[Json]) -> Iterator[Row]:
        """Results by currency, amount and id, those without a price in question last, by id, in either direction."""
        for tier, part in enumerate(tiers):
            for key, record in self._priced(query, part):
                yield Row((tier, *key), 0.0, record)
            for hit in self._walk(_every(part, _none(self._has_price(query))), [{"id": _direction(query)}]):
                record = record_of(hit)
                yield Row((tier, 1, record.id), 0.0, record)

    def _has_price(self, query: Query) -> Json:
        """Documents with an offer that is compared."""
        conditions = translation.offer(query, self._in_use(query))
        return nested([*conditions, {"terms": {"offers.currency": self._anchors(query)}}])

    def _priced(self, query: Query, part: Json) -> Iterator[tuple[Key, Record]]:
        """One walk a currency, merged: each listing is of the walk of the currency that its cheapest offer is in."""
        walks = [self._of_currency(query, part, each) for each in self._anchors(query)]
        return merge(*walks, key=lambda pair: pair[0], reverse=is_reversed(query))

    def _of_currency(self, query: Query, part: Json, currency: str) -> Iterator[tuple[Key, Record]]:
        conditions = [*translation.offer(query, self._in_use(query)), anchored(currency)]
        direction = _direction(query)
        chosen = {"path": "offers", "filter": {"bool": {"filter": conditions}}}
        sort: list[Json] = [{"offers.key": {"order": direction, "mode": "min", "nested": chosen}}, {"id": direction}]
        for hit in self._walk(_every(part, nested(conditions)), sort):
            record = record_of(hit)
            offer = cheapest(record.offers, query)
            if offer is not None and offer.currency == currency:
                yield price_key(offer, record.id), record

    def _walk(self, part: Json, sort: Sequence[Json]) -> Iterator[Json]:
        """All results of a part in an order, some at a time."""
        body: Json = {"query": part, "sort": sort, "size": _FIRST_STEP, "track_total_hits": False}
        while hits := self._search(body)["hits"]["hits"]:
            yield from hits
            if len(hits) < body["size"]:
                return
            body |= {"search_after": hits[-1]["sort"], "size": min(4 * body["size"], _MOST_STEP)}

    def _anchors(self, query: Query) -> list[str]:
        """The currencies that offers in question are priced in, in the order of results."""
        used = self._used()
        if query.price_currency is not None:
            used = [each for each in used if each == query.price_currency or each in query.rates]
        return used

    def _in_use(self, query: Query) -> translation.InUse:
        used = frozenset(self._used()) if query.rates and asks_price(query) else frozenset[str]()
        return used.__contains__

    def _used(self) -> list[str]:
        """The currencies that any offers are priced in."""
        values = {"terms": {"field": "offers.currency", "size": _SHARD_VALUES}}
        aggs = {"offers": {"nested": {"path": "offers"}, "aggs": {"currencies": values}}}
        body = {"query": _every(*self.state.visible()), "size": 0, "aggs": aggs}
        return sorted(each["key"] for each in self._search(body)["aggregations"]["offers"]["currencies"]["buckets"])


def _every(*parts: Json) -> Json:
    return {"bool": {"filter": list(parts)}}


def _none(part: Json) -> Json:
    return {"bool": {"must_not": [part]}}


def _tiered(found: Json, all_words: Json | None) -> Json:
    """The same documents, scored 1 where they hold all words, else 0."""
    should = {"constant_score": {"filter": all_words or {"match_all": {}}, "boost": 1.0}}
    return {"bool": {"filter": [found], "should": [should]}}


def _direction(query: Query) -> str:
    return "desc" if is_reversed(query) else "asc"


def _sort(sort: str, query: Query) -> list[Json]:
    score: Json = {"_score": "desc"}
    if sort in ("relevance", "price"):
        return [score, {"id": "asc"}]
    one, other = ("asc", "desc") if is_reversed(query) else ("desc", "asc")
    if sort == "name":
        return [score, {"name_order": other}]
    return [score, {_FIELDS[sort]: one}, {"id": other}]


def _row(hit: Json, sort: str) -> Row:
    """A result; keys ascend in the natural order of a sort, and end in the id."""
    record, (score, *values) = record_of(hit), hit["sort"]
    if sort == "relevance":
        return Row((1, -score, record.id), score, record)
    tier = 0 if score else 1
    return Row((tier, *values) if sort == "name" else (tier, -values[0], record.id), 0.0, record)


def _facets(query: Query) -> Json:
    return {
        name: {"terms": {"field": FACET_FIELDS[name], "size": MAX_TRIED, "shard_size": _SHARD_VALUES}}
        for name in query.facets
    }


def _counts(aggregation: Json) -> dict[str, int]:
    return {each["key"]: each["doc_count"] for each in aggregation["buckets"]}
