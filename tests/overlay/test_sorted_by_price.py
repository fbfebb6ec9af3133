"""Tantivy's order by price: first pages from the lowest amounts, later ones from whole columns, the same hits."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.engines import Cursor
from overlay.engines.tantivy import TantivyEngine, prices
from overlay.query import Query
from tests.bench.listings import listings, offers_of

RATES = {"BSV": Decimal("52.1"), "EUR": Decimal("1.08123456789"), "SAT": Decimal("0.000000521"), "JPY": Decimal("0.01")}
EVERYTHING = 5_000

QUESTIONS = (
    Query(sort="price", price_currency="USD", rates=RATES), Query(sort="price", price_currency="USD"),
    Query(sort="price"), Query(sort="price", currencies=("USD",), price_currency="USD", rates=RATES),
    Query(sort="price", max_price=Decimal(20), price_currency="EUR"),
    Query(sort="price", intervals=("P1M",), price_currency="USD", rates=RATES),
    Query(sort="price", text="payment agent", price_currency="USD", rates=RATES),
)  # fmt: skip


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TantivyEngine]:
    found = TantivyEngine(str(tmp_path_factory.mktemp("index")))
    documents = offers_of(listings(3), 1_500)
    for first in range(0, len(documents), 100):
        found.replace([], documents[first : first + 100], Cursor("test", first))
    yield found
    found.close()


def ids(engine: TantivyEngine, query: Query, **paging: object) -> list[str]:
    """What a page shows; nothing is remembered of earlier questions."""
    engine._view.ask.priced.clear()
    return [hit.id for hit in engine.search(query._replace(**paging)).hits]


@settings(max_examples=60)
@given(st.sampled_from(QUESTIONS), st.integers(1, 60), st.integers(0, 40), st.sampled_from([2, 9, 40, 400]))
def test_pages_are_parts_of_the_whole_order(
    engine: TantivyEngine, query: Query, limit: int, offset: int, lowest: int
) -> None:
    whole = ids(engine, query, limit=EVERYTHING)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prices, "LOWEST", lowest)
        assert ids(engine, query, limit=limit, offset=offset) == whole[offset : offset + limit]


@pytest.mark.parametrize("query", QUESTIONS)
@pytest.mark.parametrize("descending", [None, True])
def test_cursors_lead_through_the_whole_order(engine: TantivyEngine, query: Query, descending: bool | None) -> None:
    whole = ids(engine, query, limit=EVERYTHING, descending=descending)
    assert len(whole) == len(set(whole)) > 0
    walked: list[str] = []
    after = None
    while hits := engine.search(query._replace(limit=97, after=after, descending=descending)).hits:
        walked += [hit.id for hit in hits]
        after = hits[-1].sort_key
    assert walked == whole


def test_questions_asked_before_are_remembered_within_bounds(
    engine: TantivyEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = engine._view.ask.priced
    known.clear()
    for query in QUESTIONS[1:3]:
        engine.search(query._replace(offset=200))
    assert len(known) == 2
    monkeypatch.setattr(prices, "MOST_REMEMBERED", 1)
    engine.search(QUESTIONS[0]._replace(offset=200))
    assert len(known) == 1, "the newest stays, however large"


def test_ids_are_read_without_the_rest_also_when_they_are_long(tmp_path: Path) -> None:
    from overlay.search.records import Record, Records

    records = Records(tmp_path / "records", write=True)
    names = ["a", "b" * 300, "é" * 200, "c#" + "x" * 230]
    places = [records.append(Record(name, 1, True, "", b"", b"{}", b"").pack()) for name in names]
    assert list(map(records.id_at, places)) == names
    with pytest.raises(ValueError, match="the records end before"):
        records.id_at(1 << 40 | 100)
    records.close()
