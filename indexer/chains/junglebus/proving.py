"""Transactions of a server, each proved by its bytes and a merkle path that ends at one of our own headers."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from indexer.chains import ChainStore, ProvenTransaction
from indexer.chains.http_client import SMALL_BYTES, gather
from indexer.chains.junglebus.client import JungleBusClient
from indexer.chains.junglebus.responses import DeliveredTransaction
from indexer.chains.junglebus.violations import ViolationError, Violations
from indexer.headers.header_chain import HeaderChain
from parsers.bitcoin import bump, tx
from parsers.bitcoin.beef import NODE_PAIR
from parsers.bitcoin.tx import Outpoint, Transaction, sha256d

BLOCKS_AHEAD = 6
"""Blocks that a server may have before we do; a proof of a higher block is refused."""

CACHE_BYTES = 64 << 20
"""Proven transactions kept in memory: blocks read again need not fetch them again."""


class Proven(NamedTuple):
    """A transaction in the block at `height` with the merkle root `root`; hashes are in internal byte order."""

    txid: bytes
    height: int
    root: bytes
    transaction: ProvenTransaction


class Prover:
    """Fetches transactions and their proofs from one server, and verifies both."""

    def __init__(self, client: JungleBusClient, headers: HeaderChain, violations: Violations) -> None:
        self._client, self.headers, self._violations = client, headers, violations
        self._cache: OrderedDict[bytes, Proven] = OrderedDict()
        self._cached_bytes = 0

    async def raw(self, txid: bytes) -> bytes | None:
        """A transaction's bytes, None where the server does not have it. Raises ViolationError for other bytes."""
        raw = await self._client.fetch_item(f"/transaction/get/{txid[::-1].hex()}/bin")
        if not raw:
            return None
        self.check_raw(txid, raw)
        return raw

    def is_raw(self, txid: bytes, raw: bytes) -> bool:
        """Whether bytes hash to a txid; other bytes are counted as a violation."""
        if sha256d(raw) == txid:
            return True
        self._other_bytes(txid)
        return False

    def _other_bytes(self, txid: bytes) -> ViolationError:
        return self._violations.record("txid", f"the bytes of {txid[::-1].hex()} hash to something else")

    def check_raw(self, txid: bytes, raw: bytes) -> Transaction:
        """The parsed transaction. Raises ViolationError unless the bytes are that transaction."""
        if sha256d(raw) != txid:
            raise self._other_bytes(txid)
        with self._violations.refusing("txid", f"{txid[::-1].hex()} is not a transaction: "):
            transaction = tx.read(raw)
        if transaction.size != len(raw) or len(raw) == NODE_PAIR:
            raise self._violations.record("txid", f"{txid[::-1].hex()} ({len(raw):,} bytes) may be no transaction")
        return transaction

    async def raws(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        """The bytes of several transactions, without unknown and refused ones."""
        unique = list(dict.fromkeys(txids))
        raws = await gather(self._raw_or_none(txid) for txid in unique)
        return {txid: raw for txid, raw in zip(unique, raws, strict=True) if raw is not None}

    async def _raw_or_none(self, txid: bytes) -> bytes | None:
        try:
            return await self.raw(txid)
        except ViolationError:
            return None

    async def prove(self, txid: bytes, raw: bytes | None = None) -> Proven | None:
        """A transaction in its block of our best chain, None where the server has no proof (yet).

        `raw` are its bytes if they were delivered already. Raises ViolationError for wrong bytes or a wrong proof.
        """
        cached = self._cache.get(txid)
        if cached is not None and self.is_current(cached):
            self._cache.move_to_end(txid)
            return cached
        if raw is None:
            raw = await self.raw(txid)
        if raw is None:
            return None
        self.check_raw(txid, raw)
        path = await self._client.fetch_item(f"/transaction/proof/{txid[::-1].hex()}/bin", SMALL_BYTES)
        if not path:
            return None
        proven = self.verify(txid, raw, path)
        if proven is not None:
            self._add_to_cache(proven)
        return proven

    def verify(self, txid: bytes, raw: bytes, path: bytes) -> Proven | None:
        """Verify a merkle path (BUMP, BRC-74) against our best chain; None where its block may just have been mined, or
        is below our headers. Raises ViolationError."""
        shown = txid[::-1].hex()
        with self._violations.refusing("proof", f"the proof of {shown}: "):
            proof = bump.read(path)
            root = proof.root(txid)
        tip, ref = self.headers.tip(), self.headers.ref(proof.height)
        if tip is not None and tip.height < proof.height <= tip.height + BLOCKS_AHEAD:
            return None
        if proof.height < (self.headers.first or 0):
            return None
        if ref is None or ref.header[36:68] != root:
            block = "which is not known" if ref is None else f"which has the merkle root {ref.header[67:35:-1].hex()}"
            raise self._violations.record(
                "proof", f"the proof of {shown} leads to {root[::-1].hex()} in block {proof.height:,}, {block}"
            )
        index = next(leaf.offset for leaf in proof.levels[0] if leaf.hash == txid)
        return Proven(txid, proof.height, root, ProvenTransaction(index, raw, path))

    def record_wrong_block(self, match: DeliveredTransaction, proven: Proven) -> None:
        """Count a transaction delivered with another block than the one it is proved to be in."""
        message = f"{match.txid[::-1].hex()} is delivered with block {match.height:,}, and is in {proven.height:,}"
        self._violations.record("block", message)

    def is_current(self, proven: Proven) -> bool:
        """Whether its block is still part of the best chain."""
        ref = self.headers.ref(proven.height)
        return ref is not None and ref.header[36:68] == proven.root

    def _add_to_cache(self, proven: Proven) -> None:
        replaced = self._cache.pop(proven.txid, None)
        self._cache[proven.txid] = proven
        self._cached_bytes += len(proven.transaction.raw) - (len(replaced.transaction.raw) if replaced else 0)
        while self._cached_bytes > CACHE_BYTES:
            _, oldest = self._cache.popitem(last=False)
            self._cached_bytes -= len(oldest.transaction.raw)

    async def spender(self, outpoint: Outpoint) -> bytes | None:
        """The txid of the transaction that spends an output, as the server answers: empty for an unspent output, None
        for an unknown one. Raises ViolationError."""
        answer = await self._client.fetch_item(f"/txo/spend/{outpoint}", SMALL_BYTES)
        if not answer:
            return answer
        if len(answer) != len(outpoint.txid):
            raise self._violations.record("spend", f"{outpoint} is spent by {len(answer):,} bytes that are not a txid")
        return answer[::-1]

    def check_spends(self, raw: bytes, outpoint: Outpoint) -> None:
        """Raise ViolationError unless a transaction spends that output."""
        if all(spent.prevout != outpoint for spent in tx.read(raw).inputs):
            message = f"{outpoint} is not spent by {sha256d(raw)[::-1].hex()}, as the server answered"
            raise self._violations.record("spend", message)


class ExtraTransactions:
    """Proven transactions that the stream does not deliver, because they only move a registration, by height.

    They survive a restart if there is a `store`.
    """

    def __init__(self, name: str, prover: Prover, store: ChainStore | None) -> None:
        self._name, self._prover, self._store = name, prover, store
        self._by_height: dict[int, dict[bytes, Proven]] = {}
        self._heights: dict[bytes, int] = {}

    def __contains__(self, proven: Proven) -> bool:
        return self._heights.get(proven.txid) == proven.height

    def load(self) -> list[bytes]:
        """Load the stored transactions and verify them again; returns the txids of the invalid ones, which are
        deleted."""
        invalid = []
        for _, raw, path in list(self._store.load_extra_transactions(self._name)) if self._store else ():
            txid = sha256d(raw)
            try:
                proven = self._prover.verify(txid, raw, path)
            except ViolationError:
                proven = None
            if proven is None:
                invalid.append(txid)
            else:
                self._put(proven)
        for txid in invalid:
            if self._store is not None:
                self._store.delete_extra_transaction(self._name, txid)
        return invalid

    async def add(self, proven: Proven) -> None:
        """Make it part of its block from now on. Raises StoreError when it cannot be stored."""
        if self._store is not None:
            _, raw, path = proven.transaction
            await asyncio.to_thread(self._store.store_extra_transaction, self._name, proven.height, raw, path)
        self._put(proven)

    def _put(self, proven: Proven) -> None:
        previous = self._heights.get(proven.txid)
        if previous is not None:
            del self._by_height[previous][proven.txid]
        self._heights[proven.txid] = proven.height
        self._by_height.setdefault(proven.height, {})[proven.txid] = proven

    def of_block(self, height: int) -> tuple[list[Proven], list[bytes]]:
        """The transactions of our best chain's block at a height, and the txids of those that were in another branch's
        block: removed here, and from the store when they are proved again or at the next start."""
        here = self._by_height.get(height, {})
        removed = [txid for txid, proven in here.items() if not self._prover.is_current(proven)]
        for txid in removed:
            del here[txid], self._heights[txid]
        return list(here.values()), removed
