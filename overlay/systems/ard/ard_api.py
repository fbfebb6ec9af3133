"""Agentic Resource Discovery (ARD v0.9): `POST /search`, `POST /explore`, `GET /agents` and the AI catalog of this
host. Every listing is a catalog entry; there are no other registries to refer to."""

from __future__ import annotations

from functools import partial
from typing import Any

from aiohttp import web

from overlay.api import values
from overlay.api.answers import SERVICES, body, conditional, json_answer
from overlay.api.base_url import base_url, url_note
from overlay.api.parameters import parameter, read_query, table
from overlay.api.problems import BadRequestError, Fault, NotFoundError, ProblemError
from overlay.api.protocol_requests import FoundPage, find, get
from overlay.api.request_bodies import read
from overlay.api.routes import Route
from overlay.api.systems import SystemApi
from overlay.search.facts import MOST_VALUES
from overlay.systems.ard.ard_requests import (
    FACETS,
    ArdExplore,
    ArdSearch,
    Constraints,
    FacetRequest,
    constraints,
    expression,
    order,
    page,
)
from overlay.systems.ard.catalog_entries import MEDIA_TYPES, entry, identifier, listing_id, manifest, publisher
from overlay.text.compact_json import encode

MAX_BODY = 64 * 1024
"""Bytes of a request's body."""

_HALF_SCORE = 2.0
"""The score of a search that becomes 50 of 100: all words in the name of a listing give 2 to 5 (measured on the
sample)."""

_CODES = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND", 429: "RATE_LIMIT_EXCEEDED"}


_LIST = table(
    parameter(
        "filter", "Clauses such as `type = 'application/mcp-server-card+json'`, joined by AND.", may_be_empty=True
    ),
    parameter(
        "orderBy", "displayName, updatedAt or createdAt, with ASC or DESC; default: createdAt.", may_be_empty=True
    ),
    parameter(
        "pageSize", "Entries a page: 20, at most 100.", values.whole, type="integer", minimum=1, may_be_empty=True
    ),
    parameter("pageToken", "The `pageToken` of the page before.", may_be_empty=True),
)


async def search(request: web.Request) -> web.Response:
    """Entries that match words and a filter, the most relevant first, each with a score from 0 to 100."""
    question = read(ArdSearch, await body(request, MAX_BODY))
    base = base_url(request)
    narrowed = _constraints(request, question.query.filter)
    paging = page(question.pageSize, question.pageToken)
    hits_page = await _find(request, narrowed, [("q", question.query.text), *paging])
    results = [
        _entry(request, item) | {"score": _score(item["score"]), "source": base}
        for item in (hits_page.items if hits_page else ())
    ]
    answer: dict[str, Any] = {"results": results}
    if question.federation == "referrals":
        answer["referrals"] = []
    return json_answer(answer | _token(hits_page))


async def explore(request: web.Request) -> web.Response:
    """Counts of the values of fields, over all entries that match."""
    question = read(ArdExplore, await body(request, MAX_BODY))
    facets = question.resultType.facets
    _check_facets(facets, question.query.filter)
    narrowed = _constraints(request, question.query.filter)
    names = dict.fromkeys(FACETS[facet.field] for facet in facets if facet.field in FACETS)
    pairs = [("q", question.query.text), ("limit", "1"), *(("facets", name) for name in names)]
    hits_page = await _find(request, narrowed, pairs)
    counts = {facet.field: _buckets(request, facet, hits_page, narrowed) for facet in facets}
    return json_answer({"resultType": "facets", "facets": counts})


async def agents(request: web.Request) -> web.Response:
    """All entries that a filter expression selects, in a fixed order."""
    arguments = read_query(request, _LIST)
    chains = request.app[SERVICES].chains()
    narrowed = expression(arguments.get("filter", ""), publisher(base_url(request)), chains)
    paging = page(arguments.get("pageSize", 20), arguments.get("pageToken"))
    hits_page = await _find(request, narrowed, [("sort", order(arguments.get("orderBy", ""))), *paging])
    answer = {"items": [_entry(request, item) for item in (hits_page.items if hits_page else ())]}
    return conditional(encode(answer | {"total": hits_page.total if hits_page else 0} | _token(hits_page)))


async def agent(request: web.Request) -> web.Response:
    """One entry, by its URN or by its listing id."""
    id_ = listing_id(request.match_info["id"])
    item = await get(request, id_)
    if "servers" in item:
        base = base_url(request)
        names = ", ".join(identifier(base, server) for server in item["servers"])
        raise NotFoundError(f"{id_} is a config of several servers, each of which is an entry: {names}")
    return conditional(encode(_entry(request, item)))


async def catalog(request: web.Request) -> web.Response:
    """The manifest of this host, which names its registry."""
    return conditional(manifest(base_url(request), url_note(request)))


def _entry(request: web.Request, item: dict[str, Any]) -> dict[str, Any]:
    return entry(base_url(request), item, url_note(request))


def _constraints(request: web.Request, filters: dict[str, str | list[str]]) -> Constraints:
    return constraints(filters, publisher(base_url(request)), request.app[SERVICES].chains(), "query.filter")


