"""Taproot inscriptions as ord makes them: commit to a script, reveal it with a real signature. BIP 340 and 341, slowly.

Pure Python over integers, for tests only: no care is taken to hide keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from parsers.bitcoin.tx import Outpoint, TxInput, TxOutput, varint
from tests.chainkit_coins import serialise_tx
from tests.chainkit_scripts import push

P = 2**256 - 2**32 - 977
N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
Point = tuple[int, int]
G: Point = (
    0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
    0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
)


def tagged(tag: str, *parts: bytes) -> bytes:
    """The tagged hash of BIP 340."""
    name = sha256(tag.encode()).digest()
    return sha256(name + name + b"".join(parts)).digest()


def add(a: Point | None, b: Point | None) -> Point | None:
    """The sum of two points; None is infinity."""
    if a is None or b is None:
        return a or b
    if a[0] == b[0] and a[1] != b[1]:
        return None
    slope = 3 * a[0] * a[0] * pow(2 * a[1], -1, P) if a == b else (b[1] - a[1]) * pow(b[0] - a[0], -1, P)
    x = (slope * slope - a[0] - b[0]) % P
    return x, (slope * (a[0] - x) - a[1]) % P


def multiply(number: int, point: Point = G) -> Point:
    """A point taken so many times."""
    result, power = None, point
    while number:
        result = add(result, power) if number & 1 else result
        doubled = add(power, power)
        assert doubled is not None
        power, number = doubled, number >> 1
    assert result is not None
    return result


def sign(secret: int, message: bytes) -> bytes:
    """A signature of BIP 340 with a nonce that only secret and message decide."""
    point = multiply(secret)
    secret = secret if point[1] % 2 == 0 else N - secret
    key = point[0].to_bytes(32, "big")
    nonce = int.from_bytes(tagged("BIP0340/nonce", secret.to_bytes(32, "big"), key, message), "big") % N
    commitment = multiply(nonce)
    nonce = nonce if commitment[1] % 2 == 0 else N - nonce
    r = commitment[0].to_bytes(32, "big")
    challenge = int.from_bytes(tagged("BIP0340/challenge", r, key, message), "big") % N
    return r + ((nonce + challenge * secret) % N).to_bytes(32, "big")


class Commitment(NamedTuple):
    """A script that an output commits to: `locking` is that output's script, `control` what a reveal shows with it."""

    script: bytes
    locking: bytes
    control: bytes
    secret: int


def commit(secret: int, envelope: bytes) -> Commitment:
    """Commit to `<key> OP_CHECKSIG` and an envelope."""
    key = multiply(secret)[0].to_bytes(32, "big")
    script = push(key) + b"\xac" + envelope
    even = (int.from_bytes(key, "big"), _even_y(int.from_bytes(key, "big")))
    tweak = int.from_bytes(tagged("TapTweak", key, _leaf(script)), "big")
    tweaked = add(even, multiply(tweak))
    assert tweaked is not None
    control = bytes((0xC0 | tweaked[1] % 2,)) + key
    return Commitment(script, b"\x51" + push(tweaked[0].to_bytes(32, "big")), control, secret)


def _even_y(x: int) -> int:
    y = pow(x**3 + 7, (P + 1) // 4, P)
    return y if y % 2 == 0 else P - y


def _leaf(script: bytes) -> bytes:
    return tagged("TapLeaf", b"\xc0", varint(len(script)), script)


def reveal(commitment: Commitment, outpoint: Outpoint, satoshis: int, outputs: Sequence[tuple[int, bytes]]) -> bytes:
    """The raw transaction that spends the committing output (its value in satoshis) and shows the script."""
    outs = tuple(TxOutput(*output) for output in outputs)
    message = _message(commitment, outpoint, satoshis, outs)
    stack = (sign(commitment.secret, message), commitment.script, commitment.control)
    return serialise_tx((TxInput(outpoint, b"", 0xFFFFFFFF, stack),), outs, version=2)


def _message(commitment: Commitment, outpoint: Outpoint, satoshis: int, outs: Sequence[TxOutput]) -> bytes:
    """The signed message, by BIP 341 and 342, for the only input of a transaction."""
    joined = b"".join(item.satoshis.to_bytes(8, "little") + varint(len(item.script)) + item.script for item in outs)
    locked = varint(len(commitment.locking)) + commitment.locking
    fields = (outpoint.pack(), satoshis.to_bytes(8, "little"), locked, b"\xff" * 4, joined)
    start = b"\0\0" + (2).to_bytes(4, "little") + bytes(4)
    end = b"\x02" + bytes(4) + _leaf(commitment.script) + b"\0" + b"\xff" * 4
    return tagged("TapSighash", start, *(sha256(field).digest() for field in fields), end)
