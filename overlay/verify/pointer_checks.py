"""Checks of a listing with a fetched card against its pointer on chain (laws 8 to 10)."""

from __future__ import annotations

from hashlib import sha256

from overlay.verify.server_claim import NotProvedError, ServerClaim
from parsers.inscriptions import output_record
from parsers.pointers import pointer
from parsers.pointers.pointer import Pointer


def read(claim: ServerClaim) -> Pointer:
    """The valid pointer at the outpoint of the winner, which must name the listing's id. Raises NotProvedError."""
    target = _pointer_in_output(claim)
    if target is None or not target.valid:
        raise NotProvedError(f"no valid pointer is at {claim.outpoint}")
    if target.id != claim.registration:
        raise NotProvedError(f"the pointer at {claim.outpoint} names {target.id!a}, and not {claim.id[:200]!a}")
    if target.kind is not claim.kind:
        raise NotProvedError(f"the pointer at {claim.outpoint} is for {target.kind.value}, not for {claim.kind.value}")
    if not claim.proof.keys().isdisjoint(("before", "after", "parents", "current")):
        raise NotProvedError("the answer holds transactions of a satoshi, and a pointer has none")
    return target


def _pointer_in_output(claim: ServerClaim) -> Pointer | None:
    tx, vout = claim.tx, claim.outpoint.vout
    if tx.txid != claim.outpoint.txid or vout >= len(tx.outputs):
        raise NotProvedError(f"transaction {tx.hex_id} does not make {claim.outpoint}")
    record = output_record.read(tx, vout)
    if record.pointer is not None and record.inscription is None:
        return record.pointer
    split = pointer.read_split([tx_output.script for tx_output in tx.outputs])
    return split[1] if split is not None and split[0] == vout else None


def check_card(claim: ServerClaim, target: Pointer) -> str:
    """Check that the pointer commits to the card's bytes; returns a sentence. Raises NotProvedError."""
    digest = sha256(claim.card).digest()
    if target.digest is None:
        raise NotProvedError("the pointer names a locator and no hash: nothing on chain commits to these bytes")
    if target.digest != digest:
        raise NotProvedError(f"the pointer names the SHA-256 {target.digest.hex()}, and the card has {digest.hex()}")
    return f"the pointer at {claim.outpoint} names the SHA-256 of its {len(claim.card):,} bytes, {digest.hex()}"
