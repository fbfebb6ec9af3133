"""Two names of one network, by mistake or by a liar: one holds it, the other is stopped, and nothing is mixed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import delete

from indexer.chains import Chain, create
from indexer.chains.failover import join
from indexer.errors import SourceError, StoppedError
from indexer.headers.networks import NETWORKS
from indexer.retries import Backoff
from indexer.store import chain_marks
from indexer.store.database import OtherChainError
from indexer.store.forgetting import forget_chain
from indexer.store.schema import PROGRAM, meta
from indexer.sync.follower import Follower
from overlay.app.chain_loops import ChainLoops
from parsers.pointers.erc8004 import entry_id
from tests import registry_kit as kit
from tests.chainkit import ChainKit, agent
from tests.evm_server import CONTRACT, EvmServer
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.registry_kit import data_uri, file
from tests.waiting import until

ALICE, MALLORY = "0x" + "a1" * 20, "0x" + "66" * 20
ENTRY = entry_id("eip155:1", CONTRACT, 22)
HELD = r"holds eip155:1, contract 0xc0de\w+, under the name 'erc8004'.*a2b forget erc8004"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/a2b.db"


def row(log: kit.Log) -> dict[str, object]:
    return {"address": CONTRACT, "topics": [f"0x{topic.hex()}" for topic in log.topics], "data": f"0x{log.data.hex()}"}


def registry(server: EvmServer, name: str, contract: str = CONTRACT) -> Chain:
    """The registry at a contract, by an endpoint that may say any chain id."""
    chain = create(name, f"{server.base}?chain=erc8004&contract={contract}")
    chain.poll_seconds, chain.endpoint.rpc.pauses = 0.0, (0.0, 0.01)  # type: ignore[attr-defined]
    return chain


@pytest.fixture
async def honest() -> AsyncIterator[EvmServer]:
    async with EvmServer() as server:
        server.mine(row(kit.registered(22, data_uri(file()), ALICE)))
        server.mine_empty(40)
        yield server


@pytest.fixture
async def liar() -> AsyncIterator[EvmServer]:
    """It says the same chain id, and that the entry is of another owner."""
    async with EvmServer() as server:
        server.mine(row(kit.registered(22, data_uri(file("Forged")), ALICE)))
        server.mine(row(kit.transfer(22, ALICE, MALLORY)), row(kit.transfer(22, MALLORY, kit.NOBODY)))
        server.mine_empty(60)
        yield server


@asynccontextmanager
async def running(indexing: Indexing, *chains: Chain) -> AsyncIterator[list[Follower]]:
    """Followers of these chains, as `a2b up` runs them."""
    names = [chain.name for chain in chains]
    followers = [Follower(chain, indexing.store, indexing.writer, configured=names) for chain in chains]
    tasks = [asyncio.create_task(loop()) for loop in ChainLoops(followers, ends_process=False).loops()]
    try:
        yield followers
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for chain in chains:
            await chain.close()


async def settled(first: Follower, second: Follower) -> None:
    """The first follows, the second is stopped."""
    await until(lambda: (first.progress.state, second.progress.state) == ("following", "stopped"))


def owner(indexing: Indexing) -> object:
    states = [state for state in indexing.store.registrations.states("erc8004", 10**9) if state.id == ENTRY]
    return states[0].owner if states else None


# -- a contract of an EVM network ----------------------------------------------------------------------------------


async def test_a_forged_registry_is_not_mixed_with_the_true_one(
    url: str, honest: EvmServer, liar: EvmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.sync.follower.STOPPED_SECONDS", 0.05)
    true, forged = registry(honest, "erc8004"), registry(liar, "poly")
    opening = slow(true, 0.3)
    with Indexing(url) as indexing:
        async with running(indexing, true, forged) as (first, second):
            await settled(first, second)
            assert opening
            await asyncio.sleep(0.2)  # the stopped one asks again, and is stopped again
            await settled(first, second)
            assert indexing.store.chains() == {"erc8004": "eip155:1"}
            assert second.progress.error.startswith("poly: the database holds eip155:1, contract 0xc0dec0de")
            assert "under the name 'erc8004'" in second.progress.error
            assert "a2b forget erc8004" in second.progress.error
            assert owner(indexing) == ALICE
            assert {revision.chain for revision in indexing.store.history.of(ENTRY)} == {"erc8004"}


def slow(chain: Chain, seconds: float) -> list[float]:
    """Let a chain open only after these seconds; the list has an entry for each time."""
    opened: list[float] = []
    open_: Callable[[], Awaitable[None]] = chain.open

    async def wait() -> None:
        await asyncio.sleep(seconds)
        await open_()
        opened.append(seconds)

    chain.open = wait  # type: ignore[method-assign]
    return opened


async def test_the_stored_one_keeps_the_network_until_it_is_forgotten(
    url: str, honest: EvmServer, liar: EvmServer
) -> None:
    """Whatever the order of the settings."""
    with Indexing(url, registry(honest, "erc8004")) as indexing:
        await indexing.catch_up()
        await indexing.chains[0].close()
        for order in ((0, 1), (1, 0)):
            chains = registry(liar, "poly"), registry(honest, "erc8004")
            async with running(indexing, *(chains[number] for number in order)) as followers:
                by_name = {follower.chain.name: follower for follower in followers}
                await settled(by_name["erc8004"], by_name["poly"])
        new = registry(honest, "registry")
        with pytest.raises(StoppedError, match=HELD):  # the one that holds it is no longer configured
            await Follower(new, indexing.store, indexing.writer).open()
        forget_chain(indexing.writer, "erc8004")
        await Follower(new, indexing.store, indexing.writer).open()
        await new.close()
        assert indexing.store.chains() == {"registry": "eip155:1"}


async def test_another_contract_and_another_network_have_names_of_their_own(url: str, honest: EvmServer) -> None:
    second = "0x" + "ab" * 20
    honest.contracts[second] = "0x6001"
    async with EvmServer(137) as polygon:
        chains = registry(honest, "erc8004"), registry(honest, "two", second), registry(polygon, "three")
        with Indexing(url, *chains) as indexing:
            await indexing.catch_up()
            stored = indexing.store.chains()
        for chain in chains:
            await chain.close()
    assert stored == {"erc8004": "eip155:1", "two": "eip155:1", "three": "eip155:137"}


async def test_of_a_database_of_an_earlier_version_the_contract_is_read_from_its_entries(
    url: str, honest: EvmServer
) -> None:
    chains = registry(honest, "erc8004"), registry(honest, "poly")
    with Indexing(url, chains[0]) as indexing:
        await indexing.catch_up()
        with indexing.writer.transaction() as connection:
            connection.execute(delete(meta).where(meta.c.key.startswith(PROGRAM)))
        with pytest.raises(StoppedError, match=HELD):
            await Follower(chains[1], indexing.store, indexing.writer).open()
        second = "0x" + "ab" * 20
        honest.contracts[second] = "0x6001"
        other = registry(honest, "two", second)
        await Follower(other, indexing.store, indexing.writer).open()
        for chain in (*chains, other):
            await chain.close()


async def test_one_name_has_one_contract(url: str, honest: EvmServer) -> None:
    second = "0x" + "ab" * 20
    honest.contracts[second] = "0x6001"
    with Indexing(url, registry(honest, "erc8004")) as indexing:
        await indexing.catch_up()
        other = registry(honest, "erc8004", second)
        async with running(indexing, other) as (follower,):
            await until(lambda: follower.progress.state == "stopped")
            assert f"holds contract {CONTRACT} under the name 'erc8004', and the source is contract {second}" in (
                follower.progress.error
            )
        with pytest.raises(OtherChainError):
            await Follower(other, indexing.store, indexing.writer).open()
        await other.close()
        await indexing.chains[0].close()
    urls = [f"{honest.base}?chain=erc8004&contract={contract}" for contract in (CONTRACT, second)]
    with pytest.raises(SourceError, match="its sources differ in contract"):
        join("erc8004", urls)


# -- a network with Bitcoin blocks ---------------------------------------------------------------------------------


def mainnet(blocks: ChainKit, name: str, caip2: str = "bsv:mainnet") -> MemoryChain:
    chain = MemoryChain(*blocks.blocks, name=name)
    chain.caip2 = caip2
    return chain


@pytest.fixture
def blocks() -> ChainKit:
    created = ChainKit()
    created.mine(created.inscribe(agent("One")))
    return created


@pytest.mark.parametrize("caip2", [network.caip2 for network in NETWORKS])
async def test_a_network_has_one_name_but_a_regtest_any(url: str, blocks: ChainKit, caip2: str) -> None:
    chains = mainnet(blocks, "bsv", caip2), mainnet(blocks, "node", caip2)
    with Indexing(url) as indexing:
        async with running(indexing, *chains) as (first, second):
            if caip2.endswith(":regtest"):
                await until(lambda: {first.progress.state, second.progress.state} == {"following"})
                return
            await settled(first, second)
            assert f"holds {caip2} under the name 'bsv'" in second.progress.error
            assert "a2b forget bsv" in second.progress.error
            blocks.mine(blocks.inscribe(agent("Two")))
            chains[0].arrive(*blocks.blocks)
            await until(lambda: first.progress.height == blocks.tip.height)
            assert second.progress.height is None


async def test_of_two_that_are_stored_the_first_configured_keeps_the_network(
    url: str, blocks: ChainKit, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As earlier versions could store them."""
    with Indexing(url, mainnet(blocks, "old", "bsv:regtest"), mainnet(blocks, "bsv", "bsv:regtest")) as indexing:
        await indexing.catch_up()
        with indexing.writer.transaction() as connection:
            connection.execute(meta.update().where(meta.c.value == "bsv:regtest").values(value="bsv:mainnet"))
        async with running(indexing, mainnet(blocks, "old"), mainnet(blocks, "bsv")) as (first, second):
            await settled(first, second)
        async with running(indexing, mainnet(blocks, "bsv"), mainnet(blocks, "old")) as (first, second):
            await settled(first, second)
        caplog.clear()
        async with running(indexing, mainnet(blocks, "bsv")) as (only,):
            await until(lambda: only.progress.state == "following")
        assert "holds bsv:mainnet under the name 'old', too: remove that (a2b forget old)" in caplog.text


