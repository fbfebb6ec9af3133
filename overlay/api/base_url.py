"""The base of the absolute URLs that a response contains."""

from __future__ import annotations

import re

from aiohttp import web

from overlay.api.answers import SERVICES
from overlay.api.request_context import CONTEXT

_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]{1,253})(?::[0-9]{1,5})?")

NO_PUBLIC_URL = "no public URL is configured (A2B_PUBLIC_URL), so URLs here begin with the host that the request named"


def base_url(request: web.Request) -> str:
    """`A2B_PUBLIC_URL`, else the scheme and host that the client used: X-Forwarded-Proto and X-Forwarded-Host where a
    trusted proxy sends them, else the Host header. Without a slash at its end."""
    if configured := request.app[SERVICES].public_url:
        return configured
    scheme, host = request.scheme, request.headers.get("Host", "")
    if request.app[CONTEXT].clients.trusts(request.remote or ""):
        scheme = _last(request.headers.get("X-Forwarded-Proto", "")) or scheme
        host = _last(request.headers.get("X-Forwarded-Host", "")) or host
    if scheme not in ("http", "https") or not _HOST.fullmatch(host):
        return "http://localhost"
    return f"{scheme}://{host}"


def url_note(request: web.Request) -> dict[str, str]:
    """What metadata with absolute URLs says where no public URL is configured."""
    return {} if request.app[SERVICES].public_url else {"note": NO_PUBLIC_URL}


def _last(value: str) -> str:
    """The last of a list: the one that the trusted proxy itself wrote."""
    return value.rpartition(",")[2].strip()
