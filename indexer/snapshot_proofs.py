"""A snapshot's proofs: as lines, and checked against the block and the events that they stand behind."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any

from indexer.facts import BlockRef, Event, Proof, Reading
from indexer.snapshot_fields import Fields, SnapshotError
from indexer.snapshot_lines import dump
from parsers import bump, tx
from parsers.errors import ParseError


def proof_lines(reading: Reading) -> Iterator[bytes]:
    """The proofs of a block as lines, sorted by txid."""
    for txid, (raw, path, _) in sorted(reading.proofs.items()):
        told = {"txid": txid[::-1].hex(), "raw": b64encode(raw).decode(), "bump": path.hex()}
        yield dump({"proof": told})


def read_proof(value: Any) -> tuple[bytes, Proof]:
    """A txid (internal byte order) and its proof as a line says; whether that is true is another question."""
    told = Fields(value, "a proof")
    txid, raw, path = told.hex("txid")[::-1], told.take("raw", str), told.take("bump", str)
    told.nothing_left()
    try:
        return txid, Proof(b64decode(raw, validate=True), bytes.fromhex(path))
    except (binascii.Error, ValueError):
        raise SnapshotError("raw of a proof is not base64, or bump not hex") from None


def check_proof(txid: bytes, proof: Proof, ref: BlockRef, said: list[Event], *, segwit: bool) -> None:
    """Raise SnapshotError unless the transaction says something in this block, and its path leads to the header."""
    named = f"the proof of {txid[::-1].hex()} in block {ref.height:,}"
    if all(event.txid != txid for event in said):
        raise SnapshotError(f"{named} is of a transaction that says nothing there")
    try:
        found, path = tx.read_exactly(proof.raw, segwit=segwit), bump.read(proof.bump)
        leads = path.root(txid)
    except ParseError as error:
        raise SnapshotError(f"{named} does not hold: {error}") from None
    if found.txid != txid or len(proof.raw) == _NODES:
        raise SnapshotError(f"{named} holds another transaction, {found.hex_id}")
    if (path.height, leads) != (ref.height, ref.header[36:68]):
        raise SnapshotError(
            f"{named} leads to {leads[::-1].hex()} at height {path.height:,}, not to the block's header"
        )


_NODES = 64
"""Bytes of two nodes of a merkle tree, which are no transaction (CVE-2017-12842)."""
