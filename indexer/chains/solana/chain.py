"""Solana as a chain: snapshots of a program's accounts at finalized slots, and what differs from one to the next."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncIterator, Iterable
from typing import Literal

from indexer.chains import AccountRows, Follow, Rules, Sayings, SourceError, SourceUnavailableError
from indexer.chains.jsonrpc import JsonRpc
from indexer.chains.solana.accounts import Snapshot
from indexer.chains.solana.endpoint import Endpoint
from indexer.chains.solana.words import Words
from indexer.facts import BlockRef
from parsers.tx import Outpoint

log = logging.getLogger(__name__)

POLL_SECONDS = 30.0
"""Between two snapshots, unless `?poll=` says otherwise: a slot is final after about 13 seconds."""

GENESIS = {
    "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d": "mainnet",
    "4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY": "testnet",
    "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG": "testnet",
}
"""The clusters that all know (the last one is devnet), by their genesis hash; others are somebody's own: regtest."""

_REFERENCE = 32
"""Characters of the genesis hash in a CAIP-2 id (the namespace `solana` of the Chain Agnostic Standards)."""


class SolanaChain:
    """A program's accounts as a chain of the slots at which a snapshot differed from the one before.

    The hash of such a block is that of the slot's block; where the endpoint does not tell it, SHA-256 over the slot and
    all accounts. Its time is the slot's, where told, else that of the snapshot. What was said before is what the store
    holds (`rows`), or without one what was told since the start.
    """

    rules = Rules("solana", segwit=False, envelope=None)
    finality: int | None = 0
    complete = False
    sparse: Literal[True] = True
    checked = "the genesis hash, and that slots do not go back; what is told of a slot is believed"

    def __init__(self, name: str, endpoint: Endpoint, rows: AccountRows | None) -> None:
        self.name, self._endpoint, self._rows = name, endpoint, rows
        self.caip2 = self.network = ""
        self.first = 0
        self.poll_seconds = POLL_SECONDS
        self._genesis: str | None = None
        self._words = Words("")
        self._head: BlockRef | None = None
        self._told: tuple[BlockRef, Sayings] | None = None
        self._given = False
        self._slot = 0
        self._polled = float("-inf")

    @property
    def warning(self) -> str:
        """What is to be known of such a source."""
        return (
            f"accounts are looked at every {self.poll_seconds:g} s, and heights are the slots of the looks at which "
            "something had changed: there is no state hash"
        )

    async def open(self) -> None:
        """Ask which cluster it is, and take up what is stored. Raises SourceError, StoreError."""
        await self._check_genesis()
        if self._rows is not None:
            await asyncio.to_thread(self._rows.name_program, self.name, self._endpoint.program)
        self._words, self._head, self._told = Words(self.caip2), None, None
        await asyncio.to_thread(self._take_up)
        self.first = max(self.first, self._head.height if self._head else 0)
        self._polled = float("-inf")

    async def _check_genesis_of(self, asked: JsonRpc) -> None:
        """Check what cluster the endpoint is of that told the accounts."""
        await self._check_genesis()
        if self._endpoint.asked is not asked:
            raise SourceUnavailableError(
                f"{self.name}: {asked.shown} told accounts, and no longer answers; looking again"
            )

    async def _check_genesis(self) -> None:
        told = await self._endpoint.genesis()
        if self._genesis is not None and told != self._genesis:
            raise SourceError(
                f"{self.name}: the genesis hash is {told} now, and was {self._genesis}: the endpoint is another "
                "cluster's; correct its URL, or give the new cluster another name in A2B_CHAINS"
            )
        self._genesis, self.network = told, GENESIS.get(told, "regtest")
        self.caip2 = f"solana:{told[:_REFERENCE]}"

    def _take_up(self) -> None:
        """Go on from what is stored; without a store, from what was told."""
        told, self._told = self._told, None
        if self._rows is None:
            head = told[0] if told is not None and self._given else self._head
        else:
            head = self._rows.newest_block(self.name)
        if told is not None and _same(head, told[0]):
            self._words.take(told[1].events)
        elif self._rows is not None and not _same(head, self._head):
            self._words = Words(self.caip2, self._rows.newest_events(self.name))
        self._head = head

    async def tip(self) -> BlockRef | None:
        """The newest slot at which something had changed, after a look when one is due. Raises SourceError."""
        if time.monotonic() - self._polled >= self.poll_seconds:
            await self._poll()
            self._polled = time.monotonic()
        return self._told[0] if self._told else self._head

    async def _poll(self) -> None:
        """Compare a snapshot with what is stored. What was told and is not stored is told with it."""
        await asyncio.to_thread(self._take_up)
        head = self._head
        seen = await self._endpoint.accounts(max(self._slot, head.height if head else 0))
        await self._check_genesis_of(self._endpoint.asked)
        said = await asyncio.to_thread(self._words.compare, seen)
        if said.events and head is not None and seen.slot == head.height:
            raise SourceUnavailableError(
                f"{self.name}: the endpoint tells other accounts of slot {seen.slot:,} than before; none is read"
            )
        # an endpoint that is half ready tells too few accounts, or none: that must not burn what stands
        if (there := await self._endpoint.still_there(self._words.missing(seen), seen.slot)) is not None:
            raise self._endpoint.leaves_out(there)
        self._slot = seen.slot
        if (said.events or head is None) and seen.slot >= self.first:
            self._told, self._given = (await self._ref(seen), said), False

    async def _ref(self, seen: Snapshot) -> BlockRef:
        """The block that a snapshot makes."""
        slot = await self._endpoint.slot(seen.slot)
        if slot.hash is None or slot.time is None:
            log.warning("%s: the endpoint does not tell hash and time of the block of slot %d", self.name, seen.slot)
        named = await asyncio.to_thread(_digest, seen) if slot.hash is None else slot.hash
        prev = self._head.hash if self._head else bytes(32)
        return BlockRef(self.name, seen.slot, named, prev, slot.time or int(time.time()), b"")

    async def ref(self, height: int) -> BlockRef | None:
        """The block at a slot: the newest one stored, and the one told since; no other is asked for."""
        known = (self._told[0] if self._told else None, self._head)
        return next((ref for ref in known if ref is not None and ref.height == height), None)

    async def blocks(self, first: int, last: int) -> AsyncIterator[tuple[BlockRef, Sayings]]:
        """What the last snapshot said that is not stored, if its slot is among these."""
        told = self._told
        if told is not None and first <= told[0].height <= last:
            yield told
            self._given = True

    async def values(self, _outpoints: Iterable[Outpoint], _before: BlockRef) -> dict[Outpoint, int]:
        """Accounts hold no satoshis."""
        return {}

    async def ancestors(self, before: BlockRef, follow: Follow) -> None:
        """None: there are no satoshis."""

    async def heights(self, txids: Iterable[bytes], before: BlockRef) -> dict[bytes, int]:  # noqa: ARG002
        """None: only ancestors of satoshis are looked for."""
        return {}

    async def mempool(self) -> None:
        """What is not final is not read."""

    async def transactions(self, _txids: Iterable[bytes]) -> dict[bytes, bytes]:
        """Transactions are not read: an account says all."""
        return {}

    async def refuse(self, ref: BlockRef, why: str) -> None:
        """What is told was read here already, so that nothing of it is refused later."""
        raise SourceError(f"{self.name}: slot {ref.height:,} cannot be stored: {why}")

    async def wait(self, seconds: float) -> None:
        """Return after `seconds`: an endpoint that is polled has no news of its own."""
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Close the connections."""
        await self._endpoint.close()


def _same(one: BlockRef | None, other: BlockRef | None) -> bool:
    """Whether two references name the same block, whatever they say of the one before."""
    return (one and (one.height, one.hash)) == (other and (other.height, other.hash))


def _digest(seen: Snapshot) -> bytes:
    """SHA-256 over a slot and all its accounts."""
    sha = hashlib.sha256(b"a2b\0solana" + seen.slot.to_bytes(8, "big"))
    for account, body in sorted(seen.accounts.items()):
        sha.update(account + hashlib.sha256(body).digest())
    return sha.digest()
