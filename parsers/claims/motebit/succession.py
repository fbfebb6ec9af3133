"""Key successions of Motebit (identity@1.0 §3.8): a key replaced by another, signed by both; or by the guardian and the
new key, where the old one is lost. Codes: malformed, unknown-suite, weak-key, bad-signature, broken-succession."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from parsers.claims import ed25519
from parsers.claims.canonical_json import DocumentError, jcs
from parsers.claims.motebit.identifiers import HEX_SUITE, check_key, hex_bytes
from parsers.claims.record_shape import BOOLEAN, HEX_KEY, NUMBER, TEXT, RecordShape, one_of

MAX_RECORDS = 64

SHAPE = RecordShape(
    "a succession record",
    {
        **dict.fromkeys(("old_public_key", "new_public_key"), HEX_KEY),
        "timestamp": NUMBER,
        "suite": one_of(HEX_SUITE),
        "new_key_signature": TEXT,
    },
    {"reason": TEXT, "recovery": BOOLEAN, **dict.fromkeys(("old_key_signature", "guardian_signature"), TEXT)},
)


class SuccessionCheck(NamedTuple):
    """The result of a succession: whether it ends at the current key, its first key, and the fault."""

    valid: bool
    rotations: int
    genesis: str = ""
    error: str = ""

    def as_json(self) -> dict[str, Any]:
        """The succession in an answer."""
        outcome = {"error": self.error} if self.error else {"genesis_public_key": self.genesis}
        return {"valid": self.valid, "rotations": self.rotations, **outcome}


def check_record(record: Any, guardian: str | None) -> None:
    """Raises DocumentError for a record that its keys did not sign. `guardian` is the guardian's key in hex."""
    if not isinstance(record, dict) or record.get("suite") != HEX_SUITE:
        raise DocumentError("unknown-suite", f"missing or invalid suite (expected {HEX_SUITE})")
    SHAPE.check(record)
    names = ("old_public_key", "new_public_key", "timestamp", "suite", "reason")
    body = {name: record[name] for name in names if name in record}
    message = jcs({**body, "recovery": True} if record.get("recovery") else body)
    _check("new_key_signature", record, record["new_public_key"], message)
    if not record.get("recovery"):
        if not record.get("old_key_signature"):
            raise DocumentError("bad-signature", "normal rotation but no old_key_signature")
        _check("old_key_signature", record, record["old_public_key"], message)
    elif not guardian:
        raise DocumentError("bad-signature", "guardian recovery but no guardian public key in identity")
    elif not record.get("guardian_signature"):
        raise DocumentError("bad-signature", "guardian recovery but no guardian_signature")
    else:
        _check("guardian_signature", record, guardian, message)


def _check(name: str, record: Mapping[str, Any], key_text: str, message: bytes) -> None:
    key, signature = hex_bytes(key_text, ed25519.KEY_BYTES), hex_bytes(record[name], ed25519.SIGNATURE_BYTES)
    if key is not None:
        check_key(key)
    if key is None or signature is None or not ed25519.verifies(key, signature, message):
        raise DocumentError("bad-signature", f"{name} verification failed")


def check_succession(records: Sequence[Any], current: str, guardian: str | None) -> SuccessionCheck:
    """Check records in order, up to the current key (hex)."""
    count = len(records)
    if count > MAX_RECORDS:
        return SuccessionCheck(False, count, error=f"more than {MAX_RECORDS} records")
    for index, record in enumerate(records):
        try:
            check_record(record, guardian)
        except DocumentError as error:
            return SuccessionCheck(False, count, error=f"Succession record {index}: {error.detail}")
        if index and records[index - 1]["new_public_key"] != record["old_public_key"]:
            detail = "new_public_key does not match next record's old_public_key"
            return SuccessionCheck(False, count, error=f"Succession chain broken at record {index - 1}: {detail}")
        if index and records[index - 1]["timestamp"] >= record["timestamp"]:
            detail = f"Succession chain temporal ordering violated at record {index - 1}"
            return SuccessionCheck(False, count, error=detail)
    if records[-1]["new_public_key"] != current:
        detail = "Succession chain terminal: last new_public_key does not match identity public_key"
        return SuccessionCheck(False, count, error=detail)
    return SuccessionCheck(True, count, genesis=records[0]["old_public_key"])
