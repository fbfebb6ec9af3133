"""Several sources of a chain without work: the order in which they are configured decides, not length (law 26)."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from indexer.chains.failover import FailoverChain
from indexer.chains.failover.source import SourceState
from indexer.errors import SourceError, SourceUnavailableError
from indexer.model import BlockRef
from indexer.state_hash import computed_state_hash
from indexer.sync.agreement import PATIENCE_SECONDS, RETURN_SECONDS, STOP_SECONDS, DeepReorgError
from indexer.sync.follower import Follower
from tests.chainkit import agent
from tests.clocks import Clock
from tests.evm_server import EvmServer, says
from tests.indexer.chains.sources import QUICK
from tests.indexing import Indexing
from tests.waiting import until

FINALITY = 10


def inscribed(name: str) -> dict[str, Any]:
    """A log that carries a card in full."""
    body = json.dumps(agent(name)).encode()
    return says("data:application/json;base64," + base64.b64encode(body).decode())


class World:
    """Two endpoints of one name, `one` configured first, and an indexer of both with a clock of its own."""

    def __init__(self, one: EvmServer, two: EvmServer, folder: Path) -> None:
        self.one, self.two, self.folder, self.clock = one, two, folder, Clock()
        self.count = 0
        self.indexing = Indexing(f"sqlite:///{folder}/a2b.db")
        self._connect()

    def _connect(self) -> None:
        store = self.indexing.source_store
        self.ends = [server.chain(store=store) for server in (self.one, self.two)]
        for chain in self.ends:
            chain.endpoint.rpc.pauses = ()
        self.chain = FailoverChain("demo", [("one", self.ends[0]), ("two", self.ends[1])], QUICK, self.clock)
        self.indexing.chains = (self.chain,)

    @property
    def follower(self) -> Follower:
        [follower] = self.indexing.followers
        return follower

    @property
    def states(self) -> list[str]:
        return [source.state.value for source in self.chain.group.sources]

    async def look(self) -> str:
        """Catch up; why not, where a source is not believed."""
        try:
            [follower] = await self.indexing.open()
            follower.agreement.clock = self.clock
            await follower.catch_up()
        except SourceError as error:
            return str(error)
        return ""

    def grow(self, server: EvmServer, blocks: int = 1) -> None:
        """Something is registered, something is pointed at, and so many blocks say nothing."""
        self.count += 1
        server.mine(inscribed(f"Agent {self.count}"), says(f"https://shop{self.count}.example/card.json"))
        server.mine_empty(blocks - 1)

    def share(self) -> None:
        """The second has what the first has."""
        self.two.blocks = list(self.one.blocks)
        self.two.blocks_by_hash |= self.one.blocks_by_hash

    async def lose(self, server: EvmServer) -> None:
        """An endpoint goes away, and all look for it."""
        await server.stop()
        number = (self.one, self.two).index(server)
        await until(lambda: self.is_lost(number))

    def is_lost(self, number: int) -> bool:
        source = self.chain.group.sources[number]
        return source is self.chain.group.current or source.state is not SourceState.READY

    async def regain(self, server: EvmServer) -> None:
        """It is back, and has answered for a while."""
        await server.start()
        number = (self.one, self.two).index(server)
        await until(lambda: self.chain.group.sources[number].state is SourceState.READY)
        self.clock.now += QUICK.probation

    async def kill(self) -> None:
        await self.chain.close()
        self.indexing.restart()
        self._connect()

    async def close(self) -> None:
        await self.chain.close()
        self.indexing.__exit__()

    def state(self, indexing: Indexing) -> dict[str, Any]:
        """All that must be the same: what is live, the state hash and that of the pointers."""
        newest, records = indexing.store.blocks.newest("demo"), indexing.records()
        assert newest is not None
        return {
            "live": {item["id"]: item["card"] for item in records["registrations"] if item["status"] == "live"},
            "pointers": sorted(item["outpoint"] for item in records["pointers"]),
            "hashes": computed_state_hash(indexing.store, "demo", newest.height),
        }

    async def must_agree(self) -> None:
        """Check that the store equals that of a run that read only the first endpoint."""
        with Indexing(f"sqlite:///{self.folder}/honest.db") as honest:
            honest.chains = (self.one.chain(store=honest.source_store),)
            try:
                await honest.catch_up()
                expected = self.state(honest)
            finally:
                await honest.chains[0].close()
        assert expected["live"]
        assert expected["pointers"]
        assert self.state(self.indexing) == expected

    def sources(self) -> list[int]:
        """The numbers of the sources of the stored blocks, in order of height."""
        with self.indexing.store.engine.connect() as connection:
            return [row[0] for row in connection.exec_driver_sql("SELECT source FROM blocks ORDER BY height")]


@pytest_asyncio.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr("indexer.chains.evm.chain.FINAL_SECONDS", 0.0)
    async with EvmServer(finality=FINALITY) as one, EvmServer(finality=FINALITY) as two:
        one.mine_empty(50)
        created = World(one, two, tmp_path)
        try:
            created.grow(one, 30)
            created.share()
            assert await created.look() == ""
            yield created
        finally:
            await created.close()


async def deceived(world: World) -> None:
    """The first endpoint went away; the second has a longer branch of its own, with registrations, which is stored."""
    await world.lose(world.one)
    world.two.fork(len(world.one.blocks) - 5, inscribed("Liar"), says("https://liar.example/card.json"))
    world.two.mine_empty(200)
    world.grow(world.two, 40)
    assert await world.look() == ""
    assert {*world.sources()} == {1, 2}


@pytest.mark.parametrize("is_killed", [False, True])
async def test_when_the_first_is_back_the_longer_branch_of_the_second_is_rolled_back_to_any_depth(
    world: World, is_killed: bool
) -> None:
    await deceived(world)
    world.grow(world.one, 12)
    await world.regain(world.one)
    assert "contradicts the stored blocks above" in await world.look()
    if is_killed:
        await world.kill()
        assert "contradicts the stored blocks above" in await world.look()
    await world.lose(world.two)
    world.clock.now += RETURN_SECONDS
    assert await world.look() == ""
    await world.must_agree()
    assert {*world.sources()} == {1}


async def test_blocks_that_the_second_invented_above_the_tip_of_the_first_are_rolled_back(world: World) -> None:
    await world.lose(world.one)
    world.two.mine_empty(400)
    assert await world.look() == ""
    await world.regain(world.one)
    assert await world.look() == ""
    assert "it may be syncing" in world.follower.agreement.note
    world.grow(world.one)
    invented = int(world.two.blocks[-1].row["timestamp"], 16)
    world.one.blocks[-1].row["timestamp"] = hex(invented + 12)
    assert "contradicts the stored blocks above" in await world.look()
    world.clock.now += RETURN_SECONDS
    assert await world.look() == ""
    assert {*world.sources()} == {1}
    await world.must_agree()


async def test_one_answer_of_the_first_takes_back_nothing(world: World) -> None:
    await deceived(world)
    deep = world.state(world.indexing)
    await world.regain(world.one)
    world.clock.now += RETURN_SECONDS - 1
    world.grow(world.one)
    assert "contradicts the stored blocks above" in await world.look()
    world.one.blocks = list(world.two.blocks)  # it agrees with the second again
    world.ends[0].headers.clear()
    assert await world.look() == ""
    assert world.state(world.indexing) == deep


async def test_the_second_rolls_back_no_final_block_of_the_first(world: World) -> None:
    world.grow(world.one, 30)
    world.share()
    assert await world.look() == ""
    before = world.state(world.indexing)
    await world.lose(world.one)
    world.two.fork(20, inscribed("Liar"))
    world.two.mine_empty(200)
    assert "contradicts the stored blocks above" in await world.look()
    world.clock.now += PATIENCE_SECONDS
    assert "contradicts the stored blocks above" in await world.look()
    world.clock.now += STOP_SECONDS
    with pytest.raises(DeepReorgError):
        await world.follower.catch_up()
    assert world.state(world.indexing) == before
    world.grow(world.one)
    await world.regain(world.one)
    assert await world.look() == ""
    await world.must_agree()


async def test_what_an_honest_second_brought_stays_as_the_first_agrees(world: World) -> None:
    await world.lose(world.one)
    world.grow(world.one, 40)
    world.share()
    assert await world.look() == ""
    await world.regain(world.one)
    world.grow(world.one)
    assert await world.look() == ""
    assert world.follower.progress.reorgs == 0
    assert [number for number in world.sources() if number > 1]
    await world.must_agree()


async def test_length_is_no_argument_while_the_first_answers_and_moves(world: World) -> None:
    world.two.fork(len(world.one.blocks) - 5, inscribed("Liar"))
    world.two.mine_empty(100)
    for _ in range(3):
        world.grow(world.one)
        world.clock.now += QUICK.tolerance * 2
        assert await world.look() == ""
    await world.must_agree()
    assert {*world.sources()} == {1}


async def test_a_second_that_cannot_be_compared_does_not_hold_the_first_off(world: World) -> None:
    await deceived(world)
    source = world.chain.group.sources[0]
    ref = world.ends[1].ref

    async def fails(_height: int) -> BlockRef | None:
        raise SourceUnavailableError("demo: nothing to compare")

    world.ends[1].ref = fails  # type: ignore[method-assign]
    world.grow(world.one, 12)
    await world.regain(world.one)
    await world.chain.tip()
    assert world.chain.group.current is source
    world.ends[1].ref = ref  # type: ignore[method-assign]


async def test_sources_disagree_at_once_about_final_blocks_and_else_after_a_while(world: World) -> None:
    first, second = world.chain.group.sources
    assert (world.chain.disagreement, world.chain.warnings) == ("", [])
    common = len(world.one.blocks) - 3
    world.two.fork(common)
    await until(lambda: second.forked_since is not None)
    assert world.chain.disagreement == ""
    world.clock.now += QUICK.tolerance
    text = world.chain.disagreement
    assert text.startswith(f"the sources disagree: above block {common}, two is on another branch than one;")
    assert world.chain.warnings == [text]
    assert await world.look() == ""
    assert world.follower.progress.disagreement == text
    world.share()
    await until(lambda: world.chain.disagreement == "")
    world.two.fork(len(world.one.blocks) - FINALITY - 5)
    await until(lambda: "two is on another branch than one" in world.chain.disagreement)
    world.share()
    await until(lambda: world.chain.disagreement == "")
    assert await world.look() == ""
    assert world.follower.progress.disagreement == ""
    assert first is world.chain.group.current


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_the_second_says_what_is_stored_in_the_end_is_what_the_first_has(
    world: World, seed: int
) -> None:
    chance, is_there = random.Random(f"sources {seed}"), True
    for _ in range(25):
        step = chance.choice(("grow", "branch", "lie", "lie", "honest", "lose", "lose", "regain", "kill", "wait"))
        if step == "grow":
            world.grow(world.one, chance.randint(1, 6))
        elif step == "branch":
            world.one.fork(len(world.one.blocks) - chance.randint(2, 4), inscribed(f"Branch {chance.random()}"))
        elif step == "lie":
            world.two.fork(len(world.two.blocks) - chance.randint(2, 30), inscribed(f"Liar {chance.random()}"))
            world.two.mine_empty(chance.randint(0, 90))
        elif step == "honest":
            world.share()
        elif step == "lose" and is_there:
            await world.one.stop()
            is_there = False
        elif step == "regain" and not is_there:
            await world.one.start()
            is_there = True
        elif step == "kill":
            await world.kill()
        world.clock.now += chance.choice((1, 30, 400))
        await world.look()
    if not is_there:
        await world.one.start()
    await until(lambda: world.states[0] == "ready")
    world.clock.now += QUICK.probation
    for _ in range(8):
        world.grow(world.one)
        await world.look()
        world.clock.now += PATIENCE_SECONDS / 6
    assert await world.look() == ""
    await world.must_agree()
