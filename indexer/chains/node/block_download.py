"""Downloads a block: by REST, or as hex by JSON-RPC; large ones through a memory-mapped file."""

from __future__ import annotations

import asyncio
import logging

import aiohttp

from indexer.chains.http_client import SMALL_BYTES
from indexer.chains.node.client import NodeClient, RpcError
from indexer.chains.node.coin_parameters import CoinParameters
from indexer.chains.node.hex_stream import HexDecoder, HexError
from indexer.chains.node.rest import NoBlockError, Rest, RestOffError
from indexer.chains.prefetch import Room
from indexer.chains.spool import Spool
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
