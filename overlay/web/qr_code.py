"""A QR code of an unsigned transaction, as modules that the page's script draws."""

from __future__ import annotations

from typing import NamedTuple

import segno

MAX_BYTES = 2_000
"""Bytes that are put into a code: as upper-case hex, they are within the 4,296 characters of the largest one."""


class QrModules(NamedTuple):
    """A code of `size` × `size` modules; `bits` has a 1 for each dark one, row by row, as hex padded at its end."""

    size: int
    bits: str


def qr_code(data: bytes) -> QrModules | None:
    """The code of some bytes as hex; None where they are too many."""
    if len(data) > MAX_BYTES:
        return None
    matrix = segno.make_qr(data.hex().upper(), error="l").matrix
    dark = "".join("1" if module & 1 else "0" for row in matrix for module in row)
    dark += "0" * (-len(dark) % 4)
    return QrModules(len(matrix), f"{int(dark, 2):0{len(dark) // 4}x}")
