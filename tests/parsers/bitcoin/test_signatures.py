"""ECDSA by wallycore, compared with bitcoinX."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.bitcoin.signatures import add_to_key, hash160, is_signed, recover_key, signed_message_digest

bitcoinx = pytest.importorskip("bitcoinx", reason="bitcoinX has no wheels for this Python")

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
KEYS = st.integers(1, ORDER - 1).map(lambda secret: bitcoinx.PrivateKey(secret.to_bytes(32, "big")))
MESSAGES = st.binary(min_size=32, max_size=32)


def bitcoinx_key(signature: bytes, message: bytes) -> bytes | None:
    """The key that bitcoinX recovers from a signed message, compressed."""
    try:
        return bytes(bitcoinx.PublicKey.from_signed_message(signature, message).to_bytes(compressed=True))
    except bitcoinx.InvalidSignature:
        return None


def with_high_s(compact: bytes) -> bytes:
    """The signature with the other s, and the other parity in its header."""
    s = ORDER - int.from_bytes(compact[33:], "big")
    return bytes([(compact[0] - 27 ^ 1) + 27]) + compact[1:33] + s.to_bytes(32, "big")


@given(KEYS, MESSAGES)
def test_the_key_of_a_signed_message_is_recovered(key: Any, message: bytes) -> None:
    signature = key.sign_message(message)
    for compact in (signature, with_high_s(signature)):
        expected = bitcoinx_key(compact, message)
        assert recover_key(compact, signed_message_digest(message)) == expected
        uncompressed = bytes([compact[0] - 4]) + compact[1:]
        recovered = recover_key(uncompressed, signed_message_digest(message))
        assert recovered == (expected and bitcoinx.PublicKey.from_bytes(expected).to_bytes(compressed=False))
    assert hash160(key.public_key.to_bytes()) == key.public_key.hash160()


@given(st.binary(min_size=64, max_size=64), st.integers(27, 34), MESSAGES)
def test_any_compact_signature_recovers_what_bitcoinx_recovers(body: bytes, header: int, message: bytes) -> None:
    recovered = recover_key(bytes([header if header >= 31 else header + 4]) + body, signed_message_digest(message))
    assert recovered == bitcoinx_key(bytes([header]) + body, message)


@given(st.binary(max_size=70))
def test_signatures_of_another_shape_recover_nothing(signature: bytes) -> None:
    if len(signature) != 65 or not 27 <= signature[0] < 35:
        assert recover_key(signature, bytes(32)) is None


@settings(max_examples=200)
@given(KEYS, MESSAGES, st.data())
def test_der_signatures_are_valid_where_bitcoinx_says_so(key: Any, message: bytes, data: st.DataObject) -> None:
    der, public = key.sign(message, None), key.public_key.to_bytes()
    assert is_signed(public, der, message)
    assert not is_signed(public, der, sha256(message).digest())
    changed = bytearray(der)
    changed[data.draw(st.integers(0, len(der) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        expected = key.public_key.verify_der_signature(bytes(changed), message, None)
    except bitcoinx.InvalidSignature:
        expected = False
    assert is_signed(public, bytes(changed), message) == expected


@given(KEYS, st.integers(0, 2**256 - 1))
def test_keys_are_added_to_as_bitcoinx_adds(key: Any, number: int) -> None:
    scalar = number.to_bytes(32, "big")
    try:
        expected = key.public_key.add(scalar).to_bytes()
    except ValueError:
        expected = None
    assert add_to_key(key.public_key.to_bytes(), scalar) == expected


def test_no_key_is_made_of_what_is_no_point_of_the_curve_or_out_of_range() -> None:
    key = bitcoinx.PrivateKey(bytes(31) + b"\x07").public_key.to_bytes()
    assert add_to_key(key, (ORDER - 7).to_bytes(32, "big")) is None
    assert add_to_key(key, ORDER.to_bytes(32, "big")) is None
    assert add_to_key(b"\x02" + b"\xff" * 32, bytes(31) + b"\x01") is None
    assert add_to_key(b"", bytes(31) + b"\x01") is None
