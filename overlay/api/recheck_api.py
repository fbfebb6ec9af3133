"""A publisher says that his card, or what his domain says, is another one now: it is fetched again."""

from __future__ import annotations

import time
from asyncio import to_thread
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from aiohttp import web

from indexer.fetching.reasons import SENTENCES, Refusal
from overlay.api.answers import SERVICES, json_answer
from overlay.api.listing_api import find, split
from overlay.api.problems import ProblemError
from overlay.items import timestamp

if TYPE_CHECKING:
    from indexer.store.rechecks import Checked


async def recheck(request: web.Request) -> web.Response:
    """Ask for the card that a pointer names, or the domain of an agent, to be fetched again. What was fetched within
    the last minute is fetched again after it; asking again changes nothing."""
    services, text = request.app[SERVICES], request.match_info["id"]
    plain, _ = split(text)
    asked = await to_thread(services.recheck, plain, int(time.time() * 1000)) if plain.isprintable() else []
    if not asked:
        await to_thread(find, services.store, plain, text)
        raise ProblemError(409, "nothing is fetched for this listing: it is inscribed, and names no host of a domain")
    headers = {"Location": f"/v1/listings/{quote(plain, safe='')}", "Cache-Control": "no-store"}
    return json_answer({"id": plain, "checks": [_shown(each) for each in asked]}, status=202, headers=headers)


def _shown(each: Checked) -> dict[str, Any]:
    refusal = Refusal(each.reason, each.detail)
    return {
        "what": each.what,
        "name": each.name,
        "state": each.state,
        "code": each.reason or None,
        "detail": refusal.sentence if each.reason in SENTENCES else "",
        "lastAt": timestamp(None if each.last_at is None else each.last_at // 1000),
        "nextAt": timestamp(each.next_at // 1000),
    }
