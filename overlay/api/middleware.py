"""What every answer gets, in one pass: a request id, CORS, one error shape, gzip."""

from __future__ import annotations

import logging
import re
from asyncio import to_thread
from http import HTTPStatus
from random import getrandbits
from time import perf_counter

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from isal import igzip

from indexer.settings import masked
from indexer.store import StoreUnavailableError
from overlay.api.answers import EDGE, problem_answer, unless_any
from overlay.api.dress import dress
from overlay.api.edge import Edge
from overlay.api.limits import Taken
from overlay.api.problems import ProblemError
from overlay.api.stream_api import EventStream
from overlay.engines import UnavailableError
from overlay.logs import REQUEST

log = logging.getLogger("overlay.http")

WORTH_COMPRESSING = 1_400  # bytes: what fits into one packet gains nothing
COMPRESS_IN_THREAD = 256 * 1024
GZIP_LEVEL = 1  # 59 kB of items to 15 kB in 0.07 ms; zlib's level 1 takes 0.40 ms for the same size
SLOW_SECONDS = 1.0
"""An answer that takes longer is worth a line in the log."""

_LONGEST_TARGET = 1_000
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_GZIP_REFUSED = re.compile(r"(?:gzip|\*)\s*;\s*q=0(?:\.0*)?\s*(?:,|$)")
_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, HEAD, POST, OPTIONS",
    "Access-Control-Allow-Headers": "Content-Type, Authorization, If-None-Match, X-Request-Id, Last-Event-ID, "
    "Mcp-Session-Id, MCP-Protocol-Version, A2A-Version, A2A-Extensions",
    "Access-Control-Max-Age": "86400",
    "Allow": "GET, HEAD, POST, OPTIONS",
}


@web.middleware
async def edge(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The one middleware: aiohttp charges for each."""
    known = request.app[EDGE]
    known.under_way[id(request)] = request
    try:
        return await _edge(known, request, handler)
    finally:
        del known.under_way[id(request)]


async def _edge(known: Edge, request: web.Request, handler: Handler) -> web.StreamResponse:
    began = perf_counter()
    routed = known.routed(request)
    request_id = _request_id(request)
    REQUEST.set(request_id)
    taken = None
    if request.method == hdrs.METH_OPTIONS:
        response: web.StreamResponse = web.Response(status=204, headers=_PREFLIGHT)
    else:
        taken = known.take(request, routed)
        if taken is not None and taken.wait:
            response = _refused(request, taken, request_id)
        else:
            response = await _answer(request, handler, request_id)
    dress(response.headers, request_id, taken)
    if isinstance(response, EventStream):
        await response.send(request)
    elif isinstance(response, web.Response):
        await _compress(request, response)
    if known.draining:
        response.force_close()
    took = perf_counter() - began
    if routed.timed:
        known.counters.observe(routed.number, response.status, took)
    if known.log_requests or (took >= SLOW_SECONDS and routed.timed):
        _tell(known, request, response.status, took)
    return response


def _tell(known: Edge, request: web.Request, status: int, took: float) -> None:
    """A line about a request: a warning when it was slow."""
    target = masked(ascii(request.raw_path[:_LONGEST_TARGET])[1:-1])
    told = {"method": request.method, "target": target, "status": status, "ms": round(1000 * took, 3)}
    told["client"] = known.clients.of(request)
    level = logging.WARNING if took >= SLOW_SECONDS else logging.INFO
    words = "%s %s answered with %d after %.1f ms", ascii(request.method[:20])[1:-1], target, status, 1000 * took
    log.log(level, *words, extra={"told": told})


def _refused(request: web.Request, taken: Taken, request_id: str) -> web.Response:
    detail = f"too many requests from your address; try again in {taken.wait:,} s"
    return _told(request, ProblemError(429, detail), request_id)


def _told(request: web.Request, problem: ProblemError, request_id: str) -> web.Response:
    answer = request.app[EDGE].page(request, problem, request_id) or problem_answer(problem, request_id)
    if answer.headers.get(hdrs.CONNECTION) == "close":
        answer.force_close()
    return answer


async def _answer(request: web.Request, handler: Handler, request_id: str) -> web.StreamResponse:
    try:
        return unless_any(request, await handler(request))
    except ProblemError as error:
        problem = error
    except web.HTTPException as error:
        problem = _from_aiohttp(request, error)
    except ConnectionResetError:
        problem = ProblemError(400, "the connection broke off before the request was whole")
    except (StoreUnavailableError, UnavailableError) as error:
        log.warning("request %s cannot be answered for now: %s", request_id, error)
        sentence = "the database does not answer for now; try again in a moment"
        problem = ProblemError(503, sentence, headers={"Retry-After": "1"})
    except Exception:
        log.exception("request %s, %s %s, failed", request_id, request.method, ascii(request.path[:200]))
        sentence = "the server made a mistake; the operator finds the reason in the log under this request id"
        problem = ProblemError(500, sentence)
    return _told(request, problem, request_id)


def _from_aiohttp(request: web.Request, error: web.HTTPException) -> ProblemError:
    """What aiohttp refuses by itself: unknown paths, wrong methods, malformed bodies."""
    path = ascii(request.path[:200])
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted({*error.allowed_methods, "OPTIONS"}))
        return ProblemError(405, f"{path} does not take {request.method}, only {allowed}", headers={"Allow": allowed})
    if error.status == HTTPStatus.NOT_FOUND:
        return ProblemError(404, f"there is nothing at {path}; /docs lists what there is")
    return ProblemError(error.status, (error.reason or "the request was refused").lower())


def _request_id(request: web.Request) -> str:
    """The client's own id when it is harmless, else a new one of 64 random bits."""
    given = request.headers.get("X-Request-Id")
    return given if given and _REQUEST_ID.fullmatch(given) else f"{getrandbits(64):016x}"


async def _compress(request: web.Request, response: web.Response) -> None:
    """Gzip a text that is large enough, when the client takes it and the handler did not forbid it (no-transform)."""
    accepted = request.headers.get(hdrs.ACCEPT_ENCODING)
    body = response.body
    if accepted is None or not isinstance(body, bytes | memoryview) or len(body) < WORTH_COMPRESSING:
        return
    accepted = accepted.lower()
    if ("gzip" not in accepted and "*" not in accepted) or _GZIP_REFUSED.search(accepted):
        return
    if hdrs.CONTENT_ENCODING in response.headers or "no-transform" in response.headers.get("Cache-Control", ""):
        return
    response.body = gzip(body) if len(body) < COMPRESS_IN_THREAD else await to_thread(gzip, body)
    response.headers[hdrs.CONTENT_ENCODING] = "gzip"


def gzip(body: bytes | memoryview) -> bytes:
    """A gzip stream (RFC 1952)."""
    packed: bytes = igzip.compress(body, GZIP_LEVEL)
    return packed
