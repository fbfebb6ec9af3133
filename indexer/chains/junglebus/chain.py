"""A subscription as a chain: our own headers, and of each block what matches and what was found to move it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing, suppress

from indexer.chains import Excerpt, Follow, FoundRows, HeaderRows, SourceError, SourceUnavailableError, ancestors
from indexer.chains.junglebus.client import Client
from indexer.chains.junglebus.doubts import Doubts
from indexer.chains.junglebus.found import Found
from indexer.chains.junglebus.headersync import HeaderSync
from indexer.chains.junglebus.lies import LieError, Lies
from indexer.chains.junglebus.pages import Pages
from indexer.chains.junglebus.proving import Proven, Prover
from indexer.chains.junglebus.tracing import Tracer
from indexer.chains.together import together
from indexer.facts import BlockRef
from indexer.headers import HeaderChain
from indexer.networks import Network
from indexer.progress import PARTIAL
from parsers import tx
from parsers.tx import Outpoint

log = logging.getLogger(__name__)

POLL_SECONDS = 10.0
"""Between looks at the server's tip, and at the newest blocks again."""

OVERLAP = 6
"""Newest blocks that are asked for again: a server may know a block before it knows what matches in it."""

TRIES = 16
"""Transactions in doubt that are asked for at one look."""

MOST_PARENTS = 256
"""Transactions fetched at once for the values of their outputs; the others are asked for the next time."""


