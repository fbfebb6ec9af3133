"""Merge-mined headers (DOGE): a node that leaves out the work on the other chain's header is followed only when that is
asked for by name, and then for good."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from indexer.chains import Chain, create
from indexer.chains.failover import join
from indexer.errors import SourceError
from indexer.store import Store, Writer, connect
from indexer.sync.follower import Follower
from parsers.bitcoin.tx import sha256d
from tests.chainkit import ChainKit
from tests.fakes import MemoryChain
from tests.merging import merge_mined
from tests.nodes import Node


@pytest.fixture(params=[True, False], ids=["rest", "rpc"])
async def node(request: pytest.FixtureRequest) -> AsyncIterator[Node]:
    """A node whose third block is merge-mined, and whose headers have 80 bytes whatever was mined how."""
    kit = ChainKit("doge", funds=1)
    kit.mine_empty(2)
    memory = MemoryChain(kit["0"], kit["1"], kit["2"], merge_mined(kit["3"]), coin="doge")
    async with Node(memory) as node:
        node.rest = request.param
        yield node


@pytest.fixture
def stored(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/a2b.db"


async def follow(url: str, chain: Chain) -> Store:
    """Open a chain and read it to its tip. Raises SourceError."""
    engine = connect(url)
    store, writer = Store(engine), Writer(engine)
    follower = Follower(chain, store, writer)
    try:
        await follower.open()
        await follower.catch_up()
    finally:
        await chain.close()
        writer.close()
    return store


async def test_without_the_option_such_a_node_is_not_followed(node: Node, stored: str) -> None:
    with pytest.raises(SourceError, match=r"header 3 .* is refused: it is merge-mined, .*\?auxpow=unchecked"):
        await follow(stored, create("doge", node.url))


async def test_with_it_the_node_is_followed_and_says_what_was_not_checked(node: Node, stored: str) -> None:
    chain = create("doge", f"{node.url}?auxpow=unchecked")
    store = await follow(stored, chain)
    newest = store.blocks.newest("doge")
    assert newest is not None
    assert (newest.height, newest.hash) == (3, sha256d(node.chain.raw(node.chain.best[3])[:80]))
    assert "merge-mined ones also without their proof of work (auxpow=unchecked)" in chain.checked
    assert store.is_unproved("doge")


async def test_a_database_with_such_headers_is_not_taken_for_a_checked_one(node: Node, stored: str) -> None:
    await follow(stored, create("doge", f"{node.url}?auxpow=unchecked"))
    node.auxpow = True
    with pytest.raises(SourceError, match=r"keep \?auxpow=unchecked in the URL, or index into a new database"):
        await follow(stored, create("doge", node.url))


async def test_a_node_that_gives_the_work_needs_no_option(node: Node, stored: str) -> None:
    node.auxpow = True
    chain = create("doge", node.url)
    store = await follow(stored, chain)
    assert store.blocks.newest("doge").height == 3  # type: ignore[union-attr]
    assert not store.is_unproved("doge")
    assert "unchecked" not in chain.checked


async def test_of_several_nodes_one_that_is_unchecked_is_enough_to_say_so(node: Node, stored: str) -> None:
    chain = join("doge", [f"{node.url}?auxpow=unchecked", f"{node.url}?network=regtest"])
    assert (await follow(stored, chain)).is_unproved("doge")


@pytest.mark.parametrize(
    ("name", "query", "text"),
    [
        ("doge", "?auxpow=checked", "auxpow='checked' is invalid: leave it out, or write auxpow=unchecked"),
        ("ltc", "?auxpow=unchecked", "ltc: auxpow is an option of doge only"),
    ],
)
def test_the_option_has_one_value_and_one_coin(name: str, query: str, text: str) -> None:
    with pytest.raises(SourceError, match=text):
        create(name, f"http://127.0.0.1:1{query}")
