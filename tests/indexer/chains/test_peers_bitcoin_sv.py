"""A real Bitcoin SV node followed as a peer, where `BITCOIND` names one."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from indexer.chains import Chain
from indexer.chains.node import create as node_source
from indexer.chains.peers import create
from tests.bitcoind import Bitcoind, installed
from tests.indexer.chains.test_node_litecoind import card
from tests.indexer.chains.test_peers_litecoind import live_through_forks, reach
from tests.indexing import Indexing
from tests.ports import free_port

Follow = Callable[[Chain], Awaitable[Indexing]]


class ListeningBitcoind(Bitcoind):
    """A Bitcoin SV node that accepts peers."""

    def __init__(self, folder: Path) -> None:
        self.peer_port = free_port()
        super().__init__(folder, more=["-listen=1", f"-port={self.peer_port}", "-bind=127.0.0.1"])


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ListeningBitcoind]:
    installed()
    with ListeningBitcoind(tmp_path / "node") as node:
        node.fund()
        yield node


@pytest.fixture
async def follow(tmp_path: Path) -> AsyncIterator[Follow]:
    """Indexes a chain in a store of its own up to its tip; all is closed at the end."""
    created: list[tuple[Indexing, Chain]] = []
    numbers = count()

    async def follow_(chain: Chain) -> Indexing:
        indexing = Indexing(f"sqlite:///{tmp_path}/{next(numbers)}.db", chain)
        created.append((indexing, chain))
        return await indexing.catch_up()

    yield follow_
    for indexing, chain in created:
        indexing.__exit__()
        await chain.close()


def peers(node: ListeningBitcoind) -> Chain:
    return create("bsv", f"peers:?network=regtest&connect=127.0.0.1:{node.peer_port}")


async def test_what_a_bsv_peer_delivers_is_what_the_rpc_source_reads(node: ListeningBitcoind, follow: Follow) -> None:
    indexing = await follow(peers(node))
    first, second = node.inscribe(card("one")), node.inscribe(card("two", description="y" * 150_000))
    node.mine()
    await reach(indexing, node, "bsv")
    update = node.update(first, card("one-again"))
    node.point("agent.example", bytes(range(32)))
    node.mine()
    node.move(update)
    node.burn(second)
    node.mine()
    await reach(indexing, node, "bsv")
    by_rpc = await follow(node_source("bsv", node.cookie_url))
    assert indexing.live("bsv") == {str(first)}
    assert indexing.facts("bsv") == by_rpc.facts("bsv")


@pytest.mark.parametrize("seed", range(4))
async def test_any_history_of_a_bsv_peer_is_read_as_the_rpc_source_reads_it(
    seed: int, node: ListeningBitcoind, follow: Follow
) -> None:
    indexing = await follow(peers(node))
    await live_through_forks(indexing, node, random.Random(seed), "bsv")
    assert indexing.facts("bsv") == (await follow(node_source("bsv", node.cookie_url))).facts("bsv")