async def _find(request: web.Request, narrowed: Constraints, pairs: list[tuple[str, str]]) -> FoundPage | None:
    """The listings, None where no entry can satisfy the filter."""
    return await find(request, [*narrowed.pairs, *pairs]) if narrowed.satisfiable else None


def _token(hits_page: FoundPage | None) -> dict[str, str]:
    return {"pageToken": hits_page.next_cursor} if hits_page and hits_page.next_cursor else {}


def _score(score: float) -> int:
    """A score from 0 to 100, in the same order on every page."""
    return round(100 * max(score, 0.0) / (max(score, 0.0) + _HALF_SCORE))


def _check_facets(facets: list[FacetRequest], filters: dict[str, str | list[str]]) -> None:
    """Raises BadRequestError for a field that cannot be counted, or not within the values that it is filtered by."""
    faults = []
    for number, facet in enumerate(facets):
        pointer = f"/resultType/facets/{number}"
        if facet.field not in (*FACETS, "publisher"):
            detail = f"{values.shown(facet.field)} cannot be counted; supported are {', '.join(FACETS)}, publisher"
            faults.append(Fault("unsupported-facet", detail, pointer=f"{pointer}/field"))
        elif facet.field in filters and facet.field not in ("type", "publisher"):
            detail = f"{facet.field} cannot be counted where it is also filtered by"
            faults.append(Fault("unsupported-facet", detail, pointer=f"{pointer}/field"))
        if facet.limit < 1 or facet.minCount < 0:
            faults.append(Fault("too-small", "limit is below 1, or minCount below 0", pointer=pointer))
    if faults:
        raise BadRequestError(faults)


def _buckets(
    request: web.Request, facet: FacetRequest, hits_page: FoundPage | None, narrowed: Constraints
) -> dict[str, Any]:
    """The counts of a field's values. `otherCount` is left out where not all values were counted."""
    if hits_page is None:
        return {"buckets": []}
    if facet.field == "publisher":
        counted: list[tuple[str, int]] = [(publisher(base_url(request)), hits_page.total)] if hits_page.total else []
    else:
        counted = list((hits_page.hits.facets or {}).get(FACETS[facet.field], ()))
    if facet.field == "type":
        kinds = [value for name, value in narrowed.pairs if name == "type"] or list(MEDIA_TYPES)
        counted = [(MEDIA_TYPES[kind], count) for kind, count in counted if kind in kinds]
    elif facet.field == "metadata.chain":
        chains = request.app[SERVICES].chains()
        counted = [(chains.get(name, name), count) for name, count in counted]
    enough = [(value, count) for value, count in counted if count >= facet.minCount]
    answer: dict[str, Any] = {"buckets": [{"value": value, "count": count} for value, count in enough[: facet.limit]]}
    if len(counted) < MOST_VALUES:
        answer["otherCount"] = sum(count for _, count in enough[facet.limit :])
    return answer


def error_response(_request: web.Request, problem: ProblemError, _request_id: str) -> web.Response:
    """ARD's error (App. B): `errorCode` and `message`."""
    code = _CODES.get(problem.status, "INVALID_ARGUMENT" if problem.status < 500 else "INTERNAL_ERROR")
    return json_answer({"errorCode": code, "message": problem.detail}, status=problem.status)


_OBJECT = {"type": "object"}
_TEXT = {"type": "string"}
_ENTRIES = {"type": "array", "items": {"$ref": "#/components/schemas/CatalogEntry"}}
SCHEMAS: dict[str, Any] = {
    "CatalogEntry": {
        **_OBJECT,
        "description": "A listing as `catalogEntry` of ai-catalog.schema.json.",
        "required": ["identifier", "displayName", "type", "url", "metadata", "trustManifest"],
        "properties": {"identifier": _TEXT, "displayName": _TEXT, "type": _TEXT, "url": _TEXT, "metadata": _OBJECT},
    },
    "ArdResults": {**_OBJECT, "required": ["results"], "properties": {"results": _ENTRIES, "pageToken": _TEXT}},
    "ArdFacets": {**_OBJECT, "required": ["resultType", "facets"], "properties": {"facets": _OBJECT}},
    "ArdEntries": {
        **_OBJECT,
        "required": ["items", "total"],
        "properties": {"items": _ENTRIES, "total": {"type": "integer"}, "pageToken": _TEXT},
    },
    "AiCatalog": {**_OBJECT, "required": ["specVersion", "entries"]},
    "ArdSearch": ArdSearch.model_json_schema(ref_template="#/components/schemas/ArdSearch/$defs/{model}"),
    "ArdExplore": ArdExplore.model_json_schema(ref_template="#/components/schemas/ArdExplore/$defs/{model}"),
}


_route = partial(Route, tag="ARD", error_response=error_response)
API = SystemApi(
    routes=(
        _route("/search", search, "ArdResults", method="POST", body="ArdSearch"),
        _route("/explore", explore, "ArdFacets", method="POST", body="ArdExplore"),
        _route("/agents", agents, "ArdEntries", parameters=_LIST, conditional=True),
        _route("/agents/{id}", agent, "CatalogEntry", errors=(404, 451), conditional=True),
        _route("/.well-known/ai-catalog.json", catalog, "AiCatalog", conditional=True),
    ),
    schemas=SCHEMAS,
)
