"""Public keys as JSON Web Keys (RFC 7517, 7518, 8037), and the signatures of JWS that they verify."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from parsers.cards import strict_json
from parsers.claims import ed25519
from parsers.json_records import JsonObject, convert

ALGORITHMS = frozenset(("ES256", "ES384", "RS256", "EdDSA", "Ed25519"))
"""The algorithms of RFC 7518, 8037 and 9864 that are verified; never `none`, and no HS*, as their keys are secrets."""

MAX_KEYS = 64
_CURVES: dict[str, tuple[ec.EllipticCurve, hashes.HashAlgorithm, int]] = {
    "ES256": (ec.SECP256R1(), hashes.SHA256(), 32),
    "ES384": (ec.SECP384R1(), hashes.SHA384(), 48),
}
_MIN_RSA_BITS, _MAX_RSA_BITS = 2048, 8192

Key = Mapping[str, Any]


class _KeySetJson(JsonObject):
    keys: list[Any]


def key_set(body: bytes) -> tuple[Key, ...]:
    """The first 64 keys of a JWK Set (RFC 7517 §5). Raises ParseError."""
    keys = convert(strict_json.answer(body), _KeySetJson, "the JWK Set").keys
    return tuple(key for key in keys[:MAX_KEYS] if isinstance(key, dict))


def base64url(text: object) -> bytes:
    """The bytes of base64url text without padding (RFC 7515 §2). Raises ValueError."""
    if not isinstance(text, str) or not text.replace("-", "a").replace("_", "a").isalnum() or not text.isascii():
        raise ValueError("no base64url")
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def may_verify(key: Key, algorithm: str) -> bool:
    """Whether a key may verify signatures by this algorithm."""
    use, operations = key.get("use", "sig"), key.get("key_ops", ["verify"])
    meant = use == "sig" and isinstance(operations, list) and "verify" in operations
    return meant and key.get("alg", algorithm) in (algorithm, "EdDSA" if algorithm == "Ed25519" else algorithm)


def verifies(key: Key, algorithm: str, signature: bytes, message: bytes) -> bool:
    """Whether a signature (as in JWS: for ECDSA r and s joined) of a message is that of the key's owner. False for keys
    that are malformed, of another type than the algorithm's, or too weak (RSA below 2048 bits, Ed25519 points of
    small or mixed order)."""
    try:
        if algorithm in _CURVES:
            curve, digest, size = _CURVES[algorithm]
            if key.get("kty") != "EC" or key.get("crv") != f"P-{curve.key_size}" or len(signature) != 2 * size:
                return False
            x, y, r, s = map(int.from_bytes, (base64url(key.get("x")), base64url(key.get("y")), signature[:size],
                                              signature[size:]))  # fmt: skip
            public = ec.EllipticCurvePublicNumbers(x, y, curve).public_key()
            public.verify(encode_dss_signature(r, s), message, ec.ECDSA(digest))
        elif algorithm == "RS256":
            n, e = (int.from_bytes(base64url(key.get(name))) for name in ("n", "e"))
            if key.get("kty") != "RSA" or not _MIN_RSA_BITS <= n.bit_length() <= _MAX_RSA_BITS or e.bit_length() > 64:
                return False
            rsa.RSAPublicNumbers(e, n).public_key().verify(signature, message, padding.PKCS1v15(), hashes.SHA256())
        elif algorithm in ("EdDSA", "Ed25519") and key.get("kty") == "OKP" and key.get("crv") == "Ed25519":
            return ed25519.verifies(base64url(key.get("x")), signature, message)
        else:
            return False
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        return False
    return True
