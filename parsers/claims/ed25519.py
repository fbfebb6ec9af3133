"""Ed25519 (RFC 8032) as libsodium verifies it, which refuses keys and points of small order.

Libraries that follow ZIP 215 or OpenSSL accept a key of small order, under which one signature fits every message.
"""

from __future__ import annotations

from functools import lru_cache

from nacl.bindings import (
    crypto_core_ed25519_is_valid_point,
    crypto_sign,
    crypto_sign_BYTES,
    crypto_sign_open,
    crypto_sign_PUBLICKEYBYTES,
    crypto_sign_seed_keypair,
)
from nacl.exceptions import BadSignatureError

KEY_BYTES, SIGNATURE_BYTES = crypto_sign_PUBLICKEYBYTES, crypto_sign_BYTES


@lru_cache(maxsize=4_096)
def is_sound(public_key: bytes) -> bool:
    """Whether a public key is the canonical encoding of a point of the prime-order subgroup. Keys that signers generate
    are; keys of small or mixed order are not."""
    return len(public_key) == KEY_BYTES and crypto_core_ed25519_is_valid_point(public_key)


def verifies(public_key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether a signature (64 bytes) of a message is that of a sound public key (32 bytes)."""
    if len(signature) != SIGNATURE_BYTES or not is_sound(public_key):
        return False
    try:
        crypto_sign_open(signature + message, public_key)
    except BadSignatureError:
        return False
    return True


def public_key_of(seed: bytes) -> bytes:
    """The public key of a private one, its seed of 32 bytes."""
    return crypto_sign_seed_keypair(seed)[0]


def sign(seed: bytes, message: bytes) -> bytes:
    """The signature (64 bytes) of a message by the key with this seed."""
    return crypto_sign(message, crypto_sign_seed_keypair(seed)[1])[:SIGNATURE_BYTES]
