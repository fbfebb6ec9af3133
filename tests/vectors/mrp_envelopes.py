"""MRP: signed envelopes (`mrp/signed_envelopes.jsonl`)."""

from __future__ import annotations

from typing import Any

from parsers.claims.canonical_json import read
from parsers.claims.mrp.signed_envelope import EnvelopeRules, mrp_keys, signing_input, verify_envelope
from parsers.claims.rfc3339 import instant
from tests.vectors.runner import Vector


def evaluate(vector: Vector) -> dict[str, Any]:
    """Whether the envelope verifies; what is signed must be what the vector says, too."""
    row = read(vector.line.encode(), max_bytes=1 << 20)
    envelope = row["envelope"]
    signed = row.get("signing_input")
    assert signed is None or signed.encode() == signing_input(envelope)
    rules = EnvelopeRules(
        keys=mrp_keys(row["well_known_mrp_keys"]),
        now=instant(row["now"]) or 0,
        seen=frozenset(row.get("seen_nonces") or ()),
    )
    verdict = verify_envelope(envelope, rules)
    return {"ok": True} if verdict.verified else {"ok": False, "code": verdict.error}
