"""Searches and look-ups as foreign protocols request them: parameters as pairs in, records as JSON values out. Limits,
executors and errors are those of the API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from aiohttp import web

from overlay.api import search_answer
from overlay.api.answers import SERVICES
from overlay.api.executors import READ_EXECUTOR, RECORDS, run_in
from overlay.api.problems import bad_request
from overlay.api.search_api import check_index, count, find_hits, index_position, read_search, with_extras
from overlay.api.search_request import SearchRequest
from overlay.api.search_statistics import counted
from overlay.api.services import AppServices
from overlay.api.values import json_texts, shown
from overlay.duplicates.duplicate_status import listing_with_duplicates
from overlay.engines import IndexPosition
from overlay.listings import lookup
from overlay.listings.recent_changes import aged
from overlay.search.query import Hits
from overlay.search.sorting import price_comparison


@dataclass(frozen=True)
class FoundPage:
    """A page of a search. `total` is exact unless `at_least`; `next_cursor` is that of the API, None at the end;
    `state` is the change that the index has read up to."""

    total: int
    at_least: bool
    next_cursor: str | None
    state: IndexPosition | None
    search: SearchRequest
    hits: Hits

    @cached_property
    def items(self) -> list[dict[str, Any]]:
        """The items of the schema `Item`, without `highlights`."""
        return [] if self.search.beyond else search_answer.items(self.hits.hits, self.search.query.rates)

    @property
    def note_members(self) -> dict[str, Any]:
        """`corrected`, `unappliedFilters` and `notes`, as far as there are any."""
        return self.search.note_members(self.hits)

    @property
    def comparison(self) -> dict[str, str]:
        """The member `priceComparison`, where prices are compared."""
        comparison = price_comparison(self.search.query)
        return {"priceComparison": comparison} if comparison else {}


async def find(
    request: web.Request,
    pairs: Iterable[tuple[str, str]],
    *,
    with_duplicates: bool = False,
    facts: tuple[tuple[str, ...], ...] = (),
    is_polled: bool = False,
) -> FoundPage:
    """Search with the parameters of `GET /v1/search`. `with_duplicates`: also the listings that a search groups under
    others with the same text. `facts`: filters that have no parameter; of each group a listing has one. `is_polled`: a
    program looks for news, and it does not count as a search. Raises ProblemError as `/v1/search` does: BadRequestError
    with its faults by parameter, 429, 503."""
    services = request.app[SERVICES]
    index = await index_position(services)
    search_request = await read_search(request, pairs, services.heights(), index)
    if with_duplicates or facts:
        query = search_request.query._replace(with_duplicates=with_duplicates, more_facts=facts)
        search_request = search_request._replace(query=query)
    hits = await find_hits(request, search_request)
    await check_index(request, hits, index)
    if not is_polled:
        count(request, counted(search_request, hits))
    following = None if search_request.beyond else search_answer.next_cursor(search_request, hits, index)
    return FoundPage(hits.total, hits.at_least, following, index, search_request, hits)


async def alternatives(request: web.Request, page: FoundPage) -> Mapping[str, Any]:
    """`emptiedBy` and `didYouMean` of a page without results, or of a weak one."""
    if not search_answer.needs_extras(page.search, page.hits):
        return {}
    _, members = await with_extras(request, page.search, page.hits)
    return members


def cursor_after(page: FoundPage, count: int) -> str | None:
    """The cursor of a page that ends after `count` of the hits of this one."""
    search = page.search._replace(query=page.search.query._replace(limit=count))
    return search_answer.next_cursor(search, replace(page.hits, hits=page.hits.hits[:count]), page.state)


def json_pairs(members: Mapping[str, Any], where: str) -> list[tuple[str, str]]:
    """The members of a JSON object, which is at the JSON Pointer `where`, as parameters of a search. Raises
    BadRequestError for any other value than a text, number, boolean, null, or a list of these."""
    for name, value in members.items():
        if any(isinstance(single, dict | list) for single in (value if isinstance(value, list) else [value])):
            detail = f"{shown(name)} is a text, a number, or a list"
            raise bad_request("wrong-type", detail, pointer=f"{where}/{name[:100]}")
    return [(name, text) for name, value in members.items() for text in json_texts(value)]


async def get(request: web.Request, id_: str) -> dict[str, Any]:
    """The item of a listing (schema `Item`), or the ids of a registration's servers. Raises ListingNotFoundError."""
    return await request.app[READ_EXECUTOR].read(read_item, request.app[SERVICES], id_)


def read_item(services: AppServices, id_: str) -> dict[str, Any]:
    """The item of a listing with its duplicates, read in this thread."""
    item = listing_with_duplicates(services.store, services.engine.get, id_)
    return aged(item, services.heights(), services.site.change_blocks)


async def history(request: web.Request, id_: str) -> dict[str, Any]:
    """The history of a registration. Raises ListingNotFoundError."""
    return await run_in(request, RECORDS, lookup.history, request.app[SERVICES].store, id_)
