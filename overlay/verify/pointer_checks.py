"""Checks of a listing with a fetched card against its pointer on chain (laws 8 to 10)."""

from __future__ import annotations

from hashlib import sha256

from overlay.verify.server_answer import NotProvedError, ServerAnswer
from parsers.inscriptions import output_record
from parsers.pointers import pointer
from parsers.pointers.pointer import Pointer


def read(answer: ServerAnswer) -> Pointer:
    """The valid pointer at the outpoint of the winner, which must name the listing's id. Raises NotProvedError."""
    target = _pointer_in_output(answer)
    if target is None or not target.valid:
        raise NotProvedError(f"no valid pointer is at {answer.outpoint}")
    if target.id != answer.registration:
        raise NotProvedError(f"the pointer at {answer.outpoint} names {target.id!a}, and not {answer.id[:200]!a}")
    if target.kind is not answer.kind:
        raise NotProvedError(
            f"the pointer at {answer.outpoint} is for {target.kind.value}, not for {answer.kind.value}"
        )
    if not answer.proof.keys().isdisjoint(("before", "after", "parents", "current")):
        raise NotProvedError("the answer holds transactions of a satoshi, and a pointer has none")
    return target


def _pointer_in_output(answer: ServerAnswer) -> Pointer | None:
    tx, vout = answer.tx, answer.outpoint.vout
    if tx.txid != answer.outpoint.txid or vout >= len(tx.outputs):
        raise NotProvedError(f"transaction {tx.hex_id} does not make {answer.outpoint}")
    record = output_record.read(tx, vout)
    if record.pointer is not None and record.inscription is None:
        return record.pointer
    split = pointer.read_split([tx_output.script for tx_output in tx.outputs])
    return split[1] if split is not None and split[0] == vout else None


def check_card(answer: ServerAnswer, target: Pointer) -> str:
    """Check that the pointer commits to the card's bytes; returns a sentence. Raises NotProvedError."""
    digest = sha256(answer.card).digest()
    if target.digest is None:
        raise NotProvedError("the pointer names a locator and no hash: nothing on chain commits to these bytes")
    if target.digest != digest:
        raise NotProvedError(f"the pointer names the SHA-256 {target.digest.hex()}, and the card has {digest.hex()}")
    return f"the pointer at {answer.outpoint} names the SHA-256 of its {len(answer.card):,} bytes, {digest.hex()}"
