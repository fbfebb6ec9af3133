"""What a page loads: style sheets, scripts and a sign, each a file of its own that a browser may keep for ever."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from aiohttp import web

from overlay.api.answers import REVALIDATE, Answer, not_modified, unchanged
from overlay.api.problems import NotFoundError

_FOLDER = Path(__file__).with_name("static")
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FOR_EVER = "public, max-age=31536000, immutable"
_POLICY = "default-src 'none'; sandbox"


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as it is served; `version` names its content, and so does `url`."""

    url: str
    body: bytes
    media: str
    version: str


@cache
def assets() -> dict[str, Asset]:
    """Every file of the folder `static`, by name."""
    found = {}
    for path in sorted(_FOLDER.iterdir()):
        if path.suffix in _TYPES:
            body = path.read_bytes()
            version = sha256(body).hexdigest()[:12]
            found[path.name] = Asset(f"/static/{path.name}?v={version}", body, _TYPES[path.suffix], version)
    return found


def asset_url(name: str) -> str:
    """The URL of a file, which changes with its content. Raises KeyError for a file that is not there."""
    return assets()[name].url


async def static(request: web.Request) -> web.Response:
    """A style sheet, script or sign that the pages load."""
    name = request.match_info["name"]
    found = assets().get(name)
    if found is None:
        raise NotFoundError(f"the pages load nothing that is called {name[:100]!a}")
    is_current = request.rel_url.raw_query_string == f"v={found.version}"
    headers = {
        "Content-Type": found.media,
        "ETag": f'"{found.version}"',
        "Cache-Control": _FOR_EVER if is_current else REVALIDATE,
        "Content-Security-Policy": _POLICY,
    }
    return not_modified(headers) if unchanged(request, headers["ETag"]) else Answer(body=found.body, headers=headers)
