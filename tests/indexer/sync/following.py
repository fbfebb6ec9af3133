"""A follower that runs in the background of a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from indexer.chains import Chain
from indexer.sync.follower import Follower
from tests.indexing import Indexing


@asynccontextmanager
async def following(indexing: Indexing, chain: Chain) -> AsyncIterator[Follower]:
    """A follower of a chain, which must not end before the context does."""
    follower = Follower(chain, indexing.store, indexing.writer)

    async def run() -> None:
        await follower.start()
        await follower.run()

    task = asyncio.create_task(run())
    try:
        yield follower
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await chain.close()
