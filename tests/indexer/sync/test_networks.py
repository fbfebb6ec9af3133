"""A network is stored when its source has named it twice, ten seconds apart."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from indexer.chains import Chain, create
from indexer.chains.failover import FailoverChain
from indexer.errors import OtherNetworkError
from indexer.retries import Backoff
from indexer.sync import follower as following
from indexer.sync.follower import Follower
from tests.chainkit import ChainKit
from tests.evm_server import EvmServer
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.nodes import Node
from tests.solana_server import SolanaServer
from tests.waiting import PATIENCE

MAINNET = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/a2b.db"


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that followers sleep, without sleeping."""
    monkeypatch.setattr("indexer.sync.follower.CONFIRM_SECONDS", 10.0)
    monkeypatch.setattr("indexer.sync.follower.REFUSED", Backoff(0.01, 0.01))
    slept: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        if seconds == 10.0:
            slept.append(seconds)
            seconds = 0
        await sleep(seconds)

    monkeypatch.setattr(following.asyncio, "sleep", note)
    return slept


def test_the_two_answers_are_ten_seconds_apart() -> None:
    source = (Path(following.__file__)).read_text()
    assert "CONFIRM_SECONDS = 10.0\n" in source


async def test_one_wrong_chain_id_at_the_first_start_is_not_stored(url: str, pauses: list[float]) -> None:
    with Indexing(url) as indexing:
        async with EvmServer() as server:
            server.mine_empty(3)
            chain = server.chain("&chain=evm")
            ids = iter(["0x89", *["0x1"] * 9])
            server.alter("eth_chainId", lambda _: next(ids))
            follower = Follower(chain, indexing.store, indexing.writer)
            with pytest.raises(OtherNetworkError, match="said that its network is eip155:137, and says eip155:1 now"):
                await follower.open()
            assert indexing.store.chains() == {}
            await asyncio.wait_for(follower.start(), PATIENCE)
            assert indexing.store.chains() == {"demo": "eip155:1"}
            assert pauses == [10.0, 10.0]
            await chain.close()


async def test_one_wrong_genesis_hash_at_the_first_start_is_not_stored(url: str, pauses: list[float]) -> None:
    with Indexing(url) as indexing:
        async with SolanaServer() as server:
            honest = str(server.genesis)
            genesis = iter(["5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9e", *[honest] * 9])
            server.alter("getGenesisHash", lambda _: next(genesis))
            chain = server.chain(indexing.source_store)
            await asyncio.wait_for(Follower(chain, indexing.store, indexing.writer).start(), PATIENCE)
            assert indexing.store.chains() == {"sol": server.caip2}
            await chain.close()
    assert pauses == [10.0, 10.0]


async def test_one_wrong_genesis_block_of_a_node_at_the_first_start_is_not_stored(
    url: str, kit: ChainKit, pauses: list[float]
) -> None:
    memory = MemoryChain(*kit.blocks)
    with Indexing(url) as indexing:
        async with Node(memory) as node:

            def first_block(_: web.Request) -> web.Response:
                del node.instead["getblockhash"]
                return web.json_response({"result": MAINNET, "error": None, "id": 0})

            node.instead["getblockhash"] = first_block
            chain = create("demo", f"{node.url}?chain=bsv", indexing.source_store)
            await asyncio.wait_for(Follower(chain, indexing.store, indexing.writer).start(), PATIENCE)
            assert indexing.store.chains() == {"demo": "bsv:regtest"}
            await chain.close()
    assert pauses == [10.0]


async def test_several_sources_are_identified_twice_too_and_a_stored_network_only_once(
    url: str, pauses: list[float]
) -> None:
    with Indexing(url) as indexing:
        async with EvmServer() as one, EvmServer() as two:
            for server in (one, two):
                server.mine_empty(3)

            def chain() -> Chain:
                return FailoverChain("demo", [("evm 1", one.chain("&chain=evm")), ("evm 2", two.chain("&chain=evm"))])

            for _ in range(2):
                source = chain()
                await Follower(source, indexing.store, indexing.writer).open()
                assert indexing.store.chains() == {"demo": "eip155:1"}
                await source.close()
    assert pauses == [10.0]


async def test_development_networks_are_not_waited_for(url: str, pauses: list[float]) -> None:
    with Indexing(url) as indexing:
        async with EvmServer(number=31337) as server:
            chain = server.chain("&chain=evm")
            await Follower(chain, indexing.store, indexing.writer).open()
            await chain.close()
    assert pauses == []
