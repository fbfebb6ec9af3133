"""ECDSA over secp256k1, by wallycore (libsecp256k1), which has wheels for every supported Python.

Public keys are serialised by SEC 1: 33 bytes compressed, 65 uncompressed. Messages are 32-byte digests.
"""

from __future__ import annotations

from hashlib import sha256

from parsers.bitcoin.tx import varint

COMPACT_BYTES = 65
_REFUSED = (ValueError, RuntimeError)
"""Errors of wallycore for arguments of the wrong length, and for those that libsecp256k1 refuses."""

_MAGIC = b"\x18Bitcoin Signed Message:\n"


def signed_message_digest(message: bytes) -> bytes:
    """The digest that a Bitcoin Signed Message is signed by: double SHA-256 with its prefix and length."""
    return sha256(sha256(_MAGIC + varint(len(message)) + message).digest()).digest()


def recover_key(signature: bytes, digest: bytes) -> bytes | None:
    """The public key that made a compact signature (header 27 to 34, r, s: 65 bytes), serialised as the header says:
    compressed from 31 on. None for a signature that no key made."""
    import wallycore

    if len(signature) != COMPACT_BYTES or not 27 <= signature[0] < 35:
        return None
    try:
        key = bytes(wallycore.ec_sig_to_public_key(digest, signature))
        return key if signature[0] >= 31 else bytes(wallycore.ec_public_key_decompress(key))
    except _REFUSED:
        return None


def is_signed(key: bytes, der: bytes, digest: bytes) -> bool:
    """Whether a DER signature with low s over a digest was made by the compressed public key; False if invalid."""
    import wallycore

    try:
        signature = wallycore.ec_sig_from_der(der)
        wallycore.ec_sig_verify(key, digest, wallycore.EC_FLAG_ECDSA, signature)
    except _REFUSED:
        return False
    return True


def add_to_key(key: bytes, scalar: bytes) -> bytes | None:
    """The compressed public key plus `scalar` (32 bytes, big-endian) times the generator; None where either is out of
    range, the key is not a point of the curve, or the sum is the point at infinity."""
    import wallycore

    try:
        return bytes(wallycore.ec_public_key_tweak(key, scalar))
    except _REFUSED:
        return None


def compressed(key: bytes) -> bytes | None:
    """A public key (33 or 65 bytes) in compressed form; None for bytes that are not a point of the curve."""
    import wallycore

    try:
        if len(key) == 65:
            uncompressed = wallycore.ec_public_key_decompress(bytes((2 + (key[64] & 1),)) + key[1:33])
            return bytes((2 + (key[64] & 1),)) + key[1:33] if bytes(uncompressed) == key else None
        wallycore.ec_public_key_verify(key)
    except _REFUSED:
        return None
    return key


def add_to_private_key(private_key: bytes, scalar: bytes) -> bytes:
    """The private key (32 bytes, big-endian) plus `scalar` (32 bytes), modulo the order of the group. Raises
    ValueError where either is out of range, or the sum is zero."""
    import wallycore

    try:
        total = bytes(wallycore.ec_scalar_add(private_key, scalar))
    except _REFUSED:
        total = bytes(32)
    public_key(total)
    return total


def hash160(data: bytes) -> bytes:
    """RIPEMD-160 of SHA-256: the 20 bytes that an address of a public key is made of."""
    import wallycore

    return bytes(wallycore.hash160(data))


def public_key(private_key: bytes) -> bytes:
    """The compressed public key of a private key (32 bytes, big-endian). Raises ValueError for one out of range."""
    import wallycore

    try:
        return bytes(wallycore.ec_public_key_from_private_key(private_key))
    except _REFUSED:
        raise ValueError("not a private key of secp256k1: 32 bytes from 1 to the order of the group") from None


def sign(private_key: bytes, digest: bytes) -> bytes:
    """The DER signature with low s over a 32-byte digest, with the deterministic nonce of RFC 6979."""
    import wallycore

    signature = wallycore.ec_sig_from_bytes(private_key, digest, wallycore.EC_FLAG_ECDSA)
    return bytes(wallycore.ec_sig_to_der(signature))


def sign_message(private_key: bytes, digest: bytes) -> bytes:
    """The compact signature (header 31 to 34, r, s: 65 bytes) over a 32-byte digest, from which `recover_key` gives the
    compressed public key."""
    import wallycore

    return bytes(
        wallycore.ec_sig_from_bytes(private_key, digest, wallycore.EC_FLAG_ECDSA | wallycore.EC_FLAG_RECOVERABLE)
    )
