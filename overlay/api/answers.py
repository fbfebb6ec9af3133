"""Answers: JSON bytes with the right headers, conditional requests, request bodies within a limit."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, cast

from aiohttp import hdrs, web

from overlay.api.problems import TYPE as PROBLEM_TYPE
from overlay.api.problems import ProblemError
from overlay.compact import encode
from overlay.ports import Services, Watched

if TYPE_CHECKING:
    from overlay.api.costs import Costs
    from overlay.api.edge import Edge
    from overlay.api.hub import Hub

COSTS: web.AppKey[Costs] = web.AppKey("costs")
EDGE: web.AppKey[Edge] = web.AppKey("edge")
HUB: web.AppKey[Hub] = web.AppKey("hub")
PATHS: web.AppKey[list[str]] = web.AppKey("paths", list)
SERVICES: web.AppKey[Services] = web.AppKey("services", Services)
WATCHED: web.AppKey[Watched] = web.AppKey("watched", Watched)
OPENAPI: web.AppKey[dict[str, Any]] = web.AppKey("openapi", dict)
JSON_TYPE = "application/json; charset=utf-8"
REVALIDATE = "public, max-age=0, must-revalidate"
BODY_SECONDS = 30.0
"""How long a body may take to arrive."""

_TAGS = re.compile(r'(?:W/)?"[^"]*"')
_KEPT = (hdrs.ETAG, hdrs.CACHE_CONTROL, hdrs.VARY)


class Answer(web.Response):
    """A response that lets go of its body once it is sent: a connection that is kept open remembers its last one."""

    def __init__(self, *, body: bytes | memoryview, status: int = 200, headers: Mapping[str, str]) -> None:
        """The bytes are sent as they lie: aiohttp would make a payload of what is not `bytes`."""
        super().__init__(status=status, headers=headers)
        self._body = cast("bytes", body)

    async def write_eof(self, data: bytes = b"") -> None:
        """Send the body, which is gone then."""
        await super().write_eof(data)
        self.body = None


def json_answer(value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """A JSON answer that caches must not keep, unless `headers` say otherwise."""
    return json_bytes(encode(value), status=status, headers=headers or {"Cache-Control": "no-store"})


def json_bytes(body: bytes | memoryview, *, status: int = 200, headers: Mapping[str, str]) -> web.Response:
    """A JSON answer of bytes already encoded."""
    return Answer(body=body, status=status, headers={hdrs.CONTENT_TYPE: JSON_TYPE, **headers})


def problem_answer(problem: ProblemError, request_id: str) -> web.Response:
    """RFC 9457 problem details."""
    headers = {"Content-Type": PROBLEM_TYPE, "Cache-Control": "no-store", **problem.headers}
    return web.Response(body=encode(problem.as_json(request_id)), status=problem.status, headers=headers)


def weak_etag(*parts: object) -> str:
    """A weak entity tag of everything an answer depends on."""
    digest = blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=12)
    return f'W/"{digest.hexdigest()}"'


def unchanged(request: web.Request, etag: str) -> bool:
    """Whether If-None-Match holds this tag, by weak comparison (RFC 9110 §13.1.2). `*` is no tag: `unless_any`."""
    given = request.headers.get("If-None-Match")
    if given is None:
        return False
    opaque = etag.removeprefix("W/")
    return any(tag.removeprefix("W/") == opaque for tag in _TAGS.findall(given))


def not_modified(headers: Mapping[str, str]) -> web.Response:
    """A 304 with the headers that a 200 would have had."""
    return web.Response(status=304, headers=headers)


def unless_any(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """The response, or a 304 in its place for `If-None-Match: *` where it is a success with an entity tag: whether
    there is a current representation shows only once it is made (RFC 9110 §13.1.2)."""
    if request.headers.get(hdrs.IF_NONE_MATCH, "").strip() != "*":
        return response
    if response.status != 200 or hdrs.ETAG not in response.headers:
        return response
    return not_modified({name: response.headers[name] for name in _KEPT if name in response.headers})


async def body(request: web.Request, limit: int) -> bytes:
    """The request's body, at most `limit` bytes; a 413 problem before reading more than that, 415 for one that is
    compressed, 408 for one that takes longer than BODY_SECONDS."""
    coding = request.headers.get(hdrs.CONTENT_ENCODING, "identity")
    if coding.strip().lower() not in ("identity", ""):
        detail = f"the body is compressed ({coding[:40]!a}): send it as it is"
        raise ProblemError(415, detail, headers={"Connection": "close", "Accept-Encoding": "identity"})
    if (request.content_length or 0) > limit:
        raise _too_large(limit)
    received = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.content.iter_any():
                received += chunk
                if len(received) > limit:
                    raise _too_large(limit)
    except TimeoutError:
        detail = f"the body was not whole after {BODY_SECONDS:g} s"
        raise ProblemError(408, detail, headers={"Connection": "close"}) from None
    return bytes(received)


def _too_large(limit: int) -> ProblemError:
    return ProblemError(413, f"the body is larger than {limit:,} bytes", headers={"Connection": "close"})
