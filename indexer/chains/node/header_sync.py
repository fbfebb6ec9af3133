"""Keeps our header chain in step with a node: fetches, checks and stores the headers up to the node's tip."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Annotated

from indexer.chains.node.client import NodeClient, RpcError
from indexer.chains.node.coin_parameters import CoinParameters
from indexer.chains.node.rest import HEADERS, NoBlockError, Rest, RestOffError
from indexer.errors import OtherNetworkError, SourceRefusalError, SourceUnavailableError
from indexer.headers import proof_of_work
from indexer.headers.header_chain import HeaderChain
from parsers.bitcoin.tx import sha256d
from parsers.errors import ParseError
from parsers.json_records import whole

log = logging.getLogger(__name__)

SAVE_EVERY = 50_000
"""Headers between two saves during a long synchronisation, each with a line in the log."""

HEADER = 80

_Height = Annotated[int, whole(0, (1 << 31) - 1)]


class NodeHeaderSync:
    """The headers of one node's best chain. For one task at a time."""

    def __init__(self, client: NodeClient, rest: Rest, headers: HeaderChain, parameters: CoinParameters) -> None:
        self._client, self._rest, self._headers, self._parameters = client, rest, headers, parameters
        self.name = client.name
        self._unsaved = 0

    async def reach(self, tip: bytes, first: int) -> bool:
        """Add the headers up to `tip` (hash in internal byte order): blocks can be read from height `first` on.

        False when the node's chain changed meanwhile: fetch its tip again. Raises SourceError, HeaderError.
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
        """Start with genesis, or with the headers up to the newest checkpoint that the node has reached."""
        height = await self._client.fetch(_Height, "getblockcount")
        low, high = self._headers.span(first, height)
        log.info(
            "%s: fetching the headers from %d to %d, and then to the node's tip at %d", self.name, low, high, height
        )
        raws: list[bytes] = []
        while len(raws) <= high - low:
            start = low + len(raws)
            pieces = await self._from(start, min(HEADERS, high + 1 - start))
            if not pieces:
                raise SourceUnavailableError(f"{self.name}: the node has no header at {start:,} any more")
            raws += [raw[:HEADER] for raw in pieces[: high + 1 - start]]
        await asyncio.to_thread(self._headers.begin, low, raws)
        self._unsaved += len(raws)

    async def _on_top(self, tip: bytes) -> bool:
        """Add a tip on top of a known header: the usual case."""
        raw = await self._header(tip[::-1].hex())
        if raw is None or sha256d(raw[:HEADER]) != tip or self._headers.find(raw[4:36]) is None:
            return False
        await self._add([raw])
        return True

    async def _header(self, hex_id: str) -> bytes | None:
        try:
            return self._single(await self._client.call("getblockheader", hex_id, False))
        except RpcError:
            return None

    def _single(self, answer: object) -> bytes:
        raw = next(self._split(self._bytes(answer)), None)
        if raw is None:
            raise SourceUnavailableError(f"{self.name}: the node answers nothing where a header is expected")
        return raw

    async def _climb(self, tip: bytes) -> bool:
        """Add headers from the newest common one up to `tip`; False when they do not lead there."""
        height = await self._common()
        while self._headers.find(tip) is None:
            raws = await self._from(height)
            if len(raws) < 2 or (self._headers.find(raws[0][4:36]) is None and height > (self._headers.first or 0)):
                return False
            await self._add(raws)
            height += len(raws) - 1
            if self._unsaved >= SAVE_EVERY:
                await self._save()
                log.info("%s: the headers up to %d are checked (%s)", self.name, height, self._headers.checked)
        return True

    async def _common(self) -> int:
        """The height of our newest header that is in the node's chain, too. Raises SourceError."""
        ours = [(self._headers.find(digest), digest) for digest in self._headers.locator()]
        answers = await self._client.batch([("getblockhash", (height,)) for height, _ in ours])
        for (height, digest), theirs in zip(ours, answers, strict=True):
            if height is not None and theirs == digest[::-1].hex():
                return height
        if answers and isinstance(answers[-1], RpcError):
            raise SourceUnavailableError(
                f"{self.name}: the node has not reached block {ours[-1][0]:,} yet, from which headers are known here"
            )
        raise OtherNetworkError(
            f"{self.name}: the node at {self._client.address.base} has another block {ours[-1][0]:,} than this "
            "database; point the chain at a node of the same network, or index into a new database"
        )

    async def _add(self, raws: list[bytes]) -> None:
        headers = [raw[:HEADER] for raw in raws]
        aux = [raw[HEADER:] or None for raw in raws] if self._parameters.auxpow else None
        if len(raws) > 1:
            await asyncio.to_thread(self._headers.add, headers, aux=aux)
        else:
            self._headers.add(headers, aux=aux)
        self._unsaved += len(raws)

    async def _save(self) -> None:
        await asyncio.to_thread(self._headers.save)
        self._unsaved = 0

    # -- requests

    async def _from(self, height: int, count: int = HEADERS) -> list[bytes]:
        """Headers of the node's chain from a height upwards: by REST, or at most `count` of them by JSON-RPC."""
        try:
            start = await self._client.call("getblockhash", height)
        except RpcError:
            return []
        try:
            return list(self._split(await self._rest.headers(self._bytes(start)[::-1])))
        except NoBlockError:
            return []
        except RestOffError:
            hashes = await self._client.batch([("getblockhash", (number,)) for number in range(height, height + count)])
            known_hashes = [row for row in hashes if not isinstance(row, RpcError)]
            answers = await self._client.batch([("getblockheader", (row, False)) for row in known_hashes])
            return [self._single(row) for row in answers if not isinstance(row, RpcError)]

    def _bytes(self, answer: object) -> bytes:
        try:
            return bytes.fromhex(str(answer))
        except ValueError as error:
            raise SourceRefusalError(
                f"{self.name}: the node answers {str(answer)[:60]!a} where hex is expected"
            ) from error

    def _split(self, joined: bytes) -> Iterator[bytes]:
        """Single headers, each with its merge-mined work if it has any. Raises SourceError."""
        start = 0
        try:
            while start < len(joined):
                end = _end(joined, start) if self._parameters.auxpow else start + HEADER
                if end > len(joined):
                    raise SourceUnavailableError(f"{self.name}: the node's headers end after {len(joined):,} bytes")
                yield joined[start:end]
                start = end
        except ParseError as error:
            raise SourceRefusalError(f"{self.name}: the node's headers cannot be read: {error}") from error


def _end(joined: bytes, start: int) -> int:
    """The offset after the header at byte `start` and its merge-mined work. Some sources leave out the work: then the
    next header, whose previous hash is this one's, follows directly, or the bytes end. Raises ParseError."""
    bare = start + HEADER
    if bare == len(joined) or joined[bare + 4 : bare + 36] == sha256d(joined[start:bare]):
        return bare
    return proof_of_work.header_end(joined, start)
