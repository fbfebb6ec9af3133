"""The middleware: request id, rate limit, CORS, one error shape, gzip, counters and log lines, in one pass."""

from __future__ import annotations

import logging
import re
from functools import partial
from http import HTTPStatus
from random import getrandbits
from time import perf_counter

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from indexer.masking import masked
from indexer.store import DamagedDatabaseError, StoreError, StoreUnavailableError, WriteRefusedError
from overlay.api.access_log import BARE
from overlay.api.answers import NO_HEADERS, Answer, add_common_headers, problem_answer, unless_current
from overlay.api.base_url import add_vary, base_url
from overlay.api.changes_api import EventStream
from overlay.api.compression import WORTH_COMPRESSING, accepts_gzip, compressed
from overlay.api.problems import ProblemError, listing_problem
from overlay.api.rate_limits import LimitResult
from overlay.api.request_context import CONTEXT, RequestContext, Requirements
from overlay.api.request_cost import COST, measured
from overlay.api.request_id import REQUEST_ID
from overlay.api.site_links import SITE
from overlay.engines import EngineError, NotReadyError, UnavailableError
from overlay.listings.lookup import ListingNotFoundError

log = logging.getLogger("overlay.http")

SLOW_SECONDS = 1.0
"""An answer that takes longer is worth a line in the log."""

_WITHOUT_DATABASE = ("/healthz", "/metrics", "/static/")
"""Paths that are answered while the database is damaged."""

_LONGEST_TARGET = 1_000
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_CROSS_ORIGIN = {
    "Access-Control-Allow-Headers": "Authorization, Content-Type, If-None-Match, X-Request-Id, Last-Event-ID, "
    "Mcp-Session-Id, Mcp-Method, Mcp-Name, MCP-Protocol-Version, A2A-Version, A2A-Extensions, A2B-Client, A2B-Payment, "
    "Idempotency-Key, X-DCT-Proof, X-Topics, X-Aggregation, X-BSV-Topic, X-Includes-Off-Chain-Values, *",
    "Access-Control-Max-Age": "86400",
}
"""Headers of preflight responses; `*` is every other header, as no request has credentials."""


