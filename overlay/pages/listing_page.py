"""A listing's own page, and its JSON for who asks for that."""

from __future__ import annotations

from asyncio import to_thread
from typing import Any

from aiohttp import web

from overlay.aging import aged
from overlay.api import listing_api
from overlay.api.answers import REVALIDATE, SERVICES, not_modified, unchanged
from overlay.api.problems import NotFoundError
from overlay.compact import encode
from overlay.pages.rendering import html_answer, page_etag, render, wants_json
from overlay.ports import Store


async def listing(request: web.Request) -> web.Response:
    """A listing with its offers, skills, warnings and history, or its item as JSON when Accept prefers that."""
    if wants_json(request):
        return await listing_api.listing(request)
    text = request.match_info["id"]
    try:
        services = request.app[SERVICES]
        item, revisions = await to_thread(_read, services.store, text)
        item = aged(item, services.heights(), services.change_blocks)
    except NotFoundError as problem:
        return html_answer(render("missing.html", detail=problem.detail), status=404)
    etag = page_etag(request, encode([item, revisions]))
    if unchanged(request, etag):
        return not_modified({"ETag": etag, "Cache-Control": REVALIDATE})
    return html_answer(render("listing.html", item=item, revisions=revisions), etag=etag)


def _read(store: Store, text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    return listing_api.one(store, text), listing_api.revisions(store, text)["revisions"]
