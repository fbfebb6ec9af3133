"""The contract of every source that reports the contents of its blocks, whatever it is: alone, and followed into a
store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest
import pytest_asyncio

from indexer.chains import HTTP_CHAINS, Chain
from indexer.errors import SourceUnavailableError
from indexer.model import BlockRef
from indexer.store import Revision
from tests.contracts.sparse_sources import PLUGS, Plug
from tests.indexing import Indexing
from tests.waiting import PATIENCE


class World:
    """A source, and what follows it into a database that outlives it."""

    def __init__(self, plug: Plug, url: str) -> None:
        self.plug, self.url = plug, url
        self._start()

    def _start(self) -> None:
        self.indexing = Indexing(self.url)
        self.chain = self.plug.fresh(self.indexing.source_store)
        self.indexing.chains = (self.chain,)

    async def stop(self) -> None:
        await self.chain.close()
        self.indexing.__exit__()

    async def restart(self) -> None:
        await self.stop()
        self._start()

    async def look(self) -> list[Revision]:
        """Bring the store to the tip; all it holds then, in the order of the chain."""
        await self.indexing.catch_up()
        return self.indexing.store.history.select()

    @property
    def stored(self) -> list[BlockRef]:
        """The blocks in the store, from the newest down."""
        position, results = self.indexing.store.blocks.newest("demo"), []
        while position is not None:
            results.append(position)
            position = self.indexing.store.blocks.below("demo", position.height)
        return results


@pytest_asyncio.fixture(params=list(PLUGS))
async def plug(request: pytest.FixtureRequest) -> AsyncIterator[Plug]:
    async with PLUGS[request.param]() as created:
        yield created


@pytest_asyncio.fixture
async def world(plug: Plug, tmp_path: Path) -> AsyncIterator[World]:
    created = World(plug, f"sqlite:///{tmp_path}/a2b.db")
    yield created
    await created.stop()


def test_every_kind_of_such_a_source_is_put_to_the_contract() -> None:
    assert {module.rpartition(".")[2] for module in HTTP_CHAINS.values()} <= set(PLUGS)


async def test_it_says_what_it_is_once_it_is_open(plug: Plug, world: World) -> None:
    await world.chain.open()
    assert world.chain.sparse
    assert (world.chain.name, world.chain.caip2) == ("demo", plug.caip2)
    assert world.chain.network in ("mainnet", "testnet", "regtest")
    assert world.chain.rules.envelope is None
    assert world.chain.checked


async def test_blocks_come_in_order_up_to_the_tip_and_are_those_of_the_source(plug: Plug, world: World) -> None:
    for _ in range(2):
        plug.say()
        plug.pass_by()
    plug.say()
    await world.chain.open()
    tip = await world.chain.tip()
    assert tip is not None
    answers = [ref async for ref, _ in world.chain.blocks(world.chain.first, tip.height)]
    assert answers[-1] == tip
    assert all(lower.height < upper.height for lower, upper in pairwise(answers))
    assert [await world.chain.ref(ref.height) for ref in answers] == answers
    assert await world.chain.ref(tip.height + 1) is None
    assert [ref async for ref, _ in world.chain.blocks(tip.height + 1, tip.height + 9)] == []


async def test_events_are_appended_once_with_their_block(plug: Plug, world: World) -> None:
    heights = []
    for number in range(1, 4):
        plug.say()
        plug.pass_by()
        message = await world.look()
        assert len(message) == number
        assert await world.look() == message
        heights.append(message[-1].height)
    assert sorted(set(heights)) == heights
    blocks = {ref.height: ref for ref in world.stored}
    assert all(blocks[past.height].hash == past.hash for past in message)
    assert all(blocks[past.height].time == past.time for past in message)
    assert all(upper.prev == lower.hash for upper, lower in pairwise(world.stored))


async def test_a_restart_changes_nothing_and_misses_no_event_in_between(plug: Plug, world: World) -> None:
    plug.say()
    before = await world.look()
    await world.restart()
    assert await world.look() == before
    plug.pass_by()
    await world.restart()
    plug.say()
    plug.pass_by()
    late = await world.look()
    assert late[: len(before)] == before
    assert len(late) == len(before) + 1


async def test_a_reorganisation_takes_back_events(plug: Plug, world: World) -> None:
    if plug.fork is None:
        pytest.skip("this source tells only what is final")
    plug.say()
    plug.pass_by()
    plug.say()
    first, second = await world.look()
    for restarted in (False, True):
        if restarted:
            await world.restart()
        plug.fork()
        stored, other = await world.look()
        assert stored == first
        assert (other.height, other.hash) != (second.height, second.hash)
        assert other.event != second.event
        second = other
    assert world.indexing.followers[0].progress.reorgs == 1
    assert all(upper.prev == lower.hash for upper, lower in pairwise(world.stored))


async def test_garbage_is_not_believed_and_following_goes_on_when_it_is_over(plug: Plug, world: World) -> None:
    plug.say()
    before = await world.look()
    plug.garble()
    plug.say()
    for _ in range(2):
        with pytest.raises(SourceUnavailableError):
            await world.look()
    assert world.indexing.store.history.select() == before
    plug.mend()
    assert len(await world.look()) == 2


async def test_two_databases_that_saw_it_at_different_times_hold_the_same(
    plug: Plug, world: World, tmp_path: Path
) -> None:
    for _ in range(3):
        plug.say()
        await world.look()
        plug.pass_by()
    other = World(plug, f"sqlite:///{tmp_path}/other.db")
    ours, theirs = await world.look(), await other.look()
    await other.stop()
    assert len(ours) == 3
    # a snapshot that shows several things at once has an order of its own
    assert {(past.event.outpoint, past.event.kind) for past in ours} == {
        (past.event.outpoint, past.event.kind) for past in theirs
    }


async def test_it_has_no_mempool_no_values_and_no_transactions(plug: Plug, world: World) -> None:
    plug.say()
    (message,) = await world.look()
    tip = await world.chain.tip()
    assert tip is not None
    assert message.event.outpoint is not None
    assert await world.chain.mempool() is None
    assert await world.chain.values([message.event.outpoint], tip) == {}
    assert await world.chain.transactions([message.event.txid]) == {}


async def test_waiting_ends_when_its_time_is_over_and_nothing_is_new(world: World) -> None:
    await world.chain.open()
    tip = await world.chain.tip()
    for _ in range(3):
        await asyncio.wait_for(world.chain.wait(0.01), PATIENCE)
        assert await world.chain.tip() == tip


async def test_closing_twice_and_opening_again_is_no_trouble(plug: Plug, world: World) -> None:
    await world.chain.close()
    plug.say()
    for _ in range(2):
        await world.chain.open()
        assert await world.chain.tip() is not None
        await world.chain.close()
        await world.chain.close()


async def test_a_cancelled_question_does_not_spoil_the_next(plug: Plug, world: World) -> None:
    plug.say()
    await world.chain.open()
    for question in (world.chain.tip, lambda: world.chain.wait(5), world.chain.mempool, lambda: world.chain.ref(0)):
        query = asyncio.ensure_future(question())
        await asyncio.sleep(0)
        query.cancel()
        await asyncio.gather(query, return_exceptions=True)
    assert len(await world.look()) == 1


async def test_reading_can_be_given_up_in_the_middle_and_begun_again(plug: Plug, world: World) -> None:
    plug.say()
    plug.pass_by()
    plug.say()
    chain: Chain = world.chain
    await chain.open()
    tip = await chain.tip()
    assert tip is not None
    stream = chain.blocks(chain.first, tip.height)
    first = await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]
    again = [pair async for pair in chain.blocks(chain.first, tip.height)]
    assert again[0][0] == first[0]
    assert again[-1][0] == tip
