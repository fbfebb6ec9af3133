"""What tests of nodes share: opening one as a chain, reading its blocks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from indexer.chains.node import NodeChain, create
from parsers import block as blocks
from parsers.tx import sha256d
from tests.nodes import Node

LONG = 60.0

Open = Callable[..., Awaitable[NodeChain]]


@pytest.fixture
async def opened() -> AsyncIterator[Open]:
    """Opens a node as a chain, and closes it at the end."""
    made: list[NodeChain] = []

    async def open_(node: Node, query: str = "", name: str = "bsv") -> NodeChain:
        chain = create(name, node.url + query)
        made.append(chain)
        await chain.open()
        return chain

    yield open_
    for chain in made:
        await chain.close()


async def hashes(chain: NodeChain, first: int = 0, last: int = 10**6) -> list[bytes]:
    found = []
    async for ref, data in chain.blocks(first, last):
        assert sha256d(bytes(data[:80])) == ref.hash
        assert ref.header == bytes(data[:80])
        assert ref.height == first + len(found)
        assert blocks.merkle_root(data, segwit=chain.rules.segwit) == ref.header[36:68]
        found.append(ref.hash)
    return found
