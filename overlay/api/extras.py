"""What an answer tells beside the items: where they say what was asked for and why they come so, when that is asked;
and, when there are none, what emptied the answer and what may have been meant."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from overlay.api.page import explained as query_explained
from overlay.api.problems import ProblemError
from overlay.compact import encode
from overlay.search import query_syntax, zero_results
from overlay.search.explaining import explained, understood
from overlay.search.highlighting import at, highlights, in_utf16
from overlay.search.planner import QueryPlan

if TYPE_CHECKING:
    from overlay.api.asked import Asked
    from overlay.index import SearchIndex
    from overlay.query import Hit, Hits, Query

UNMADE = "the search index is being made, so nothing can be found yet; the status tells how far it is"
AGAIN = {"Retry-After": "5"}
_FEW_FILTERS = 4


def wanted(asked: Asked, hits: Hits) -> bool:
    """Whether there is anything to tell; a plain search that finds something costs no more than this."""
    return asked.highlight or asked.explain or not hits.total


def is_quick(asked: Asked) -> bool:
    """Whether `extras` takes no longer than a search does: where no words were asked for and few filters found nothing,
    which is counted in a quarter of a millisecond at 100,000 offers; a thread would take as long to be given it."""
    query = asked.query
    plain = not (asked.highlight or asked.explain or query.text or query.operators)
    return plain and len(zero_results.narrowing(query)) <= _FEW_FILTERS


def extras(engine: SearchIndex, asked: Asked, hits: Hits) -> tuple[Hits, Mapping[str, Any]]:
    """The hits, their items with `highlights` and `explain`, and members of the page. Takes a few milliseconds for each
    twenty items, or for the questions to the engine that help needs (30 at most); may be called in any thread.

    Raises ProblemError (503) where nothing was found because there is no index yet: that says nothing of the registry.
    """
    if not hits.total and engine.cursor() is None:
        raise ProblemError(503, UNMADE, headers=AGAIN)
    more: dict[str, Any] = {} if hits.total else helped(engine, asked)
    if asked.highlight or asked.explain:
        if asked.explain:
            more["explain"] = query_explained(asked) | {"words": understood(hits.plan)}
        hits = replace(hits, hits=tuple(_told(hit, asked, hits.plan) for hit in hits.hits))
    return hits, more


def _told(hit: Hit, asked: Asked, plan: QueryPlan) -> Hit:
    added: dict[str, Any] = {}
    if asked.highlight:
        added["highlights"] = highlighted(json.loads(hit.item), plan)
    if asked.explain:
        added["explain"] = explained(plan, hit)
    return hit._replace(item=hit.item[:-1] + b"," + encode(added)[1:])


def highlighted(item: Mapping[str, Any], plan: QueryPlan) -> list[dict[str, Any]]:
    """CONTRACT's highlights: texts of an item by RFC 6901 pointers, with ranges in UTF-16 code units."""
    found = highlights(item, plan)
    return [{"pointer": each.pointer, "ranges": in_utf16(at(item, each.pointer), each.ranges)} for each in found]


def helped(engine: SearchIndex, asked: Asked) -> dict[str, Any]:
    """For a question that found nothing: `emptiedBy`, the filters without which there is something, and `didYouMean`,
    other texts that find something; neither when there is none."""
    query, words = asked.query, query_syntax.read(asked.text)

    def count(other: Query) -> int:
        return engine.search(other).total

    respelt = zero_results.respelt(query.text, engine.terms())
    emptied = [
        {"parameters": list(each.parameters), "total": each.total} for each in zero_results.emptied_by(query, count)
    ]
    meant = [each._asdict() for each in zero_results.proposals(query, words, respelt, count)]
    return {name: told for name, told in (("emptiedBy", emptied), ("didYouMean", meant)) if told}
