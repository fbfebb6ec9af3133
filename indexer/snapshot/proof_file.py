"""The proofs of one block, read by txid in any order: the first in memory, the others in an unnamed file."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator

from indexer import durable_files
from indexer.model import Proof
from indexer.spill import BYTES_AT_ONCE, unnamed_file


class ProofFile:
    """Proofs by txid (internal byte order). At most BYTES_AT_ONCE bytes of them are in memory, as a block may have many
    transactions of 15 MiB. Raises OSError when the disk is full."""

    def __init__(self) -> None:
        self._proofs: dict[bytes, Proof | tuple[int, int]] = {}
        self._held_bytes = self._end = 0
        self._file: int | None = None

    def __len__(self) -> int:
        return len(self._proofs)

    def __contains__(self, txid: object) -> bool:
        return txid in self._proofs

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._proofs)

    def add(self, txid: bytes, proof: Proof) -> None:
        """Add the proof of a transaction."""
        size = size_of(proof)
        if self._held_bytes + size <= BYTES_AT_ONCE:
            self._held_bytes += size
            self._proofs[txid] = proof
            return
        if self._file is None:
            self._file = unnamed_file(self)
        packed = pickle.dumps(proof, pickle.HIGHEST_PROTOCOL)
        self._proofs[txid] = self._end, len(packed)
        durable_files.write(self._file, packed)
        self._end += len(packed)

    def get(self, txid: bytes) -> Proof:
        """The proof of a transaction. Raises KeyError."""
        location = self._proofs[txid]
        if isinstance(location, Proof):
            return location
        assert self._file is not None  # noqa: S101 - it has locations in it
        proof: Proof = pickle.loads(os.pread(self._file, location[1], location[0]))  # noqa: S301 - written above
        return proof


def size_of(proof: Proof) -> int:
    """The bytes of a proof."""
    return len(proof.raw) + len(proof.bump) + len(proof.witness or b"")
