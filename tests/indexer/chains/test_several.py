"""Several sources of one chain: waiting, closing, what they share, and how they are configured."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer.chains.failover import FailoverChain, SharedHeaders, join
from indexer.errors import SourceError
from indexer.model import BlockRef
from tests.chainkit import ChainKit
from tests.fakes import MemoryChain
from tests.indexer.chains.sources import QUICK, heights, opened, states
from tests.waiting import PATIENCE, until


async def test_waiting_ends_with_news_of_any_source(kit: ChainKit) -> None:
    first, second = MemoryChain(*kit.blocks), MemoryChain(*kit.blocks)
    async with opened(first, second) as failover:
        await until(lambda: states(failover) == ["current", "ready"])
        for chain in (second, first):
            await failover.wait(0)
            await failover.wait(0)
            waiting = asyncio.create_task(failover.wait(2 * PATIENCE))
            await asyncio.sleep(0)
            assert not waiting.done()
            chain.arrive(kit.mine())
            await asyncio.wait_for(waiting, PATIENCE)


async def test_a_source_that_fails_while_it_is_waited_for_is_left(kit: ChainKit) -> None:
    first, second = MemoryChain(*kit.blocks), MemoryChain(*kit.blocks)
    async with opened(first, second) as failover:
        await until(lambda: states(failover) == ["current", "ready"])
        first.down = "gone"
        await asyncio.wait_for(failover.wait(2 * PATIENCE), PATIENCE)
        assert states(failover) == ["unreachable", "ready"]
        await failover.tip()
        assert states(failover) == ["unreachable", "current"]


async def test_closing_closes_all_and_ends_every_task_twice_if_need_be(kit: ChainKit) -> None:
    gone = MemoryChain(*kit.blocks)
    failover_chain = FailoverChain("demo", [("a", MemoryChain(*kit.blocks)), ("b", gone)], QUICK)
    await failover_chain.open()
    gone.down = "no route"
    before = asyncio.all_tasks()
    await failover_chain.close()
    await failover_chain.close()
    assert len(before) == 3
    assert asyncio.all_tasks() == {asyncio.current_task()}
    gone.down = ""
    await failover_chain.open()
    assert (await failover_chain.tip()) is not None
    await failover_chain.close()


class Broken(MemoryChain):
    """A source that fails in a way that is not a source's matter, such as a full disk under its headers."""

    full = False

    async def tip(self) -> BlockRef | None:
        if self.full:
            raise OSError(28, "No space left on device")
        return await super().tip()


async def test_what_is_not_a_sources_fault_is_not_hidden(kit: ChainKit) -> None:
    broken = Broken(*kit.blocks)
    failover_chain = FailoverChain("demo", [("a", MemoryChain(*kit.blocks)), ("b", broken)], QUICK)
    await failover_chain.open()
    broken.full = True
    await until(failover_chain.group.monitors[1].done)
    with pytest.raises(OSError, match="No space left"):
        await failover_chain.tip()
    await failover_chain.close()


class SavedHeaders:
    """Kept headers that note who saved."""

    def __init__(self) -> None:
        self.saved: list[tuple[str, int, bytes]] = []

    def load_headers(self, chain: str) -> Iterator[tuple[int, bytes]]:
        yield 0, chain.encode() * 20

    def save_headers(self, chain: str, first: int, headers: bytes) -> None:
        self.saved.append((chain, first, headers))


def test_only_the_first_source_that_saves_headers_goes_on_saving() -> None:
    stored = SavedHeaders()
    saver: dict[str, SharedHeaders] = {}
    one, two = SharedHeaders(stored, saver), SharedHeaders(stored, saver)
    assert list(one.load_headers("demo")) == list(two.load_headers("demo")) == [(0, b"demo" * 20)]
    two.save_headers("demo", 1, b"b" * 80)
    one.save_headers("demo", 1, b"a" * 80)
    two.save_headers("demo", 2, b"c" * 80)
    assert stored.saved == [("demo", 1, b"b" * 80), ("demo", 2, b"c" * 80)]


async def test_block_folders_are_joined_by_their_urls(kit: ChainKit, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        kit.write(tmp_path / name)
    urls = [f"files:{tmp_path}/{name}?chain=bsv&network=regtest" for name in ("one", "two")]
    assert not isinstance(join("demo", urls[:1]), FailoverChain)
    failover = join("demo", urls)
    assert isinstance(failover, FailoverChain)
    await failover.open()
    await until(lambda: states(failover) == ["current", "ready"])
    assert [row["source"] for row in failover.sources] == ["files 1", "files 2"]
    assert await heights(failover, 0, 1) == [0, 1]
    await failover.close()


def test_a_subscription_cannot_be_one_of_several_sources(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="bsv: junglebus 2 delivers only part of each block"):
        join("bsv", [f"files:{tmp_path}?network=mainnet", f"junglebus:{'ab' * 32}"])
