"""Downloads blocks in advance: by REST, or as hex by JSON-RPC; large ones through a memory-mapped file."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable

import aiohttp

from indexer.chains.http_client import SMALL_BYTES
from indexer.chains.node.client import NodeClient, RpcError
from indexer.chains.node.coin_parameters import CoinParameters
from indexer.chains.node.hex_stream import HexDecoder, HexError, Spool
from indexer.chains.node.rest import NoBlockError, Rest, RestOffError
from indexer.errors import SourceUnavailableError
from indexer.headers import proof_of_work
from indexer.model import BlockRef
from indexer.retries import Backoff
from indexer.spill import folder
from parsers.bitcoin.tx import sha256d
from parsers.errors import ParseError

log = logging.getLogger(__name__)

PAUSES = Backoff(0.1, 1.0, factor=10.0).pauses(2)
"""Seconds before each further try of a block that was cut, or is not the one requested."""

BLOCK_BYTES = 16 << 30
"""The limit of a block: four times the largest mined so far."""

HEADER = 80
_STEP = 8 << 20

Room = Callable[[int], Awaitable[None]]
"""Waits until a block may occupy that many bytes in all."""


class BlockDownload:
    """Fetches blocks of one node."""

    def __init__(self, client: NodeClient, rest: Rest, parameters: CoinParameters) -> None:
        self._client, self._rest, self._parameters = client, rest, parameters
        self.name = client.name

    async def fetch(self, ref: BlockRef, spool: Spool, room: Room) -> memoryview:
        """A block's bytes, held by `spool`; the header is verified to be the requested one.

        Raises NoBlockError when the node does not have it, SourceError when it cannot be fetched now.
        """
        for pause in PAUSES:
            try:
                return await self._once(ref, spool, room)
            except SourceUnavailableError as error:
                log.debug("%s; trying again in %g s", error, pause)
                spool.clear()
                await asyncio.sleep(pause)
        return await self._once(ref, spool, room)

    async def _once(self, ref: BlockRef, spool: Spool, room: Room) -> memoryview:
        try:
            try:
                await self._by_rest(ref, spool, room)
            except RestOffError:
                await self._by_rpc(ref, spool, room)
            return self._checked(ref, await spool.view())
        except OSError as error:
            raise SourceUnavailableError(
                f"{self.name}: block {ref.height:,} cannot be stored in {folder()}: {error.strerror}; make room there, "
                "or name another folder in TMPDIR"
            ) from error

    async def _by_rest(self, ref: BlockRef, spool: Spool, room: Room) -> None:
        async with self._rest.block(ref.hash) as response:
            await room(response.content_length or 0)
            size = 0
            async for piece in self._client.pieces(response, BLOCK_BYTES):
                size += len(piece)
                if response.content_length is None and size % _STEP < len(piece):
                    await room(size)
                await spool.add(piece)

    async def _by_rpc(self, ref: BlockRef, spool: Spool, room: Room) -> None:
        """Decode the hex of `getblock` in pieces: it is never whole in memory."""
        call = self._client.rpc_body("getblock", ref.hash[::-1].hex(), self._parameters.raw_block)
        async with self._client.stream("POST", "/", call) as response:
            if response.status != 200:
                await self._refused(response)
            await room((response.content_length or 0) // 2)
            digits, size = HexDecoder(), 0
            try:
                async for piece in self._client.pieces(response, 2 * BLOCK_BYTES + SMALL_BYTES):
                    raw = digits.feed(piece)
                    size += len(raw)
                    if response.content_length is None and size % _STEP < len(raw):
                        await room(size)
                    await spool.add(raw)
            except HexError as error:
                raise self._wrong(ref, f"getblock answers {error}") from error
            if not digits.is_whole:
                raise self._wrong(ref, f"getblock's hex ends after {size:,} bytes")

    async def _refused(self, response: aiohttp.ClientResponse) -> None:
        """Raise the error that the node answers instead of a block."""
        try:
            await self._client.raise_error(response, "getblock")
        except RpcError as error:
            raise NoBlockError(error.message) from error

    def _checked(self, ref: BlockRef, data: memoryview) -> memoryview:
        """The block without merge-mined work, if it is the one requested. Raises SourceUnavailableError."""
        header = bytes(data[:HEADER])
        if len(header) < HEADER or sha256d(header) != ref.hash:
            raise self._wrong(ref, f"the node sent {len(data):,} bytes of something else")
        if self._parameters.auxpow:
            try:
                return proof_of_work.strip_auxpow(data)
            except ParseError as error:
                raise self._wrong(ref, str(error)) from error
        return data

    def _wrong(self, ref: BlockRef, reason: str) -> SourceUnavailableError:
        return SourceUnavailableError(f"{self.name}: block {ref.height:,} ({ref.hash[::-1].hex()}): {reason}")


BYTES = 64 << 20
"""Bytes of blocks held ahead, besides the next one, which may be of any size."""

BLOCKS, REQUESTS = 64, 4
"""Blocks held ahead, and concurrent requests: a node answers with four threads by default."""

Fetch = Callable[[BlockRef, Spool, Callable[[int], Awaitable[None]]], Awaitable[memoryview]]


class _Download:
    """A block being downloaded: `size` is the number of bytes reserved for it."""

    def __init__(self, ref: BlockRef) -> None:
        self.ref, self.spool, self.size = ref, Spool(), 0
        self.task: asyncio.Task[memoryview] | None = None


class _Prefetch:
    """The downloads in progress, lowest block first."""

    def __init__(self, refs: Iterable[BlockRef], fetch: Fetch) -> None:
        self._refs, self._fetch = iter(refs), fetch
        self._downloads: deque[_Download] = deque()
        self._requests = asyncio.Semaphore(REQUESTS)
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


async def blocks(refs: Iterable[BlockRef], fetch: Fetch) -> AsyncGenerator[tuple[BlockRef, memoryview], None]:
    """Blocks in order, each with its bytes, fetched by `fetch` while the previous one is used.

    Raises what `fetch` raises, in the block's turn.
    """
    prefetch = _Prefetch(refs, fetch)
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
