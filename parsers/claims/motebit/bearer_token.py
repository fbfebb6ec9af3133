"""Signed bearer tokens of Motebit (auth-token@1.0): base64url of JSON, a point, base64url of its signature.

The signature is over the bytes of the JSON as they are sent. Codes: malformed, unknown-suite, unknown-key, weak-key,
bad-signature, non-canonical, expired, future-dated, replayed, audience-mismatch.
"""

from __future__ import annotations

from typing import Any

from parsers.claims.canonical_json import ClaimRefusedError, from_base64url, read
from parsers.claims.motebit.identifiers import KeyRing, binding, check_signature
from parsers.claims.record_shape import NAME, NUMBER, RecordShape
from parsers.claims.verdict import SKEW_MS, ClaimVerdict, refused

TOKEN_SUITE = "motebit-jwt-ed25519-v1"  # noqa: S105 - the name of a format
MAX_BYTES = 8_192
SHAPE = RecordShape(
    "a token's payload",
    {**dict.fromkeys(("mid", "did", "jti", "aud", "suite"), NAME), "iat": NUMBER, "exp": NUMBER},
    {},
    is_open=True,
)


def payload_of(token: Any, key: bytes | None, keys: KeyRing) -> tuple[dict[str, Any], bytes]:
    """The payload of a token whose signature verifies, and the key that signed it: `key`, else that of `keys` for its
    identity. Raises ClaimRefusedError."""
    if not isinstance(token, str) or len(token) > MAX_BYTES:
        raise ClaimRefusedError("malformed", f"a token is a text of at most {MAX_BYTES:,} characters")
    encoded, point, signature = token.removeprefix("motebit:").partition(".")
    if not point:
        raise ClaimRefusedError("malformed", "the token has no signature after a point")
    body, is_canonical = from_base64url(encoded)
    payload = read(body)
    if not isinstance(payload, dict) or payload.get("suite") != TOKEN_SUITE:
        raise ClaimRefusedError("unknown-suite", f"suite is not {TOKEN_SUITE}")
    SHAPE.check(payload)
    key = key or keys.get(payload["mid"])
    if key is None:
        raise ClaimRefusedError("unknown-key", f"no key is given for {payload['mid'][:200]!a}")
    if not check_signature(signature, body, key) or not is_canonical:
        raise ClaimRefusedError("non-canonical", "the token is not spelt as base64url without padding")
    return payload, key


def verify_token(
    token: Any,
    keys: KeyRing,
    now: float,
    *,
    audience: str | None = None,
    seen: frozenset[str] = frozenset(),
) -> ClaimVerdict:
    """The verdict on a token at a time (milliseconds since 1970), for an audience if one is named. `seen` are the
    `jti` that were used before."""
    try:
        payload, key = payload_of(token, None, keys)
    except ClaimRefusedError as error:
        return refused(error)
    code, detail = _fault(payload, now, audience, seen)
    return ClaimVerdict(
        error=code,
        detail=detail,
        integrity="verified",
        binding=binding(payload["mid"], key, keys),
        authority={"": "valid", "expired": "expired", "future-dated": "not_yet_valid"}.get(code, "insufficient"),
        members={"payload": payload},
    )


def _fault(payload: dict[str, Any], now: float, audience: str | None, seen: frozenset[str]) -> tuple[str, str]:
    issued, expires = payload["iat"], payload["exp"]
    if expires <= now:
        return "expired", f"expired at {expires}"
    if issued > now + SKEW_MS:
        return "future-dated", f"issued at {issued}, in the future"
    if audience is not None and payload["aud"] != audience:
        return "audience-mismatch", f"the token is for {payload['aud'][:200]!a}"
    if payload["jti"] in seen:
        return "replayed", f"the token {payload['jti'][:200]!a} was used before"
    return "", ""
