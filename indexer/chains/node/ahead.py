"""Blocks fetched ahead of the one in use: several at a time, bounded by their bytes, and nothing left when it ends."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable

from indexer.chains.node.spool import Spool
from indexer.facts import BlockRef

BYTES = 64 << 20
"""What is held of blocks ahead, beside the next one, which may be of any size."""

BLOCKS, REQUESTS = 64, 4
"""Blocks held ahead, and requests under way at a time: a node answers with four threads unless told otherwise."""

Fetch = Callable[[BlockRef, Spool, Callable[[int], Awaitable[None]]], Awaitable[memoryview]]


class _Download:
    """A block on its way: `size` is what was made room for."""

    def __init__(self, ref: BlockRef) -> None:
        self.ref, self.spool, self.size = ref, Spool(), 0
        self.task: asyncio.Task[memoryview] | None = None


class _Ahead:
    """The blocks on their way, lowest first."""

    def __init__(self, refs: Iterable[BlockRef], fetch: Fetch) -> None:
        self._refs, self._fetch = iter(refs), fetch
        self._downloads: deque[_Download] = deque()
        self._requests = asyncio.Semaphore(REQUESTS)
        self._changed = asyncio.Condition()

    def start(self) -> None:
        """Begin as many downloads as may be under way."""
        while len(self._downloads) < BLOCKS and (ref := next(self._refs, None)) is not None:
            download = _Download(ref)
            download.task = asyncio.create_task(self._run(download))
            self._downloads.append(download)

    async def _run(self, download: _Download) -> memoryview:
        async with self._requests:
            return await self._fetch(download.ref, download.spool, lambda size: self._room(download, size))

    async def _room(self, download: _Download, size: int) -> None:
        """Wait until a download may hold `size` bytes. The lowest never waits, so that there is always one that goes
        on; those that do stop reading, and the node stops sending."""
        async with self._changed:
            await self._changed.wait_for(lambda: download is self._downloads[0] or self._held(download) + size <= BYTES)
            download.size = max(download.size, size)

    def _held(self, but: _Download) -> int:
        return sum(each.size for each in self._downloads if each is not but)

    async def next(self) -> tuple[_Download, memoryview] | None:
        """The next block, once it is there; None at the end."""
        if not self._downloads:
            return None
        download = self._downloads[0]
        assert download.task is not None  # noqa: S101 - started with it
        view = await download.task
        async with self._changed:
            self._downloads.popleft()
            self._changed.notify_all()
        return download, view

    async def end(self) -> None:
        """Stop what is under way and give everything back."""
        tasks = [each.task for each in self._downloads if each.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in self._downloads:
            each.spool.clear()


async def blocks(refs: Iterable[BlockRef], fetch: Fetch) -> AsyncGenerator[tuple[BlockRef, memoryview], None]:
    """These blocks in order, each with its bytes, fetched by `fetch` while the one before is used.

    Raises what `fetch` raises, at the block's turn. Ends cleanly wherever it is interrupted.
    """
    ahead = _Ahead(refs, fetch)
    try:
        ahead.start()
        while (found := await ahead.next()) is not None:
            ahead.start()
            download, view = found
            try:
                yield download.ref, view
            finally:
                download.spool.clear()
            del found, download, view
    finally:
        await ahead.end()
