"""Another overlay as a chain: our own headers, and partial blocks of the transactions that its topic admitted
(BRC-136).

Headers are verified by work, each transaction by its merkle path, and the registry's laws are applied to it here. What
the overlay leaves out cannot be seen, so there is no state hash; compare the anchors with those of others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence

from indexer.chains import Chain, ChainStore, PartialBlock, ProvenTransaction
from indexer.chains.http_client import HttpClient, gather
from indexer.chains.overlay.client import OverlaySourceClient
from indexer.errors import OtherNetworkError, SourceRefusalError, SourceUnavailableError
from indexer.headers.header_chain import HeaderChain, HeaderError
from indexer.headers.networks import Network, topic_genesis
from indexer.model import PARTIAL, BlockRef
from parsers.bitcoin import bump
from parsers.bitcoin.basm import AdmittedTransaction, TopicAnchor
from parsers.bitcoin.basm_answers import ANCHORS_AT_ONCE, TXIDS_AT_ONCE, AnchorTip, check_chained
from parsers.bitcoin.beef import NODE_PAIR
from parsers.errors import ParseError

POLL_SECONDS = 10.0
BLOCKS_AT_ONCE = 8
"""Blocks of transactions that are fetched at a time."""

MAX_ADMITTED = 100_000
"""Transactions of a block, at most: they are in memory at a time, with their merkle paths."""


class OverlayChain(Chain):
    """The chain of one network as the overlay at `base` admitted it. Reading starts at the option `from`, else where
    its anchors begin."""

    complete = False

    def __init__(
        self, name: str, base: str, network: Network, options: Mapping[str, str], store: ChainStore | None
    ) -> None:
        self.name = name
        self.take_network(network, options)
        self._start, self._has_start = self.first, "from" in options
        self.poll_seconds = POLL_SECONDS
        self._genesis = self._topic_genesis = topic_genesis(network.caip2) or 0
        self._opened: int | None = None
        self._client = OverlaySourceClient(name, base)
        self._headers = HeaderChain(name, network, store)
        self.clock = time.monotonic
        self._refreshed = -POLL_SECONDS
        self._is_whole = True

    @property
    def checked(self) -> str:
        """Which rules of headers and transactions are checked, in words."""
        return f"{self._headers.checked}; of each transaction, its merkle path"

    @property
    def clients(self) -> Sequence[HttpClient]:
        """The HTTP client of its server."""
        return (self._client,)

    @property
    def warning(self) -> str:
        """The limits of this source."""
        late = "" if self._is_whole else "; that overlay says that it did not read everything itself"
        moved = ""
        if self._opened not in (None, self._genesis):
            moved = (
                f"; it says now that its anchors begin at block {self._genesis:,}, and said {self._opened:,} before: "
                f"read it again (a2b index --again {self.name})"
            )
        return PARTIAL + late + moved

    async def open(self) -> None:
        """Load the stored headers, and update them to the overlay's tip."""
        tip = await self._client.tip()
        if tip.chain not in (None, self.caip2):
            raise OtherNetworkError(
                f"{self.name}: {self._client.label} is about {str(tip.chain)[:60]!a}, and not {self.caip2}: say "
                "?network= for another network"
            )
        self._note_beginning(tip)
        self._opened = self._genesis
        if self._headers.tip() is None:
            await asyncio.to_thread(self._headers.load)
        await self._refresh(tip)

    def _note_beginning(self, tip: AnchorTip) -> None:
        """Note where the overlay says that its anchors begin. Raises SourceUnavailableError for a height above them."""
        genesis = self._topic_genesis if tip.genesis is None else tip.genesis
        if genesis > tip.height >= 0:
            raise SourceUnavailableError(
                f"{self.name}: {self._client.label} has anchors from block {genesis:,} to block {tip.height:,}"
            )
        self._genesis, is_late = genesis, genesis > self._topic_genesis
        self.first = genesis if is_late and not self._has_start else self._start
        self._is_whole = tip.complete and not is_late

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def tip(self) -> BlockRef | None:
        """The newest block of our best chain; the overlay's headers are fetched every `poll_seconds`."""
        if self.clock() - self._refreshed >= self.poll_seconds:
            tip = await self._client.tip()
            self._note_beginning(tip)
            await self._refresh(tip)
        return self._headers.tip()

    async def ref(self, height: int) -> BlockRef | None:
        """The best chain's block at `height`."""
        return self._headers.ref(height)

    # -- headers

    async def _refresh(self, tip: AnchorTip) -> None:
        """Add the overlay's headers up to its newest anchor, from where they fork from ours on."""
        newest = self._headers.tip()
        if newest is None and tip.height >= 0:
            first, last = self._headers.span(self.first, tip.height)
            raws: list[bytes] = []
            while len(raws) <= max(0, last - first):
                raws += await self._fetch_headers(first + len(raws))
            await self._take(first, raws[: tip.height - first + 1])
            newest = self._headers.tip()
        if newest is not None:
            await self._extend(newest.height + 1, tip.height)
        await asyncio.to_thread(self._headers.save)
        self._refreshed = self.clock()

    async def _extend(self, height: int, last: int) -> None:
        lowest, step = (self._headers.first or 0) + 1, 1
        # from the newest block on, which may have been replaced
        height = max(lowest, min(height, last + 1) - 1)
        while height <= last:
            raws = await self._fetch_headers(height)
            parent = self._headers.find(raws[0][4:36])
            if parent is not None and parent != height - 1:
                raise SourceUnavailableError(
                    f"{self.name}: {self._client.label} delivers header {parent + 1:,} for header {height:,}"
                )
            if parent is not None:
                await self._take(None, raws[: last - height + 1])
                height += len(raws)
            elif height == lowest:
                raise SourceUnavailableError(f"{self.name}: header {height:,} follows none that is stored")
            else:
                height, step = max(lowest, height - step), 2 * step

    async def _fetch_headers(self, height: int) -> list[bytes]:
        """Headers from a height on that the overlay has by its newest anchor. Raises SourceUnavailableError for none:
        the next refresh sees the end of a reorganisation."""
        raws = await self._client.headers(self.caip2, height)
        if not raws:
            raise SourceUnavailableError(f"{self.name}: {self._client.label} delivers no header {height:,}")
        return raws

    async def _take(self, first: int | None, raws: list[bytes]) -> None:
        try:
            if first is None:
                await asyncio.to_thread(self._headers.add, raws)
            else:
                await asyncio.to_thread(self._headers.begin, first, raws)
        except HeaderError as error:
            raise SourceUnavailableError(str(error)) from None

    # -- blocks

    async def blocks(self, first: int, last: int) -> AsyncGenerator[tuple[BlockRef, PartialBlock], None]:
        """Partial blocks of the best chain. Ends early where the overlay is on another branch, or at its last block."""
        height, before = first, None
        while height < self._genesis and height <= last and (ref := self._headers.ref(height)) is not None:
            yield ref, PartialBlock()
            height += 1
        while height <= last:
            page = await self._client.anchors(height, min(last, height + ANCHORS_AT_ONCE - 1))
            if not page:
                return
            if before is not None:
                try:
                    check_chained(before.tac, page[0])
                except ParseError as error:
                    raise SourceUnavailableError(f"{self.name}: {error}") from None
            for start in range(0, len(page), BLOCKS_AT_ONCE):
                some = page[start : start + BLOCKS_AT_ONCE]
                refs = [self._headers.ref(anchor.height) for anchor in some]
                same = [ref for ref, anchor in zip(refs, some, strict=True) if ref and ref.hash == anchor.block_hash]
                for pair in zip(same, await gather(map(self._partial_block, some[: len(same)], same)), strict=True):
                    yield pair
                if len(same) < len(some):
                    return
            before, height = page[-1], page[-1].height + 1

    async def _partial_block(self, anchor: TopicAnchor, ref: BlockRef) -> PartialBlock:
        """The transactions that a block admits, with proofs. Raises SourceUnavailableError where a proof is missing."""
        if not anchor.admitted:
            return PartialBlock()
        if anchor.admitted > MAX_ADMITTED:
            raise SourceRefusalError(
                f"{self.name}: block {anchor.height:,} has {anchor.admitted:,} transactions of the registry, more than "
                f"{MAX_ADMITTED:,}: read it from a node"
            )
        listed = await self._client.admitted(anchor)
        proven: list[ProvenTransaction] = []
        for start in range(0, len(listed), TXIDS_AT_ONCE):
            proven += await self._prove(listed[start : start + TXIDS_AT_ONCE], ref)
        return PartialBlock(tuple(proven))

    async def _prove(self, listed: Sequence[AdmittedTransaction], ref: BlockRef) -> list[ProvenTransaction]:
        txids = [admitted.txid for admitted in listed]
        path = await self._client.path(ref.height, txids)
        raws = await self._client.transactions(txids)
        offsets = {leaf.hash: leaf.offset for leaf in path.levels[0]}
        if path.height != ref.height or path.merkle_root != ref.header[36:68]:
            raise SourceUnavailableError(f"{self.name}: a merkle path does not lead to block {ref.height:,}")
        for admitted in listed:
            raw = raws.get(admitted.txid, b"")
            if offsets.get(admitted.txid) != admitted.number or not raw or len(raw) == NODE_PAIR:
                raise SourceUnavailableError(
                    f"{self.name}: transaction {admitted.txid[::-1].hex()} of block {ref.height:,} is not proved"
                )
        single = await asyncio.to_thread(lambda: [bump.extract(path, [txid]).to_bytes() for txid in txids])
        return [
            ProvenTransaction(admitted.number, raws[admitted.txid], own_path)
            for admitted, own_path in zip(listed, single, strict=True)
        ]

    async def transactions(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        """Raw transactions by txid, as far as the overlay has them."""
        return await self._client.transactions(txids)
