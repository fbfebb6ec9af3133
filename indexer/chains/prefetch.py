"""Downloads blocks in advance, in order and within a budget of bytes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable

from indexer.chains.spool import Spool
from indexer.model import BlockRef

BYTES = 64 << 20
"""Bytes of blocks held ahead, besides the next one, which may be of any size."""

BLOCKS, REQUESTS = 64, 4
"""Blocks held ahead, and concurrent requests: a node answers with four threads by default."""

Room = Callable[[int], Awaitable[None]]
"""Waits until a block may occupy that many bytes in all."""

Fetch = Callable[[BlockRef, Spool, Room], Awaitable[memoryview]]


class _Download:
    """A block being downloaded: `size` is the number of bytes reserved for it."""

    def __init__(self, ref: BlockRef) -> None:
        self.ref, self.spool, self.size = ref, Spool(), 0
        self.task: asyncio.Task[memoryview] | None = None


class _Prefetch:
    """The downloads in progress, lowest block first."""

    def __init__(self, refs: Iterable[BlockRef], fetch: Fetch, requests: int) -> None:
        self._refs, self._fetch = iter(refs), fetch
        self._downloads: deque[_Download] = deque()
        self._requests = asyncio.Semaphore(requests)
        self._changed = asyncio.Condition()

    def start(self) -> None:
        """Start as many downloads as may be in progress."""
        while len(self._downloads) < BLOCKS and (ref := next(self._refs, None)) is not None:
            download = _Download(ref)
            download.task = asyncio.create_task(self._run(download))
            self._downloads.append(download)

    async def _run(self, download: _Download) -> memoryview:
        async with self._requests:
            return await self._fetch(download.ref, download.spool, lambda size: self._room(download, size))

    async def _room(self, download: _Download, size: int) -> None:
        """Wait until a download may hold `size` bytes. The lowest never waits, so one always continues; the others stop
        reading, and the node stops sending."""
        async with self._changed:
            await self._changed.wait_for(
                lambda: download is self._downloads[0] or self._reserved(download) + size <= BYTES
            )
            download.size = max(download.size, size)

    def _reserved(self, excluded: _Download) -> int:
        return sum(download.size for download in self._downloads if download is not excluded)

    async def next(self) -> tuple[_Download, memoryview] | None:
        """The next block, once it is complete; None at the end."""
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
        """Cancel all downloads and release their memory."""
        tasks = [download.task for download in self._downloads if download.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for download in self._downloads:
            download.spool.clear()


async def blocks(
    refs: Iterable[BlockRef], fetch: Fetch, requests: int = REQUESTS
) -> AsyncGenerator[tuple[BlockRef, memoryview], None]:
    """Blocks in order, each with its bytes, fetched by `fetch` while the previous one is used, `requests` at once.

    Raises what `fetch` raises, in the block's turn.
    """
    prefetch = _Prefetch(refs, fetch, requests)
    try:
        prefetch.start()
        while (result := await prefetch.next()) is not None:
            prefetch.start()
            download, view = result
            try:
                yield download.ref, view
            finally:
                download.spool.clear()
            del result, download, view
    finally:
        await prefetch.end()
