"""The change feed as it happens: server-sent events that go on where a reader broke off."""

from __future__ import annotations

import asyncio
import logging
import re
from asyncio import to_thread
from random import randint
from time import monotonic
from typing import Any

from aiohttp import hdrs, web

from overlay.api.answers import EDGE, HUB, SERVICES
from overlay.api.changes_api import feed, sent
from overlay.api.hub import BATCH, Hub
from overlay.api.params import STREAM, taken
from overlay.ports import Store

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 15.0
"""After so long without a change a comment is sent, so that proxies and readers know that the stream lives."""

LOOK_SECONDS = 2.0
"""How often a stream in which nothing happens looks whether its reader is still there."""

SLOW_SECONDS = 10.0
"""A reader that takes nothing for so long is dropped: it comes back and goes on where it was."""

_GREETING = b"retry: 2000\n\n"
_COME_BACK = 1_000, 6_000  # milliseconds, drawn by lot: readers of a server that ends do not all come at once
_HEARTBEAT = b":\n\n"
_EVENT_ID = re.compile(r"([^\s-]{1,64}(?:-[^\s-]{1,64}){0,4})-([0-9]{1,18})")


async def stream(request: web.Request) -> web.StreamResponse:
    """The change feed as server-sent events, from the beginning or from where `Last-Event-ID` or `since` says, and then
    whatever happens, without gaps. An event's id is `<epoch>-<seq>`, its data a change as in `/v1/changes`."""
    epoch, since = _start(request)
    hub, client = request.app[HUB], request.app[EDGE].clients.of(request)
    hub.check_room(client)
    return EventStream(request.app[SERVICES].store, hub, client, epoch, since)


def _start(request: web.Request) -> tuple[str | None, int]:
    """The epoch and sequence number that a reader has reached. Last-Event-ID is newer than the URL, which a browser
    repeats as it was; one that was not given out here is of another epoch. Raises BadRequestError."""
    given = taken(request.rel_url.raw_query_string, STREAM)
    last = request.headers.get("Last-Event-ID", "").strip()
    if not last:
        return given.get("epoch"), given.get("since", 0)
    known = _EVENT_ID.fullmatch(last)
    return (known[1], int(known[2])) if known else ("unknown", 0)


class EventStream(web.StreamResponse):
    """What one reader is told: where it stands, and how it is told more. `send` goes on until the reader leaves."""

    def __init__(self, store: Store, hub: Hub, client: str, epoch: str | None, since: int) -> None:
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(headers=headers)
        self._store, self._hub, self._client = store, hub, client
        self._epoch, self._seq = epoch, since
        self._told_at = 0.0

    async def send(self, request: web.Request) -> None:
        """Send until the reader goes or the server ends. Whatever breaks ends the stream: the reader comes back."""
        with self._hub.place(self._client):
            await self.prepare(request)
            if request.method == hdrs.METH_HEAD:
                return
            try:
                await self._tell(_GREETING)
                while not self._hub.closed and request.transport is not None:
                    await self._step()
                if self._hub.closed:
                    await self._tell(b"retry: %d\n\n" % randint(*_COME_BACK))  # noqa: S311 - nothing to guess
            except (ConnectionError, TimeoutError):
                _drop(request)
            except Exception:
                log.exception("a stream broke")
                _drop(request)

    async def _step(self) -> None:
        """Send what there is, or wait."""
        ready = self._hub.since(self._seq) if self._epoch == self._hub.epoch else None
        if ready:
            self._seq = ready[-1][0]
            await self._tell(b"".join(event for _, event in ready))
            return
        if ready is None and await self._catch_up():
            return
        woken = await self._hub.moved(self._seq, min(LOOK_SECONDS, HEARTBEAT_SECONDS))
        if not woken and monotonic() - self._told_at >= HEARTBEAT_SECONDS:
            await self._tell(_HEARTBEAT)

    async def _catch_up(self) -> bool:
        """Send the next changes from the store; whether there were any."""
        found = await to_thread(feed, self._store, self._seq, BATCH, self._epoch)
        changes: list[dict[str, Any]] = found["changes"]
        self._epoch, self._seq = found["epoch"], found["nextSince"]
        if changes:
            await self._tell(b"".join(map(sent, changes)))
        return bool(changes)

    async def _tell(self, data: bytes) -> None:
        async with asyncio.timeout(SLOW_SECONDS):
            await self.write(data)
        self._told_at = monotonic()


def _drop(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
