"""Routes of search: a page of items, and completions while typing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from aiohttp import hdrs, web
from multidict import CIMultiDict

from overlay.api import executors, search_answer
from overlay.api.answers import (
    JSON_TYPE,
    REVALIDATE,
    SERVICES,
    Answer,
    conditional,
    not_modified,
    unchanged,
    weak_etag,
)
from overlay.api.compression import WORTH_COMPRESSING, accepts_gzip, compressed
from overlay.api.cursors import MOST_SHOWN
from overlay.api.executors import SEARCHES, is_long
from overlay.api.kept_pages import KEPT_PAGES, KeptPage, PageStamp, Question
from overlay.api.parameters import SUGGEST, pairs, read_query
from overlay.api.problems import BadRequestError, ProblemError, bad_request
from overlay.api.request_context import CONTEXT
from overlay.api.request_cost import in_thread
from overlay.api.search_request import ABOVE_THE_TIP, SearchRequest, check_cursor, from_pairs
from overlay.api.search_statistics import CountedSearch, counted
from overlay.api.services import AppServices
from overlay.api.unquoted_currencies import without_idle_note
from overlay.engines import IndexPosition, NotReadyError
from overlay.listings.recent_changes import aged_hits
from overlay.search import query_syntax
from overlay.search.query import Hits, StaleCursorError
from overlay.text.compact_json import encode
from overlay.text.safe_text import one_line

_STALE = (
    f"the index has changed, and by relevance a cursor then leads on through the first {MOST_SHOWN} results only: "
    "search again without the cursor, or in an order that does not change, such as sort=updated"
)

_UNKNOWN = (
    "the cursor is of changes that this database does not hold, as a backup was put back: search again without it"
)


async def search(request: web.Request) -> web.Response:
    """A page of items."""
    app = request.app
    services, kept_pages, engine = app[SERVICES], app[KEPT_PAGES], app[SERVICES].engine
    index = await index_position(services)
    stamp = PageStamp(engine.version, index, services.chains(), services.heights(), services.exchange.stamp())
    question = Question(request.rel_url.raw_query_string, accepts_gzip(request))
    page = kept_pages.get(question, stamp)
    if page is None:
        search_request = await read_search(request, pairs(question.query_string), stamp.heights, index)
        etag = _etag(search_request, question, stamp)
        if unchanged(request, etag):
            return not_modified({hdrs.ETAG: etag, hdrs.CACHE_CONTROL: REVALIDATE})
        page = await _page(request, search_request, stamp, etag, gzip=question.gzip)
        if _is_plain(search_request):
            kept_pages.keep(question, stamp, page)
    count(request, page.search)
    return Answer(body=b"".join(page.body), headers=page.headers)


def _etag(search_request: SearchRequest, question: Question, stamp: PageStamp) -> str:
    """The entity tag of a page: it changes with exchange rates only where prices are converted."""
    rates = stamp.rates if search_request.is_converted else ()
    return weak_etag("json", stamp.position and tuple(stamp.position), stamp.heights, question.query_string, rates)


def _is_plain(search_request: SearchRequest) -> bool:
    """Whether a page may be kept: not one that gives the age of exchange rates, that explains, nor a later page."""
    return not (search_request.is_converted or search_request.explain or search_request.after)


async def _page(
    request: web.Request, search_request: SearchRequest, stamp: PageStamp, etag: str, *, gzip: bool
) -> KeptPage:
    """The page of a search. Raises as `find_hits`, and ProblemError (503) where there is no index yet."""
    hits = await find_hits(request, search_request)
    await check_index(request, hits, stamp.position)
    search = counted(search_request, hits)
    more: Mapping[str, Any] = {}
    if search_answer.needs_extras(search_request, hits):
        hits, more = await with_extras(request, search_request, hits)
    exchange = request.app[SERVICES].exchange
    rates = exchange.table_json(search_request.rates) if search_request.rates else None
    body = search_answer.page(search_request, hits, stamp.position, stamp.heights, rates, more)
    headers = CIMultiDict({hdrs.CONTENT_TYPE: JSON_TYPE, hdrs.ETAG: etag, hdrs.CACHE_CONTROL: REVALIDATE})
    if gzip and sum(map(len, body)) >= WORTH_COMPRESSING:
        headers[hdrs.CONTENT_ENCODING] = "gzip"
        body = [await compressed(b"".join(body))]
    return KeptPage(tuple(body), headers, search)


def count(request: web.Request, search: CountedSearch | None) -> None:
    """Count a search, where searches are counted."""
    statistics = request.app[SERVICES].statistics
    if statistics is not None and search is not None:
        statistics.searched(search, request.app[CONTEXT].clients.of(request))


def count_opened(request: web.Request) -> None:
    """Count a listing that was opened, where searches are counted."""
    if (statistics := request.app[SERVICES].statistics) is not None:
        statistics.opened()


async def with_extras(
    request: web.Request, search_request: SearchRequest, hits: Hits
) -> tuple[Hits, Mapping[str, Any]]:
    """The hits and further members of the page (`extras`), in a thread where that takes long."""
    engine = request.app[SERVICES].engine
    if not (engine.slow or is_long(search_request.query)) and search_answer.is_quick(search_request):
        return search_answer.extras(engine, search_request, hits)
    return await in_thread(search_answer.extras, engine, search_request, hits)


async def index_position(services: AppServices) -> IndexPosition | None:
    """The change that the index has read up to; a slow engine reads it in a thread."""
    engine = services.engine
    return await in_thread(engine.position) if engine.slow else engine.position()


async def has_no_index(request: web.Request, hits: Hits, position: IndexPosition | None) -> bool:
    """Whether nothing is found because there is no index yet, or none any more since its position was read."""
    services = request.app[SERVICES]
    if hits.total:
        return False
    positions = {position, await index_position(services)}
    return any(search_answer.has_no_index(hits, read_to, services.process.unread) for read_to in positions)


def again(services: AppServices) -> dict[str, str]:
    """The header that says when to repeat a search that cannot be answered yet."""
    return {"Retry-After": str(services.process.wait())}


async def check_index(request: web.Request, hits: Hits, position: IndexPosition | None) -> None:
    """Raise ProblemError (503) then."""
    if await has_no_index(request, hits, position):
        raise ProblemError(503, search_answer.NO_INDEX, headers=again(request.app[SERVICES]))


async def read_search(
    request: web.Request,
    parameters: Iterable[tuple[str, str]],
    heights: Mapping[str, int],
    index: IndexPosition | None,
) -> SearchRequest:
    """The search of these URL parameters at the indexed heights, in an index at this position. Raises BadRequestError,
    and ProblemError (503) where another server, whose index is newer, has shown the cursor or the height."""
    services, parameters = request.app[SERVICES], list(parameters)
    read = partial(from_pairs, parameters, services.chains(), services.exchange, systems=services.site.systems)
    try:
        search_request = read(heights=heights)
    except BadRequestError as refused:
        if not any(fault.code == ABOVE_THE_TIP for fault in refused.faults):
            raise
        _, stored = await in_thread(services.store.newest)
        read(heights={**heights, **stored})
        raise _older_index() from None
    after = search_request.after
    if after is not None and index is not None and after.seq > index.seq:
        newest, _ = await in_thread(services.store.newest)
        raise _older_index() if after.seq <= newest else bad_request("cursor-expired", _UNKNOWN, "cursor")
    return await without_idle_note(search_request, services.engine, index)


def _older_index() -> ProblemError:
    detail = "the index of this server has yet to read changes that another one has shown; try again in a moment"
    return ProblemError(503, detail, headers={"Retry-After": "1"})


async def find_hits(request: web.Request, search_request: SearchRequest) -> Hits:
    """The hits of the engine. Raises ProblemError (429, 503) where the search would take too long, BadRequestError
    where a cursor cannot lead on, or belongs to another search."""
    check_cursor(search_request)
    services, query = request.app[SERVICES], search_request.query
    try:
        if services.engine.slow or is_long(query):
            client = request.app[CONTEXT].clients.of(request)
            hits = await request.app[SEARCHES].run(client, executors.SECONDS, services.engine.search, query)
        else:
            hits = services.engine.search(query)
    except StaleCursorError:
        raise bad_request("cursor-expired", _STALE, "cursor") from None
    except NotReadyError as error:
        raise ProblemError(503, str(error), headers=search_answer.AGAIN) from None
    return aged_hits(hits, services.heights(), services.site.change_blocks)


async def suggest(request: web.Request) -> web.Response:
    """Completions of the text, the best first, with control and bidi characters as escapes.

    A tag with these characters is left out, as its escaped text would find nothing as a filter.
    """
    services = request.app[SERVICES]
    parameters = read_query(request, SUGGEST)
    text, limit = query_syntax.read(parameters.get("q", "")).text, parameters.get("limit", 8)
    if services.engine.slow:
        completions = await in_thread(services.engine.suggest, text, limit)
    else:
        completions = services.engine.suggest(text, limit)
    items = [
        {"text": text, "kind": completion.kind} | ({"id": completion.id} if completion.id else {})
        for completion in completions
        if (text := one_line(completion.text)) == completion.text or completion.kind != "tag"
    ]
    return conditional(encode({"items": items}))
