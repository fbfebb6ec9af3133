"""Pages of the registry's query: verified providers, then listings. Providers fill at most half of a page as long as
listings follow, so that neither hides the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from overlay.api.base_url import base_url
from overlay.api.door_requests import find
from overlay.api.problems import BadRequestError, Fault
from overlay.protocols.mrp import exchanges, route_offers
from overlay.protocols.mrp.registration import providers
from parsers.claims.canonical_json import ClaimRefusedError, base64url_text, from_base64url

MAX_PAGE = 100
_END = "-"
"""In a cursor, the part of what has ended."""


async def page(request: web.Request, arguments: Mapping[str, Any]) -> tuple[list[dict[str, Any]], str | None]:
    """The entries of a page, and the cursor of the next one. A cursor is the last provider of its page (base64url) and
    the cursor of the listings, joined by a dot. Raises BadRequestError."""
    limit, capability, policy = arguments.get("limit", 20), arguments.get("capability"), arguments.get("policy")
    limit = min(max(limit, 1), MAX_PAGE)
    after, cursor = _read(arguments.get("cursor", "."))
    entries = [] if after is None else await providers(request, limit + 1, after, capability, policy)
    listed: list[dict[str, Any]] = []
    following = None
    if policy is None and cursor is not None:
        room = max(limit // 2, limit - len(entries))
        listed, following = await _listings(request, room, capability, cursor)
    shown = entries[: limit - len(listed)]
    results = [route_offers.provider_entry(one) for one in shown]
    results += [route_offers.entry(base_url(request), item, capability) for item in listed]
    last = base64url_text(shown[-1].manifest_url.encode()) if len(shown) < len(entries) else _END
    if last == _END and following is None:
        return results, None
    return results, f"{last}.{_END if following is None else following}"


async def _listings(
    request: web.Request, limit: int, capability: str | None, cursor: str
) -> tuple[list[dict[str, Any]], str | None]:
    """Listings and the cursor after them: by relevance, and without a further page, where a capability is wanted."""
    if not limit:
        return [], cursor
    pairs = [("limit", str(limit)), *([("cursor", cursor)] if cursor else [])]
    if capability is not None:
        return (await exchanges.with_capability(request, capability, pairs))[0], None
    newest = await find(request, [*pairs, ("sort", "-created")])
    return newest.items, newest.next_cursor


def _read(cursor: str) -> tuple[str | None, str | None]:
    """The provider to go on after ("" for all), and the cursor of listings; None for what has ended."""
    last, dot, listings = cursor.partition(".")
    try:
        after = None if last == _END else from_base64url(last).data.decode("ascii")
    except (ClaimRefusedError, ValueError):
        after, dot = None, ""
    if not dot or not (after or "").isprintable():
        raise BadRequestError((Fault("bad-cursor", f"{cursor[:100]!a} is no cursor of this registry", "cursor"),))
    return after, None if listings == _END else listings
