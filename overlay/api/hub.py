"""The change feed, read once for all streams: the newest changes stand in memory, ready to be sent."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice

from indexer.store import StoreUnavailableError
from overlay.api.changes_api import feed, sent
from overlay.api.problems import ProblemError
from overlay.counters import Counters
from overlay.news import News
from overlay.ports import Store

log = logging.getLogger(__name__)

WINDOW = 4_000
"""Changes kept in memory: some 1 MB. A stream that is further behind reads the store by itself."""

BATCH = 500

POLL_SECONDS = 1.0
"""How often the store is looked at when nobody tells of news."""

IN_ALL, A_CLIENT = 1_000, 20
"""Streams that a process keeps open."""

STREAMS = 0
"""The number of the gauge that counts open streams."""


class Hub:
    """Wakes streams when there is something after what they have sent, and has it ready."""

    def __init__(self, store: Store, news: News, counters: Counters) -> None:
        self._store, self._news, self._counters = store, news, counters
        self._window: deque[tuple[int, bytes]] = deque(maxlen=WINDOW)
        self._seq: int | None = None
        self.epoch = ""
        self._moved, self._needed = asyncio.Event(), asyncio.Event()
        self._open: Counter[str] = Counter()
        self.closed = False

    def check_room(self, client: str) -> None:
        """Raise ProblemError (429, 503) when too many streams are open already, or none is to be opened any more."""
        if self.closed:
            raise ProblemError(503, "the server is shutting down", headers={"Retry-After": "2"})
        if self._open[client] >= A_CLIENT:
            detail = f"{A_CLIENT} streams are open from your address; close some of them"
            raise ProblemError(429, detail, headers={"Retry-After": "30"})
        if self._open.total() >= IN_ALL:
            detail = f"{IN_ALL:,} streams are open, and no more are served"
            raise ProblemError(503, detail, headers={"Retry-After": "30"})

    @contextmanager
    def place(self, client: str) -> Iterator[None]:
        """A stream of this client is open."""
        self._open[client] += 1
        self._counters.add(STREAMS, 1)
        self._needed.set()
        try:
            yield
        finally:
            self._open -= Counter({client: 1})
            self._counters.add(STREAMS, -1)
            if not self._open:
                self._needed.clear()

    async def run(self) -> None:
        """Read what is new as long as anybody listens, until cancelled."""
        away = False
        with self._news.listen() as woken:
            while True:
                if not self._needed.is_set():
                    self._seq = None
                    await self._needed.wait()
                woken.clear()
                try:
                    await self._read()
                except StoreUnavailableError as error:
                    if not away:  # told once, and again when it was there meanwhile
                        log.warning("the change feed waits for the database: %s", error)
                    away = True
                except Exception:
                    log.exception("the change feed cannot be read; trying again")
                else:
                    away = False
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await woken.wait()

    async def _read(self) -> None:
        """Take everything that is new into memory, and wake the streams."""
        if self._seq is None:
            self._window.clear()
            found = await asyncio.to_thread(self._store.changes, 0, 0)
            self._seq, self.epoch = found.newest_seq, found.epoch
            self._wake()
        more = True
        while more:
            news = await asyncio.to_thread(feed, self._store, self._seq, BATCH, self.epoch)
            if news["changes"] and news["changes"][0]["op"] == "reset":
                self._seq = None
                self._wake()
                return
            self._window.extend((change["seq"], sent(change)) for change in news["changes"])
            more, self._seq = news["more"], news["nextSince"]
            if news["changes"]:
                self._wake()

    def _wake(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def since(self, seq: int) -> list[tuple[int, bytes]] | None:
        """The changes after `seq` as they are sent, None when that is further back than memory reaches."""
        if self._seq is None or not self._window or self._window[0][0] > seq + 1 or self._seq < seq:
            return None
        return list(islice(self._window, seq + 1 - self._window[0][0], None))[:BATCH]

    async def moved(self, seq: int, seconds: float) -> bool:
        """Wait until there may be something after `seq`; False when there was nothing for so many seconds."""
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
