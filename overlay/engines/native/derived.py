"""The derived arrays of a segment (`schema.DERIVED`), computed from the primary ones."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from overlay.engines.native import durable
from overlay.engines.native.builder import Arrays
from overlay.engines.native.posting_kernels import listed_counts, term_counts, term_postings, transpose
from overlay.engines.native.schema import BREAK, LISTED, VECTOR
from overlay.search.analysis import is_correctable, stem
from overlay.search.facet_counts import hash_of
from overlay.search.nearest import inverse_lengths
from overlay.search.term_dictionary import LONGEST, SHORTEST, signatures
from parsers.cards.money import amount_of_key


def derived(arrays: Arrays, folder: Path | None = None) -> Arrays:
    """The derived arrays of a segment with these primary arrays; large ones are in files in the folder
    (`durable.array`). Raises OSError."""
    return {
        **_terms(arrays, folder),
        **_surfaces(arrays),
        **_values(arrays),
        **_ranks(arrays),
        **_prices(arrays),
        "vector_inverse": inverse_lengths(arrays["vector"].reshape(-1, VECTOR)),
    }


def strings(arrays: Arrays, table: str) -> list[str]:
    """The strings of a table."""
    data, offsets = arrays[f"{table}_bytes"].tobytes(), arrays[f"{table}_offsets"].tolist()
    return [data[start:end].decode("utf-8", "surrogatepass") for start, end in pairwise(offsets)]


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


def _surfaces(arrays: Arrays) -> Arrays:
    surfaces, terms = strings(arrays, "surfaces"), strings(arrays, "terms")
    number = {term: index for index, term in enumerate(terms)}
    of_term = np.array([number.get(stem(surface), BREAK) for surface in surfaces], np.uint32)
    surface_listed, term_listed = np.zeros(len(surfaces), np.uint32), np.zeros(len(terms), np.uint32)
    listed = arrays["flags"] & np.uint8(LISTED)
    listed_counts(
        arrays["document_surfaces_offsets"], arrays["document_surfaces"], of_term, listed, surface_listed, term_listed
    )
    by_length: dict[int, list[int]] = {length: [] for length in range(SHORTEST, LONGEST + 1)}
    for index, surface in enumerate(surfaces):
        if len(surface) in by_length and is_correctable(surface):
            by_length[len(surface)].append(index)
    signed = [signatures([surfaces[index] for index in numbers]) for numbers in by_length.values() if numbers]
    return {
        "surface_term": of_term,
        "surface_listed": surface_listed,
        "term_listed": term_listed,
        "near_surfaces": np.array([index for numbers in by_length.values() for index in numbers], np.uint32),
        "near_signatures": np.concatenate(signed) if signed else np.empty(0, np.uint64),
        "near_starts": np.cumsum([0, *map(len, by_length.values())], dtype=np.int64),
    }


def _values(arrays: Arrays) -> Arrays:
    """A value is of the group of the first one that differs from it in case only, within its field."""
    first: dict[str, int] = {}
    values = strings(arrays, "values")
    groups = [first.setdefault(value.casefold(), index) for index, value in enumerate(values)]
    following, last = [BREAK] * len(values), dict[int, int]()
    for index, group in enumerate(groups):
        if group in last:
            following[last[group]] = index
        last[group] = index
    return {
        "value_group": np.array(groups, np.uint32),
        "value_next": np.array(following, np.uint32),
        "value_hash": np.array([hash_of(value.partition(":")[2]) for value in values], np.uint64),
    }


def _ranks(arrays: Arrays) -> Arrays:
    by_id = _sorted(arrays, "id")
    by_name = _sorted(arrays, "name_order")
    return {"id_order": by_id, "id_rank": _inverse(by_id), "name_rank": _inverse(by_name)}


def _sorted(arrays: Arrays, name: str) -> npt.NDArray[np.uint32]:
    """The documents in the order of a row of bytes."""
    texts = row_bytes(arrays, name)
    return np.array(sorted(range(len(texts)), key=texts.__getitem__), np.uint32)


def row_bytes(arrays: Arrays, name: str) -> list[bytes]:
    """The rows of bytes of all documents."""
    data, offsets = arrays[name].tobytes(), arrays[f"{name}_offsets"].tolist()
    return [data[start:end] for start, end in pairwise(offsets)]


def _inverse(order: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint64]:
    ranks = np.empty(len(order), np.uint64)
    ranks[order] = np.arange(len(order), dtype=np.uint64)
    return ranks


def _prices(arrays: Arrays) -> Arrays:
    columns: list[npt.NDArray[Any]] = [arrays[f"offer_{name}"] for name in ("currency", "interval", "amount")]
    distinct, price = np.unique(np.stack(columns, 1), axis=0, return_inverse=True)
    return {
        "amount_double": np.array([float(amount_of_key(key)) for key in strings(arrays, "amounts")], np.float64),
        "price": np.asarray(price, np.uint32).reshape(-1),
        **{
            f"price_{name}": np.ascontiguousarray(distinct[:, column], np.uint32)
            for column, name in enumerate(("currency", "interval", "amount"))
        },
    }
