"""Signed bearer tokens of Motebit (auth-token@1.0): base64url of JSON, a point, base64url of its signature.

The signature is over the bytes of the JSON as sent. The members `host` and `bodySha256` are extensions of this
registry: they bind a token to one request, so its receiver cannot use it elsewhere. A token without `suite`, as the
multi-hop specification prints it, has the profile `legacy`: every other rule is checked, and it never counts.

Codes: malformed, legacy-profile, unknown-suite, unknown-key, weak-key, bad-signature, non-canonical, expired,
future-dated, replayed, audience-mismatch, hash-mismatch.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from parsers.claims import ed25519
from parsers.claims.canonical_json import DocumentError, base64url_text, from_base64url, jcs, read
from parsers.claims.motebit.identifiers import TOKEN_SUITE, KeyRing, binding, check_signature, key_of, without_suite
from parsers.claims.record_shape import NAME, NUMBER, RecordShape
from parsers.claims.verdict import LEGACY, SKEW_MS, DocumentVerdict, refused
from parsers.pointers.locator import a_label

MAX_BYTES = 8_192
PREFIX = "Bearer motebit:"
"""How a header with a token begins."""

SHAPE = RecordShape(
    "a token's payload",
    {**dict.fromkeys(("mid", "did", "jti", "aud", "suite"), NAME), "iat": NUMBER, "exp": NUMBER},
    {},
    is_open=True,
)
_LEGACY_SHAPE = SHAPE.without("suite")


UNBOUND_MS = 60_000
"""How far a token that is bound to no request may be from its `iat`."""


class SignedRequest(NamedTuple):
    """A request with a token: its header Authorization, its body, and its host (`name[:port]`). `is_configured`: the
    host does not come from the request, where the sender can name any."""

    authorization: str
    body: bytes = b""
    host: str = ""
    is_configured: bool = False


def check_bound(payload: Mapping[str, Any], request: SignedRequest, now: float) -> bool:
    """Whether a token is bound to a request at a time (milliseconds since 1970), by its host and, with a body, by the
    body's digest. An unbound token counts only for a minute, and the caller accepts it once. Raises DocumentError for a
    token of another host (audience-mismatch) or body (hash-mismatch), and for an unbound one of another minute
    (expired)."""
    host, digest = payload.get("host"), payload.get("bodySha256")
    if host is not None and (not isinstance(host, str) or canonical_host(host) != canonical_host(request.host)):
        raise DocumentError("audience-mismatch", f"the token is for the host {str(host)[:200]!a}")
    if digest is not None and str(digest).lower() != sha256(request.body).hexdigest():
        raise DocumentError("hash-mismatch", "the token is for another body: bodySha256 is not its SHA-256 in hex")
    is_bound = host is not None and request.is_configured and (digest is not None or not request.body)
    if not is_bound and abs(now - payload["iat"]) > UNBOUND_MS:
        detail = f"a token without host and bodySha256 counts within {UNBOUND_MS // 1_000} s of its iat"
        raise DocumentError("expired", detail)
    return is_bound


def sign_token(seed: bytes, payload: Mapping[str, Any]) -> str:
    """A token of a payload, signed by an Ed25519 key (32 bytes)."""
    body = jcs({**payload, "suite": TOKEN_SUITE})
    return f"{base64url_text(body)}.{base64url_text(ed25519.sign(seed, body))}"


def canonical_host(text: str) -> str:
    """The canonical form of `name[:port]`: A-labels in lower case, without the ports of http and https; "" for any
    other text."""
    name, mark, port = text.rpartition(":")
    if not mark or not port.isdecimal():
        name, port = text, ""
    name = a_label(name) or (name.lower() if name.isascii() else "")
    return name if port in ("", "80", "443") else f"{name}:{port}"


def stated_identity(authorization: str) -> str:
    """The `mid` of the token in a header, "" without one. Nothing is verified."""
    try:
        payload = read(from_base64url(without_scheme(authorization).partition(".")[0]).data, max_bytes=MAX_BYTES)
    except DocumentError:
        return ""
    mid = payload.get("mid") if isinstance(payload, dict) else None
    return mid if isinstance(mid, str) else ""


def without_scheme(token: str) -> str:
    """A token without the scheme that may come before it, removed once: texts that are compared with a verified token
    have to be read in this way, too."""
    return token.removeprefix("Bearer ").removeprefix("motebit:")


def payload_of(token: Any, key: bytes | None, keys: KeyRing) -> tuple[dict[str, Any], bytes]:
    """The payload of a token with a verified signature, and the key that signed it: `key`, else that of `keys` for its
    identity. Raises DocumentError, also for the profile `legacy` (legacy-profile)."""
    payload, key = _signed_payload(token, key, keys)
    if "suite" not in payload:
        raise _legacy()
    return payload, key


def _legacy() -> DocumentError:
    return DocumentError(LEGACY, without_suite(TOKEN_SUITE), ["suite"])


def _signed_payload(token: Any, key: bytes | None, keys: KeyRing) -> tuple[dict[str, Any], bytes]:
    """The payload of a token, with or without `suite`, and the key that verifies its signature. Raises
    DocumentError."""
    if not isinstance(token, str) or len(token) > MAX_BYTES:
        raise DocumentError("malformed", f"a token is a text of at most {MAX_BYTES:,} characters")
    encoded, point, signature = without_scheme(token).partition(".")
    if not point:
        raise DocumentError("malformed", "the token has no signature after a point")
    body, is_canonical = from_base64url(encoded)
    payload = read(body)
    if not isinstance(payload, dict):
        raise DocumentError("malformed", "the payload of the token is not a JSON object")
    if "suite" not in payload:
        _LEGACY_SHAPE.check(payload)
    elif payload["suite"] != TOKEN_SUITE:
        raise DocumentError("unknown-suite", f"suite is {str(payload['suite'])[:100]!a}, not {TOKEN_SUITE}")
    else:
        SHAPE.check(payload)
    key = key or key_of(payload["mid"], keys)
    if key is None:
        raise DocumentError("unknown-key", f"no key is given for {payload['mid'][:200]!a}")
    if not check_signature(signature, body, key) or not is_canonical:
        raise DocumentError("non-canonical", "the token is not spelt as base64url without padding")
    return payload, key


def verify_token(
    token: Any,
    keys: KeyRing,
    now: float,
    *,
    audience: str | None = None,
    seen: frozenset[str] = frozenset(),
) -> DocumentVerdict:
    """The verdict on a token at a time (milliseconds since 1970), for an audience if one is named. `seen` are the
    `jti` that were used before."""
    try:
        payload, key = _signed_payload(token, None, keys)
    except DocumentError as error:
        return refused(error)
    code, detail = _fault(payload, now, audience, seen)
    if "suite" not in payload:
        return refused(DocumentError(code, detail, ["suite"]) if code else _legacy(), profile="legacy")
    return DocumentVerdict(
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
