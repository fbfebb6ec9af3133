"""The derived arrays of a segment (`schema.DERIVED`), computed from the primary ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from hashlib import blake2b
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from overlay.engines.native import durable
from overlay.engines.native.builder import Arrays
from overlay.engines.native.posting_kernels import listed_counts, name_bits, term_counts, term_postings, transpose
from overlay.engines.native.schema import BREAK, LISTED, VECTOR
from overlay.engines.native.tables import StringTable, find, in_order
from overlay.search.analysis import is_correctable, stem
from overlay.search.clusters import clustered
from overlay.search.facet_counts import hash_of
from overlay.search.nearest import inverse_lengths
from overlay.search.term_dictionary import LONGEST, SHORTEST, signatures
from parsers.cards.money import amount_of_key


def derived(arrays: Arrays, folder: Path | None = None) -> Arrays:
    """The derived arrays of a segment with these primary arrays; large ones are in files in the folder
    (`durable.array`). Raises OSError."""
    computed: Arrays = {}
    for compute in (
        partial(_terms, folder=folder),
        surface_arrays,
        partial(value_arrays, folder=folder),
        _ranks,
        price_arrays,
        _vectors,
        _name_bits,
    ):
        computed |= {name: durable.moved(folder, values) for name, values in compute(arrays).items()}
    return computed


_AT_ONCE = 1 << 14
"""Strings that are objects of Python at a time: all of a large segment took a kilobyte for each of its documents."""


def strings(arrays: Arrays, table: str) -> Iterator[str]:
    """The strings of a table."""
    data, ends = arrays[f"{table}_bytes"], arrays[f"{table}_offsets"]
    for first in range(0, len(ends) - 1, _AT_ONCE):
        offsets = ends[first : first + _AT_ONCE + 1]
        texts = data[offsets[0] : offsets[-1]].tobytes()
        for start, end in pairwise((offsets - offsets[0]).tolist()):
            yield texts[start:end].decode("utf-8", "surrogatepass")


def _terms(arrays: Arrays, folder: Path | None) -> Arrays:
    size = len(arrays["terms_offsets"]) - 1
    offsets, forward = arrays["forward_offsets"], arrays["forward"]
    starts = term_counts(offsets, forward, size)
    documents, impacts = (durable.array(folder, int(starts[-1]), dtype) for dtype in (np.uint32, np.float32))
    term_postings(offsets, arrays["section_ends"], forward, starts, documents, impacts)
    facts, of_facts = transpose(
        arrays["document_facts_offsets"], arrays["document_facts"], len(arrays["facts_offsets"]) - 1
    )
    return {
        "term_offsets": starts,
        "term_documents": documents,
        "term_impacts": impacts,
        "fact_offsets": facts,
        "fact_documents": of_facts,
    }


def surface_arrays(arrays: Arrays) -> Arrays:
    """The derived arrays of surfaces, their terms and their corrections."""
    surfaces, terms = strings(arrays, "surfaces"), StringTable(arrays["terms_bytes"], arrays["terms_offsets"])
    of_term = np.full(len(arrays["surfaces_offsets"]) - 1, BREAK, np.uint32)
    near: dict[int, list[npt.NDArray[np.uint32]]] = {length: [] for length in range(SHORTEST, LONGEST + 1)}
    signed: dict[int, list[npt.NDArray[np.uint64]]] = {length: [] for length in near}
    for first in range(0, len(of_term), _AT_ONCE):
        some = list(islice(surfaces, _AT_ONCE))
        numbers = find(terms, [stem(surface).encode("utf-8", "surrogatepass") for surface in some])
        of_term[first : first + len(some)] = np.where(numbers < 0, BREAK, numbers)
        by_length: dict[int, list[int]] = {}
        for index, surface in enumerate(some):
            if len(surface) in near and is_correctable(surface):
                by_length.setdefault(len(surface), []).append(index)
        for length, indexes in by_length.items():
            near[length].append(np.array(indexes, np.uint32) + np.uint32(first))
            signed[length].append(signatures([some[index] for index in indexes]))
    surface_listed, term_listed = np.zeros(len(of_term), np.uint32), np.zeros(len(terms.offsets) - 1, np.uint32)
    listed = arrays["flags"] & np.uint8(LISTED)
    listed_counts(
        arrays["document_surfaces_offsets"], arrays["document_surfaces"], of_term, listed, surface_listed, term_listed
    )
    return {
        "surface_term": of_term,
        "surface_listed": surface_listed,
        "term_listed": term_listed,
        "near_surfaces": np.concatenate([np.empty(0, np.uint32), *chain.from_iterable(near.values())]),
        "near_signatures": np.concatenate([np.empty(0, np.uint64), *chain.from_iterable(signed.values())]),
        "near_starts": np.cumsum([0, *(sum(map(len, some)) for some in near.values())], dtype=np.int64),
    }


def value_arrays(arrays: Arrays, folder: Path | None = None) -> Arrays:
    """The derived arrays of values: one is of the group of the first that differs from it in case only, within its
    field. Large ones are in files in the folder (`durable.array`). Raises OSError."""
    size = len(arrays["values_offsets"]) - 1
    folded, hashes = durable.array(folder, 16 * size, np.uint8), durable.array(folder, size, np.uint64)
    digests, numbers = folded.data, hashes.data
    for index, value in enumerate(strings(arrays, "values")):
        folded_case = value.casefold().encode("utf-8", "surrogatepass")
        digests[16 * index : 16 * index + 16] = blake2b(folded_case, digest_size=16).digest()
        numbers[index] = hash_of(value.partition(":")[2])
    order, is_first = _distinct(list(folded.view(np.uint64).reshape(-1, 2).T))
    group, following = np.empty(len(order), np.uint32), np.full(len(order), BREAK, np.uint32)
    group[order] = order[is_first][np.cumsum(is_first) - 1]
    following[order[:-1][~is_first[1:]]] = order[1:][~is_first[1:]]
    return {"value_group": group, "value_next": following, "value_hash": hashes}


def _distinct(columns: Sequence[npt.NDArray[Any]]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The order of rows by their columns, equal ones in their own order; and for each row, in that order, whether it is
    the first of equal ones."""
    order = np.lexsort(columns[::-1])
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = np.any([np.diff(column[order]) != 0 for column in columns], axis=0)
    return order, is_first


