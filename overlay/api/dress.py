"""The headers that every answer has."""

from __future__ import annotations

from aiohttp import hdrs
from multidict import CIMultiDict, istr

from overlay.api.limits import Taken

_EXPOSED = (
    "ETag, Link, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id, Content-Digest, Content-Length, Location"
)
_ALWAYS = {
    hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: "*",
    hdrs.ACCESS_CONTROL_EXPOSE_HEADERS: _EXPOSED,
    istr("X-Content-Type-Options"): "nosniff",
    hdrs.SERVER: "a2b",
}
_REQUEST_ID = istr("X-Request-Id")
_VARY = "Accept, Accept-Encoding"


def dress(headers: CIMultiDict[str], request_id: str, taken: Taken | None = None) -> None:
    """Add them; `taken` says what the request took of its client's limit."""
    headers.update(_ALWAYS)
    headers[_REQUEST_ID] = request_id
    headers.setdefault(hdrs.VARY, _VARY)
    if taken is not None:
        headers.update(taken.headers)
