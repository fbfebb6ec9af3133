"""A snapshot's proofs: as lines, and checked against the block and the events that they stand behind."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any

from indexer.facts import BlockRef, Event, Proof, Reading
from indexer.snapshot_fields import Fields, SnapshotError
from indexer.snapshot_lines import dump
from parsers import bump, tx, witness_commitment
from parsers.errors import ParseError
from parsers.witness_commitment import Coinbase


def proof_lines(reading: Reading) -> Iterator[bytes]:
    """The proofs of a block as lines, sorted by txid; before them the coinbase that proves their witnesses."""
    if (coinbase := reading.coinbase) is not None:
        members = {"raw": b64encode(coinbase.raw).decode(), "reserved": coinbase.reserved.hex()}
        yield dump({"coinbase": members | {"bump": coinbase.bump.hex()}})
    for txid, (raw, path, witness) in sorted(reading.proofs.items()):
        told = {"txid": txid[::-1].hex(), "raw": b64encode(raw).decode(), "bump": path.hex()}
        yield dump({"proof": told if witness is None else told | {"witness": witness.hex()}})


def read_proof(value: Any) -> tuple[bytes, Proof]:
    """A txid (internal byte order) and its proof as a line says; whether that is true is another question."""
    told = Fields(value, "a proof")
    txid, raw, path = told.hex("txid")[::-1], told.take("raw", str), told.take("bump", str)
    witness = told.take("witness", str) if told.has("witness") else None
    told.nothing_left()
    try:
        branch = bytes.fromhex(witness) if witness is not None else None
        return txid, Proof(b64decode(raw, validate=True), bytes.fromhex(path), branch)
    except (binascii.Error, ValueError):
        raise SnapshotError("raw of a proof is not base64, or bump not hex, or witness not hex") from None


def read_coinbase(value: Any) -> Coinbase:
    """A coinbase as a line says; whether it is one of its block, the proofs behind it show."""
    told = Fields(value, "a coinbase")
    raw, reserved, path = told.take("raw", str), told.maybe_none("reserved", 32), told.take("bump", str)
    told.nothing_left()
    try:
        return Coinbase(b64decode(raw, validate=True), reserved, bytes.fromhex(path))
    except (binascii.Error, ValueError):
        raise SnapshotError("raw of a coinbase is not base64, or bump not hex") from None


def check_witness(txid: bytes, proof: Proof, ref: BlockRef, coinbase: Coinbase | None) -> None:
    """Raise SnapshotError unless the block's coinbase, if there is one, commits to the transaction's witness."""
    if coinbase is None and proof.witness is None:
        return
    named = f"the witness of {txid[::-1].hex()} in block {ref.height:,}"
    if coinbase is None:
        raise SnapshotError(f"{named} has a merkle path, and no coinbase that commits to it")
    try:
        witness_commitment.verify(proof.raw, bump.read(proof.bump), coinbase, proof.witness)
    except ParseError as error:
        raise SnapshotError(f"{named} is not proved: {error}") from None


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
