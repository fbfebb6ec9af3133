"""Signers of cards for tests: key pairs by algorithm, as JSON Web Keys, and the signatures that these make."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from functools import cache
from typing import Any

import rfc8785
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature


def encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


@cache
def private(algorithm: str, bits: int = 2048) -> Any:
    if algorithm in ("ES256", "ES384"):
        return ec.generate_private_key(ec.SECP256R1() if algorithm == "ES256" else ec.SECP384R1())
    return rsa.generate_private_key(65537, bits) if algorithm == "RS256" else ed25519.Ed25519PrivateKey.generate()


def jwk(algorithm: str, bits: int = 2048, **more: Any) -> dict[str, Any]:
    """The public key."""
    public = private(algorithm, bits).public_key()
    if algorithm in ("ES256", "ES384"):
        numbers, size = public.public_numbers(), public.key_size // 8
        members = {"kty": "EC", "crv": f"P-{public.key_size}"}
        members |= {name: encoded(getattr(numbers, name).to_bytes(size)) for name in "xy"}
    elif algorithm == "RS256":
        numbers = public.public_numbers()
        members = {"kty": "RSA"} | {name: encoded(getattr(numbers, name).to_bytes(256)) for name in "ne"}
    else:
        members = {"kty": "OKP", "crv": "Ed25519", "x": encoded(public.public_bytes_raw())}
    return {"kid": "k1", **members, **more}


def raw_signature(algorithm: str, message: bytes, bits: int = 2048) -> bytes:
    key = private(algorithm, bits)
    if algorithm in ("ES256", "ES384"):
        digest = hashes.SHA256() if algorithm == "ES256" else hashes.SHA384()
        size = key.key_size // 8
        return b"".join(number.to_bytes(size) for number in decode_dss_signature(key.sign(message, ec.ECDSA(digest))))
    if algorithm == "RS256":
        return bytes(key.sign(message, padding.PKCS1v15(), hashes.SHA256()))
    return bytes(key.sign(message))


def signed(
    card: dict[str, Any], algorithm: str = "ES256", payload: bytes | None = None, bits: int = 2048, **header: Any
) -> dict[str, Any]:
    """The card with a signature over its RFC 8785 form, or over `payload`."""
    protected = encoded(json.dumps({"alg": algorithm, "typ": "JOSE", "kid": "k1"} | header).encode())
    message = f"{protected}.{encoded(rfc8785.dumps(card) if payload is None else payload)}".encode()
    return card | {
        "signatures": [{"protected": protected, "signature": encoded(raw_signature(algorithm, message, bits))}]
    }
