"""Files that a page loads: style sheets, scripts, an icon, and thumbnails of logos, all served from here."""

from __future__ import annotations

import re
from asyncio import to_thread
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from aiohttp import web

from overlay.api.answers import REVALIDATE, SERVICES, Answer, not_modified, unchanged
from overlay.api.problems import NotFoundError
from overlay.listings.logos import LogoImages

_FOLDER = Path(__file__).with_name("static")
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
_COMMENT = re.compile(rb"^/\* [\w ]+ \*/\n", re.MULTILINE)
"""The title of a part of the style sheet, which is not sent: a page with all that it loads has 100 kB."""

_FOR_EVER = "public, max-age=31536000, immutable"
_POLICY = "default-src 'none'; sandbox"


@dataclass(frozen=True, slots=True)
class Asset:
    """A static file. `version` is a hash of its content, and part of `url`."""

    url: str
    body: bytes
    media: str
    version: str


@cache
def assets() -> dict[str, Asset]:
    """Every file of the folder `static`, by name."""
    files = {}
    for path in sorted(_FOLDER.iterdir()):
        if path.suffix in _TYPES:
            body = _COMMENT.sub(b"", path.read_bytes())
            version = sha256(body).hexdigest()[:12]
            files[path.name] = Asset(f"/static/{path.name}?v={version}", body, _TYPES[path.suffix], version)
    return files


def asset_url(name: str) -> str:
    """The URL of a file, which changes with its content. Raises KeyError for a file that is not there."""
    return assets()[name].url


async def static(request: web.Request) -> web.Response:
    """A style sheet, script or icon that the pages load."""
    name = request.match_info["name"]
    asset = assets().get(name)
    if asset is None:
        raise NotFoundError(f"the pages load nothing that is called {name[:100]!a}")
    is_current = request.rel_url.raw_query_string == f"v={asset.version}"
    headers = {
        "Content-Type": asset.media,
        "ETag": f'"{asset.version}"',
        "Cache-Control": _FOR_EVER if is_current else REVALIDATE,
        "Content-Security-Policy": _POLICY,
    }
    return Answer(body=asset.body, headers=headers)


_DIGEST = re.compile(r"[0-9a-f]{64}")
_LOGO_HEADERS = {"Content-Type": "image/webp", "Cache-Control": _FOR_EVER, "Content-Security-Policy": _POLICY}


async def logo(request: web.Request) -> web.Response:
    """The thumbnail (WebP) of a listing's logo."""
    digest = request.match_info["digest"]
    well_formed = _DIGEST.fullmatch(digest) is not None
    headers = {**_LOGO_HEADERS, "ETag": f'"{digest[:64]}"'}
    if well_formed and unchanged(request, headers["ETag"]):
        return not_modified(headers)
    body = await to_thread(request.app[SERVICES].logos.picture, digest) if well_formed else None
    if body is None:
        raise NotFoundError("there is no such picture; logos that are not requested are deleted")
    return Answer(body=body, headers=headers)


def addresses(logos: LogoImages, items: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The addresses of the items' thumbnails by the logo URL of the card, for those that are stored."""
    digests = logos.shown(item["logo"] for item in items if item.get("logo"))
    return {url: f"/logos/{digest}" for url, digest in digests.items()}
