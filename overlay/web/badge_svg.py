"""A picture for a publisher's README: the name of a listing, and whether it is listed, confirmed by its domain or
deprecated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import quote

from aiohttp import web

from overlay.api.answers import REVALIDATE, Answer, weak_etag
from overlay.api.protocol_requests import get
from overlay.api.routes import SVG
from overlay.api.site_links import SITE
from overlay.text.safe_text import on_one_line, visible

MAX_NAME = 40
"""Characters of a name on the picture."""

_LETTER, _MARGIN, _HEIGHT = 7, 8, 20
"""The width of a letter, of an edge, and the height, in pixels."""

_COLOURS = {"verified domain": "#1e7a44", "listed": "#2563a8"}
_OTHER = "#6b6b6b"
_MARKUP = re.compile(r"[\[\]()<>`*_\\!]")
"""Characters with a meaning in Markdown."""


async def badge(request: web.Request) -> web.Response:
    """A picture with the name of a listing, and whether it is listed, confirmed by its domain or deprecated."""
    item = await get(request, request.match_info["id"])
    name = item["name"] if "name" in item else f"{len(item['servers'])} servers"
    drawn = drawing(visible(on_one_line(name or item["id"], MAX_NAME)), word_of(item)).encode("utf-8", "replace")
    headers = {"Content-Type": f"{SVG}; charset=utf-8", "Cache-Control": REVALIDATE, "ETag": weak_etag(drawn)}
    return Answer(body=drawn, headers=headers | {"Content-Security-Policy": "default-src 'none'; sandbox"})


def badge_text(base: str, item: Mapping[str, Any]) -> str:
    """The Markdown of the picture with a link to the page of the listing, for a README."""
    page = f"{base}/listings/{quote(item['id'], safe='')}"
    name = _MARKUP.sub("", on_one_line(item.get("name") or item["id"], MAX_NAME))
    return f"[![{name} is listed]({page}/badge.svg)]({page})"


def word_of(item: dict[str, Any]) -> str:
    """The state of a listing on its picture."""
    if item.get("deprecated"):
        return "deprecated"
    if item["status"] != "live":
        return str(item["status"])
    domain = item.get("domain")
    return "verified domain" if domain and domain["verified"] else "listed"


def drawing(name: str, word: str) -> str:
    """The picture: a name and a word side by side."""
    site = SITE.get().title
    left, right = (len(text) * _LETTER + 2 * _MARGIN for text in (name, word))
    title = escape(f"{name}: {word} ({site})")
    box = f'width="{left + right}" height="{_HEIGHT}" role="img" aria-label="{title}"'
    text = 'fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {box}><title>{title}</title>'
        f'<rect width="{left + right}" height="{_HEIGHT}" rx="3" fill="#333"/>'
        f'<path d="M{left} 0h{right - 3}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3h-{right - 3}z" '
        f'fill="{_COLOURS.get(word, _OTHER)}"/><g {text}>'
        f'<text x="{left / 2:g}" y="14">{escape(name)}</text>'
        f'<text x="{left + right / 2:g}" y="14">{escape(word)}</text></g></svg>'
    )
