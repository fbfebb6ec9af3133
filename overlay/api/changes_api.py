"""Routes of the change feed: pages of changes, and server-sent events that continue where a reader broke off."""

from __future__ import annotations

import asyncio
import logging
import re
from random import randint
from time import monotonic
from typing import Any

from aiohttp import hdrs, web

from indexer.store import StoreUnavailableError
from overlay.api.answers import SERVICES, conditional
from overlay.api.change_broadcaster import BATCH, BROADCASTER, ChangeBroadcaster, as_event, feed
from overlay.api.parameters import CHANGES, STREAM, read_query
from overlay.api.request_context import CONTEXT
from overlay.api.request_cost import in_thread
from overlay.listings.repository import ListingRepository
from overlay.text.compact_json import encode

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 15.0
"""Seconds without a change after which a comment is sent, as a sign of life for proxies and readers."""

LOOK_SECONDS = 2.0
"""Seconds between checks that the reader of an idle stream is still connected."""

SLOW_SECONDS = 10.0
"""Seconds after which a reader that takes nothing is dropped; it reconnects and continues."""

_GREETING = b"retry: 2000\n\n"
_COME_BACK = 1_000, 6_000  # milliseconds, random, so that the readers of a stopped server do not all reconnect at once
_HEARTBEAT = b":\n\n"
_EVENT_ID = re.compile(r"(?:([^\s-]{1,64}(?:-[^\s-]{1,64}){0,4})-)?([0-9]{1,18})")


async def changes(request: web.Request) -> web.Response:
    """The change feed after a sequence number, in order, without gaps. A change names a listing to read again.
    `revert`: a reorganisation back to `height` undid events of the listing, which may no longer exist. `reset`: discard
    all and read from 0."""
    parameters = read_query(request, CHANGES)
    store, since, limit = request.app[SERVICES].store, parameters.get("since", 0), parameters.get("limit", 100)
    return conditional(encode(await in_thread(feed, store, since, limit, parameters.get("epoch"))))


async def stream(request: web.Request) -> web.StreamResponse:
    """The change feed as server-sent events without gaps, from the beginning or from `Last-Event-ID` or `since`. An
    event's id is `<epoch>-<seq>`, its data a change as in `/v1/changes`."""
    epoch, since = _start(request)
    broadcaster, client = request.app[BROADCASTER], request.app[CONTEXT].clients.of(request)
    broadcaster.check_limits(client)
    return EventStream(request.app[SERVICES].store, broadcaster, client, epoch, since)


def _start(request: web.Request) -> tuple[str | None, int]:
    """The epoch and sequence number that a reader has reached. Last-Event-ID is newer than the URL, which a browser
    repeats; it may be a number alone, as in `since`; a malformed one counts as that of another epoch. Raises
    BadRequestError."""
    parameters = read_query(request, STREAM)
    last = request.headers.get("Last-Event-ID", "").strip()
    if not last:
        return parameters.get("epoch"), parameters.get("since", 0)
    match = _EVENT_ID.fullmatch(last)
    return (match[1], int(match[2])) if match else ("unknown", 0)


class EventStream(web.StreamResponse):
    """The response of one reader of the stream, with its position. `send` runs until the reader leaves."""

    def __init__(
        self, store: ListingRepository, broadcaster: ChangeBroadcaster, client: str, epoch: str | None, since: int
    ) -> None:
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(headers=headers)
        self._store, self._broadcaster, self._client = store, broadcaster, client
        self._epoch, self._seq = epoch, since
        self._sent_at = 0.0

    async def send(self, request: web.Request) -> None:
        """Send until the reader leaves or the server shuts down. Any error ends the stream; the reader reconnects."""
        with self._broadcaster.open_stream(self._client):
            try:
                await self.prepare(request)
                if request.method == hdrs.METH_HEAD:
                    return
                await self._send(_GREETING)
                while not self._broadcaster.closed and request.transport is not None:
                    await self._step()
                if self._broadcaster.closed:
                    await self._send(b"retry: %d\n\n" % randint(*_COME_BACK))  # noqa: S311 - nothing to guess
            except (ConnectionError, TimeoutError, StoreUnavailableError):  # the broadcaster logs an outage, once
                _drop(request)
            except Exception:
                log.exception("a stream broke")
                _drop(request)

    async def _step(self) -> None:
        """Send the changes that are ready, or wait for some."""
        ready = self._broadcaster.since(self._seq) if self._epoch == self._broadcaster.epoch else None
        if ready:
            self._seq = ready[-1][0]
            await self._send(b"".join(event for _, event in ready))
            return
        if ready is None and await self._catch_up():
            return
        woken = await self._broadcaster.wait_for_change(self._seq, min(LOOK_SECONDS, HEARTBEAT_SECONDS))
        if not woken and monotonic() - self._sent_at >= HEARTBEAT_SECONDS:
            await self._send(_HEARTBEAT)

    async def _catch_up(self) -> bool:
        """Send the next changes from the store; False when there were none."""
        page = await asyncio.to_thread(feed, self._store, self._seq, BATCH, self._epoch)
        changes: list[dict[str, Any]] = page["changes"]
        self._epoch, self._seq = page["epoch"], page["nextSince"]
        if changes:
            await self._send(b"".join(map(as_event, changes)))
        return bool(changes)

    async def _send(self, data: bytes) -> None:
        async with asyncio.timeout(SLOW_SECONDS):
            await self.write(data)
        self._sent_at = monotonic()


def _drop(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
