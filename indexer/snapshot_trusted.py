"""One chain of a snapshot that is imported on trust: as the file tells it."""

from __future__ import annotations

from indexer.facts import BlockRef, Event, Proof, Reading
from indexer.snapshot_lines import ChainHead, Headers, SnapshotError
from parsers.witness_commitment import Coinbase


class TrustedChain:
    """One chain of a snapshot as the file tells it."""

    checked = "nothing"
    gap = ""

    def __init__(self, head: ChainHead) -> None:
        self.parents: set[bytes] = set()
        self._head, self._is_empty = head, True
        self._ref: BlockRef | None = None
        self._events: list[Event] = []
        self._proofs: dict[bytes, Proof] = {}
        self._coinbase: Coinbase | None = None

    def add_headers(self, headers: Headers) -> None:
        """Headers before the first block are of no use without a check."""

    def begin(self, ref: BlockRef) -> None:
        """The next block."""
        if self._is_empty and ref.height != self._head.first:
            raise SnapshotError(f"block {ref.height:,} is not the first of {ref.chain}, {self._head.first:,}")
        self._is_empty = False
        self._ref, self._events, self._proofs, self._coinbase = ref, [], {}, None

    def add_coinbase(self, coinbase: Coinbase) -> None:
        """What proves the witnesses of the block, as it is."""
        self._coinbase = coinbase

    def add_proof(self, txid: bytes, proof: Proof) -> None:
        """A proof of the block, as it is."""
        self._proofs[txid] = proof

    def add_event(self, event: Event) -> None:
        """An event of the block, as it is."""
        self._events.append(event)

    def end(self) -> Reading | None:
        """What the file says of the block."""
        ref, self._ref = self._ref, None
        return Reading(ref, tuple(self._events), {}, self._proofs, self._coinbase) if ref is not None else None

    def stored(self) -> None:
        """Nothing is compared with what is stored."""

    def finish(self) -> None:
        """The state hash is all that is compared."""
