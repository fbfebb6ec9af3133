"""Small pictures of logos, served from what is kept here: a page never asks a stranger for one."""

from __future__ import annotations

import re
from asyncio import to_thread
from collections.abc import Iterable, Mapping
from typing import Any

from aiohttp import web

from overlay.api.answers import SERVICES, Answer, not_modified, unchanged
from overlay.api.problems import NotFoundError
from overlay.ports import Logos

_DIGEST = re.compile(r"[0-9a-f]{64}")
_HEADERS = {
    "Content-Type": "image/webp",
    "Cache-Control": "public, max-age=31536000, immutable",
    "Content-Security-Policy": "default-src 'none'; sandbox",
}


async def logo(request: web.Request) -> web.Response:
    """The small picture (WebP) that was made of a listing's logo."""
    digest = request.match_info["digest"]
    known = _DIGEST.fullmatch(digest) is not None
    headers = {**_HEADERS, "ETag": f'"{digest[:64]}"'}
    if known and unchanged(request, headers["ETag"]):
        return not_modified(headers)
    body = await to_thread(request.app[SERVICES].logos.picture, digest) if known else None
    if body is None:
        raise NotFoundError("there is no such picture; logos are forgotten when nobody looks for them")
    return Answer(body=body, headers=headers)


def addresses(logos: Logos, items: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Where the pictures of these items are, by the address that the card names; none for those that are not here."""
    found = logos.shown(each["logo"] for each in items if each.get("logo"))
    return {url: f"/logos/{digest}" for url, digest in found.items()}
