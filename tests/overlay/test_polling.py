"""What other processes write is seen, and nothing is asked of a database that nobody writes to."""

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
from indexer.store.logos import Logos as StoredLogos
from overlay.app import store_watcher
from overlay.app.status_service import StatusService
from overlay.app.store_watcher import StoreWatcher
from overlay.listings.change_notifier import ChangeNotifier
from overlay.listings.logos import LogoImages
from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.serving import settings
from tests.waiting import until

ROUNDS = 20


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("POLL_SECONDS", "LOGOS_SECONDS", "RATES_SECONDS"):
        monkeypatch.setattr(store_watcher, name, 0.001)


class Asked:
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
def asked(mine: object, tmp_path: Path) -> Iterator[Asked]:
    assert mine, "there is a database"
    asked = Asked(f"sqlite:///{tmp_path}/data/a2b.db")
    yield asked
    asked.store.close()


@asynccontextmanager
async def looking(asked: Asked, folder: Path) -> AsyncIterator[tuple[StatusService, LogoImages, asyncio.Event]]:
    """All loops, once each has looked."""
    service = StatusService(settings(folder), asked.store, None, "test")
    news, logos = ChangeNotifier(), LogoImages(StoredLogos(asked.store.engine))
    told = StoreWatcher(asked.store, service, news, logos)
    with news.listen() as woken:
        loops = [asyncio.create_task(loop()) for loop in (told.changes, told.rates, told.logos)]
        try:
            await asyncio.wait_for(woken.wait(), 60)
            await quiet(asked)
            woken.clear()
            yield service, logos, woken
        finally:
            for loop in loops:
                loop.cancel()
            for loop in loops:
                with suppress(asyncio.CancelledError):
                    await loop


async def quiet(asked: Asked) -> int:
    """Wait until nothing is asked any more however often it is looked; the statements so far."""
    while True:
        before, looks = asked.statements, asked.looks
        await until(lambda: asked.looks >= looks + ROUNDS)  # noqa: B023 - it is called at once
        if asked.statements == before:
            return before


async def test_a_database_that_nobody_writes_to_is_asked_for_nothing(asked: Asked, tmp_path: Path) -> None:
    async with looking(asked, tmp_path) as (_, _, woken):
        before = asked.statements
        looks = asked.looks
        await until(lambda: asked.looks >= looks + 5 * ROUNDS)
        assert asked.statements == before
        assert not woken.is_set()


async def test_what_another_process_writes_is_news(
    asked: Asked, mine: Callable[[], Awaitable[object]], tmp_path: Path
) -> None:
    async with looking(asked, tmp_path) as (service, _, woken):
        assert service.stored_heights() == {"live": 2}
        await mine()
        await asyncio.wait_for(woken.wait(), 60)
        await until(lambda: service.stored_heights() == {"live": 3})


async def test_logos_that_were_looked_for_are_noted_though_nobody_else_writes(asked: Asked, tmp_path: Path) -> None:
    async with looking(asked, tmp_path) as (_, logos, _):
        logos.shown(["https://a.example/logo.png"])
        assert logos.has_requests
        await until(lambda: not logos.has_requests)
        await quiet(asked)
        due = StoredLogos(asked.store.engine).due(int(time.time() * 1000) + 1_000, 10)
        assert [url for _, url in due] == ["https://a.example/logo.png"]


async def test_a_look_that_failed_is_made_again(asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = StatusService(settings(tmp_path), asked.store, None, "test")
    told = StoreWatcher(asked.store, service, ChangeNotifier(), LogoImages(StoredLogos(asked.store.engine)))
    calls = []

    def fails() -> None:
        calls.append(1)
        raise ZeroDivisionError

    monkeypatch.setattr(service.exchange, "refresh", fails)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await told.rates()
    assert len(calls) == 2
