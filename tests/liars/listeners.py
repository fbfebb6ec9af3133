"""Indexers that listen to a liar, and to the same service without one at the same moments: each with a clock of its
own, and its usage is counted."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from indexer.chains.junglebus.chain import JungleBusChain
from indexer.chains.overlay.chain import OverlayChain
from indexer.chains.solana.chain import SolanaChain
from indexer.errors import SourceError
from indexer.state_hash import computed_state_hash, hashed_block, update_state_hash
from indexer.sync.follower import Follower
from indexer.sync.outpoint_monitor import PER_MINUTE, RequestBudget
from tests.indexing import Indexing
from tests.liars.proxy import Proxy
from tests.liars.services import Service

ROUNDS = 8

BEGINNING = 1_750_000_000.0


class Usage(NamedTuple):
    """Requests, characters of the log, and characters of all rows of the database."""

    requests: int
    logged: int
    stored: int


class LogLength(logging.Handler):
    """Counts the characters that are logged."""

    def __init__(self) -> None:
        super().__init__()
        self.characters = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.characters += len(self.format(record))


class Listener:
    """A follower of a service by a proxy, which may be killed."""

    def __init__(self, served: Service, proxy: Proxy, database: Path) -> None:
        self.served, self.proxy, self.database, self.now = served, proxy, database, BEGINNING
        self.indexing = Indexing(f"sqlite:///{database}")
        self.log = LogLength()
        self._connect()

    def clock(self) -> float:
        """The seconds by the clock of this listener."""
        return self.now

    def _connect(self) -> None:
        chain = self.served.chain(self.proxy.port, self.indexing.source_store)
        for client in chain.clients:
            client.clock, client.pauses = self.clock, (0.0,)
        if isinstance(chain, JungleBusChain | OverlayChain | SolanaChain):
            chain.clock = self.clock
        self.indexing.chains = (chain,)

    def _set_clocks(self, follower: Follower) -> None:
        follower.agreement.clock = self.clock
        if follower.second_reader is not None:
            follower.second_reader.clock = self.clock
        if follower.outpoint_monitor is not None and follower.outpoint_monitor.now != self.clock:
            follower.outpoint_monitor.now = self.clock
            follower.outpoint_monitor.budget = RequestBudget(PER_MINUTE, self.clock)

    async def look(self) -> str:
        """Catch up; why not, where an answer is refused."""
        with self._logging():
            try:
                [follower] = await self.indexing.open()
                self._set_clocks(follower)
                await follower.catch_up()
            except SourceError as error:
                for follower in self.indexing.followers:
                    follower.fail(error)
                return str(error)
        return ""

    @contextmanager
    def _logging(self) -> Iterator[None]:
        logger = logging.getLogger("indexer")
        logger.addHandler(self.log)
        try:
            yield
        finally:
            logger.removeHandler(self.log)

    async def settle(self) -> None:
        """Look again and again for the time, and a little, in which all is to be right by itself."""
        for _ in range(ROUNDS):
            await self.look()
            self.now += self.served.patience / (ROUNDS - 2)
        assert await self.look() == ""

    async def kill(self) -> None:
        """End, and start again."""
        for chain in self.indexing.chains:
            await chain.close()
        self.indexing.restart()
        self._connect()

    async def close(self) -> None:
        """End."""
        for chain in self.indexing.chains:
            await chain.close()
        self.indexing.__exit__()

    def state(self) -> dict[str, Any]:
        """All that must be the same: what is live, the state hash and that of the pointers, and what status shows."""
        store, name = self.indexing.store, self.served.name
        newest, records = store.blocks.newest(name), self.indexing.records(name)
        if (hashed := hashed_block(store, name)) is not None:
            stored = update_state_hash(store, self.indexing.writer, name)
            assert stored == computed_state_hash(store, name, hashed.height)
        progress = self.indexing.followers[0].progress
        return {
            "live": {
                item["id"]: (item["card"], item["outpoint"])
                for item in records["registrations"]
                if item["status"] == "live"
            },
            "pointers": sorted(item["outpoint"] for item in records["pointers"]),
            "hashes": computed_state_hash(store, name, newest.height)[1:] if newest else None,
            "status": (progress.state, progress.error),
        }

    def usage(self) -> Usage:
        """The usage until now."""
        with closing(sqlite3.connect(self.database)) as connection:
            stored = sum(len(line) for line in connection.iterdump() if line.startswith("INSERT"))
        return Usage(self.proxy.requests, self.log.characters, stored)


class Pair:
    """A listener to a liar and an honest one, which look at the same moments."""

    def __init__(self, served: Service, listener: Listener, honest: Listener) -> None:
        self.served, self.listener, self.honest = served, listener, honest
        self.proxy = listener.proxy

    async def look(self) -> str:
        """Catch up; why the first cannot."""
        await self.served.ready()
        assert await self.honest.look() == ""
        return await self.listener.look()

    async def kill(self) -> None:
        """End both, and start them again."""
        await self.honest.kill()
        await self.listener.kill()

    def later(self, seconds: float) -> None:
        """So many seconds pass."""
        self.honest.now += seconds
        self.listener.now += seconds

    async def settle(self) -> None:
        """All is honest, and is to be right by itself."""
        self.proxy.honest()
        self.served.grow()
        await self.served.ready()
        await self.honest.settle()
        await self.listener.settle()


@asynccontextmanager
async def pair(served: Service, folder: Path) -> AsyncIterator[Pair]:
    """Both listeners to a service, with their databases in a folder."""
    async with Proxy(served.port) as proxy, Proxy(served.port) as other:
        listeners = [Listener(served, proxy, folder / "a2b.db"), Listener(served, other, folder / "honest.db")]
        try:
            yield Pair(served, *listeners)
        finally:
            for listener in listeners:
                await listener.close()
