"""The table of text vectors: a row of numbers for each word piece (`model/NOTICE` describes how it was fitted)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from overlay.search.nearest import inverse_lengths

Vector = npt.NDArray[np.int8]

_PATH = Path(__file__).with_name("model") / "static-128.npz"


class PieceTable(NamedTuple):
    """A row of 128 numbers and a scale for each word piece; `numbers` are the rows by piece, those that do not begin a
    word with `##` before them. No piece is longer than `longest`."""

    rows: Vector
    scales: npt.NDArray[np.float32]
    numbers: Mapping[str, int]
    longest: int


@cache
def piece_table() -> PieceTable:
    """The table, read at the first use."""
    with np.load(_PATH) as arrays:
        pieces = bytes(arrays["words"]).decode().split("\n")
        numbers = {piece: number for number, piece in enumerate(pieces)}
        return PieceTable(arrays["rows"], arrays["scales"].astype(np.float32), numbers, max(map(len, pieces)))


@cache
def table_hash() -> str:
    """The table's identity (BLAKE2b, hexadecimal): vectors of different tables cannot be compared."""
    return blake2b(_PATH.read_bytes(), digest_size=16).hexdigest()


def is_known(word: str) -> bool:
    """Whether the table has a row of a whole word, which is folded."""
    return word in piece_table().numbers


@cache
def whole_words() -> Mapping[str, int]:
    """The words of which the table has a row, besides signs and parts of words, and the numbers of their rows."""
    return {piece: number for piece, number in piece_table().numbers.items() if not piece.startswith(("##", "["))}


@cache
def inverse_row_lengths() -> npt.NDArray[np.float32]:
    """One divided by the length of each row."""
    return inverse_lengths(piece_table().rows)


def row_of(word: str) -> Vector | None:
    """The row of a whole word, without its scale; None where the table has none."""
    table = piece_table()
    number = table.numbers.get(word)
    return None if number is None else np.asarray(table.rows[number])
