"""The offer that a compiled loop chooses is the one that the law names, and what is damaged is told."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings

from overlay import telling
from overlay.document import Document
from overlay.engines.tantivy import held
from overlay.query import Query
from overlay.search import choosing, prices
from overlay.search.listed import taken
from overlay.search.records import Record, Records
from overlay.search.segment import Offered
from tests.overlay.test_prices import documents, queries

FOUND = np.zeros((3, 1), np.uint64)
PACKED = b'[["a","USD","2","none",["USD","BSV"]],["b","USD","1","P1M",["USD"]]]\n[0,[],[null,null]]'


def offered(query: Query) -> Offered:
    """What one offer must be."""
    low, high = (None if each is None else prices.amount_key(each) for each in (query.min_price, query.max_price))
    return Offered(tuple(held._groups(query)), low, high)


def shown(packed: bytes, wanted: Offered, query: Query) -> bytes | None:
    """What a page tells of the cheapest offer."""
    with TemporaryDirectory() as folder:
        file = Records(Path(folder) / "records", write=True)
        found = FOUND.copy()
        found[2] = file.append(Record("id", 0, True, "", packed, b"{}", b"").pack())
        written = file.written(found, 0, 1, choosing.asked(query, wanted))
        file.close()
    return None if written is None else bytes(written.enclosed(b"", b"")).removeprefix(b"{").rpartition(b',"score"')[0]


@given(documents, queries)
@settings(max_examples=400)
def test_the_offer_shown_is_the_cheapest_that_the_law_names(document: Document, query: Query) -> None:
    query = query._replace(skills=())
    wanted, packed = offered(query), prices.pack(document)
    if any(bound is not None and bound % 2 for bound in (wanted.low, wanted.high)):
        return  # such a question is not asked of postings
    found = shown(packed, wanted, query)
    if found is None:
        keys = Counter(prices.amount_key(each.amount) for each in document.offers)
        assert any(key % 2 and count > 1 for key, count in keys.items())
    else:
        assert found == telling.cheapest(prices.cheapest(packed, query))


def test_of_equal_amounts_the_first_is_shown_and_what_keys_do_not_tell_is_left() -> None:
    def of(*amounts: str) -> bytes | None:
        rows = ",".join(f'["{number}","USD","{amount}","none",["USD"]]' for number, amount in enumerate(amounts))
        return shown(f"[{rows}]\n[0,[],[]]".encode(), Offered(()), Query(price_currency="USD"))

    assert b'"offerId":"1"' in (of("2", "1", "1.0", "3") or b"")
    assert b'"offerId":"0"' in (of("1.00000000000001", "1.0000000001") or b"")
    assert of("1.00000000000001", "1.00000000000002") is None


def test_damaged_choices_are_told_wherever_the_damage_is(tmp_path: Path) -> None:
    record = Record("id", 0, True, "", PACKED, b"{}", b"words").pack()
    start, end = (int.from_bytes(record[at : at + 4], "little") for at in (16, 20))
    asked = choosing.asked(Query(max_price=Decimal(5)), Offered((), high=prices.amount_key(Decimal(5))))
    nowhere = choosing.asked(Query(currencies=("X",)), Offered(((taken("X"),),)))
    ends = [start, *(start + 4 + 16 * row + of for row in (0, 1) for of in (8, 12))]
    assert int.from_bytes(record[start : start + 4], "little") == 2
    for number, (at, value) in enumerate([(at, value) for at in ends for value in (0, 99, 2**31, 2**32 - 1)]):
        file = Records(tmp_path / f"{number}", write=True)
        found = FOUND.copy()
        found[2] = file.append(record[:at] + value.to_bytes(4, "little") + record[at + 4 :])
        if value < 100 and at == ends[2]:  # how the text is cut up a loop cannot see, only that it is there
            assert file.written(found, 0, 1, asked) is not None
        else:
            for question in (asked,) if at == ends[2] else (asked, nowhere):  # one reads texts, the other all keys
                with pytest.raises(ValueError, match="rebuild the index"):
                    file.written(found, 0, 1, question)
        file.close()
    for size in range(end - start):
        file = Records(tmp_path / f"cut {size}", write=True)
        found = FOUND.copy()
        found[2] = file.append(record[:20] + (start + size).to_bytes(4, "little") + record[24:])
        with pytest.raises(ValueError, match="rebuild the index"):
            file.written(found, 0, 1, asked)
        file.close()
