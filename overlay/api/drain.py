"""The end of serving without losing an answer: nothing new is taken in, and what is under way is finished, in time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress

from aiohttp import web

from overlay.api.answers import EDGE, HUB
from overlay.workers import CLEAN_SECONDS

_LOOK_SECONDS = 0.02

CLIENT_SECONDS = 0.2
"""What clients get, once the server ends, to send the rest of a request or to take the rest of a stream."""

log = logging.getLogger(__name__)


async def drain(server: web.AppRunner, seconds: float, hurry: asyncio.Event) -> None:
    """Close the port at once, end streams with a time to come back, and wait until nothing is under way, at most so
    many seconds, or until `hurry`. Connections that are open already are still answered, each for the last time:
    `/readyz` with 503. No client is waited for longer than CLIENT_SECONDS."""
    edge, hub = server.app[EDGE], server.app[HUB]
    edge.draining = True
    for site in list(server.sites):
        await site.stop()
    hub.close()
    cutting = asyncio.get_running_loop().time() + CLIENT_SECONDS
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while edge.under_way and not hurry.is_set():
                await asyncio.sleep(_LOOK_SECONDS)
                if asyncio.get_running_loop().time() >= cutting:
                    _cut(edge.under_way.values())
    if edge.under_way:
        log.warning("%d requests were not answered within %g s, and are given up", len(edge.under_way), seconds)
    await close(server)


def _cut(requests: Iterable[web.Request]) -> None:
    """Abort the connections whose client is waited for: of requests whose body has not arrived, and of streams whose
    reader does not take what was sent."""
    for request in requests:
        transport = request.transport
        if transport is not None and (not request.content.is_eof() or transport.get_write_buffer_size()):
            transport.abort()


async def close(server: web.AppRunner) -> None:
    """Close the port and all connections, whatever they are in the middle of."""
    try:
        await asyncio.wait_for(server.cleanup(), CLEAN_SECONDS)
    except TimeoutError:
        for connection in server.server.connections if server.server else ():
            connection.force_close()
