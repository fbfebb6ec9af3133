"""What other processes write into the store, seen by looking now and then: changes, exchange rates, logos."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from indexer.store import Store
from indexer.store.outbox import Outbox
from overlay.logos import Logos
from overlay.news import News
from overlay.standing import Standing

_Seen = TypeVar("_Seen")

POLL_SECONDS = 0.1
"""How often a process that only serves looks for what another one has written."""

LOGOS_SECONDS = 1.0
"""How often is noted which logos were looked for, and looked which are there."""

RATES_SECONDS = 1.0
"""How often what another process has quoted is looked for."""


class Polling:
    """Loops that end when they are cancelled. All they look at is in the store, so they ask it for nothing while that
    says that nobody wrote (`Store.stamp`). They raise what the database raises, and can be begun again."""

    def __init__(self, store: Store, standing: Standing, news: News, logos: Logos) -> None:
        self._store, self._standing, self._news, self._logos = store, standing, news, logos
        self._stamps: dict[str, int] = {}
        self._quoted = asyncio.Event()

    def quoted(self) -> None:
        """Something was quoted here: `rates` looks at once."""
        self._quoted.set()

    async def changes(self) -> None:
        """What is new for the index, and how far the chains are stored."""
        seen: tuple[Outbox, dict[str, int]] | None = None
        while True:
            newest = await self._when_written("changes", self._look)
            # a block that has nothing for the index is news, too: searches are answered for its height from then on
            if newest is not None and (newest, self._standing.reached()) != seen:
                seen = newest, self._standing.reached()
                self._news.tell()
            await asyncio.sleep(POLL_SECONDS)

    def _look(self) -> Outbox:
        newest = self._store.outbox()
        self._standing.look()
        return newest

    async def rates(self) -> None:
        """What was quoted, here or in another process, so that no answer has to wait for it."""
        while True:
            self._quoted.clear()
            await self._when_written("rates", self._standing.exchange.look)
            with suppress(TimeoutError):
                async with asyncio.timeout(RATES_SECONDS):
                    await self._quoted.wait()

    async def logos(self) -> None:
        """Which logos were looked for, for the process that fetches, and which it has fetched."""
        while True:
            if self._logos.are_noted:
                self._stamps.pop("logos", None)
            await self._when_written("logos", self._logos.flush)
            await asyncio.sleep(LOGOS_SECONDS)

    async def _when_written(self, name: str, look: Callable[[], _Seen]) -> _Seen | None:
        """Look, in a thread, unless nobody wrote since this was looked at."""
        stamp = self._store.stamp()  # before looking: what is written meanwhile is looked at again
        if stamp == self._stamps.get(name):
            return None
        found = await asyncio.to_thread(look)
        self._stamps[name] = stamp
        return found