async def test_a_name_that_becomes_another_network_does_not_take_it_from_the_one_that_holds_it(
    url: str, blocks: ChainKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.sync.follower.BACKOFF", Backoff(0.01, 0.01))
    monkeypatch.setattr("indexer.sync.follower.REFUSED", Backoff(0.01, 0.01))
    monkeypatch.setattr("indexer.sync.follower.PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr("indexer.sync.follower.STOPPED_SECONDS", 0.01)
    bsv, new = mainnet(blocks, "bsv"), MemoryChain(name="new", coin="ltc")
    with Indexing(url, bsv, new) as indexing:
        await indexing.catch_up()
        new.caip2 = "bsv:mainnet"
        async with AsyncExitStack() as stack:
            first, second = await stack.enter_async_context(running(indexing, bsv, new))
            await settled(first, second)
            assert "holds bsv:mainnet under the name 'bsv'" in second.progress.error
            assert indexing.store.chains() == {"bsv": "bsv:mainnet", "new": "ltc:regtest"}
            new.caip2 = "ltc:regtest"
            await until(lambda: second.progress.state == "following")


def test_nothing_is_named_where_the_name_is_refused(url: str) -> None:
    with Indexing(url) as indexing:
        chain_marks.name_chain(indexing.writer, "bsv", "bsv:mainnet")
        for name, caip2 in (("bsv", "ltc:regtest"), ("other", "bsv:mainnet")):
            with pytest.raises(Exception, match="holds bsv:mainnet under the name 'bsv'"):
                chain_marks.name_chain(indexing.writer, name, caip2)
        assert indexing.store.chains() == {"bsv": "bsv:mainnet"}
