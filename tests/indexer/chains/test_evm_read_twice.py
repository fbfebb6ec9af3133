"""EVM logs are read twice: what an endpoint left out comes by itself, and a state hash waits for it."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from indexer.chains import Chain
from indexer.chains.failover import FailoverChain, Pace
from indexer.model import BlockLogs
from indexer.retries import Backoff
from indexer.state_hash import computed_state_hash, hashed_block, stored_state_hash, update_state_hash
from indexer.store.second_readings import FirstReading
from indexer.store.state_hashes import StateHash
from indexer.sync import second_reader
from indexer.sync.second_reader import PAUSE, SETTLED_SECONDS, ReadingDifference, SecondReader, compare
from tests import chain_records
from tests.clocks import Clock
from tests.evm_server import EvmServer, says
from tests.indexing import Indexing
from tests.snapshots import Empty, empty, exported

__all__ = ["empty"]

PACE = Pace(grace=20, poll=0.005, backoff=Backoff(0.005, 0.01))


def shop(number: int) -> dict[str, Any]:
    return says(f"https://shop{number}.example/card.json")


class World:
    """A database that follows some endpoints, with a clock of its own."""

    def __init__(self, indexing: Indexing) -> None:
        self.indexing, self.clock = indexing, Clock()

    @property
    def reader(self) -> SecondReader:
        [follower] = self.indexing.followers
        assert follower.second_reader is not None
        return follower.second_reader

    async def look(self, seconds: float = PAUSE.first) -> World:
        """Some seconds later, look for news."""
        self.clock.now += seconds
        [follower] = await self.indexing.open()
        self.reader.clock = self.clock
        await follower.catch_up()
        return self

    def shops(self) -> list[int]:
        """The heights of all pointers."""
        return [pointer["height"] for pointer in chain_records.pointers(self.indexing.store, "demo")]

    def twice(self) -> int | None:
        return self.indexing.store.read_twice("demo")


@asynccontextmanager
async def following(tmp_path: Path, *chains: Chain) -> AsyncIterator[World]:
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", *chains) as indexing:
        yield World(indexing)
    for chain in chains:
        await chain.close()


@pytest.fixture
async def server() -> AsyncIterator[EvmServer]:
    async with EvmServer(finality=10) as created:
        created.blooms = False  # nothing else tells what was left out
        yield created


@pytest.fixture
async def world(server: EvmServer, tmp_path: Path) -> AsyncIterator[World]:
    async with following(tmp_path, server.chain()) as created:
        yield created


def leave_out(server: EvmServer, *heights: int) -> None:
    """From now on the endpoint does not know the logs of these blocks."""
    server.alter("eth_getLogs", lambda logs: [log for log in logs if int(log["blockNumber"], 16) not in heights])


@pytest.mark.parametrize("height", [1, 70, 100, 110])
async def test_one_empty_answer_loses_nothing(server: EvmServer, world: World, height: int) -> None:
    for number in range(1, 121):
        server.mine(*([shop(number)] if number == height else []))
    server.alter("eth_getLogs", lambda _: [])
    await world.look()
    assert world.shops() == []
    server.faults.clear()
    await world.look()
    assert world.shops() == [height]


async def test_what_appears_is_inserted_by_reading_again_from_its_block(server: EvmServer, world: World) -> None:
    for number in range(1, 41):
        server.mine(shop(number))
    leave_out(server, 7, 20)
    await world.look()
    assert world.shops() == [number for number in range(1, 41) if number not in (7, 20)]
    assert world.twice() == -1
    server.faults.clear()
    await world.look()
    assert world.shops() == [*range(1, 41)]
    assert world.twice() == 6
    before = world.indexing.changes()
    await world.look()
    assert (world.twice(), world.indexing.changes()) == (30, before)


async def test_some_logs_of_a_block_that_were_left_out_appear_too(server: EvmServer, world: World) -> None:
    server.mine(shop(1), shop(2), shop(3))
    server.mine_empty(20)
    server.alter("eth_getLogs", lambda logs: logs[1:2])
    await world.look()
    assert world.shops() == [1]
    server.faults.clear()
    await world.look()
    assert world.shops() == [1, 1, 1]


async def test_final_blocks_are_read_again_two_seconds_apart_and_none_a_third_time(
    server: EvmServer, world: World
) -> None:
    server.mine_empty(3_000)
    server.most_blocks = 700
    await world.look()
    server.ranges.clear()
    for _ in range(20):
        await world.look(PAUSE.first / 2)
    again = [pair for pair in server.ranges if pair[1] - pair[0] < 700]
    assert len(server.ranges) <= 11
    assert again[0][0] == 0
    assert all(later[0] == earlier[1] + 1 for earlier, later in itertools.pairwise(again))
    assert (again[-1][1], world.twice()) == (2_990, 2_990)
    server.ranges.clear()
    await world.look(1_000)
    assert server.ranges == []


async def test_without_the_tag_blocks_are_read_again_ten_minutes_later(server: EvmServer, world: World) -> None:
    server.finality = None
    server.mine_empty(5)
    server.mine(shop(6))
    server.alter("eth_getLogs", lambda _: [])
    await world.look()
    server.faults.clear()
    await world.look()
    server.mine_empty(3)
    await world.look(SETTLED_SECONDS - 100)
    assert (world.twice(), world.shops()) == (-1, [])
    await world.look(100)
    assert (world.twice(), world.shops()) == (5, [6])
    await world.look(SETTLED_SECONDS)
    await world.look(SETTLED_SECONDS)
    assert world.twice() == 9


async def test_a_restart_and_a_reorganisation_take_nothing_of_it_back_but_what_they_delete(
    server: EvmServer, world: World
) -> None:
    server.finality = None
    for number in range(1, 10):
        server.mine(shop(number))
    await world.look()
    await world.look(SETTLED_SECONDS)
    assert world.twice() == 9
    world.indexing.restart()
    await world.look()
    assert world.twice() == 9
    server.fork(6, shop(50))
    await world.look()
    assert (world.twice(), world.shops()) == (6, [1, 2, 3, 4, 5, 6, 7])
    await world.look(SETTLED_SECONDS - PAUSE.first)
    assert world.twice() == 6, "the blocks of the branch were read less than ten minutes ago"
    await world.look(SETTLED_SECONDS)
    assert world.twice() == 10


async def test_another_endpoint_is_read_where_there_is_one_and_logs_that_only_it_has_count(
    server: EvmServer, tmp_path: Path
) -> None:
    for number in range(1, 31):
        server.mine(shop(number))
    async with EvmServer(finality=10) as second:
        second.blocks, second.blocks_by_hash = server.blocks, server.blocks_by_hash
        leave_out(server, 12)
        group = FailoverChain("demo", [("first", server.chain()), ("second", second.chain())], PACE)
        async with following(tmp_path, group) as world:
            await world.look()
            assert 12 not in world.shops()
            requests = server.requests["eth_getLogs"]
            for _ in range(5):
                await world.look(PAUSE.longest)
            assert world.shops() == [*range(1, 31)]
            assert world.twice() == 20
            assert (server.requests["eth_getLogs"], second.requests["eth_getLogs"]) == (requests + 1, 2)
            [follower] = world.indexing.followers
            assert follower.progress.reorgs == 0


async def test_an_endpoint_that_no_longer_has_what_was_read_confirms_nothing(server: EvmServer, world: World) -> None:
    for number in range(1, 31):
        server.mine(shop(number))
    await world.look()
    leave_out(server, 9)
    await world.look()
    assert (world.twice(), world.shops()) == (8, [*range(1, 31)])
    note = "blocks above 8 are not read a second time yet: the source now answers otherwise for block 9"
    [follower] = world.indexing.followers
    assert note in follower.progress.note
    for _ in range(3):
        await world.look(PAUSE.longest)
    assert (world.twice(), world.shops()) == (8, [*range(1, 31)])
    server.faults.clear()
    await world.look(PAUSE.longest)
    assert (world.twice(), follower.progress.note) == (20, "")


async def test_an_endpoint_that_does_not_answer_the_second_time_is_followed_and_says_so(
    server: EvmServer, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.mine_empty(30)
    await world.look()
    monkeypatch.setattr(second_reader, "NOTED_FAILURES", 2)
    server.alter("eth_getLogs", lambda _: 7)
    [follower] = world.indexing.followers
    await world.look()
    assert (follower.progress.state, follower.progress.note) == ("following", "")
    await world.look(PAUSE.longest)
    assert follower.progress.note.endswith("the source does not answer for the next ones")
    server.faults.clear()
    await world.look(PAUSE.longest)
    assert (world.twice(), follower.progress.note) == (20, "")


async def test_logs_of_a_branch_that_is_not_read_are_not_inserted(server: EvmServer, tmp_path: Path) -> None:
    server.mine_empty(30)
    async with EvmServer(finality=10) as second:
        second.blocks = server.blocks[:]
        second.fork(15, shop(1))
        group = FailoverChain("demo", [("first", server.chain()), ("second", second.chain())], PACE)
        async with following(tmp_path, group) as world:
            await world.look()
            await world.look()
            assert (world.shops(), world.twice()) == ([], 15)
            [follower] = world.indexing.followers
            assert "otherwise for block 16" in follower.progress.note
            await world.look(PAUSE.longest)  # now the first is asked
            assert (world.twice(), follower.progress.note) == (20, "")


async def test_a_development_network_is_read_again_at_once(tmp_path: Path) -> None:
    async with EvmServer(number=31337) as server:
        server.mine(shop(1))
        async with following(tmp_path, server.chain()) as world:
            await world.look()
            await world.look()
            assert world.twice() == 1


async def test_the_state_hash_is_that_of_the_newest_block_that_was_read_twice(server: EvmServer, world: World) -> None:
    store, writer = world.indexing.store, world.indexing.writer
    for number in range(1, 31):
        server.mine(*([shop(number)] if number % 3 == 0 else []))
    await world.look()
    assert update_state_hash(store, writer, "demo") == StateHash(30, None)
    await world.look()
    hashed = hashed_block(store, "demo")
    assert hashed is not None
    assert (world.twice(), hashed.height) == (20, 18)
    stored = update_state_hash(store, writer, "demo")
    assert stored == stored_state_hash(store, "demo") == computed_state_hash(store, "demo", 18)
    assert stored is not None
    assert stored.pointers is not None
    assert stored.pointers.total == 6


async def test_a_snapshot_holds_what_was_read_twice(server: EvmServer, world: World, empty: Empty) -> None:
    for number in range(1, 31):
        server.mine(*([shop(number)] if number % 3 == 0 else []))
    await world.look()
    assert b'"chains":[]' in exported(world.indexing.store)
    await world.look()
    text = exported(world.indexing.store)
    empty.take(text.splitlines(keepends=True), trust=True)
    newest = empty.store.blocks.newest("demo")
    assert newest is not None
    assert (newest.height, empty.store.read_twice("demo")) == (18, 18)
    assert stored_state_hash(empty.store, "demo") == computed_state_hash(world.indexing.store, "demo", 18)
    assert exported(empty.store) == text


NONE, ONE, ELSE, TWO = BlockLogs(0, b"0"), BlockLogs(1, b"1"), BlockLogs(1, b"x"), BlockLogs(2, b"2")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (None, (b"h", ONE), ReadingDifference.MORE),
        (FirstReading(b"h", NONE), None, ReadingDifference.SAME),
        (FirstReading(b"h", ONE), None, ReadingDifference.OTHER),
        (FirstReading(b"h", ONE), (b"h", ONE), ReadingDifference.SAME),
        (FirstReading(b"h", ONE), (b"h", ELSE), ReadingDifference.OTHER),
        (FirstReading(b"h", ONE), (b"h", TWO), ReadingDifference.MORE),
        (FirstReading(b"h", TWO), (b"h", ONE), ReadingDifference.OTHER),
        (FirstReading(b"h", ONE), (b"g", TWO), ReadingDifference.OTHER),
        (FirstReading(b"h", NONE), (b"h", TWO), ReadingDifference.MORE),
        (FirstReading(b"h", None), (b"h", TWO), ReadingDifference.SAME),
        (FirstReading(b"h", None), None, ReadingDifference.SAME),
    ],
)
def test_a_second_reading_confirms_adds_or_contradicts(
    first: FirstReading | None, second: tuple[bytes, BlockLogs] | None, expected: ReadingDifference
) -> None:
    assert compare(first, second) is expected
