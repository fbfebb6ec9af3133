"""Poll the store for the writes of other processes: changes, exchange rates, logos, clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from indexer.store import Store
from indexer.store.outbox import OutboxPosition
from overlay.api.client_tokens import ClientTokens
from overlay.app.status_service import StatusService
from overlay.listings.change_notifier import ChangeNotifier
from overlay.listings.logos import LogoImages

_Result = TypeVar("_Result")

POLL_SECONDS = 0.1
"""Pause between two polls for changes, in a process that only serves."""

LOGOS_SECONDS = 1.0
"""Pause between storing which logos were requested, and reading which were fetched."""

RATES_SECONDS = 1.0
"""Pause between two polls for exchange rates that another process fetched."""

CLIENTS_SECONDS = 1.0
"""Pause between two polls for clients that the operator added or revoked."""


class StoreWatcher:
    """The jobs that follow the store. None of them reads it while `Store.stamp` is unchanged. They raise the errors of
    the database."""

    def __init__(
        self, store: Store, status: StatusService, notifier: ChangeNotifier, logos: LogoImages, tokens: ClientTokens
    ) -> None:
        self._store, self._status, self._notifier, self._logos = store, status, notifier, logos
        self._tokens = tokens
        self._stamps: dict[str, int] = {}
        self._last: tuple[OutboxPosition, dict[str, int]] | None = None

    async def changes(self) -> None:
        """Notify of new rows of the outbox, and of new blocks without any: searches answer for their height then."""
        outbox = await self._read_if_written("changes", self._read_changes)
        if outbox is not None and (outbox, self._status.stored_heights()) != self._last:
            self._last = outbox, self._status.stored_heights()
            self._notifier.notify()

    def _read_changes(self) -> OutboxPosition:
        outbox = self._store.outbox.position()
        self._status.refresh()
        return outbox

    async def rates(self) -> None:
        """Read new exchange rates into memory: no request waits for them."""
        await self._read_if_written("rates", self._status.exchange.refresh)

    async def logos(self) -> None:
        """Store which logos were requested, for the process that fetches, and read which were fetched."""
        if self._logos.has_requests:
            self._stamps.pop("logos", None)
        await self._read_if_written("logos", self._logos.flush)

    async def clients(self) -> None:
        """Read the clients with limits of their own."""
        stored = await self._read_if_written("clients", self._store.clients.all)
        if stored is not None:
            self._tokens.renew(stored)

    async def _read_if_written(self, name: str, read: Callable[[], _Result]) -> _Result | None:
        """Read in a thread, unless nothing was written since the last read of this name."""
        stamp = self._store.stamp()  # before reading: what is written meanwhile is read the next time
        if stamp == self._stamps.get(name):
            return None
        result = await asyncio.to_thread(read)
        self._stamps[name] = stamp
        return result
