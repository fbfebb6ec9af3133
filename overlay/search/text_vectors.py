"""Text vectors: what a text is about, as 128 numbers of eight bits. The nearer two texts are in meaning, the greater is
the cosine of their vectors.

The model is static, so that it needs a table and no library: a text is the sum of the rows of its word pieces (the
longest that match in BERT's uncased vocabulary), scaled to a largest number of 127. A row's length is the weight of its
piece. What the table was fitted to, and by what, is in `model/NOTICE`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from overlay.search.stop_words import content_words

if TYPE_CHECKING:
    from overlay.search.document import Document

SIZE = 128
"""Numbers of a vector."""

_PATH = Path(__file__).with_name("model") / "static-128.npz"
_UNKNOWN = (100,)  # the row of a word that has letters outside the vocabulary
_LARGEST = 127
_WORD = re.compile(r"\w+|[^\w\s]")

Vector = npt.NDArray[np.int8]


class _PieceTable(NamedTuple):
    """A row of 128 numbers and a scale for each word piece; `numbers` are the rows by piece, those that do not begin a
    word with `##` before them. No piece is longer than `longest`."""

    rows: Vector
    scales: npt.NDArray[np.float32]
    numbers: Mapping[str, int]
    longest: int


@cache
def _table() -> _PieceTable:
    with np.load(_PATH) as arrays:
        pieces = bytes(arrays["words"]).decode().split("\n")
        numbers = {piece: number for number, piece in enumerate(pieces)}
        return _PieceTable(arrays["rows"], arrays["scales"].astype(np.float32), numbers, max(map(len, pieces)))


@cache
def table_hash() -> str:
    """The table's identity (BLAKE2b, hexadecimal): vectors of different tables cannot be compared."""
    return blake2b(_PATH.read_bytes(), digest_size=16).hexdigest()


def vector(text: str) -> Vector:
    """The vector of a text; all zeros where it has neither words nor symbols."""
    table, numbers = _table(), _numbers(text)
    if not numbers:
        return np.zeros(SIZE, np.int8)
    summed = table.scales[numbers] @ table.rows[numbers].astype(np.float32)
    return np.asarray(np.round(summed / max(np.abs(summed).max(), 1e-9) * _LARGEST), np.int8)


def of_question(text: str) -> Vector:
    """The vector of the words of a question that are no stop words."""
    return vector(" ".join(content_words(text.split())))


def of_document(document: Document) -> Vector:
    """The vector of a listing: of its name, description and tags, and of the names and descriptions of its skills."""
    return vector(" ".join(_texts(document)))


def _texts(document: Document) -> Iterator[str]:
    yield f"{document.name}. {document.description} {', '.join(document.tags)}"
    for skill in document.skills:
        yield f"{skill.name or skill.id}. {skill.description}"


def _numbers(text: str) -> list[int]:
    """The rows of the word pieces of a text, in order."""
    plain = text.lower()
    if not text.isascii():
        plain = "".join(sign for sign in unicodedata.normalize("NFD", plain) if unicodedata.category(sign) != "Mn")
    return list(chain.from_iterable(map(_pieces, _WORD.findall(plain.replace("_", " _ ")))))


@lru_cache(maxsize=16_384)  # nine words in ten are among the commonest
def _pieces(word: str) -> tuple[int, ...]:
    """The rows of the longest pieces, from the start of a word on. Takes linear time."""
    table = _table()
    rows: list[int] = []
    start = 0
    while start < len(word):
        before = "##" if start else ""
        for end in range(min(len(word), start + table.longest), start, -1):
            number = table.numbers.get(before + word[start:end])
            if number is not None:
                rows.append(number)
                start = end
                break
        else:
            return _UNKNOWN
    return tuple(rows)
