"""A sign for a listing without a picture: drawn from its id, so that it stays the same and costs no request."""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

HUES = 12


class Mark(NamedTuple):
    """A sign: the number of its hue, the quarter circles behind the letter (SVG path data on 40 by 40), the letter."""

    hue: int
    path: str
    letter: str


_CORNERS = (("0,0", "20,0", "0,20", 1), ("40,0", "40,20", "20,0", 1), ("40,40", "20,40", "40,20", 1),
            ("0,40", "0,20", "20,40", 1))  # fmt: skip


def mark(id_: str, name: str) -> Mark:
    """The sign of a listing: two of four quarters are told by the id, the letter by the name."""
    digest = blake2b(id_.encode("utf-8", "surrogatepass"), digest_size=3).digest()
    first = digest[1] % 4
    second = (first + 1 + digest[2] % 3) % 4
    path = " ".join(_quarter(*_CORNERS[each]) for each in (first, second))
    return Mark(digest[0] % HUES, path, _letter(name))


def _quarter(corner: str, start: str, end: str, sweep: int) -> str:
    return f"M{corner}L{start}A20,20,0,0,{sweep},{end}Z"


def _letter(name: str) -> str:
    return next((letter.upper()[:1] for letter in name[:200] if letter.isalnum()), "·")
