"""The end of serving without losing an answer: nothing new is taken in, and what is under way is finished, in time."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from aiohttp import web

from overlay.api.answers import EDGE, HUB
from overlay.workers import CLEAN_SECONDS

_LOOK_SECONDS = 0.02

log = logging.getLogger(__name__)


async def drain(server: web.AppRunner, seconds: float, hurry: asyncio.Event) -> None:
    """Close the port at once, end streams with a time to come back, and wait until nothing is under way, at most so
    many seconds, or until `hurry`. Connections that are open already are still answered, each for the last time:
    `/readyz` with 503."""
    edge, hub = server.app[EDGE], server.app[HUB]
    edge.draining = True
    for site in list(server.sites):
        await site.stop()
    hub.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while edge.under_way and not hurry.is_set():  # noqa: ASYNC110 - requests are counted, not told of
                await asyncio.sleep(_LOOK_SECONDS)
    if edge.under_way:
        log.warning("%d requests were not answered within %g s, and are given up", edge.under_way, seconds)
    await close(server)


async def close(server: web.AppRunner) -> None:
    """Close the port and all connections, whatever they are in the middle of."""
    try:
        await asyncio.wait_for(server.cleanup(), CLEAN_SECONDS)
    except TimeoutError:
        for connection in server.server.connections if server.server else ():
            connection.force_close()
