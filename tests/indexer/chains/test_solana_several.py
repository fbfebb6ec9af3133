"""Several endpoints of one cluster: another is used where one fails, lags, answers wrongly or is of another cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from indexer.chains.failover import join
from indexer.chains.solana.chain import SolanaChain
from indexer.chains.solana.endpoint import RETURN_SECONDS
from indexer.errors import SourceError, SourceRefusalError, SourceUnavailableError
from tests.chainkit import agent
from tests.clocks import Clock
from tests.indexing import Indexing
from tests.solana_server import PROGRAM, SolanaServer, hurry, named

ACCOUNTS = "getProgramAccounts"


class World:
    """Two endpoints with the same accounts, and an indexer of both."""

    def __init__(self, one: SolanaServer, two: SolanaServer, indexing: Indexing) -> None:
        self.one, self.two, self.indexing = one, two, indexing
        urls = [f"{server.url}?program={PROGRAM}" for server in (one, two)]
        created = join("sol", urls, indexing.source_store)
        assert isinstance(created, SolanaChain)
        hurry(created)
        self.chain = created
        indexing.chains = (created,)

    def put(self, name: str, body: dict[str, Any]) -> None:
        for server in (self.one, self.two):
            server.put(name, body)

    async def live(self) -> set[str]:
        await self.indexing.catch_up()
        return self.indexing.live("sol")

    def ids(self, *names: str) -> set[str]:
        return {self.one.id(name) for name in names}

    @property
    def calls(self) -> tuple[int, int]:
        return self.one.calls()[ACCOUNTS], self.two.calls()[ACCOUNTS]


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with SolanaServer() as one, SolanaServer() as two:
        with Indexing(f"sqlite:///{tmp_path}/several.db") as indexing:
            created = World(one, two, indexing)
            yield created
            await created.chain.close()


async def test_only_one_endpoint_is_read_as_long_as_it_answers(world: World) -> None:
    world.put("a", agent("A"))
    assert await world.live() == world.ids("a")
    world.put("b", agent("B"))
    assert await world.live() == world.ids("a", "b")
    assert world.calls[1] == 0


@pytest.mark.parametrize("status", [403, 429, 500])
async def test_another_takes_over_at_once_and_stays(world: World, status: int) -> None:
    world.put("a", agent("A"))
    await world.live()
    world.one.fail(ACCOUNTS, status)
    world.put("b", agent("B"))
    assert await world.live() == world.ids("a", "b")
    query = world.calls[0]
    world.put("c", agent("C"))
    assert await world.live() == world.ids("a", "b", "c")
    assert world.calls[0] == query


async def test_the_first_is_used_again_after_a_while_and_rights_what_the_other_sent(world: World) -> None:
    clock = world.chain.endpoint.rpc.clock = Clock()
    world.put("a", agent("A"))
    await world.live()
    world.one.fail(ACCOUNTS, 500)
    world.two.put("liar", agent("Liar"))
    world.one.slot = world.two.slot
    assert await world.live() == world.ids("a", "liar")
    clock.now += RETURN_SECONDS - 1
    world.put("b", agent("B"))
    assert await world.live() == world.ids("a", "b", "liar")
    clock.now += 1
    world.put("c", agent("C"))
    assert await world.live() == world.ids("a", "b", "c")
    world.one.fail(ACCOUNTS, 500)
    world.put("d", agent("D"))
    assert await world.live() == world.ids("a", "b", "c", "d", "liar")


async def test_one_that_lags_behind_what_was_read_is_passed_over(world: World) -> None:
    world.put("a", agent("A"))
    await world.live()
    world.one.slot -= 100
    world.two.put("b", agent("B"))
    assert await world.live() == world.ids("a", "b")


async def test_a_source_with_a_false_answer_is_not_queried_the_next_time(world: World) -> None:
    world.put("a", agent("A"))
    await world.live()
    world.one.alter(ACCOUNTS, lambda answer: {**answer, "value": None})
    world.put("b", agent("B"))
    with pytest.raises(SourceUnavailableError, match="sends an invalid answer"):
        await world.live()
    assert await world.live() == world.ids("a", "b")


async def test_where_all_fail_the_chain_is_waited_for(world: World) -> None:
    world.put("a", agent("A"))
    await world.live()
    world.one.fail(ACCOUNTS, 403)
    world.two.fail(ACCOUNTS, 500)
    with pytest.raises(SourceUnavailableError):
        await world.live()
    world.one.fail(ACCOUNTS, 403)
    world.two.fail(ACCOUNTS, 403)
    with pytest.raises(SourceRefusalError, match="refuses access"):
        await world.live()
    assert await world.live() == world.ids("a")


async def test_accounts_of_another_cluster_are_not_read_though_the_first_endpoint_was_right(tmp_path: Path) -> None:
    async with SolanaServer() as one, SolanaServer("another") as two:
        with Indexing(f"sqlite:///{tmp_path}/several.db") as indexing:
            world = World(one, two, indexing)
            one.put("a", agent("A"))
            await world.live()
            two.put("b", agent("B"))
            two.advance(1000)
            one.fail(ACCOUNTS, 500)
            with pytest.raises(SourceError, match="the endpoint is another cluster's"):
                await world.live()
            assert indexing.live("sol") == world.ids("a")
            assert not indexing.store.history.in_blocks("sol", [bytes(named("b"))])
            await world.chain.close()


async def test_a_source_that_fails_after_its_accounts_is_not_replaced_in_one_reading(world: World) -> None:
    await world.live()
    world.put("a", agent("A"))
    world.one.fail("getGenesisHash", 500)
    with pytest.raises(SourceUnavailableError, match="sent accounts, and no longer answers"):
        await world.live()
    assert await world.live() == world.ids("a")


def test_endpoints_of_different_programs_are_not_one_chain() -> None:
    urls = [f"https://a.example/?program={PROGRAM}", f"https://b.example/?program={named('another')}"]
    with pytest.raises(SourceError, match="sol: its sources differ in program, poll, from, max-answer;"):
        join("sol", urls)


async def test_an_endpoint_that_asks_to_wait_waits_for_an_hour_while_another_answers(world: World) -> None:
    one, two = world.chain.endpoint.rpc.all
    assert (one.has_substitute(), two.has_substitute()) == (False, False)
    world.put("Alpha", agent("Alpha"))
    await world.live()
    assert (one.has_substitute(), two.has_substitute()) == (False, True)
    world.one.fail(ACCOUNTS, 429, Retry_After="9999")
    await world.live()
    assert (one.has_substitute(), two.has_substitute()) == (True, False)
    with pytest.raises(SourceUnavailableError, match=r"asks to wait for 3,[56]"):
        await one.call(ACCOUNTS)
    two.has_substitute = one.has_substitute = lambda: False
    with pytest.raises(SourceUnavailableError, match=r"asks to wait for (600|59.)"):
        await one.call(ACCOUNTS)
