"""The change feed as JSON, and one reader of it for all streams: the newest changes are in memory, ready to be sent."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any

from aiohttp import web

from indexer.client_networks import ClientCounter
from indexer.store import DATABASE_ERRORS
from overlay.api.counters import Counters
from overlay.api.problems import ProblemError
from overlay.listings.change_notifier import ChangeNotifier
from overlay.listings.records import FeedChange
from overlay.listings.repository import ListingRepository
from overlay.text.compact_json import encode

log = logging.getLogger(__name__)

WINDOW = 4_000
"""Changes in memory, some 1 MB. A stream that lags further reads the store."""

BATCH = 500

POLL_SECONDS = 1.0
"""Seconds between reads of the store while no change is notified."""

IN_ALL, A_CLIENT = 1_000, 20
"""Open streams: of a process, and of a client (`client_networks`)."""

STREAMS = 0
"""The number of the gauge that counts open streams."""


def feed(store: ListingRepository, since: int, limit: int, epoch: str | None) -> dict[str, Any]:
    """At most `limit` changes after `since`, as the schema `Changes`. A `since` of another database, or of a later
    state before a backup was restored, gets a single `reset`: the reader discards everything and reads from 0. A
    replica that lags gets none."""
    page = store.changes(since, limit, epoch)
    if page.may_be_behind and not page.continues:
        page = store.surely_changes(since, limit, epoch)
    rows = page.rows
    if not page.continues:
        reason = "since is not a sequence number of this epoch: forget everything and read from 0"
        rows = (FeedChange(0, "reset", None, None, reason, page.epoch),)
    last = rows[-1].seq if rows else since
    return {
        "changes": [{"seq": row.seq, "epoch": row.epoch} | row._asdict() for row in rows],
        "epoch": rows[-1].epoch if rows else page.epoch,
        "nextSince": last,
        "more": last < page.newest_seq,
    }


def as_event(change: dict[str, Any]) -> bytes:
    """A change as a server-sent event; its id is where a reader continues."""
    return b"id: %b-%d\ndata: %b\n\n" % (change["epoch"].encode(), change["seq"], encode(change))


class ChangeBroadcaster:
    """Reads the change feed once for all open streams, and wakes them when there are changes."""

    def __init__(self, store: ListingRepository, notifier: ChangeNotifier, counters: Counters) -> None:
        self._store, self._notifier, self._counters = store, notifier, counters
        self._window: deque[tuple[int, bytes]] = deque(maxlen=WINDOW)
        self._seq: int | None = None
        self.epoch = ""
        self._moved, self._needed = asyncio.Event(), asyncio.Event()
        self._open = ClientCounter()
        self.closed = False

    def check_limits(self, client: str) -> None:
        """Raise ProblemError: 429 or 503 when too many streams are open, 503 when the server shuts down."""
        if self.closed:
            raise ProblemError(503, "the server is shutting down", headers={"Retry-After": "2"})
        if full := self._open.full_network(client, A_CLIENT):
            detail = f"{A_CLIENT * full.factor} streams are open from {full.title}; close some of them"
            raise ProblemError(429, detail, headers={"Retry-After": "30"})
        if self._open.total >= IN_ALL:
            detail = f"{IN_ALL:,} streams are open, and no more are served"
            raise ProblemError(503, detail, headers={"Retry-After": "30"})

    @contextmanager
    def open_stream(self, client: str) -> Iterator[None]:
        """Count a stream of this client while it is open."""
        self._open.add(client)
        self._counters.add(STREAMS, 1)
        self._needed.set()
        try:
            yield
        finally:
            self._open.remove(client)
            self._counters.add(STREAMS, -1)
            if not self._open.total:
                self._needed.clear()

    async def run(self) -> None:
        """Read new changes while any stream is open, until cancelled. Raises DATABASE_ERRORS."""
        with self._notifier.listen() as woken:
            while True:
                if not self._needed.is_set():
                    self._seq = None
                    await self._needed.wait()
                woken.clear()
                try:
                    await self._read()
                except DATABASE_ERRORS:
                    raise
                except Exception:
                    log.exception("the change feed cannot be read; trying again")
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await woken.wait()

    async def _read(self) -> None:
        """Read all new changes into memory, and wake the streams."""
        if self._seq is None:
            self._window.clear()
            newest = await asyncio.to_thread(self._store.changes, 0, 0)
            self._seq, self.epoch = newest.newest_seq, newest.epoch
            self._wake()
        more = True
        while more:
            page = await asyncio.to_thread(feed, self._store, self._seq, BATCH, self.epoch)
            if page["changes"] and page["changes"][0]["op"] == "reset":
                self._seq = None
                self._wake()
                return
            for change in page["changes"]:
                if change["epoch"] != self.epoch:
                    self._window.clear()  # which holds changes of one epoch
                    self.epoch = change["epoch"]
                self._window.append((change["seq"], as_event(change)))
            more, self._seq = page["more"], page["nextSince"]
            if page["changes"]:
                self._wake()

    def _wake(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def since(self, seq: int) -> list[tuple[int, bytes]] | None:
        """The changes after `seq` as events, None where memory does not reach back so far."""
        if self._seq is None or not self._window or self._window[0][0] > seq + 1 or self._seq < seq:
            return None
        return list(islice(self._window, seq + 1 - self._window[0][0], None))[:BATCH]

    async def wait_for_change(self, seq: int, seconds: float) -> bool:
        """Wait until there may be changes after `seq`; False after the timeout in seconds."""
        waiting = self._moved
        if self._seq is not None and self._seq > seq:
            return True
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await waiting.wait()
            return True
        return False

    def close(self) -> None:
        """End all streams."""
        self.closed = True
        self._wake()


BROADCASTER: web.AppKey[ChangeBroadcaster] = web.AppKey("change broadcaster", ChangeBroadcaster)
