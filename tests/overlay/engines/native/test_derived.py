"""Derived arrays, computed some strings at a time, are those of their definitions."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.engines.native import derived
from overlay.engines.native.schema import BREAK
from overlay.engines.native.tables import pack
from overlay.search.analysis import is_correctable, stem
from overlay.search.facet_counts import hash_of
from overlay.search.term_dictionary import LONGEST, SHORTEST, signatures

words = st.text("abcdefgs\u00e9", min_size=1, max_size=9) | st.sampled_from(["running", "tests", "testing", "\ud800x"])


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derived, "_AT_ONCE", 3)


def table(name: str, texts: Sequence[str]) -> dict[str, npt.NDArray[np.generic]]:
    data, offsets = pack([text.encode("utf-8", "surrogatepass") for text in texts])
    return {f"{name}_bytes": data, f"{name}_offsets": offsets}


def in_bytes(texts: set[str]) -> list[str]:
    return sorted(texts, key=lambda text: text.encode("utf-8", "surrogatepass"))


@settings(deadline=None)
@given(surfaces=st.sets(words, max_size=20).map(in_bytes), chance=st.randoms(use_true_random=False))
def test_surfaces_have_the_numbers_of_their_stems_and_signatures_by_length(surfaces: list[str], chance: Random) -> None:
    terms = in_bytes({stem(surface) for surface in surfaces if chance.random() < 0.8})
    arrays = table("surfaces", surfaces) | table("terms", terms)
    arrays |= {"flags": np.zeros(0, np.uint8), "document_surfaces_offsets": np.zeros(1, np.int64)}
    computed = derived.surface_arrays(arrays | {"document_surfaces": np.zeros(0, np.uint32)})
    of_terms = [terms.index(stem(surface)) if stem(surface) in terms else BREAK for surface in surfaces]
    assert computed["surface_term"].tolist() == of_terms
    near = [
        [number for number, surface in enumerate(surfaces) if len(surface) == length and is_correctable(surface)]
        for length in range(SHORTEST, LONGEST + 1)
    ]
    assert computed["near_surfaces"].tolist() == [number for numbers in near for number in numbers]
    assert computed["near_starts"].tolist() == [sum(map(len, near[:length])) for length in range(len(near) + 1)]
    assert computed["near_signatures"].tolist() == [
        int(signatures([surfaces[number]])[0]) for numbers in near for number in numbers
    ]


@settings(deadline=None)
@given(values=st.sets(st.text("aAbB:\u00df\u1e9e", max_size=4), max_size=20).map(in_bytes))
def test_values_that_differ_in_case_are_a_group_in_their_order(values: list[str]) -> None:
    computed = derived.value_arrays(table("values", values))
    groups = [[other for other, text in enumerate(values) if text.casefold() == v.casefold()] for v in values]
    assert computed["value_group"].tolist() == [group[0] for group in groups]
    following = [[*group, BREAK][group.index(number) + 1] for number, group in enumerate(groups)]
    assert computed["value_next"].tolist() == following
    assert computed["value_hash"].tolist() == [hash_of(value.partition(":")[2]) for value in values]


@settings(deadline=None)
@given(offers=st.lists(st.tuples(*[st.integers(0, 2)] * 3), max_size=12))
def test_offers_have_the_number_of_their_price_among_distinct_sorted_ones(offers: list[tuple[int, int, int]]) -> None:
    names = ("currency", "interval", "amount")
    columns = np.array(offers, np.uint32).reshape(-1, 3)
    arrays = {f"offer_{name}": np.ascontiguousarray(columns[:, n]) for n, name in enumerate(names)}
    computed = derived.price_arrays(arrays | table("amounts", []))
    distinct = sorted(set(offers))
    assert computed["price"].tolist() == list(map(distinct.index, offers))
    assert list(zip(*(computed[f"price_{name}"].tolist() for name in names), strict=True)) == distinct
