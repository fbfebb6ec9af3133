"""Solana as a chain: snapshots of a program's accounts at finalized slots, and the differences from one to the next."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncGenerator, Sequence

from indexer.chains import BlockEvents, Chain, ChainStore
from indexer.chains.http_client import HttpClient
from indexer.chains.jsonrpc import JsonRpc
from indexer.chains.solana.account_state import AccountState
from indexer.chains.solana.accounts import Snapshot
from indexer.chains.solana.endpoint import SolanaEndpoint
from indexer.errors import OtherNetworkError, SourceUnavailableError
from indexer.headers.networks import CoinRules
from indexer.model import BlockRef

log = logging.getLogger(__name__)

POLL_SECONDS = 30.0
"""Seconds between two snapshots by default: a slot is final after about 13 seconds."""

SLOT_SECONDS, SLOT_ROOM = 0.1, 60.0
"""The seconds of a slot, and the tolerance in seconds, by which a new slot is judged: it is accepted where slots of
SLOT_SECONDS could have reached it since the newest one, or SLOT_ROOM later. On public clusters a slot takes some 400
ms."""

PATIENCE_SECONDS = 600.0
"""The seconds without an answer at the newest slot or above, after which answers from the newest stored slot on count
again: no account changed between the two."""

GENESIS = {
    "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d": "mainnet",
    "4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY": "testnet",
    "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG": "testnet",
}
"""The public clusters (the last one is devnet), by their genesis hash; others are private: regtest."""

_REFERENCE = 32
"""Characters of the genesis hash in a CAIP-2 id (the namespace `solana` of the Chain Agnostic Standards)."""


def _caip2(genesis: str) -> str:
    """The CAIP-2 id of the cluster with a genesis hash (base58)."""
    return f"solana:{genesis[:_REFERENCE]}"


NETWORKS = {_caip2(genesis): kind for genesis, kind in GENESIS.items()}
"""The names of clusters by CAIP-2 id, which tells them apart: later answers change none."""


class SolanaChain(Chain):
    """A program's accounts as a chain of the slots at which a snapshot differed from the previous one.

    The hash of a block is that of the slot's block, else SHA-256 over the slot and all accounts. Its time is the
    slot's, else that of the snapshot. The state before a snapshot is that of the `store`, or without one that of the
    blocks delivered since the start.
    """

    rules = CoinRules("solana", segwit=False, envelope=None)
    finality: int | None = 0
    complete = False
    has_history = False
    sparse = True
    names_network = True
    checked = "the genesis hash, and that slots do not go back; the endpoint is trusted for the accounts of a slot"

    def __init__(self, name: str, endpoint: SolanaEndpoint, store: ChainStore | None) -> None:
        self.name, self.endpoint, self._store = name, endpoint, store
        self.caip2 = self.network = ""
        self.contract = f"program {endpoint.program}"
        self.first = 0
        self.poll_seconds = POLL_SECONDS
        self._genesis: str | None = None
        self._state = AccountState("")
        self._head: BlockRef | None = None
        self._pending: tuple[BlockRef, BlockEvents] | None = None
        self._is_delivered = False
        self._slot, self._slot_time = 0, float("-inf")
        self._failing_since: float | None = None
        self._poll_time = float("-inf")
        self.clock = time.monotonic

    @property
    def is_development(self) -> bool:
        """Never: any wrong genesis hash is that of a private cluster."""
        return False

    @property
    def clients(self) -> Sequence[HttpClient]:
        """The HTTP clients of its endpoints."""
        return self.endpoint.rpc.all

    @property
    def violation_count(self) -> int:
        """How many of the endpoints' answers were invalid."""
        return self.endpoint.violations

    @property
    def warning(self) -> str:
        """The limits of this source."""
        return (
            f"accounts are fetched every {self.poll_seconds:g} s, heights are the slots of those with a change: "
            "there is no state hash"
        )

    async def open(self) -> None:
        """Check the cluster and load the stored state. Raises SourceError, StoreError."""
        self._genesis = None
        await self._check_genesis()
        self._state, self._head, self._pending = AccountState(self.caip2), None, None
        await asyncio.to_thread(self._load_state)
        self.first = max(self.first, self._head.height if self._head else 0)
        self._poll_time = float("-inf")

    async def identify(self) -> str:
        """The network by the endpoint's genesis hash now."""
        return _caip2(await self.endpoint.genesis())

    async def _check_genesis_of(self, endpoint: JsonRpc) -> None:
        """Check the cluster of the endpoint that sent the accounts."""
        await self._check_genesis()
        if self.endpoint.current is not endpoint:
            raise SourceUnavailableError(
                f"{self.name}: {endpoint.label} sent accounts, and no longer answers; trying again"
            )

    async def _check_genesis(self) -> None:
        genesis = await self.endpoint.genesis()
        caip2 = _caip2(genesis)
        if self._genesis is not None and caip2 != self.caip2:
            raise OtherNetworkError(
                f"{self.name}: the genesis hash is {genesis} now, and was {self._genesis}: the endpoint is another "
                "cluster's; correct its URL, or give the new cluster another name in A2B_CHAINS"
            )
        self._genesis, self.caip2, self.network = genesis, caip2, NETWORKS.get(caip2, "regtest")

    def _load_state(self) -> None:
        """Update the state to the newest block stored; without a store, to the last block delivered."""
        pending, self._pending = self._pending, None
        if self._store is None:
            head = pending[0] if pending is not None and self._is_delivered else self._head
        else:
            head = self._store.newest_block(self.name)
        if pending is not None and _same(head, pending[0]):
            self._state.apply(pending[1].events)
        elif self._store is not None and not _same(head, self._head):
            self._state = AccountState(self.caip2, self._store.newest_events(self.name))
        self._head = head

    async def tip(self) -> BlockRef | None:
        """The newest slot at which something had changed; a snapshot is fetched when one is due. Raises SourceError."""
        if time.monotonic() - self._poll_time >= self.poll_seconds:
            await self._poll()
            self._poll_time = time.monotonic()
        return self._pending[0] if self._pending else self._head

    async def _poll(self) -> None:
        """Fetch a snapshot and compare it with the stored state; a block that was not stored is replaced by its own."""
        await asyncio.to_thread(self._load_state)
        head = self._head
        self.endpoint.rpc.prefer_first()
        try:
            snapshot = await self.endpoint.accounts(max(self._slot, head.height if head else 0))
            self._check_pace(snapshot.slot)
        except SourceUnavailableError:
            self._note_failure()
            raise
        self._failing_since = None
        await self._check_genesis_of(self.endpoint.current)
        changes = await asyncio.to_thread(self._state.compare, snapshot)
        if changes.events and head is not None and snapshot.slot == head.height:
            raise SourceUnavailableError(
                f"{self.name}: the endpoint has other accounts at slot {snapshot.slot:,} than before; none is read"
            )
        # an endpoint that is still starting sends too few accounts, or none: that must not burn live registrations
        if (hidden := await self.endpoint.hidden_account(self._state.missing(snapshot), snapshot.slot)) is not None:
            raise self.endpoint.incomplete(hidden)
        self._slot, self._slot_time = snapshot.slot, self.clock()
        if (changes.events or head is None) and snapshot.slot >= self.first:
            self._pending, self._is_delivered = (await self._ref(snapshot), changes), False

    def _check_pace(self, slot: int) -> None:
        """Raise SourceUnavailableError for a slot that a public cluster cannot have reached since the newest one."""
        if self.network == "regtest":
            return
        if self._slot:
            newest, since = self._slot, self.clock() - self._slot_time
        elif self._head is not None:
            newest, since = self._head.height, max(0.0, time.time() - self._head.time)
        else:
            return
        most = newest + int((since + SLOT_ROOM) / SLOT_SECONDS)
        if slot > most:
            raise self.endpoint.too_far(slot, most)

    def _note_failure(self) -> None:
        """Forget the newest slot of this run where no endpoint has reached it for ten minutes."""
        now = self.clock()
        if self._failing_since is None:
            self._failing_since = now
        elif now - self._failing_since >= PATIENCE_SECONDS:
            self._slot, self._failing_since = 0, None

    async def _ref(self, snapshot: Snapshot) -> BlockRef:
        """The block of a snapshot."""
        slot = await self.endpoint.slot(snapshot.slot)
        if slot.hash is None or slot.time is None:
            log.warning(
                "%s: the endpoint does not send hash and time of the block of slot %d", self.name, snapshot.slot
            )
        digest = await asyncio.to_thread(_digest, snapshot) if slot.hash is None else slot.hash
        prev = self._head.hash if self._head else bytes(32)
        return BlockRef(self.name, snapshot.slot, digest, prev, slot.time or int(time.time()), b"")

    async def ref(self, height: int) -> BlockRef | None:
        """The block at a slot: the newest one stored, or the pending one."""
        candidates = (self._pending[0] if self._pending else None, self._head)
        return next((ref for ref in candidates if ref is not None and ref.height == height), None)

    async def blocks(self, first: int, last: int) -> AsyncGenerator[tuple[BlockRef, BlockEvents], None]:
        """The pending block, if its slot is among these."""
        pending = self._pending
        if pending is not None and first <= pending[0].height <= last:
            yield pending
            self._is_delivered = True

    async def close(self) -> None:
        """Close the connections."""
        await self.endpoint.close()


def _same(left: BlockRef | None, right: BlockRef | None) -> bool:
    """Whether two block references name the same block; their `prev` may differ."""
    return (left and (left.height, left.hash)) == (right and (right.height, right.hash))


def _digest(snapshot: Snapshot) -> bytes:
    """SHA-256 over a slot and all its accounts."""
    sha = hashlib.sha256(b"a2b\0solana" + snapshot.slot.to_bytes(8, "big"))
    for account, body in sorted(snapshot.accounts.items()):
        sha.update(account + hashlib.sha256(body).digest())
    return sha.digest()
