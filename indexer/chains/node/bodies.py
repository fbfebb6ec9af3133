"""The bytes of blocks: streamed by REST, or as hex by JSON-RPC where REST is off; large ones through a mapped file."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import aiohttp

from indexer.chains import SourceUnavailableError, auxpow
from indexer.chains.node.client import PIECE, Client, RpcError
from indexer.chains.node.habits import Habits
from indexer.chains.node.hexed import Hexed, HexedError
from indexer.chains.node.rest import NotThereError, Rest, RestOffError
from indexer.chains.node.spool import Spool
from indexer.facts import BlockRef
from indexer.spill import folder
from parsers.errors import ParseError
from parsers.tx import sha256d

log = logging.getLogger(__name__)

PAUSES = (0.1, 1.0)
"""Seconds before each further try of a block that was cut, or that is not the one asked for."""

BLOCK_BYTES = 16 << 30
"""What a block may hold: four times the largest that was mined yet."""

HEADER = 80
_STEP = 8 << 20

Room = Callable[[int], Awaitable[None]]
"""Waits until so many bytes in all may be held for a block."""


class Bodies:
    """Fetches blocks of one node, by its habits."""

    def __init__(self, client: Client, rest: Rest, habits: Habits) -> None:
        self._client, self._rest, self._habits = client, rest, habits
        self.name = client.name

    async def fetch(self, ref: BlockRef, spool: Spool, room: Room) -> memoryview:
        """A block's bytes, whose header is the one asked for, held by `spool`.

        Raises NotThereError when the node does not keep it, SourceError when it cannot be had now.
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
                f"{self.name}: block {ref.height:,} cannot be kept in {folder()}: {error.strerror}; make room there, "
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
        """Decode the hex of `getblock` piece by piece, so that a block's hex is never held."""
        call = self._client.body("getblock", ref.hash[::-1].hex(), self._habits.raw_block)
        async with self._client.stream("POST", "/", call) as response:
            if response.status != 200:
                await self._refused(response)
            await room((response.content_length or 0) // 2)
            digits, size = Hexed(), 0
            try:
                async for piece in self._client.pieces(response, 2 * BLOCK_BYTES + PIECE):
                    raw = digits.feed(piece)
                    size += len(raw)
                    if response.content_length is None and size % _STEP < len(raw):
                        await room(size)
                    await spool.add(raw)
            except HexedError as error:
                raise self._wrong(ref, f"getblock answers {error}") from error
            if not digits.is_whole:
                raise self._wrong(ref, f"getblock's hex ends after {size:,} bytes")

    async def _refused(self, response: aiohttp.ClientResponse) -> None:
        """Raise what the node says instead of a block."""
        try:
            await self._client.refused(response, "getblock")
        except RpcError as error:
            raise NotThereError(error.message) from error

    def _checked(self, ref: BlockRef, data: memoryview) -> memoryview:
        """The block without another chain's work, if it is the one asked for. Raises SourceUnavailableError."""
        header = bytes(data[:HEADER])
        if len(header) < HEADER or sha256d(header) != ref.hash:
            raise self._wrong(ref, f"the node sent {len(data):,} bytes of something else")
        if self._habits.auxpow:
            try:
                return auxpow.bare(data)
            except ParseError as error:
                raise self._wrong(ref, str(error)) from error
        return data

    def _wrong(self, ref: BlockRef, why: str) -> SourceUnavailableError:
        return SourceUnavailableError(f"{self.name}: block {ref.height:,} ({ref.hash[::-1].hex()}): {why}")
