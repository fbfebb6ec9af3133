"""A publisher says that a transaction was broadcast: it is remembered, and fetched as soon as a source knows it."""

from __future__ import annotations

import time
from asyncio import to_thread
from typing import TYPE_CHECKING, Any

from aiohttp import web

from overlay.api import bodies
from overlay.api.answers import EDGE, SERVICES, body, json_answer
from overlay.api.problems import ProblemError
from overlay.items import timestamp

if TYPE_CHECKING:
    from indexer.store.requests import Request

MAX_BYTES = 4_096

RETRY_AFTER = 60
"""Seconds that a client is asked to wait when too many of its requests are open: in that time most have ended."""


async def ingest(request: web.Request) -> web.Response:
    """Ask for a transaction to be fetched. It is looked for at once, and with doubling delay for an hour; asking again
    changes nothing. `GET /v1/diagnose/{what}` says where it stands."""
    asked = await wanted(request, bodies.read(bodies.WantedTransaction, await body(request, MAX_BYTES)))
    txid = asked.txid[::-1].hex()
    headers = {"Location": f"/v1/diagnose/{txid}", "Cache-Control": "no-store"}
    return json_answer(_shown(asked), status=202, headers=headers)


async def wanted(request: web.Request, transaction: bodies.WantedTransaction) -> Request:
    """Have a transaction fetched for the client of a request. Raises ProblemError (429)."""
    from indexer.store.requests import TooManyRequestsError

    services, txid = request.app[SERVICES], bytes.fromhex(transaction.txid)[::-1]
    client = request.app[EDGE].clients.of(request)
    try:
        asked = await to_thread(services.requests.ask, txid, client, int(time.time()))
    except TooManyRequestsError as error:
        headers = {"Retry-After": str(RETRY_AFTER)}
        raise ProblemError(429, f"{error}; ask again when some of them are found", headers=headers) from None
    services.asked()
    return asked


def _shown(asked: Request) -> dict[str, Any]:
    return {
        "txid": asked.txid[::-1].hex(),
        "state": asked.state.value,
        "askedAt": timestamp(asked.asked_at),
        "tries": asked.tries,
        "nextTryAt": timestamp(asked.next_at or None),
        "detail": asked.detail or "about to be looked for",
    }
