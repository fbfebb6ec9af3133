"""A service of several parts in this process: an indexer that follows a chain in memory, and overlays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from indexer.settings import Settings
from indexer.store import Store, Writer, connect, unchecked
from overlay.api.changes_api import feed
from overlay.api.identity_key import read_or_create
from overlay.app.composition import AppContext
from overlay.app.runner import Runner
from overlay.app.storage import open_duplicates
from overlay.engines import EngineError
from overlay.listings.repository import ListingRepository
from overlay.projection.search_index import SearchIndex
from overlay.search.query import Query
from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.replication.servers import PATIENCE


class GrowingChain:
    """A chain whose blocks each register an agent, `Router <number>`."""

    def __init__(self) -> None:
        self.kit, self.count = ChainKit(), 0
        self.chain = MemoryChain(name="live")

    def mine(self, count: int = 1) -> None:
        """More blocks of the best chain, known to the source at once."""
        for _ in range(count):
            self.kit.mine(self.kit.inscribe(agent(f"Router {self.count}")))
            self.count += 1
        self.chain.arrive(*self.kit.blocks)

    @property
    def names(self) -> set[str]:
        """All that should be listed."""
        return {f"Router {number}" for number in range(self.count)}


def shown(engine: SearchIndex) -> set[str]:
    """The names that a search shows; none while the index is away."""
    try:
        hits = engine.search(Query(limit=100)).hits
    except EngineError:
        return set()
    return {json.loads(bytes(hit.item))["name"] for hit in hits}


class Reader:
    """A reader of the change feed that keeps the ids of changes, and counts resets."""

    def __init__(self) -> None:
        self.epoch: str | None = None
        self.since, self.resets = 0, 0
        self.ids: set[str] = set()

    def read(self, store: Store) -> None:
        """All there is."""
        more = True
        while more:
            result = feed(ListingRepository(store), self.since, 100, self.epoch)
            if result["changes"] and result["changes"][0]["op"] == "reset":
                self.resets += 1
                self.ids, self.since, self.epoch = set(), 0, None
                continue
            self.ids |= {change["id"] for change in result["changes"]}
            self.epoch, self.since, more = result["epoch"], result["nextSince"], result["more"]


def settings(folder: Path, database: str, search: str, **more: Any) -> Settings:
    """Of a process with a data folder of its own, and a key that it does not share with others."""
    folder.mkdir(parents=True, exist_ok=True)
    read_or_create(folder / "identity.json")
    flags = {"data": str(folder), "database": database, "search": search, "port": 0, "chains": "live=files:/nowhere"}
    flags["identity_key"] = str(folder / "identity.json")
    return Settings.load({**flags, **more})


def new_app(answer: Settings, *chains: MemoryChain) -> AppContext:
    """A process that follows these chains and serves, or serves only."""
    answer.data.mkdir(parents=True, exist_ok=True)
    if answer.database_read:
        store = Store(connect(answer.database_read, replica=True), unchecked(answer.database))
    else:
        store = Store(connect(answer.database))
    return AppContext(
        settings=answer, store=store, chains=chains, writer=Writer(store.engine) if chains else None,
        engine=SearchIndex(answer.search), duplicates=open_duplicates(answer),
    )  # fmt: skip


_RUNNING: list[asyncio.Task[None]] = []


@asynccontextmanager
async def running(app_context: AppContext) -> AsyncIterator[Runner]:
    """The loops of a context; what ends them early fails the test."""
    runner = Runner(app_context)
    task = asyncio.create_task(runner.run())
    _RUNNING.append(task)
    try:
        yield runner
    finally:
        _RUNNING.remove(task)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        app_context.close()


async def until(what: Callable[[], Any]) -> Any:
    """Poll until something holds, while all that is running runs."""
    async with asyncio.timeout(PATIENCE):
        while not (result := await asyncio.to_thread(what)):
            await asyncio.sleep(0.02)
            for task in _RUNNING:
                if task.done():
                    task.result()
    return result


class Parts:
    """An indexer that follows a growing chain into a database, and an overlay that serves from it, each with an index
    of its own in files below a folder."""

    def __init__(self, growing: GrowingChain, database: str, folder: Path) -> None:
        self._growing = growing
        self._indexer = _part(folder / "a", database, growing.chain)
        self._overlay = _part(folder / "b", database)
        self.store = self._overlay.store

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Runner]:
        """The loops of both; those of the indexer are given."""
        async with running(self._indexer) as runner, running(self._overlay):
            yield runner

    @property
    def shown(self) -> set[str]:
        """The names that the overlay shows."""
        assert self._overlay.engine is not None
        return shown(self._overlay.engine)

    async def until_listed(self) -> None:
        """Wait until both show all that the chain has registered."""
        for item in (self._indexer.engine, self._overlay.engine):
            assert item is not None
            await until(lambda engine=item: shown(engine) == self._growing.names)


def _part(folder: Path, database: str, *chains: MemoryChain) -> AppContext:
    return new_app(settings(folder, database, f"native:{folder}/index"), *chains)
