"""Identities of Motebit and the keys bound to them: a sovereign id is derived from its key, another one is bound only
by a key that the caller trusts."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from unicodedata import normalize
from uuid import UUID

from parsers.bitcoin import base58
from parsers.claims import ed25519
from parsers.claims.canonical_json import DocumentError, base64url_text, from_base64url

SUITE = "motebit-jcs-ed25519-b64-v1"
"""Receipts and delegations: RFC 8785, Ed25519, base64url signatures, keys in hex."""

HEX_SUITE = "motebit-jcs-ed25519-hex-v1"
"""Identity files, successions and relay metadata: RFC 8785, Ed25519, signatures and keys in hex."""

TOKEN_SUITE = "motebit-jwt-ed25519-v1"  # noqa: S105 - the name of a format
"""Bearer tokens: Ed25519 over the bytes of the JSON as sent, base64url."""

_ED25519_CODEC = b"\xed\x01"

VERIFIED, CLAIMED, NONE = "motebit:verified", "motebit:claimed", "motebit:none"
"""Facts of agents: their host serves a verified identity file, their card claims an identity, neither."""

KeyRing = Mapping[str, bytes]
"""The public keys (32 bytes) that the caller trusts, by identity."""


def sovereign_id(public_key: bytes) -> str:
    """The identity that commits to a key: the first 16 bytes of its SHA-256 as a UUID of version 8 (RFC 9562 §5.8)."""
    raw = bytearray(sha256(public_key).digest()[:16])
    raw[6] = 0x80 | raw[6] & 0x0F
    raw[8] = 0x80 | raw[8] & 0x3F
    return str(UUID(bytes=bytes(raw)))


def did_key(public_key: bytes) -> str:
    """The `did:key` of an Ed25519 key (multicodec 0xed01, base58btc)."""
    return f"did:key:z{base58.encode(_ED25519_CODEC + public_key)}"


def canonical_id(identity: str) -> str:
    """The ASCII form by which identities are compared: a UUID in its usual form, other texts in lower case, except the
    case-sensitive key of a `did:key`. "" for a text without an ASCII form, for example with look-alike letters of
    another alphabet."""
    text = normalize("NFKC", identity).strip()
    if not text.isascii() or not text.isprintable():
        return ""
    if text[:8].lower() == "did:key:":
        return f"did:key:{text[8:]}"
    try:
        return str(UUID(text))
    except ValueError:
        return text.lower()


def key_of(identity: str, keys: KeyRing) -> bytes | None:
    """The key of an identity by its spelling, else by its canonical form."""
    key = keys.get(identity)
    return keys.get(canonical_id(identity) or identity) if key is None else key


def id_fact(motebit_id: str) -> str:
    """The fact of agents with this identity."""
    return f"motebit-id:{canonical_id(motebit_id) or motebit_id}"


def capability_fact(capability: str) -> str:
    """The fact of agents with an identity and this capability."""
    return f"motebit-capability:{capability}"


def is_same_identity(left: str, right: str) -> bool:
    """Whether two texts name one identity."""
    return left == right or canonical_id(left) == canonical_id(right) != ""


def binding(identity: str, public_key: bytes, keys: KeyRing) -> str:
    """How a key is bound to an identity: pinned, sovereign, unverified, or invalid where the caller has another key."""
    trusted = key_of(identity, keys)
    if trusted is not None:
        return "pinned" if trusted == public_key else "invalid"
    is_sovereign = canonical_id(identity) in (sovereign_id(public_key), did_key(public_key))
    return "sovereign" if is_sovereign else "unverified"


def hex_bytes(text: object, size: int) -> bytes | None:
    """Bytes of lower-case hex digits, None for other values and sizes."""
    try:
        data = bytes.fromhex(text) if isinstance(text, str) else b""
    except ValueError:
        return None
    return data if len(data) == size and data.hex() == text else None


def key_ring(value: Any) -> dict[str, bytes]:
    """The keys in `{identity: 64 hex digits}`, or in base64url as older documents have them. Raises DocumentError
    with the code bad-keys."""
    if not isinstance(value, dict) or len(value) > 1_000:
        raise DocumentError("bad-keys", "keys is an object of at most 1,000 public keys by identity")
    ring = {identity: public_key(text) for identity, text in value.items()}
    wrong = [identity for identity, key in ring.items() if key is None]
    if wrong:
        raise DocumentError("bad-keys", f"the key of {wrong[0][:100]!a} is not 64 hex digits")
    stated = {identity: key for identity, key in ring.items() if key is not None}
    for identity, key in list(stated.items()):
        if (form := canonical_id(identity)) and stated.setdefault(form, key) != key:
            raise DocumentError("bad-keys", f"keys has two keys of {identity[:100]!a}")
    return stated


def public_key(text: object) -> bytes | None:
    """A key in lower-case hex (of older documents in base64url), None for other values."""
    key = hex_bytes(text, ed25519.KEY_BYTES)
    if key is None and isinstance(text, str) and len(text) == 43:
        try:
            key, is_canonical = from_base64url(text)
        except DocumentError:
            return None
        return key if is_canonical else None
    return key


def legacy_key(text: object) -> str | None:
    """A key of the legacy profile (base64url) in hex."""
    key = public_key(text)
    return key.hex() if key is not None and base64url_text(key) == text else None


def without_suite(suite: str) -> str:
    """The detail of a document of the profile `legacy` that meets all other rules."""
    return f"it verifies in the form before suites, which never counts: sign it again with the suite {suite}"


def check_key(key: bytes) -> None:
    """Raises DocumentError for a key under which forged signatures verify."""
    if not ed25519.is_sound(key):
        raise DocumentError("weak-key", f"the key {key.hex()} is of small or mixed order, or no point")


def check_signature(text: object, message: bytes, key: bytes) -> bool:
    """Check a signature in base64url; returns whether it is spelt canonically. Raises DocumentError: bad-signature,
    weak-key."""
    if not isinstance(text, str) or not text.strip():
        raise DocumentError("bad-signature", "the signature is empty")
    try:
        signature, is_canonical = from_base64url(text)
    except DocumentError:
        raise DocumentError("bad-signature", "the signature is not valid base64url") from None
    if len(signature) != ed25519.SIGNATURE_BYTES:
        raise DocumentError("bad-signature", f"the signature must be 64 bytes, got {len(signature)}")
    check_key(key)
    if not ed25519.verifies(key, signature, message):
        raise DocumentError("bad-signature", "the Ed25519 signature does not verify")
    return is_canonical