@web.middleware
async def handle_request(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The only middleware, as aiohttp has a cost for each."""
    context = request.app[CONTEXT]
    context.under_way[id(request)] = request
    try:
        return await _respond(context, request, handler)
    finally:
        del context.under_way[id(request)]


async def _respond(context: RequestContext, request: web.Request, handler: Handler) -> web.StreamResponse:
    began = perf_counter()
    routed = context.routed(request)
    request_id = _request_id(request)
    REQUEST_ID.set(request_id)
    taken = cost = None
    COST.set(None)
    SITE.set(context.links)
    if request.method == hdrs.METH_OPTIONS:
        response: web.StreamResponse = await _options(request, handler, request_id)
    else:
        taken = context.take(request, routed)
        if taken is not None and taken.wait:
            response = await _answer(request, partial(_paid_or_refused, handler, taken, request_id), request_id)
            taken = taken if response.status == HTTPStatus.TOO_MANY_REQUESTS else None
        else:
            cost, answering = context.cost(request, routed), _answer(request, handler, request_id)
            COST.set(cost)
            response = await (answering if cost is None else measured(answering, cost))
    limit_headers = NO_HEADERS if taken is None else taken.headers if cost is None else cost.headers(taken.headers)
    add_common_headers(response.headers, request_id, limit_headers)
    add_vary(request, response.headers)
    if type(response) is Answer or isinstance(response, web.Response):  # isinstance takes 3 µs, as these have an ABC
        await _compress(request, response)
    elif isinstance(response, EventStream):
        await response.send(request)
    if context.draining:
        response.force_close()
    took = perf_counter() - began
    if (named := context.tokens.client(request)) is not None:
        context.counters.named.add(named.name)
    if routed.timed:
        context.counters.observe(routed.number, response.status, took)
    is_slow = took >= SLOW_SECONDS and routed.timed
    if context.access_log.every or is_slow:
        _log_request(context, request, response, took, is_slow=is_slow)
    return response


async def _options(request: web.Request, handler: Handler, request_id: str) -> web.StreamResponse:
    """The methods of a path. No route has OPTIONS: the router refuses it and names the methods."""
    refused = await _answer(request, handler, request_id)
    methods = refused.headers.get(hdrs.ALLOW)
    if methods is None:
        return refused
    allowed = {hdrs.ALLOW: methods, hdrs.ACCESS_CONTROL_ALLOW_METHODS: methods}
    return web.Response(status=204, headers=_CROSS_ORIGIN | allowed)


def _log_request(
    context: RequestContext, request: web.Request, response: web.StreamResponse, took: float, *, is_slow: bool
) -> None:
    """Log a request, as a warning when it was slow."""
    target = masked(ascii(request.raw_path[:_LONGEST_TARGET])[1:-1])
    named, form = context.tokens.client(request), context.access_log
    address = context.clients.address(request)
    if form.is_combined:
        log.info("%s", form.combined(request, response, target, named.name if named else "-", address), extra=BARE)
    if is_slow or not form.is_combined:
        members = {"method": request.method, "target": target, "status": response.status, "ms": round(1000 * took, 3)}
        members["client"] = named.key if named else form.shown(address)
        level = logging.WARNING if took >= SLOW_SECONDS else logging.INFO
        method = ascii(request.method[:20])[1:-1]
        words = "%s %s answered with %d after %.1f ms", method, target, response.status, 1000 * took
        log.log(level, *words, extra={"members": members})


async def _paid_or_refused(
    handler: Handler, taken: LimitResult, request_id: str, request: web.Request
) -> web.StreamResponse:
    """The response to a request beyond its limit."""
    context, answer = request.app[CONTEXT], partial(_answer, request, handler, request_id)
    client = "your address" if context.tokens.client(request) is None else "this client"
    detail, required = f"too many requests from {client}; try again in {taken.wait:,} s", Requirements({}, {})
    for beyond_limit in context.beyond_limit:
        paid = await beyond_limit(context, request, answer)
        if isinstance(paid, web.Response):
            return paid
        required = paid or required
    detail += ", or pay by one of accepts" if required.members else ""
    problem = ProblemError(429, detail, headers=required.headers, members=required.members)
    return _problem_response(request, problem, request_id)


def _problem_response(request: web.Request, problem: ProblemError, request_id: str) -> web.Response:
    context = request.app[CONTEXT]
    error_response = context.routed(request).error_response
    if error_response is not None:
        answer = error_response(request, problem, request_id)
        answer.headers.update(problem.headers)
    else:
        answer = context.page(request, problem, request_id) or problem_answer(problem, request_id)
    if answer.headers.get(hdrs.CONNECTION) == "close":
        answer.force_close()
    return answer


async def _answer(request: web.Request, handler: Handler, request_id: str) -> web.StreamResponse:
    try:
        if (damage := request.app[CONTEXT].damage()) and not request.path.startswith(_WITHOUT_DATABASE):
            raise DamagedDatabaseError(damage)
        request.app[CONTEXT].tokens.check(request)
        for guard in request.app[CONTEXT].guards:
            await guard(request)
        return unless_current(request, await handler(request))
    except ProblemError as error:
        problem = error
    except ListingNotFoundError as error:
        problem = listing_problem(error, base_url(request))
    except web.HTTPException as error:
        if error.status == HTTPStatus.NOT_FOUND and (moved := await _without_slash(request)) is not None:
            return moved
        problem = _from_aiohttp(request, error)
    except ConnectionResetError:
        problem = ProblemError(400, "the connection broke off before the request was whole")
    except (StoreUnavailableError, WriteRefusedError, EngineError) as error:
        problem = _unavailable(error, request_id)
    except Exception:
        log.exception("request %s, %s %s, failed", request_id, request.method, ascii(request.path[:200]))
        sentence = "the server made a mistake; the operator finds the reason in the log under this request id"
        problem = ProblemError(500, sentence)
    return _problem_response(request, problem, request_id)


async def _without_slash(request: web.Request) -> web.Response | None:
    """A redirect to the path without slashes at its end, where something is there; None for any other request."""
    path, mark, query = request.raw_path.partition("?")
    if request.method not in _READING or not path.endswith("/") or path == "/" or path.startswith("//"):
        return None
    shorter = path.rstrip("/")
    match = await request.app.router.resolve(request.clone(rel_url=request.rel_url.with_path(shorter, encoded=True)))
    moved = {hdrs.LOCATION: f"{shorter}{mark}{query}"}
    return None if match.http_exception else web.Response(status=308, headers=moved)


_READING = (hdrs.METH_GET, hdrs.METH_HEAD)


def _unavailable(error: StoreError | EngineError, request_id: str) -> ProblemError:
    """The problem for a database or an index that does not respond, or that refuses requests until an operator acts."""
    if isinstance(error, WriteRefusedError):
        log.error("request %s cannot be answered: %s", request_id, error)
        sentence = "the database takes no writes for now, so nothing was stored; try again later"
        return ProblemError(503, sentence, headers={"Retry-After": "30"})
    if isinstance(error, DamagedDatabaseError):
        log.error("request %s cannot be answered: the database is damaged", request_id)
        return ProblemError(503, str(error), headers={"Retry-After": "600"})
    if isinstance(error, NotReadyError):
        return ProblemError(503, str(error), headers={"Retry-After": "5"})
    if isinstance(error, StoreUnavailableError | UnavailableError):
        log.warning("request %s cannot be answered for now: %s", request_id, error)
        missing = "database" if isinstance(error, StoreUnavailableError) else "search index"
        return ProblemError(503, f"the {missing} does not respond; try again in a moment", headers={"Retry-After": "1"})
    log.error("request %s cannot be answered: %s", request_id, error)
    sentence = "the search index cannot be used; the operator finds the reason in the log under this request id"
    return ProblemError(503, sentence, headers={"Retry-After": "30"})


def _from_aiohttp(request: web.Request, error: web.HTTPException) -> ProblemError:
    """The problem for what aiohttp refuses: unknown paths, wrong methods, malformed bodies."""
    path = ascii(request.path[:200])
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted({*error.allowed_methods, "OPTIONS"}))
        return ProblemError(405, f"{path} does not take {request.method}, only {allowed}", headers={"Allow": allowed})
    if error.status == HTTPStatus.NOT_FOUND:
        return ProblemError(404, f"there is nothing at {path}; /docs lists what there is")
    return ProblemError(error.status, (error.reason or "the request was refused").lower())


def _request_id(request: web.Request) -> str:
    """The client's own request id where it is well-formed, else a new one of 64 random bits."""
    client_id = request.headers.get("X-Request-Id")
    return client_id if client_id and _REQUEST_ID.fullmatch(client_id) else f"{getrandbits(64):016x}"


async def _compress(request: web.Request, response: web.Response) -> None:
    """Gzip a body that is large enough, where the client accepts it and the handler allows it (no `no-transform`). A
    strong entity tag becomes weak, because it belongs to other bytes (RFC 9110 §8.8.1)."""
    body = response.body
    if not isinstance(body, bytes | memoryview) or len(body) < WORTH_COMPRESSING or not accepts_gzip(request):
        return
    if hdrs.CONTENT_ENCODING in response.headers or "no-transform" in response.headers.get("Cache-Control", ""):
        return
    response.body = await compressed(body)
    response.headers[hdrs.CONTENT_ENCODING] = "gzip"
    if response.headers.get(hdrs.ETAG, "").startswith('"'):
        response.headers[hdrs.ETAG] = "W/" + response.headers[hdrs.ETAG]
