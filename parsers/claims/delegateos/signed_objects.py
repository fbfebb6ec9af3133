"""Signatures of DelegateOS: Ed25519 over BLAKE2b-256 of RFC 8785. The id of a principal is its key in base64url."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from parsers.claims import ed25519
from parsers.claims.canonical_json import DocumentError, base64url_text, from_base64url, jcs, without

DIGEST_BYTES = 32


def digest(value: Any) -> bytes:
    """BLAKE2b-256 of the RFC 8785 form of a value."""
    return blake2b(jcs(value), digest_size=DIGEST_BYTES).digest()


def digest_text(value: Any) -> str:
    """The digest in base64url: the id by which a block is revoked, and the hash of an output."""
    return base64url_text(digest(value))


def principal_of(seed: bytes) -> str:
    """The principal of a private key, a seed of 32 bytes."""
    return base64url_text(ed25519.public_key_of(seed))


def is_principal(text: object) -> bool:
    """Whether a text is a principal: 32 bytes in base64url, for any key."""
    try:
        data, is_canonical = from_base64url(text)
    except DocumentError:
        return False
    return is_canonical and len(data) == ed25519.KEY_BYTES


def sign_object(seed: bytes, value: Any) -> str:
    """The signature of a value by the key with this seed."""
    return base64url_text(ed25519.sign(seed, digest(value)))


def check_object(principal: str, value: Any, signature: Any, code: str, detail: str) -> None:
    """Check a signature. Raises DocumentError: weak-key, else this code and detail."""
    check_canonical(principal, jcs(value), signature, code, detail)


def check_record(principal: str, record: Mapping[str, Any], detail: str) -> None:
    """Check the member `signature` of a contract or a revocation: of the digest, as the code of DelegateOS signs it, or
    of the RFC 8785 form itself, as the specification has it (§4.1, §5.1). Raises DocumentError: weak-key,
    bad-signature."""
    form, signature = jcs(without(record, "signature")), record["signature"]
    check_canonical(principal, form, signature, "bad-signature", detail, is_plain_taken=True)


def check_canonical(
    principal: str, form: bytes, signature: Any, code: str, detail: str, *, is_plain_taken: bool = False
) -> None:
    """Check a signature of the object with this RFC 8785 form, as `check_object` does. `is_plain_taken`: the signature
    may be of the form itself, which is an object and so never as long as a digest."""
    try:
        (key, is_key), (data, is_signature) = from_base64url(principal), from_base64url(signature)
    except DocumentError:
        raise DocumentError(code, detail) from None
    if len(key) == ed25519.KEY_BYTES and not ed25519.is_sound(key):
        raise DocumentError("weak-key", f"the key {principal} is of small or mixed order, or no point")
    messages = [blake2b(form, digest_size=DIGEST_BYTES).digest(), *([form] if is_plain_taken else [])]
    if not (is_key and is_signature) or not any(ed25519.verifies(key, data, message) for message in messages):
        raise DocumentError(code, detail)


def trusted_principals(keys: Any) -> frozenset[str] | None:
    """The principals in a list, or in the values of an object; None without any. Raises DocumentError with the code
    bad-keys."""
    if keys is None:
        return None
    values = list(keys.values()) if isinstance(keys, dict) else keys
    if (
        not isinstance(values, list)
        or len(values) > 1_000
        or not all(isinstance(principal, str) for principal in values)
    ):
        raise DocumentError("bad-keys", "keys is a list of at most 1,000 principals (base64url), or an object")
    return frozenset(values)
