"""Text vectors in clusters of near ones: a question is compared with the members of the nearest clusters only (an
inverted file, as in Jégou, Douze and Schmid, Product quantization, IEEE PAMI 33, 2011).

All vectors of half a million listings are 64 MB, which take 7 to 12 ms of a core; a twelfth of them takes 1.5 ms.
The centres are nearness by k-means over a sample, in whole numbers, so they are the same on every machine.
"""

from __future__ import annotations

from math import isqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from overlay.search.nearest import Documents, Floats, Nearest, Numbers, Vectors, insert, inverse_lengths, product
from parsers.jit import compiled, kernel

Bytes = npt.NDArray[np.uint8]

LEAST = 1 << 16
"""Vectors from which they are clustered: fewer are all compared within a millisecond."""
COMPARED, SHARE = 1 << 14, 12
"""A question is compared with this many admitted vectors, or with one of `SHARE` where those are more."""

_SAMPLE, _ROUNDS, _LARGEST = 32, 6, 127
"""Vectors for each cluster and rounds from which the centres are computed; the largest number of a centre."""


class Clusters(NamedTuple):
    """The centres of clusters, a row each; and the numbers of all vectors, those of cluster c from `starts[c]` until
    before `starts[c + 1]`, ascending. Without any, vectors are not clustered."""

    centres: Vectors
    starts: Numbers
    members: Documents


def enough(count: int) -> int:
    """The number of vectors, of `count`, with which a question is compared."""
    return max(COMPARED, count // SHARE)


def clustered(vectors: Vectors) -> Clusters:
    """The clusters of some vectors, none for fewer than `LEAST`."""
    count = isqrt(len(vectors)) if len(vectors) >= LEAST else 0
    if not count:
        return Clusters(vectors[:0], np.zeros(1, np.int64), np.empty(0, np.uint32))
    sample = np.ascontiguousarray(vectors[:: max(1, len(vectors) // (_SAMPLE * count))])
    centres = np.ascontiguousarray(sample[:: max(1, len(sample) // count)][:count])
    for _ in range(_ROUNDS):
        centres = _centres(sample, _assigned(sample, centres.astype(np.int16), inverse_lengths(centres)), centres)
    of_vectors = _assigned(vectors, centres.astype(np.int16), inverse_lengths(centres))
    starts = np.cumsum([0, *np.bincount(of_vectors, minlength=len(centres))], dtype=np.int64)
    return Clusters(centres, starts, np.argsort(of_vectors, kind="stable").astype(np.uint32))


def nearest_of_clusters(
    vectors: Vectors, inverse: Floats, admitted: Bytes, clusters: Clusters, query: Vectors, most: int, compared: int
) -> Nearest:
    """At most so many of the `admitted` vectors (not 0) with the greatest cosines, which are above 0, among those of
    the nearest clusters that have `compared` admitted ones. Where filters admit fewer, these are all. `inverse` are
    the `inverse_lengths` of the vectors."""
    cosines = (clusters.centres.astype(np.int32) @ query.astype(np.int32)) * inverse_lengths(clusters.centres)
    order = np.argsort(-cosines, kind="stable")
    documents, nearness = _scan(
        vectors, inverse, admitted, clusters.starts, clusters.members, order, query.astype(np.int16), most, compared
    )
    order = np.lexsort((documents, -nearness))
    return Nearest(documents[order], nearness[order] * inverse_lengths(query[np.newaxis]))


@kernel()
def _scan(
    vectors: Vectors,
    inverse: Floats,
    admitted: Bytes,
    starts: Numbers,
    members: Documents,
    order: Numbers,
    query: npt.NDArray[np.int16],
    most: int,
    compared: int,
) -> tuple[Numbers, Floats]:
    """The best documents of the clusters in this order, and their products, the greatest first."""
    documents, products, held, lowest = np.empty(most, np.int64), np.empty(most, np.float32), 0, np.float32(0)
    for cluster in order:
        if compared <= 0 or most == 0:
            break
        for position in range(starts[cluster], starts[cluster + 1]):
            document = int(members[position])
            if admitted[document]:
                compared -= 1
                nearness = product(vectors, document, query) * inverse[document]
                if nearness > lowest:
                    held, lowest = insert(documents, products, held, document, nearness)
    return documents[:held], products[:held]


@kernel()
def _assigned(vectors: Vectors, centres: npt.NDArray[np.int16], inverse: Floats) -> Documents:
    """The number of the nearest centre of each vector, the first of equal ones."""
    of_vectors = np.empty(len(vectors), np.uint32)
    for document in range(len(vectors)):
        best = np.float32(-np.inf)
        for centre in range(len(centres)):
            cosine = product(vectors, document, centres[centre]) * inverse[centre]
            if cosine > best:
                best = cosine
                of_vectors[document] = centre
    return of_vectors


@kernel()
def _centres(vectors: Vectors, of_vectors: Documents, before: Vectors) -> Vectors:
    """The mean direction of the vectors of each cluster, scaled to a largest number of 127; that `before` for a cluster
    without vectors."""
    size = vectors.shape[1]
    sums, results = np.zeros((len(before), size), np.int64), before.copy()
    for document in range(len(vectors)):
        _add(sums[of_vectors[document]], vectors[document])
    for centre in range(len(before)):
        largest = np.abs(sums[centre]).max()
        if largest:
            for number in range(size):
                results[centre, number] = np.int8(np.rint(sums[centre, number] / largest * _LARGEST))
    return results


@compiled
def _add(total: npt.NDArray[np.int64], vector: Vectors) -> None:
    for number in range(len(vector)):
        total[number] += vector[number]


def prepare() -> None:
    """Compile the kernels."""
    vectors = np.ones((1, 128), np.int8)
    clusters = Clusters(vectors, np.array((0, 1), np.int64), np.zeros(1, np.uint32))
    _centres(vectors, _assigned(vectors, vectors.astype(np.int16), inverse_lengths(vectors)), vectors)
    nearest_of_clusters(vectors, inverse_lengths(vectors), np.ones(1, np.uint8), clusters, vectors[0], 1, 1)
