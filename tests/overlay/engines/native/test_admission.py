"""Reads of a segment by a query, and the numbers of terms that the segment remembers, are bounded: the facts of a
filter are read for the candidates of another one only where these have fewer."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from overlay.engines.native import search_kernels as kernels
from overlay.engines.native import segment as segments
from overlay.engines.native.admission import admitted
from overlay.engines.native.builder import SegmentBuilder
from overlay.engines.native.derived import derived
from overlay.engines.native.manifest import SegmentEntry
from overlay.engines.native.price_ranks import price_ranks
from overlay.engines.native.segment import Segment
from overlay.engines.native.tables import StringTable
from overlay.search.query import Query
from tests.contracts.listed import listing

DOCUMENTS = 400
TAGS = tuple(f"own {number}" for number in range(DOCUMENTS))


@pytest.fixture(scope="module")
def segment() -> Segment:
    """Each document has a tag of its own and one that all have, and the first one many others."""
    builder, many = SegmentBuilder(), tuple(map(str, range(200)))
    for number, tag in enumerate(TAGS):
        tags = (tag, "common", *(() if number else many))
        builder.add(listing(f"{number}", tags=tags, owner="bob" if number else "alice"))
    primary = builder.arrays()
    live = np.ones(DOCUMENTS, np.uint8)
    return Segment(SegmentEntry("s", DOCUMENTS, False, "", 0), primary | derived(primary), live)


@pytest.mark.parametrize(("tags", "is_by_candidate"), [(("common",), True), (TAGS, False)])
def test_facts_of_candidates_are_compared_where_that_is_less_than_to_read_all_documents_with_them(
    segment: Segment, monkeypatch: pytest.MonkeyPatch, tags: tuple[str, ...], is_by_candidate: bool
) -> None:
    compared: list[tuple[int, int]] = []
    keep = kernels.keep

    def counted(mask: Any, candidates: Any, offsets: Any, rows: Any, facts: Any) -> None:
        of_facts = np.diff(segment.arrays["fact_offsets"])[facts]
        compared.append((int((offsets[candidates + 1] - offsets[candidates]).sum()) * len(facts), int(of_facts.sum())))
        keep(mask, candidates, offsets, rows, facts)

    monkeypatch.setattr(kernels, "keep", counted)
    query = Query(tags=tags, owners=("alice",), statuses=())
    assert np.flatnonzero(admitted(segment, query, segment.take_scratch())).tolist() == [0]
    assert len(compared) == 1 + is_by_candidate  # with the current documents
    assert all(of_candidates <= of_documents for of_candidates, of_documents in compared)


def test_a_segment_remembers_the_numbers_of_few_terms(segment: Segment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "MOST_TERMS", 3)
    terms = ["own", "common", "no", *map(str, range(9))]
    numbers = segment.positions("terms", terms).tolist()
    for _ in range(2):
        assert [segment.term_numbers([term])[0] for term in terms] == numbers
        assert segment.term_numbers(terms) == numbers
    assert segment.term_numbers(["common", "own"]) == [numbers[1], numbers[0]]


def test_terms_are_looked_up_again_once_too_many_are_remembered(
    segment: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[bytes] = []
    find = segments.find

    def noted(table: StringTable, strings: Sequence[bytes]) -> Any:
        looked_up.extend(strings)
        return find(table, strings)

    monkeypatch.setattr(segments, "find", noted)
    monkeypatch.setattr(segments, "MOST_TERMS", 0)
    segment.term_numbers(["no"])  # which is not there: it forgets all others
    monkeypatch.setattr(segments, "MOST_TERMS", 3)
    for term in ("0", "1", "2", "0", "1", "own", "0"):
        segment.term_numbers([term])
    assert looked_up[1:] == [b"0", b"1", b"2", b"own", b"0"]


def test_orders_by_currencies_that_no_listing_has_are_one_in_memory(segment: Segment) -> None:
    segment.price_ranks.clear()
    ranks = [price_ranks(segment, Query(price_currency=name, sort="price")) for name in ("AAA", "BBB", "CCC")]
    assert [len(segment.price_ranks), *(array is ranks[0] for array in ranks)] == [1, True, True, True]
    price_ranks(segment, Query(sort="price"))
    price_ranks(segment, Query(price_currency="DDD", rates={"EUR": Decimal(2)}, sort="price"))
    assert len(segment.price_ranks) == 3
