"""Writes of other processes are seen, and a database without writers gets no queries."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from indexer.store import Store, connect
from indexer.store.logos import LOGO_CHECK
from indexer.store.logos import Logos as StoredLogos
from overlay.api.client_tokens import ClientTokens
from overlay.app import store_watcher
from overlay.app.status_service import StatusService
from overlay.app.store_watcher import StoreWatcher
from overlay.listings.change_notifier import ChangeNotifier
from overlay.listings.logos import LogoImages
from tests.chainkit import ChainKit, agent
from tests.due_checks import due
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.serving import settings
from tests.waiting import PATIENCE, until

ROUNDS = 20


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("POLL_SECONDS", "LOGOS_SECONDS", "RATES_SECONDS"):
        monkeypatch.setattr(store_watcher, name, 0.001)


class CountedStore:
    """A store that counts the statements that are put to it, and how often it was asked for a stamp."""

    def __init__(self, url: str) -> None:
        self.store = Store(connect(url))
        self.statements = self.looks = 0
        event.listen(self.store.engine, "before_cursor_execute", self._count)
        stamp = self.store.stamp

        def counted() -> int:
            self.looks += 1
            return stamp()

        self.store.stamp = counted  # type: ignore[method-assign]

    def _count(self, *_: Any) -> None:
        self.statements += 1


@pytest.fixture
async def mine(tmp_path: Path) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    """Mines one more block, which another process stores."""
    (tmp_path / "data").mkdir()
    kit = ChainKit()
    kit.mine(kit.inscribe(agent("Router")))
    chain = MemoryChain(*kit.blocks, name="live")
    with Indexing(f"sqlite:///{tmp_path}/data/a2b.db", chain) as source:
        await source.catch_up()

        async def mine() -> None:
            chain.arrive(kit.mine())
            await source.catch_up()

        yield mine


@pytest.fixture
def counted_store(mine: object, tmp_path: Path) -> Iterator[CountedStore]:
    assert mine, "there is a database"
    query = CountedStore(f"sqlite:///{tmp_path}/data/a2b.db")
    yield query
    query.store.close()


async def again(job: Callable[[], Awaitable[None]]) -> None:
    while True:
        await job()
        await asyncio.sleep(0.01)


@asynccontextmanager
async def looking(query: CountedStore, folder: Path) -> AsyncIterator[tuple[StatusService, LogoImages, asyncio.Event]]:
    """All loops, once each has looked."""
    service = StatusService(settings(folder), query.store, None, "test")
    news, logos = ChangeNotifier(), LogoImages(StoredLogos(query.store.engine))
    watcher = StoreWatcher(query.store, service, news, logos, ClientTokens())
    with news.listen() as woken:
        loops = [
            asyncio.create_task(again(job)) for job in (watcher.changes, watcher.rates, watcher.logos, watcher.clients)
        ]
        try:
            await asyncio.wait_for(woken.wait(), PATIENCE)
            await settled(query)
            woken.clear()
            yield service, logos, woken
        finally:
            for loop in loops:
                loop.cancel()
            for loop in loops:
                with suppress(asyncio.CancelledError):
                    await loop


async def settled(query: CountedStore) -> int:
    """Wait until nothing is asked any more however often it is looked; the statements so far."""
    while True:
        before, looks = query.statements, query.looks
        await until(lambda: query.looks >= looks + ROUNDS)  # noqa: B023 - it is called at once
        if query.statements == before:
            return before


async def test_a_database_without_writers_gets_no_query(counted_store: CountedStore, tmp_path: Path) -> None:
    async with looking(counted_store, tmp_path) as (_, _, woken):
        before = counted_store.statements
        looks = counted_store.looks
        await until(lambda: counted_store.looks >= looks + 5 * ROUNDS)
        assert counted_store.statements == before
        assert not woken.is_set()


async def test_what_another_process_writes_is_news(
    counted_store: CountedStore, mine: Callable[[], Awaitable[object]], tmp_path: Path
) -> None:
    async with looking(counted_store, tmp_path) as (service, _, woken):
        assert service.stored_heights() == {"live": 2}
        await mine()
        await asyncio.wait_for(woken.wait(), PATIENCE)
        await until(lambda: service.stored_heights() == {"live": 3})


async def test_logos_that_were_looked_for_are_noted_though_nobody_else_writes(
    counted_store: CountedStore, tmp_path: Path
) -> None:
    async with looking(counted_store, tmp_path) as (_, logos, _):
        logos.shown(["https://a.example/logo.png"])
        assert logos.has_requests
        engine = counted_store.store.engine
        ready = await until(lambda: due(engine, LOGO_CHECK, int(time.time() * 1000) + 1_000))
        assert [url for _, url in ready] == ["https://a.example/logo.png"]
        assert not logos.has_requests


async def test_a_look_that_failed_is_made_again(
    counted_store: CountedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = StatusService(settings(tmp_path), counted_store.store, None, "test")
    watcher = StoreWatcher(
        counted_store.store,
        service,
        ChangeNotifier(),
        LogoImages(StoredLogos(counted_store.store.engine)),
        ClientTokens(),
    )
    calls = []

    def fails() -> None:
        calls.append(1)
        raise ZeroDivisionError

    monkeypatch.setattr(service.exchange, "refresh", fails)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await watcher.rates()
    assert len(calls) == 2
