"""The base of the absolute URLs that a response contains."""

from __future__ import annotations

import re
from urllib.parse import quote

from aiohttp import hdrs, web
from multidict import CIMultiDict

from overlay.api.answers import SERVICES
from overlay.api.request_context import CONTEXT
from parsers.local_hosts import is_local_url

_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]{1,253})(?::[0-9]{1,5})?")

_FORWARDED = ("Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP")
_NAMES_HOST = web.RequestKey("the answer depends on the host", bool)
_VARIES_BY = "Host, X-Forwarded-Host, X-Forwarded-Proto"

NO_PUBLIC_URL = "no public URL is configured (A2B_PUBLIC_URL), so URLs here begin with the host that the request named"


def base_url(request: web.Request) -> str:
    """`A2B_PUBLIC_URL`, else the scheme and host that the client used: X-Forwarded-Proto and X-Forwarded-Host from a
    trusted proxy, else the Host header. Without a slash at its end. Empty, for relative URLs, where the host is
    loopback or link-local and the request came through a proxy: its client is elsewhere."""
    if configured := request.app[SERVICES].site.public_url:
        return configured
    request[_NAMES_HOST] = True
    scheme, host = request.scheme, request.headers.get("Host", "")
    if request.app[CONTEXT].clients.trusts(request.remote or ""):
        scheme = _last(request.headers.get("X-Forwarded-Proto", "")) or scheme
        host = _last(request.headers.get("X-Forwarded-Host", "")) or host
    if scheme not in ("http", "https") or not _HOST.fullmatch(host):
        scheme, host = "http", "localhost"
    if is_local_url(f"//{host}") and any(name in request.headers for name in _FORWARDED):
        return ""
    return f"{scheme}://{host}"


def listing_url(base: str, id_: str) -> str:
    """The URL of a listing in the API."""
    return f"{base}/v1/listings/{quote(id_, safe='')}"


def request_url(request: web.Request) -> str:
    """The URL of the request with the host that it names."""
    request[_NAMES_HOST] = True
    return str(request.url)


def add_vary(request: web.Request, headers: CIMultiDict[str]) -> None:
    """Have caches separate the answers to different hosts, where this one has URLs of the host that the request named:
    otherwise one client could choose the links of another."""
    if request.get(_NAMES_HOST, False):
        headers[hdrs.VARY] = f"{headers[hdrs.VARY]}, {_VARIES_BY}"


def url_note(request: web.Request) -> dict[str, str]:
    """The note in metadata with absolute URLs where no public URL is configured."""
    return {} if request.app[SERVICES].site.public_url else {"note": NO_PUBLIC_URL}


def _last(value: str) -> str:
    """The last of a list: the one that the trusted proxy itself wrote."""
    return value.rpartition(",")[2].strip()
