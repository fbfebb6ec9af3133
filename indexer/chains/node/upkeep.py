"""Keeps a chain of headers in step with a node: whatever leads to the node's tip is fetched, checked and kept."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

from indexer.chains import SourceError, SourceUnavailableError, auxpow
from indexer.chains.node.client import Client, RpcError
from indexer.chains.node.habits import Habits
from indexer.chains.node.rest import HEADERS, NotThereError, Rest, RestOffError
from indexer.headers import HeaderChain
from parsers.errors import ParseError
from parsers.tx import sha256d

log = logging.getLogger(__name__)

SAVED = 50_000
"""Headers after which they are saved in between, and the log says how far it is."""

HEADER = 80

MOST_BLOCKS = 1 << 31
"""More than any chain has."""


class Upkeep:
    """The headers of one node's best chain. Not for two tasks at once."""

    def __init__(self, client: Client, rest: Rest, headers: HeaderChain, habits: Habits) -> None:
        self._client, self._rest, self._headers, self._habits = client, rest, headers, habits
        self.name = client.name
        self._unsaved = 0

    async def reach(self, tip: bytes, first: int) -> bool:
        """Take the headers up to `tip` (hash in internal order), so that blocks can be read from height `first` on.

        False when the node's chain changed meanwhile: ask for its tip again. Raises SourceError, HeaderError.
        """
        lowest = self._headers.first
        if lowest is None or lowest > first:
            await self._begin(first)
        if self._headers.find(tip) is None and not await self._on_top(tip) and not await self._climb(tip):
            return False
        if self._unsaved:
            await self._save()
        return True

    async def _begin(self, first: int) -> None:
        """Start with genesis, or with what leads up to the newest checkpoint that the node has reached."""
        height = await self._height()
        low, high = self._headers.span(first, height)
        log.info("%s: taking the headers from %d to %d, and then to the node's tip at %d", self.name, low, high, height)
        found: list[bytes] = []
        while len(found) <= high - low:
            start = low + len(found)
            pieces = await self._from(start, min(HEADERS, high + 1 - start))
            if not pieces:
                raise SourceUnavailableError(f"{self.name}: the node has no header at {start:,} any more")
            found += [raw[:HEADER] for raw in pieces[: high + 1 - start]]
        await asyncio.to_thread(self._headers.begin, low, found)
        self._unsaved += len(found)

    async def _height(self) -> int:
        told = await self._client.call("getblockcount")
        if not isinstance(told, int) or not 0 <= told < MOST_BLOCKS:
            raise SourceError(f"{self.name}: getblockcount answers {str(told)[:60]!a}, as no node does")
        return told

    async def _on_top(self, tip: bytes) -> bool:
        """Take a tip that stands on a header which is known, as most do."""
        raw = await self._header(tip[::-1].hex())
        if raw is None or sha256d(raw[:HEADER]) != tip or self._headers.find(raw[4:36]) is None:
            return False
        await self._take([raw])
        return True

    async def _header(self, hex_id: str) -> bytes | None:
        try:
            return self._only(await self._client.call("getblockheader", hex_id, False))
        except RpcError:
            return None

    def _only(self, told: object) -> bytes:
        found = next(self._split(self._bytes(told)), None)
        if found is None:
            raise SourceUnavailableError(f"{self.name}: the node answers nothing where a header is expected")
        return found

    async def _climb(self, tip: bytes) -> bool:
        """Take headers from the newest one that the node has too, up to `tip`; False when they do not lead there."""
        height = await self._common()
        while self._headers.find(tip) is None:
            found = await self._from(height)
            if len(found) < 2 or (self._headers.find(found[0][4:36]) is None and height > (self._headers.first or 0)):
                return False
            await self._take(found)
            height += len(found) - 1
            if self._unsaved >= SAVED:
                await self._save()
                log.info("%s: the headers up to %d are checked (%s)", self.name, height, self._headers.checked)
        return True

    async def _common(self) -> int:
        """The height of the newest header of ours that is in the node's chain too. Raises SourceError."""
        ours = [(self._headers.find(digest), digest) for digest in self._headers.locator()]
        told = await self._client.batch([("getblockhash", (height,)) for height, _ in ours])
        for (height, digest), theirs in zip(ours, told, strict=True):
            if height is not None and theirs == digest[::-1].hex():
                return height
        if told and isinstance(told[-1], RpcError):
            raise SourceUnavailableError(
                f"{self.name}: the node has not reached block {ours[-1][0]:,} yet, from which headers are known here"
            )
        raise SourceError(
            f"{self.name}: the node at {self._client.address.base} has another block {ours[-1][0]:,} than this "
            "database; point the chain at a node of the same network, or index into a new database"
        )

    async def _take(self, found: list[bytes]) -> None:
        headers = [raw[:HEADER] for raw in found]
        aux = [raw[HEADER:] or None for raw in found] if self._habits.auxpow else None
        if len(found) > 1:
            await asyncio.to_thread(self._headers.add, headers, aux=aux)
        else:
            self._headers.add(headers, aux=aux)
        self._unsaved += len(found)

    async def _save(self) -> None:
        await asyncio.to_thread(self._headers.save)
        self._unsaved = 0

    # -- asking

    async def _from(self, height: int, count: int = HEADERS) -> list[bytes]:
        """Headers of the node's chain from a height upwards: by REST, or `count` of them at most by JSON-RPC."""
        try:
            start = await self._client.call("getblockhash", height)
        except RpcError:
            return []
        try:
            return list(self._split(await self._rest.headers(self._bytes(start)[::-1])))
        except NotThereError:
            return []
        except RestOffError:
            return await self._by_rpc(height, count)

    async def _by_rpc(self, height: int, count: int) -> list[bytes]:
        hashes = await self._client.batch([("getblockhash", (at,)) for at in range(height, height + count)])
        known = [each for each in hashes if not isinstance(each, RpcError)]
        told = await self._client.batch([("getblockheader", (each, False)) for each in known])
        return [self._only(each) for each in told if not isinstance(each, RpcError)]

    def _bytes(self, told: object) -> bytes:
        try:
            return bytes.fromhex(str(told))
        except ValueError as error:
            raise SourceError(f"{self.name}: the node answers {str(told)[:60]!a} where hex is expected") from error

    def _split(self, joined: bytes) -> Iterator[bytes]:
        """Headers one by one, each with the work of another chain where it has that. Raises SourceError."""
        at = 0
        try:
            while at < len(joined):
                end = _end(joined, at) if self._habits.auxpow else at + HEADER
                if end > len(joined):
                    raise SourceUnavailableError(f"{self.name}: the node's headers end after {len(joined):,} bytes")
                yield joined[at:end]
                at = end
        except ParseError as error:
            raise SourceError(f"{self.name}: the node's headers cannot be read: {error}") from error


def _end(joined: bytes, at: int) -> int:
    """Where the header at byte `at` ends, behind the work of another chain if that follows it: some sources leave it
    out, so that the next header, which names this one, follows at once, or nothing. Raises ParseError."""
    bare = at + HEADER
    if bare == len(joined) or joined[bare + 4 : bare + 36] == sha256d(joined[at:bare]):
        return bare
    return auxpow.end(joined, at)
