"""Helpers of tests of chain sources: opening a node as a chain, reading its blocks, restarting an indexer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Self

import pytest

from indexer.chains.node import create
from indexer.chains.node.chain import NodeChain
from parsers.bitcoin import block as blocks
from parsers.bitcoin.tx import sha256d
from tests.indexing import Indexing
from tests.nodes import Node

Open = Callable[..., Awaitable[NodeChain]]


class Restartable:
    """An indexer of a server's chain with a database in a file, which can be restarted like a process."""

    def __init__(self, server: Any, url: str) -> None:
        self.server, self.url = server, url

    async def __aenter__(self) -> Self:
        await self.server.__aenter__()
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
        await self.server.__aexit__()

    def start(self) -> None:
        """As a new process."""
        self.indexing = Indexing(self.url)
        self.source = self.server.chain(self.indexing.source_store)
        self.indexing.chains = (self.source,)

    async def stop(self) -> None:
        await self.source.close()
        self.indexing.__exit__()

    async def restart(self) -> None:
        """As if the process had ended and been started again."""
        await self.stop()
        self.start()


@pytest.fixture
async def opened() -> AsyncIterator[Open]:
    """Opens a node as a chain, and closes it at the end."""
    created: list[NodeChain] = []

    async def open_(node: Node, query: str = "", name: str = "bsv") -> NodeChain:
        chain = create(name, node.url + query)
        created.append(chain)
        await chain.open()
        return chain

    yield open_
    for chain in created:
        await chain.close()


async def hashes(chain: NodeChain, first: int = 0, last: int = 10**6) -> list[bytes]:
    results = []
    async for ref, data in chain.blocks(first, last):
        assert sha256d(bytes(data[:80])) == ref.hash
        assert ref.header == bytes(data[:80])
        assert ref.height == first + len(results)
        assert blocks.merkle_root(data, segwit=chain.rules.segwit) == ref.header[36:68]
        results.append(ref.hash)
    return results