def _vectors(arrays: Arrays) -> Arrays:
    vectors = arrays["vector"].reshape(-1, VECTOR)
    clusters = clustered(vectors)
    return {
        "vector_inverse": inverse_lengths(vectors),
        "cluster_centres": clusters.centres.reshape(-1),
        "cluster_starts": clusters.starts,
        "cluster_documents": clusters.members,
    }


def _name_bits(arrays: Arrays) -> Arrays:
    bits = np.empty(len(arrays["flags"]), np.uint64)
    name_bits(arrays["forward_offsets"], arrays["section_ends"], arrays["forward"], arrays["flags"], bits)
    return {"name_bits": bits}


def _ranks(arrays: Arrays) -> Arrays:
    """The order of documents by id, and their ranks by id and by name."""
    by_id = in_order(arrays["id"], arrays["id_offsets"])
    by_name = in_order(arrays["name_order"], arrays["name_order_offsets"])
    numbers = np.arange(len(by_id), dtype=np.uint64)
    id_rank, name_rank = np.empty_like(numbers), np.empty_like(numbers)
    id_rank[by_id], name_rank[by_name] = numbers, numbers
    return {"id_order": by_id, "id_rank": id_rank, "name_rank": name_rank}


def price_arrays(arrays: Arrays) -> Arrays:
    """Distinct prices, sorted, and the price of each offer."""
    names = ("currency", "interval", "amount")
    columns = [arrays[f"offer_{name}"] for name in names]
    order, is_first = _distinct(columns)
    price = np.empty(len(order), np.uint32)
    price[order] = np.cumsum(is_first) - 1
    firsts = order[is_first]
    return {
        "amount_double": np.array([float(amount_of_key(key)) for key in strings(arrays, "amounts")], np.float64),
        "price": price,
        **{f"price_{name}": column[firsts] for name, column in zip(names, columns, strict=True)},
    }
