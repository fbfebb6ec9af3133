"""The headers that every answer has."""

from __future__ import annotations

from multidict import CIMultiDict

from overlay.api.limits import Taken

_EXPOSED = (
    "ETag, Link, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id, Content-Digest, Content-Length, Location"
)
_ALWAYS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": _EXPOSED,
    "X-Content-Type-Options": "nosniff",
    "Server": "a2b",
}
_VARY = "Accept, Accept-Encoding"


def dress(headers: CIMultiDict[str], request_id: str, taken: Taken | None = None) -> None:
    """Add them; `taken` says what the request took of its client's limit."""
    headers.update(_ALWAYS)
    headers["X-Request-Id"] = request_id
    headers.setdefault("Vary", _VARY)
    if taken is not None:
        headers.update(taken.headers)
