"""One chain of a snapshot that is imported on trust, without verification."""

from __future__ import annotations

from indexer.model import BlockFacts, BlockRef, Event, Proof
from indexer.snapshot.codec import ChainHead, Headers, SnapshotError
from indexer.snapshot.proof_file import size_of
from indexer.spill import SpilledPairs
from parsers.bitcoin.witness_commitment import CoinbaseProof


class TrustedChain:
    """One chain of a snapshot, imported without verification."""

    checked = "nothing"
    gap = ""

    def __init__(self, head: ChainHead) -> None:
        self.parents: set[bytes] = set()
        self._head, self._is_empty = head, True
        self._ref: BlockRef | None = None
        self._events: list[Event] = []
        self._proofs: SpilledPairs[bytes, Proof] = SpilledPairs()
        self._coinbase: CoinbaseProof | None = None

    def add_headers(self, headers: Headers) -> None:
        """Do nothing: headers before the first block are needed for verification only."""

    def begin(self, ref: BlockRef) -> None:
        """Start the next block."""
        if self._is_empty and ref.height != self._head.first:
            raise SnapshotError(f"block {ref.height:,} is not the first of {ref.chain}, {self._head.first:,}")
        self._is_empty = False
        self._ref, self._events, self._proofs, self._coinbase = ref, [], SpilledPairs(), None

    def add_coinbase(self, coinbase: CoinbaseProof) -> None:
        """Add the coinbase of the block."""
        self._coinbase = coinbase

    def add_proof(self, txid: bytes, proof: Proof) -> None:
        """Add a proof of the block."""
        self._proofs.append((txid, proof), size_of(proof))

    def add_event(self, event: Event) -> None:
        """Add an event of the block."""
        self._events.append(event)

    def end(self) -> BlockFacts | None:
        """The facts of the block."""
        ref, self._ref = self._ref, None
        if ref is None:
            return None
        return BlockFacts(ref, tuple(self._events), {}, self._proofs.settled(), self._coinbase)

    def stored(self) -> None:
        """Do nothing: events are not recomputed from the store."""

    def finish(self) -> None:
        """Do nothing: the importer compares the state hash."""
