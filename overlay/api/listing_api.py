"""Routes of one listing: its item, its history, and the exact bytes of its card."""

from __future__ import annotations

from base64 import b64encode

from aiohttp import web

from overlay.api.answers import REVALIDATE, SERVICES, Answer, conditional, not_modified, unchanged
from overlay.api.executors import READ_EXECUTOR, RECORDS, RECORDS_SECONDS
from overlay.api.request_context import CONTEXT
from overlay.duplicates.duplicate_status import listing_with_duplicates
from overlay.listings import lookup
from overlay.listings.recent_changes import aged
from overlay.listings.repository import ListingRepository
from overlay.text.compact_json import encode

_CARD_POLICY = "sandbox; default-src 'none'; frame-ancestors 'none'"


async def listing(request: web.Request) -> web.Response:
    """One item, with all offers and warnings, or the ids of the servers it holds."""
    services, id_ = request.app[SERVICES], request.match_info["id"]
    item = await request.app[READ_EXECUTOR].read(listing_with_duplicates, services.store, services.engine.get, id_)
    return conditional(request, encode(aged(item, services.heights(), services.change_blocks)))


async def history(request: web.Request) -> web.Response:
    """Every revision, newest first."""
    store, client = request.app[SERVICES].store, request.app[CONTEXT].clients.of(request)
    run = request.app[RECORDS].run
    return conditional(request, await run(client, RECORDS_SECONDS, _history, store, request.match_info["id"]))


async def card(request: web.Request) -> web.Response:
    """The card's exact bytes, as the chain or the domain gave them."""
    store = request.app[SERVICES].store
    digest, body = await request.app[READ_EXECUTOR].read(lookup.card, store, request.match_info["id"])
    headers = {
        "Content-Type": "application/json",
        "ETag": f'"{digest.hex()}"',
        "Content-Digest": f"sha-256=:{b64encode(digest).decode()}:",
        "Cache-Control": f"{REVALIDATE}, no-transform",
        "Content-Security-Policy": _CARD_POLICY,
    }
    if unchanged(request, headers["ETag"]):
        return not_modified(headers)
    return Answer(body=body, headers=headers)


def _history(store: ListingRepository, text: str) -> bytes:
    return encode(lookup.history(store, text))
