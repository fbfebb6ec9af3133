"""Proof that the presenter of a capability token has the key of its last delegatee.

A token alone proves nothing about its presenter, and the holder of an attenuated token also holds the tokens that it
was made from. The header `X-DCT-Proof` is `payload.signature`, both in base64url: the payload is the RFC 8785 form of
an object of PROOF_MEMBERS, signed as DelegateOS signs objects. The header is an extension of this registry: the
specification has none.

Codes: invalid_proof, and weak-key.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, NamedTuple

from parsers.claims.canonical_json import DocumentError, base64url_text, from_base64url, jcs, read
from parsers.claims.delegateos.capability_token import TokenDeniedError
from parsers.claims.delegateos.signed_objects import check_object, sign_object
from parsers.claims.record_shape import TEXT, RecordShape
from parsers.claims.rfc3339 import instant

PROOF_MEMBERS = ("method", "path", "body_sha256", "time", "nonce")
PROOF_SECONDS = 300
"""How far the time of a proof may be from the verifier's, in seconds."""

MAX_NONCE, MAX_PROOF = 128, 12_288
"""Characters of a nonce, at least 8, and of a proof."""

_PROOF = RecordShape("a proof", dict.fromkeys(PROOF_MEMBERS, TEXT), {})
_NANOSECONDS = 10**9


class HolderProof(NamedTuple):
    """The checks that a verified proof leaves to its caller: that the body has this SHA-256 (hex), and that the nonce
    is new. `expires_at` (seconds since 1970) is when the proof is no longer accepted."""

    body_sha256: str
    nonce: str
    expires_at: int


def sign_proof(seed: bytes, *, method: str, path: str, body: bytes, time: str, nonce: str) -> str:
    """The header's value for a request. `path` is the target with its query, `time` by RFC 3339."""
    payload = {
        "method": method, "path": path, "body_sha256": sha256(body).hexdigest(), "time": time, "nonce": nonce
    }  # fmt: skip
    return f"{base64url_text(jcs(payload))}.{sign_object(seed, payload)}"


def check_proof(text: str, *, holder: str, method: str, path: str, now: int) -> HolderProof:
    """Check a proof of the principal `holder` for a request at a time (nanoseconds since 1970). Raises
    TokenDeniedError."""
    encoded, _, signature = text.partition(".")
    if len(text) > MAX_PROOF:
        raise TokenDeniedError("invalid_proof", f"the proof has more than {MAX_PROOF:,} characters")
    try:
        data, is_canonical = from_base64url(encoded)
        payload = read(data)
        _PROOF.check(payload, "invalid_proof")
        if not is_canonical or jcs(payload) != data:
            raise DocumentError("invalid_proof", "the proof is not in the form of RFC 8785 and base64url")
        check_object(holder, payload, signature, "invalid_proof", "the last delegatee did not sign the proof")
    except DocumentError as error:
        code = error.code if error.code == "weak-key" else "invalid_proof"
        raise TokenDeniedError(code, f"the holder proof: {error.detail}") from None
    time = _check_members(payload, method, path, now)
    return HolderProof(payload["body_sha256"], payload["nonce"], time // _NANOSECONDS + PROOF_SECONDS + 1)


def _check_members(payload: dict[str, Any], method: str, path: str, now: int) -> int:
    """The time of a proof, which is for this request and of this moment."""
    for name, value in (("method", method), ("path", path)):
        if payload[name] != value:
            raise TokenDeniedError("invalid_proof", f"the holder proof is for the {name} {payload[name][:100]!a}")
    if not 8 <= len(payload["nonce"]) <= MAX_NONCE:
        raise TokenDeniedError("invalid_proof", f"the nonce of the holder proof has not 8 to {MAX_NONCE} characters")
    time = instant(payload["time"])
    if time is None or abs(time - now) > PROOF_SECONDS * _NANOSECONDS:
        detail = f"the time of the holder proof is not within {PROOF_SECONDS} s of this server's"
        raise TokenDeniedError("invalid_proof", detail)
    return time
