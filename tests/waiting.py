"""Waiting for what has no event of its own: asked again and again until it is so, or PATIENCE seconds have passed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar

from aiohttp import ClientSession
from aiohttp.web import AppRunner

PATIENCE = 240.0
"""Seconds: what the slowest machine under the heaviest load may take for anything that is waited for; pytest gives up
after 300."""

T = TypeVar("T")


async def until(what: Callable[[], T]) -> T:
    """The answer of a function, once it is true. Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE):
        while not (result := what()):  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0.01)
    return result


async def stop(runner: AppRunner) -> None:
    """Listen no more, and cut all connections.

    Accepting ends before the server is closed: Python 3.11 leaks a connection that was accepted just before."""
    loop = asyncio.get_running_loop()
    for site in runner.sites:
        for listener in attrgetter("_server.sockets")(site):
            loop.remove_reader(listener.fileno())
    for _ in range(3):
        await asyncio.sleep(0)
    await runner.cleanup()


async def until_told(session: ClientSession, path: str, what: Callable[[Any], object]) -> Any:
    """The JSON that a path answers, once it is as it should be. Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE):
        while True:
            async with session.get(path) as answer:
                body = await answer.json(content_type=None)
            if answer.status != 503 and what(body):  # 503: there is no index yet
                return body
            await asyncio.sleep(0.02)
