"""An indexer and overlays outlast what befalls a real primary and its standby."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from indexer.state_hash import state_hash
from indexer.store import Store, connect
from tests.indexing import Indexing
from tests.replication.conftest import Pair
from tests.replication.living import GrowingChain, Parts, Reader, until
from tests.replication.servers import caught_up

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""A connection that is cut in the middle of a stream leaves its cursor open, and psycopg says so."""


async def as_new(growing: GrowingChain, folder: Path) -> str | None:
    """The state hash that a new database has of the chain."""
    with Indexing(f"sqlite:///{folder}/new.db", growing.chain) as indexing:
        await indexing.catch_up()
        return state_hash(indexing.store, "live", len(growing.chain.best) - 1)


def stored(url: str, growing: GrowingChain) -> str | None:
    engine = connect(url)
    try:
        return state_hash(Store(engine), "live", len(growing.chain.best) - 1)
    finally:
        engine.dispose()


async def test_cut_connections_and_a_restart_are_outlasted(pair: Pair, tmp_path: Path) -> None:
    primary, _ = pair
    url, growing = primary.url("registry"), GrowingChain()
    growing.mine(2)
    parts = Parts(growing, url, tmp_path)
    async with parts.running():
        await parts.until_listed()
        reader = Reader()
        for _ in range(3):
            assert await asyncio.to_thread(primary.cut) > 2
            growing.mine()
            await parts.until_listed()
        await asyncio.to_thread(reader.read, parts.store)
        await asyncio.to_thread(primary.stop, signal.SIGQUIT)
        growing.mine()
        assert parts.shown == growing.names - {f"Router {growing.count - 1}"}, "files answer meanwhile"
        await asyncio.to_thread(primary.start)
        await parts.until_listed()
        await asyncio.to_thread(reader.read, parts.store)
        assert reader.resets == 0
        assert len(reader.ids) == growing.count
    assert stored(url, growing) == await as_new(growing, tmp_path)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("pair", ["sync"], indirect=True)
async def test_a_synchronous_failover_loses_nothing(pair: Pair, tmp_path: Path) -> None:
    primary, standby = pair
    url, growing, reader = primary.url("registry", standby), GrowingChain(), Reader()
    growing.mine(2)
    parts = Parts(growing, url, tmp_path)
    async with parts.running() as runner:
        await parts.until_listed()
        await asyncio.to_thread(reader.read, parts.store)
        growing.mine(30)
        await until(lambda: (runner.status.progress["live"].height or 0) > 5)
        await asyncio.to_thread(primary.stop)
        acknowledged = runner.status.progress["live"].height or 0
        # nobody writes yet: what the standby holds is what was acknowledged, and no less
        held = standby.ask("SELECT max(height) FROM blocks", "registry")
        assert held >= acknowledged
        await asyncio.to_thread(standby.promote)
        growing.mine()
        await parts.until_listed()
        await asyncio.to_thread(reader.read, parts.store)
        assert len(reader.ids) == growing.count
        assert reader.resets == 0, "the new primary has all that was read"
    assert stored(standby.url("registry"), growing) == await as_new(growing, tmp_path)


async def test_an_asynchronous_failover_converges_after_a_reset(pair: Pair, tmp_path: Path) -> None:
    primary, standby = pair
    url, growing, reader = primary.url("registry", standby), GrowingChain(), Reader()
    growing.mine(3)
    parts = Parts(growing, url, tmp_path)
    async with parts.running():
        await parts.until_listed()
        await asyncio.to_thread(caught_up, primary, standby)
        await asyncio.to_thread(standby.stop, signal.SIGINT)
        growing.mine(4)  # which the standby never hears of
        await parts.until_listed()
        await asyncio.to_thread(reader.read, parts.store)
        before, epoch = reader.since, reader.epoch
        await asyncio.to_thread(primary.stop)
        await asyncio.to_thread(standby.start)
        assert standby.ask("SELECT max(seq) FROM changes", "registry") < before
        growing.mine()
        await asyncio.to_thread(standby.promote)
        await parts.until_listed()
        await asyncio.to_thread(reader.read, parts.store)
        assert (reader.resets, len(reader.ids)) == (1, growing.count)
        assert reader.epoch != epoch
    assert stored(standby.url("registry"), growing) == await as_new(growing, tmp_path)
