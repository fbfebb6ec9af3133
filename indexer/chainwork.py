"""Proof of work: what a header's bits ask for, and what meeting them is worth."""

from __future__ import annotations

_WORK_LIMIT = (1 << 128) - 1


def target(bits: int) -> int:
    """The number that a block's hash may not exceed, from the compact form in its header; 0 for bits that mean none.

    The compact form is a float of base 256: an exponent byte and a signed mantissa of 23 bits. Negative ones and those
    beyond 256 bits can be met by nobody.
    """
    exponent, mantissa = bits >> 24, bits & 0x7FFFFF
    if bits & 0x800000 or not mantissa:
        return 0
    value = mantissa << 8 * (exponent - 3) if exponent > 3 else mantissa >> 8 * (3 - exponent)
    return value if value < 1 << 256 else 0


def work(bits: int) -> int:
    """The hashes that meeting these bits takes on average; at most 2^128 - 1, 0 where nothing can meet them."""
    limit = target(bits)
    return min((1 << 256) // (limit + 1), _WORK_LIMIT) if limit else 0


def is_met(digest: bytes, bits: int) -> bool:
    """Whether a hash (32 bytes, internal byte order) meets the target of these bits."""
    return 0 < int.from_bytes(digest, "little") <= target(bits)


def compact(value: int) -> int:
    """The bits of a target (0 < value < 2^256), rounded down to what they can say."""
    size = (value.bit_length() + 7) // 8
    mantissa = value << 8 * (3 - size) if size <= 3 else value >> 8 * (size - 3)
    if mantissa & 0x800000:
        mantissa, size = mantissa >> 8, size + 1
    return size << 24 | mantissa
