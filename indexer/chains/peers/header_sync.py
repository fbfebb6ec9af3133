"""Adds the headers of peers to our header chain, which decides by work which branch is best."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from indexer.chains.peers.messages import MAX_HEADERS, WireHeader
from indexer.chains.peers.peer import Peer, PeerError
from indexer.headers.header_chain import HeaderChain, HeaderError
from indexer.headers.networks import Checkpoint, Network, checkpoints
from parsers.bitcoin.tx import sha256d

log = logging.getLogger(__name__)

SAVE_EVERY = 50_000
"""Headers between two saves during a long synchronisation, each with a line in the log."""


class PeerHeaderSync:
    """The headers of one network, from peers that take turns: each turn is one request. `first` is the height from
    which blocks are read; `count` grows with every header that arrives."""

    def __init__(self, name: str, network: Network, headers: HeaderChain, first: int) -> None:
        self.name, self._network, self._headers, self._first = name, network, headers, first
        self._lock = asyncio.Lock()
        self._unsaved = 0
        self.count = 0

    async def reach(self, peer: Peer) -> None:
        """Add the headers of a peer up to its tip. Raises PeerError."""
        last: list[bytes] = []
        while True:
            async with self._lock:
                if self._headers.first is None or self._headers.first > self._first:
                    await self._begin(peer)
                    continue
                answer = await peer.headers([*last, *self._headers.locator()])
                await self._add(answer)
                if len(answer) < MAX_HEADERS:
                    await self._save()
                    return
                if self._unsaved >= SAVE_EVERY:
                    await self._save()
                    newest = self._headers.newest()
                    height = newest.height if newest is not None else 0
                    log.info("%s: the headers up to %d are checked (%s)", self.name, height, self._headers.checked)
                last = [sha256d(answer[-1].raw)]

    async def _add(self, headers: Sequence[WireHeader]) -> None:
        """Add headers, each after its parent. Raises PeerError for those that break a rule."""
        if not headers:
            return
        raws = [header.raw for header in headers]
        aux = [header.aux for header in headers] if any(header.aux for header in headers) else None
        try:
            await asyncio.to_thread(self._headers.add, raws, aux=aux)
        except HeaderError as error:
            raise PeerError(str(error), is_violation=True) from None
        self._unsaved += len(raws)
        self.count += len(raws)

    async def _save(self) -> None:
        if self._unsaved:
            await asyncio.to_thread(self._headers.save)
            self._unsaved = 0

    # -- the first headers

    async def _begin(self, peer: Peer) -> None:
        """Read the headers from a checkpoint up to the next one, all from one peer, as only the next one proves them;
        or genesis alone. Raises PeerError."""
        points = checkpoints(self._network)
        low, high = self._headers.span(self._first, max((point.height for point in points), default=0))
        before = [point for point in points if point.height < low]
        if before:
            raws = await self._read_up(peer, before[-1], low, high)
        else:
            low, raws = 0, [await self._genesis(peer)]
        try:
            await asyncio.to_thread(self._headers.begin, low, raws)
        except HeaderError as error:
            raise PeerError(str(error), is_violation=True) from None
        self._unsaved += len(raws)

    async def _genesis(self, peer: Peer) -> bytes:
        genesis = bytes.fromhex(self._network.genesis)[::-1]
        answer = await peer.headers([], genesis)
        if len(answer) != 1 or sha256d(answer[0].raw) != genesis:
            raise PeerError("it does not send the header of the genesis block", is_violation=True)
        return answer[0].raw

    async def _read_up(self, peer: Peer, base: Checkpoint, low: int, high: int) -> list[bytes]:
        """The headers at the heights `low` to `high`, read from a checkpoint on."""
        log.info("%s: reading the headers from %d to %d, a checkpoint", self.name, base.height, high)
        raws: list[bytes] = []
        height, last = base
        while height < high:
            answer = await peer.headers([last])
            if not answer:
                raise PeerError(f"its chain ends at {height:,}, below the checkpoint at {high:,}")
            for header in answer[: high - height]:
                if header.raw[4:36] != last:
                    raise PeerError("its headers do not link", is_violation=True)
                height, last = height + 1, sha256d(header.raw)
                if height >= low:
                    raws.append(header.raw)
            self.count += len(answer)
        return raws