class JungleBusChain:
    """A chain read through a subscription: excerpts of its blocks, proved; nobody knows whether anything is missing.

    A transaction counts when its bytes hash to its txid and its merkle path leads to a header of ours. One that is told
    and cannot be proved is left out and asked for again; proved later, its block is read again with it.
    """

    complete = False
    first: int
    finality: int | None
    token = ""

    def __init__(
        self, name: str, subscription: str, server: str, known: Network, headers: HeaderRows | None,
        found: FoundRows | None,
    ) -> None:  # fmt: skip
        self.name, self.network, self.caip2, self.rules = name, known.kind, known.caip2, known.rules
        self.lies = Lies(name)
        self._client = Client(name, server, self.lies)
        self._headers = HeaderChain(name, known, headers)
        self._prover = Prover(self._client, self._headers, self.lies)
        self._pages = Pages(self._client, name, subscription, self.lies)
        self._found = Found(name, self._prover, found)
        self.doubts = Doubts(name)
        self._tracer = Tracer(self._prover, self._found, self.doubts)
        self._sync: HeaderSync | None = None
        self._told: dict[int, frozenset[bytes]] = {}
        self._unread: dict[bytes, int] = {}
        self._raised: set[tuple[bytes, int]] = set()
        self._asked_tip = self._looked = -POLL_SECONDS
        self._refused: set[bytes] = set()
        self.poll_seconds = POLL_SECONDS

    @property
    def checked(self) -> str:
        """Which rules of headers and transactions are checked, in words."""
        return f"{self._headers.checked}; of each transaction, its merkle path"

    @property
    def note(self) -> str:
        """What is to be known about such a source, for status."""
        doubts = f"; {len(self.doubts):,} transactions wait for a proof" if len(self.doubts) else ""
        return PARTIAL + doubts

    @property
    def caught(self) -> int:
        """How many of the server's answers were refused as untrue; `lies` counts them by kind."""
        return self.lies.total

    # -- the chain of headers

    async def open(self) -> None:
        """Take up the headers kept, bring them to the server's tip, and check what was found before."""
        self._client.open(self.token)
        self._sync = HeaderSync(self._client, self._headers, self.lies, self.first)
        if self._headers.tip() is None:
            await asyncio.to_thread(self._headers.load)
        await self._refresh()
        for txid in await asyncio.to_thread(self._found.load):
            self.doubts.add(txid)

    async def _refresh(self) -> None:
        if self._sync is None:
            raise SourceError(f"{self.name}: not open")
        await self._sync.refresh()
        self._asked_tip = time.monotonic()

    async def tip(self) -> BlockRef | None:
        """The newest block of our best chain, after a look at the server's headers."""
        if time.monotonic() - self._asked_tip >= self.poll_seconds:
            await self._refresh()
        return self._headers.tip()

    async def ref(self, height: int) -> BlockRef | None:
        """The best chain's block at `height`."""
        return self._headers.ref(height)

    # -- what the subscription tells of blocks

    async def blocks(self, first: int, last: int) -> AsyncIterator[tuple[BlockRef, Excerpt]]:
        """Excerpts of the best chain's blocks. Where the server fails on the way, it ends early with what is sure."""
        at = first
        told: dict[int, dict[bytes, Proven]] = {}
        try:
            async with aclosing(self._pages.between(first, last)) as pages:
                async for page in pages:
                    for proven in await self._tracer.admit(page.matches):
                        told.setdefault(proven.height, {})[proven.txid] = proven
                    while at <= page.complete and (ref := self._headers.ref(at)) is not None:
                        yield ref, self._excerpt(ref, told.pop(at, {}))
                        at += 1
        except SourceUnavailableError as error:
            if at == first:
                raise
            log.warning("%s: stopped before block %d: %s", self.name, at, error)

    def _excerpt(self, ref: BlockRef, told: dict[bytes, Proven]) -> Excerpt:
        """What is told and what was found of a block, as far as it is still part of the best chain."""
        found, fallen = self._found.at(ref.height)
        here = told | {proven.txid: proven for proven in found}
        for txid in [*fallen, *(txid for txid, proven in here.items() if not self._prover.stands(proven))]:
            here.pop(txid, None)
            self.doubts.add(txid)
        self._told[ref.height] = frozenset(here)
        self._told.pop(ref.height - 2 * OVERLAP, None)
        if ref.hash in self._refused or not here:
            return Excerpt()
        return Excerpt(tuple(sorted(proven.told for proven in here.values())))

    # -- what it tells late, and what it does not deliver

    async def look(self, at: BlockRef) -> int | None:
        """Ask for the newest blocks again and for what is in doubt; the lowest height to be read again."""
        if time.monotonic() - self._looked >= self.poll_seconds:
            self._looked = time.monotonic()
            await self._look_again(at.height)
        for txid in self.doubts.due(TRIES):
            proven = await self._tracer.prove(txid)
            if proven is not None:
                await self._found.add(proven)
                self._unread[txid] = proven.height
        return self._lowest_unread(at.height)

    def _lowest_unread(self, stored: int) -> int | None:
        """The lowest block stored that was read without a transaction of it; each makes a block be read again once."""
        unread, self._unread = self._unread, {}
        late = {
            (txid, height)
            for txid, height in unread.items()
            if height <= stored and txid not in self._told.get(height, ())
        } - self._raised
        self._raised |= late
        return min((height for _, height in late), default=None)

    async def _look_again(self, height: int) -> None:
        """The newest blocks once more: something may match in them that was not told before."""
        async for page in self._pages.between(max(self.first, height - OVERLAP + 1), height):
            fresh = [match for match in page.matches if match.txid not in self._told.get(match.height, ())]
            self._unread |= {proven.txid: proven.height for proven in await self._tracer.admit(fresh)}

    async def spent(self, outpoint: Outpoint) -> bool | None:
        """Ask whether an output is spent; what spends it is told with its block from then on."""
        answer = await self._tracer.spender(outpoint)
        if isinstance(answer, Proven):
            self._unread[answer.txid] = answer.height
            return True
        return answer

    # -- transactions by name

    async def values(self, outpoints: Iterable[Outpoint], _before: BlockRef) -> dict[Outpoint, int]:
        """Satoshis of outputs, from the transactions that made them: their txids commit to them."""
        wanted = list(outpoints)
        parents = list(dict.fromkeys(outpoint.txid for outpoint in wanted))[:MOST_PARENTS]
        made = {txid: tx.read(raw).outputs for txid, raw in (await self.transactions(parents)).items()}
        return {
            outpoint: made[outpoint.txid][outpoint.vout].satoshis
            for outpoint in wanted
            if outpoint.txid in made and outpoint.vout < len(made[outpoint.txid])
        }

    async def ancestors(self, _before: BlockRef, follow: Follow) -> None:
        """Ancestors by txid, which commits to their bytes; no more than for values."""
        left = MOST_PARENTS

        async def some(txids: set[bytes]) -> dict[bytes, bytes]:
            nonlocal left
            chosen = sorted(txids)[:left]
            left -= len(chosen)
            return await self.transactions(chosen)

        await ancestors.fetch(some, follow)

    async def heights(self, txids: Iterable[bytes], _before: BlockRef) -> dict[bytes, int]:
        """Heights of transactions of which a merkle path leads to one of our headers."""
        proven = await together(self._proven(txid) for txid in txids)
        return {each.txid: each.height for each in proven if each is not None}

    async def _proven(self, txid: bytes) -> Proven | None:
        with suppress(LieError):
            return await self._prover.prove(txid)
        return None

    async def mempool(self) -> None:
        """A subscription that is polled does not tell what is unconfirmed."""

    async def transactions(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        """Raw transactions by txid, unconfirmed ones too, those that the server knows."""
        return await self._prover.raws(txids)

    async def refuse(self, ref: BlockRef, why: str) -> None:
        """Tell nothing of this block any more."""
        log.error("%s: what was told of block %d is left out: %s", self.name, ref.height, why)
        self._refused.add(ref.hash)

    async def wait(self, seconds: float) -> None:
        """Return after `seconds`: a server that is polled has no news of its own."""
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()
