"""HTTP responses: JSON bytes with their headers, conditional requests, request bodies within a limit."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from hashlib import blake2b, sha256
from typing import Any, cast

from aiohttp import hdrs, web
from multidict import CIMultiDict, istr

from overlay.api.problems import TYPE as PROBLEM_TYPE
from overlay.api.problems import Fault, ProblemError
from overlay.api.services import AppServices, ProcessInfo
from overlay.text.compact_json import encode

ROUTE_PATHS: web.AppKey[list[str]] = web.AppKey("paths", list)
SERVICES: web.AppKey[AppServices] = web.AppKey("services", AppServices)
PROCESS: web.AppKey[ProcessInfo] = web.AppKey("watched", ProcessInfo)
OPENAPI: web.AppKey[dict[str, Any]] = web.AppKey("openapi", dict)
JSON_TYPE = "application/json; charset=utf-8"
MARKDOWN = "text/markdown"
REVALIDATE = "public, max-age=0, must-revalidate"
BODY_SHA256: web.RequestKey[str] = web.RequestKey("SHA-256 of the body", str)
"""The SHA-256 of the body (hex) that the client signed; `body` compares it."""

_BODY = web.RequestKey("body", bytes)
BODY_SECONDS = 30.0
"""How long a body may take to arrive."""

_TAGS = re.compile(r'(?:W/)?"[^"]*"')
_OBSERVED_TIMES = re.compile(rb'"(?:checkedAt|ownerCheckedAt|at)":"[^"\\]*",?')
"""Members of encoded JSON that say when something was looked at; `at` is that of `domain.lastFailure` and of rates."""

_NOT_MODIFIED_HEADERS = (hdrs.ETAG, hdrs.CACHE_CONTROL, hdrs.VARY)


class Answer(web.Response):
    """A response that drops its body once it is sent, as aiohttp keeps the last response of an idle connection."""

    def __init__(self, *, body: bytes | memoryview, status: int = 200, headers: Mapping[str, str]) -> None:
        """`body` is sent without a copy: aiohttp would wrap what is not `bytes` in a payload."""
        super().__init__(status=status, headers=headers)
        self._body = cast("bytes", body)

    async def write_eof(self, data: bytes = b"") -> None:
        """Send the body, and drop it."""
        await super().write_eof(data)
        self.body = None


def json_answer(value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """A JSON response that caches do not store, unless `headers` allow it."""
    return json_bytes(encode(value), status=status, headers=headers or {"Cache-Control": "no-store"})


def json_bytes(body: bytes | memoryview, *, status: int = 200, headers: Mapping[str, str]) -> web.Response:
    """A JSON response of bytes that are encoded already."""
    return Answer(body=body, status=status, headers={hdrs.CONTENT_TYPE: JSON_TYPE, **headers})


def problem_answer(problem: ProblemError, request_id: str) -> web.Response:
    """RFC 9457 problem details."""
    headers = {"Content-Type": PROBLEM_TYPE, "Cache-Control": "no-store", **problem.headers}
    return web.Response(body=encode(problem.as_json(request_id)), status=problem.status, headers=headers)


def weak_etag(*parts: object) -> str:
    """A weak entity tag of everything that a response depends on."""
    digest = blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=12)
    return f'W/"{digest.hexdigest()}"'


def unchanged(request: web.Request, etag: str) -> bool:
    """Whether the header If-None-Match contains this tag, by weak comparison (RFC 9110 §13.1.2); for `*` see
    `unless_current`."""
    if_none_match = request.headers.get("If-None-Match")
    if if_none_match is None:
        return False
    opaque = etag.removeprefix("W/")
    return any(tag.removeprefix("W/") == opaque for tag in _TAGS.findall(if_none_match))


def not_modified(headers: Mapping[str, str]) -> web.Response:
    """A 304 with the headers that the 200 would have."""
    return web.Response(status=304, headers=headers)


def unless_current(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """The response; or a 304 where it is a success with an entity tag that If-None-Match contains, or that is `*` (RFC
    9110 §13.1.2)."""
    if hdrs.IF_NONE_MATCH not in request.headers or response.status != 200 or hdrs.ETAG not in response.headers:
        return response
    is_any = request.headers[hdrs.IF_NONE_MATCH].strip() == "*"
    if not is_any and not unchanged(request, response.headers[hdrs.ETAG]):
        return response
    return not_modified({name: response.headers[name] for name in _NOT_MODIFIED_HEADERS if name in response.headers})


def json_etag(value: bytes) -> str:
    """A weak entity tag of encoded JSON without its observed times (law 24)."""
    return weak_etag(blake2b(_OBSERVED_TIMES.sub(b"", value), digest_size=16).digest())


def conditional(value: bytes, cache: str = REVALIDATE) -> web.Response:
    """JSON with its entity tag; the middleware answers 304 where the client has it."""
    return json_bytes(value, headers={hdrs.ETAG: json_etag(value), hdrs.CACHE_CONTROL: cache})


def markdown(text: str) -> web.Response:
    """Markdown with a weak entity tag, as `conditional`."""
    answer = conditional(text.encode())
    answer.content_type, answer.charset = MARKDOWN, "utf-8"
    return answer


async def body(request: web.Request, limit: int) -> bytes:
    """The request's body, at most `limit` bytes, also when it was read before. Raises ProblemError: 413 before reading
    more, 415 for a compressed body, 408 for one that takes longer than BODY_SECONDS, 401 for a body with another hash
    than the signed one."""
    coding = request.headers.get(hdrs.CONTENT_ENCODING, "identity")
    if coding.strip().lower() not in ("identity", ""):
        detail = f"the body is compressed ({coding[:40]!a}): send it as it is"
        raise ProblemError(415, detail, headers={"Connection": "close", "Accept-Encoding": "identity"})
    if (request.content_length or 0) > limit:
        raise _too_large(limit)
    if _BODY in request:
        if len(request[_BODY]) > limit:
            raise _too_large(limit)
        return _signed(request, request[_BODY])
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
    request[_BODY] = bytes(received)
    return _signed(request, request[_BODY])


def _signed(request: web.Request, received: bytes) -> bytes:
    """The body. Raises ProblemError (401) where the client signed another one."""
    if request.get(BODY_SHA256, "") not in ("", sha256(received).hexdigest()):
        detail = "the body is not the one that the holder proof was signed for"
        raise ProblemError(401, detail, (Fault("invalid_proof", detail, "X-DCT-Proof"),))
    return received


def _too_large(limit: int) -> ProblemError:
    return ProblemError(413, f"the body is larger than {limit:,} bytes", headers={"Connection": "close"})


NO_HEADERS: Mapping[str, str] = {}
_EXPOSED = (
    "Allow, Content-Digest, Content-Length, ETag, Last-Modified, Link, Location, RateLimit, RateLimit-Policy, "
    "Retry-After, X-Left-Out, X-Next-Cursor, X-Request-Id, X-Total-Count, "
    "A2A-Version, A2B-Paid-Until, A2B-Subscription, A2B-Task, PAYMENT-REQUIRED, "
    "Mcp-Session-Id, MCP-Protocol-Version, X-Includes-Off-Chain-Values"
)
_ALWAYS = {
    hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: "*",
    hdrs.ACCESS_CONTROL_EXPOSE_HEADERS: _EXPOSED,
    istr("X-Content-Type-Options"): "nosniff",
    hdrs.SERVER: "a2b",
}
_REQUEST_ID_HEADER = istr("X-Request-Id")
_VARY = "Accept, Accept-Encoding"


def add_common_headers(
    headers: CIMultiDict[str], request_id: str, limit_headers: Mapping[str, str] = NO_HEADERS
) -> None:
    """Add the headers that every response has, and those of the client's rate limit."""
    headers.update(_ALWAYS)
    headers[_REQUEST_ID_HEADER] = request_id
    headers.setdefault(hdrs.VARY, _VARY)
    headers.update(limit_headers)
