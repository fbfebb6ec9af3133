"""The listings with the text vectors nearest to that of a question: one compiled pass over all vectors.

Vectors have 128 numbers from -127 to 127 (`text_vectors`) and different lengths; a cosine is a product of two vectors,
which is exact, times their inverse lengths. 100,000 vectors take 0.7 to 0.9 ms of a core.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from parsers.jit import compiled, kernel

Vectors = npt.NDArray[np.int8]
"""Vectors in an array of shape (n, 128), or (128,) for one."""
Numbers = npt.NDArray[np.int64]
Documents = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]


FAR = 0.3
"""The share of the greatest cosine from which on meaning adds to a score."""


class Nearest(NamedTuple):
    """Document numbers and their cosines, the greatest first; equal ones in the order of their numbers."""

    documents: Numbers
    cosines: Floats


def inverse_lengths(vectors: Vectors) -> Floats:
    """One divided by the length of each vector; 0 for a vector of zeros, so its cosines are 0."""
    squares = np.einsum("ij,ij->i", vectors, vectors, dtype=np.int32)
    inverse = np.divide(1, np.sqrt(squares), out=np.zeros(len(vectors)), where=squares > 0)
    return np.asarray(inverse, np.float32)


def nearest(vectors: Vectors, inverse: Floats, admitted: npt.NDArray[np.uint8], query: Vectors, most: int) -> Nearest:
    """At most so many of the `admitted` documents (not 0) with the greatest cosines, which are above 0. `inverse` are
    the `inverse_lengths` of the vectors."""
    documents, products = _scan(vectors, inverse, admitted, query.astype(np.int16), most)
    return Nearest(documents, products * inverse_lengths(query[np.newaxis]))


def cosines_of(vectors: Vectors, inverse: Floats, documents: Numbers, query: Vectors) -> Floats:
    """The cosines of some documents; 0 for a number that is not of a document."""
    return _cosines(vectors, inverse, documents, query.astype(np.int16))


@compiled
def inverse_length(query: npt.NDArray[np.int16]) -> np.float32:
    """One divided by the length of a vector; 0 for a vector of zeros."""
    square = np.int32(0)
    for number in query:
        square = np.int32(square + np.int32(number) * np.int32(number))
    return np.float32(1) / np.sqrt(np.float32(square)) if square else np.float32(0)


@compiled
def product(vectors: Vectors, document: int, query: npt.NDArray[np.int16]) -> np.float32:
    """The exact product of two vectors, which is below 2^24. The conversions let LLVM use vector instructions."""
    total = np.int32(0)
    for number in range(vectors.shape[1]):
        total = np.int32(total + np.int32(np.int16(vectors[document, number]) * query[number]))
    return np.float32(total)


def _scan_at_once(
    vectors: Vectors, inverse: Floats, admitted: npt.NDArray[np.uint8], query: npt.NDArray[np.int16], most: int
) -> tuple[Numbers, Floats]:
    """As `_scan`, by one product: exact, too."""
    size = min(len(vectors), len(inverse), len(admitted))
    nearness = (vectors[:size].astype(np.float32) @ query.astype(np.float32)) * inverse[:size]
    nearness[admitted[:size] == 0] = 0
    documents = np.argsort(-nearness, kind="stable")[:most]
    documents = documents[nearness[documents] > 0]
    return documents, nearness[documents]


@kernel(interpreted=_scan_at_once)
def _scan(
    vectors: Vectors, inverse: Floats, admitted: npt.NDArray[np.uint8], query: npt.NDArray[np.int16], most: int
) -> tuple[Numbers, Floats]:
    """The best documents and their products with the query, the greatest first."""
    documents, products, held, lowest = np.empty(most, np.int64), np.empty(most, np.float32), 0, np.float32(0)
    for document in range(min(len(vectors), len(inverse), len(admitted)) if most else 0):
        if admitted[document]:
            nearness = product(vectors, document, query) * inverse[document]
            if nearness > lowest:
                held, lowest = insert(documents, products, held, document, nearness)
    return documents[:held], products[:held]


@compiled
def insert(documents: Numbers, products: Floats, held: int, document: int, value: np.float32) -> tuple[int, np.float32]:
    """Put a document and its product among the `held` greatest ones, for the last where all are taken; their number,
    and the product that others must exceed."""
    most = len(documents)
    index = held if held < most else most - 1
    while index > 0 and products[index - 1] < value:
        products[index] = products[index - 1]
        documents[index] = documents[index - 1]
        index -= 1
    products[index] = value
    documents[index] = document
    held = min(held + 1, most)
    return held, products[most - 1] if held == most else np.float32(0)


@kernel()
def _cosines(vectors: Vectors, inverse: Floats, documents: Numbers, query: npt.NDArray[np.int16]) -> Floats:
    cosines, length = np.zeros(len(documents), np.float32), inverse_length(query)
    for index in range(len(documents)):
        document = documents[index]
        if 0 <= document < len(vectors):
            cosines[index] = product(vectors, document, query) * inverse[document] * length
    return cosines


@kernel()
def fused(scores: npt.NDArray[np.float64], cosines: npt.NDArray[np.float64], share: float) -> npt.NDArray[np.float64]:
    """The scores of listings, with this `share` of meaning (`search.meaning`); none is above the greatest of `scores`,
    or above 1 without any. `scores` are those by words, 0 for none. One that only meaning finds is not a result, with
    a score of 0, where its cosine is `FAR` or less of the greatest."""
    results = np.empty(len(scores), np.float64)
    greatest, most = 0.0, 0.0
    for index in range(len(scores)):
        greatest, most = max(greatest, scores[index]), max(most, cosines[index])
    if greatest == 0:
        greatest = 1.0
    least = FAR * most
    for index in range(len(scores)):
        results[index] = (1 - share) * scores[index]
        if cosines[index] > least:  # the quotient first: it is at most 1 however near the cosines are to each other
            added = share * greatest * ((cosines[index] - least) / (most - least))
            results[index] = min(greatest, results[index] + added)
    return results


def prepare() -> None:
    """Compile the kernels."""
    vectors, inverse, numbers = np.ones((1, 128), np.int8), np.ones(1, np.float32), np.zeros(1, np.int64)
    nearest(vectors, inverse, np.ones(1, np.uint8), vectors[0], 1)
    cosines_of(vectors, inverse, numbers, vectors[0])
    fused(np.ones(1), np.ones(1), 0.5)
