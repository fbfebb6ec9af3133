"""Lookups over a chain that grows and forks: the output is where the satoshi is now."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from parsers.bitcoin import beef
from parsers.bitcoin.tx import Outpoint
from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.serving import new_app, serving
from tests.waiting import PATIENCE, until_told

REGISTRY = "ls_agent_registry"


class Registry:
    """A chain, and a client of the service that follows it."""

    def __init__(self, kit: ChainKit, chain: MemoryChain, client: ClientSession) -> None:
        self.kit, self.chain, self._client = kit, chain, client

    async def lookup(self, **query: Any) -> tuple[dict[str, str], dict[str, str]]:
        """The ids of the outputs by outpoint, each verified against the chain's blocks; and the headers."""
        async with self._client.post("/lookup", json={"service": REGISTRY, "query": query}) as answer:
            assert answer.status == 200, await answer.text()
            outputs = (await answer.json())["outputs"]
            headers = {name: value for name, value in answer.headers.items() if name.startswith("X-")}
        roots = {(block.height, block.raw[36:68]) for block in self.kit.blocks}  # stale ones, too: it may not know yet
        ids = {}
        for output in outputs:
            package = beef.read(bytes(output["beef"]))
            assert beef.verify(package, lambda height, root: (height, root) in roots) == ()
            outpoint = package.newest.tx.outpoint(output["outputIndex"])  # type: ignore[union-attr]
            ids[str(outpoint)] = json.loads(bytes(output["context"]))["id"]
        return ids, headers

    async def lists(self, *expected: Outpoint, **query: Any) -> dict[str, str]:
        """Wait until the outputs for a query are at these outpoints, and return the headers."""
        async with asyncio.timeout(PATIENCE):
            while True:
                ids, headers = await self.lookup(**query)
                if set(ids) == set(map(str, expected)):
                    return headers
                await asyncio.sleep(0.02)


@pytest.fixture
async def registry(tmp_path: Path) -> AsyncIterator[Registry]:
    kit = ChainKit()
    chain = MemoryChain(*kit.blocks)
    async with serving(new_app(tmp_path, chain, limits="off")) as client:
        yield Registry(kit, chain, client)


async def test_the_output_moves_with_the_satoshi_and_back_with_a_reorganisation(registry: Registry) -> None:
    kit, chain = registry.kit, registry.chain
    echo = kit.inscribe(agent("Echo"))
    chain.arrive(kit.mine(echo))
    await registry.lists(echo)
    moved = kit.move(kit.update(echo, agent("Echo", version="2")))
    chain.arrive(kit.mine(kit.tx(moved).inputs[0].prevout, moved))
    await registry.lists(moved)
    for query in ({"id": str(echo)}, {"outpoint": str(echo)}, {"outpoint": str(moved)}, {"owner": kit.address("bob")}):
        assert (await registry.lookup(**query))[0] == {str(moved): str(echo)}
    fork = kit.mine_empty(2, parent=kit["2"])
    chain.arrive(*kit.branch(fork)[-2:])
    await registry.lists(echo)


async def test_burned_and_unconfirmed_listings_have_no_output(registry: Registry) -> None:
    kit, chain = registry.kit, registry.chain
    echo, other, newcomer = kit.inscribe(agent("Echo")), kit.inscribe(agent("Other")), kit.inscribe(agent("Newcomer"))
    chain.arrive(kit.mine(echo, other, kit.burn(other)))
    chain.unconfirmed[kit.tx(newcomer).txid] = kit.raw(newcomer)
    headers = await registry.lists(echo)
    while headers["X-Left-Out"] == "0":
        headers = await registry.lists(echo)
    assert (headers["X-Total-Count"], headers["X-Left-Out"]) == ("2", "1")
    for listing in (other, newcomer):
        assert (await registry.lookup(id=str(listing)))[0] == {}
        assert (await registry.lookup(outpoint=str(listing)))[0] == {}
    assert (await registry.lookup(status="burned"))[0] == {}


async def test_listings_of_other_chains_have_no_output(tmp_path: Path) -> None:
    kits = ChainKit(), ChainKit("btc")
    chains = [MemoryChain(*kit.blocks, name=kit.chain, coin=kit.chain) for kit in kits]
    echo, other = kits[0].inscribe(agent("Echo")), kits[1].reveal(agent("Other"))
    for kit, chain, outpoint in zip(kits, chains, (echo, other), strict=True):
        chain.arrive(kit.mine(outpoint))
    async with serving(new_app(tmp_path, *chains, limits="off")) as client:
        registry = Registry(kits[0], chains[0], client)
        await until_told(client, "/v1/search", lambda page: page["total"] == 2)
        for query in ({}, {"chain": ["bsv", "btc"]}):
            assert (await registry.lookup(**query))[0] == {str(echo): str(echo)}
        for query in ({"chain": "btc"}, {"id": str(other)}, {"outpoint": str(other)}):
            assert (await registry.lookup(**query))[0] == {}


async def test_listings_with_the_same_text_are_all_there_without_words(registry: Registry) -> None:
    first, second = (registry.kit.inscribe(agent("Echo")) for _ in range(2))
    registry.chain.arrive(registry.kit.mine(first, second))
    await registry.lists(first, second)
    for limit in (1, 2):
        assert (await registry.lookup(limit=limit))[1]["X-Total-Count"] == "2"
    ids, headers = await registry.lookup(q="echo")
    assert (set(ids), headers["X-Total-Count"]) == ({str(first)}, "1")


async def test_pages_by_cursor_hold_every_output_once(registry: Registry) -> None:
    listings = [registry.kit.inscribe(agent(f"Echo {number}")) for number in range(5)]
    servers = registry.kit.inscribe({"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}, "a2b-mcp")
    registry.chain.arrive(registry.kit.mine(*listings, servers))
    await registry.lists(*listings, servers, limit=100)
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 3}
    while True:
        ids, headers = await registry.lookup(**query)
        seen += ids
        if "X-Next-Cursor" not in headers:
            break
        query["cursor"] = headers["X-Next-Cursor"]
    assert sorted(set(seen)) == sorted(map(str, [*listings, servers]))
