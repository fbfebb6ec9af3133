"""Envelopes of MRP 0.1: their form, their version and time, and their signature (`auth.type` signed).

The signature is over the RFC 8785 form of the envelope without `auth.signature`, with the other members of `auth`.
Refused are replays, by nonce and `msg_id`, and a request without its own scope, for example `mrp:discover`, in
`auth.scopes`. The errors are codes of MRP's taxonomy: MRP_INVALID_REQUEST, MRP_VERSION_UNSUPPORTED, MRP_AUTH_REQUIRED,
MRP_SCOPE_DENIED.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Annotated, Any

from parsers.claims import ed25519
from parsers.claims.canonical_json import DocumentError, base64url_text, from_base64url, jcs, without
from parsers.claims.json_schema import own_schema_error
from parsers.claims.mrp.message_schemas import MESSAGE_TYPES, Schema, envelope_schema
from parsers.claims.rfc3339 import instant
from parsers.claims.verdict import SKEW_MS, DocumentVerdict
from parsers.json_records import JsonObject, RecordError, convert, sized

INVALID, UNSUPPORTED, AUTH = "MRP_INVALID_REQUEST", "MRP_VERSION_UNSUPPORTED", "MRP_AUTH_REQUIRED"
SCOPE_DENIED = "MRP_SCOPE_DENIED"
MAJOR = "0"
WINDOW_MS = 24 * 3_600_000
"""The greatest age of an envelope: an older one may repeat one with an expired nonce and message id."""

_SCOPED = ("DISCOVER", "NEGOTIATE", "EXECUTE", "EVIDENCE")
"""Requests: the scopes of `auth`, where it has any, must name them."""

_SKEW, _WINDOW = SKEW_MS * 1_000_000, WINDOW_MS * 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvelopeRules:
    """The inputs against which an envelope is verified: keys by `key_id`, the time (nanoseconds since 1970), nonces and
    message ids seen before, whether by the strict schemas, and whether it must be signed."""

    keys: Mapping[str, bytes]
    now: int
    seen: frozenset[str] = frozenset()
    is_strict: bool = False
    must_be_signed: bool = True


_schema = cache(envelope_schema)


def schema_error(envelope: Any, *, is_strict: bool) -> str | None:
    """The first error of an envelope by the schemas, None where it is valid."""
    msg_type = envelope.get("msg_type") if isinstance(envelope, dict) else None
    known_type = msg_type if isinstance(msg_type, str) and msg_type in MESSAGE_TYPES else ""
    schema: Schema = _schema(known_type, is_strict=is_strict)
    try:
        return own_schema_error(schema, envelope)
    except DocumentError as error:
        return error.detail


def signing_input(envelope: Mapping[str, Any]) -> bytes:
    """The bytes that are signed."""
    return jcs({**envelope, "auth": without(envelope["auth"], "signature")})


def sign_envelope(seed: bytes, key_id: str, envelope: Mapping[str, Any]) -> dict[str, Any]:
    """The envelope signed by the key with this seed (32 bytes)."""
    auth = {**without(envelope.get("auth", {}), "signature"), "type": "signed"}
    value = base64url_text(ed25519.sign(seed, signing_input({**envelope, "auth": auth})))
    return {**envelope, "auth": {**auth, "signature": {"alg": "EdDSA", "key_id": key_id, "value": value}}}


def key_id(seed: bytes) -> str:
    """The id of a key where no other is chosen: the first half of the SHA-256 of its public part, in hex."""
    return sha256(ed25519.public_key_of(seed)).hexdigest()[:32]


def key_document(seed: bytes, key_id: str) -> dict[str, str]:
    """The public part of a key, as an element of `keys`."""
    return {"key_id": key_id, "alg": "EdDSA", "public_key": base64url_text(ed25519.public_key_of(seed))}


def verify_envelope(envelope: Any, rules: EnvelopeRules) -> DocumentVerdict:
    """The verdict on an envelope."""
    integrity, fault = "unknown", None
    try:
        _check_version(envelope)
        integrity = "invalid"
        _check_form(envelope, rules)
        integrity = "unknown"
        auth = envelope.get("auth")
        if isinstance(auth, dict) and auth.get("type") == "signed":
            key, value = _key_and_signature(auth.get("signature"), rules)
            integrity = "invalid"
            _check_signature(envelope, key, value)
            integrity = "verified"
        elif rules.must_be_signed:
            detail = "the envelope is not signed: auth.type is not signed"
            raise DocumentError(AUTH, detail, ["auth.signature", *_unbound(envelope)])
        check_scope(envelope["msg_type"], auth.get("scopes") if isinstance(auth, dict) else None)
        _check_replay(envelope, rules, is_signed=integrity == "verified")
    except DocumentError as error:
        fault = error
    is_signed = integrity == "verified"
    return DocumentVerdict.of(
        fault,
        integrity=integrity,
        binding="pinned" if is_signed else "unverified",
        authority="valid" if is_signed and fault is None else "unknown",
        members={"signed": is_signed, "msg_type": envelope["msg_type"]} if fault is None else {},
    )


def _check_version(envelope: Any) -> None:
    version = envelope.get("mrp_version") if isinstance(envelope, dict) else None
    if isinstance(version, str) and version.partition(".")[0] != MAJOR and version[:1].isdigit():
        raise DocumentError(UNSUPPORTED, f"mrp_version is {version[:20]!a}, not {MAJOR}.x")


def _check_form(envelope: Any, rules: EnvelopeRules) -> None:
    error = schema_error(envelope, is_strict=rules.is_strict)
    if error is not None:
        raise DocumentError(INVALID, error)
    for name in ("timestamp", "expires_at"):
        if name in envelope and instant(envelope[name]) is None:
            raise DocumentError(INVALID, f"{name} is not a time by RFC 3339")


def _key_and_signature(signature: Any, rules: EnvelopeRules) -> tuple[bytes, str]:
    """The key that a signature names, and its value. Raises DocumentError where nothing can be checked."""
    if not isinstance(signature, dict) or signature["alg"] not in ("EdDSA", "Ed25519"):
        raise DocumentError(AUTH, "there is no EdDSA signature")
    key = rules.keys.get(signature["key_id"])
    if key is None:
        raise DocumentError(AUTH, f"the key {signature['key_id'][:100]!a} is not given")
    return key, signature["value"]


def _check_signature(envelope: Mapping[str, Any], key: bytes, text: str) -> None:
    if not ed25519.is_sound(key):
        raise DocumentError(AUTH, "the key is of small or mixed order, or no point")
    try:
        value, is_canonical = from_base64url(text)
    except DocumentError as error:
        raise DocumentError(AUTH, error.detail) from None
    if not is_canonical or not ed25519.verifies(key, value, signing_input(envelope)):
        raise DocumentError(AUTH, "the signature does not verify")


def scope_of(msg_type: str) -> str:
    """The scope that a request needs where it has scopes."""
    return f"mrp:{msg_type.lower()}"


def check_scope(msg_type: str, scopes: Sequence[str] | None) -> None:
    """Check that the scopes of a message, if any, allow its request. Raises DocumentError (MRP_SCOPE_DENIED)."""
    if scopes is not None and msg_type in _SCOPED and scope_of(msg_type) not in scopes:
        raise DocumentError(SCOPE_DENIED, f"auth.scopes lacks {scope_of(msg_type)}")


def _unbound(envelope: Mapping[str, Any]) -> list[str]:
    """The members that keep a signed envelope from being used again, and that it does not have."""
    return [name for name in ("nonce", "expires_at") if name not in envelope]


def _check_replay(envelope: Mapping[str, Any], rules: EnvelopeRules, *, is_signed: bool) -> None:
    code = AUTH if is_signed else INVALID
    if is_signed and _unbound(envelope):
        raise DocumentError(code, "a signed envelope needs nonce and expires_at", _unbound(envelope))
    if "expires_at" in envelope and (instant(envelope["expires_at"]) or 0) < rules.now:
        raise DocumentError(code, "the envelope has expired")
    if (instant(envelope["timestamp"]) or 0) > rules.now + _SKEW:
        raise DocumentError(INVALID, "timestamp is in the future")
    if (instant(envelope["timestamp"]) or 0) < rules.now - _WINDOW:
        raise DocumentError(code, "the envelope is older than a day")
    if {envelope.get("nonce"), envelope["msg_id"]} & rules.seen:
        raise DocumentError(code, "the nonce or the msg_id was used before")


class _MrpKeyJson(JsonObject, rename=None):
    key_id: str
    public_key: str


class _MrpKeysJson(JsonObject):
    keys: Annotated[list[_MrpKeyJson], sized(1_000)]


def mrp_keys(value: Any) -> dict[str, bytes]:
    """The keys of `/.well-known/mrp-keys.json`: `{"keys": [{key_id, alg, public_key}]}`, or the list alone. Raises
    DocumentError with the code bad-keys."""
    try:
        listed = convert(value if isinstance(value, dict) else {"keys": value}, _MrpKeysJson, "the document of keys")
    except RecordError as error:
        raise DocumentError("bad-keys", str(error)) from None
    keys: dict[str, bytes] = {}
    for key in listed.keys:
        if key.key_id in keys:
            raise DocumentError("bad-keys", f"two keys have the key_id {key.key_id[:100]!a}")
        try:
            keys[key.key_id] = from_base64url(key.public_key).data
        except DocumentError:
            raise DocumentError("bad-keys", f"public_key of {key.key_id[:100]!a} is not base64url") from None
    return keys
