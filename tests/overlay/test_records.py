"""The file of records gives back what was put in, and says when it is too short."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.compact import encode
from overlay.search import prices
from overlay.search.ranking import BEST
from overlay.search.records import LARGEST, Record, Records
from overlay.telling import cheapest, scored

ITEMS = st.dictionaries(st.text(max_size=5), st.text(max_size=5), min_size=1, max_size=3).map(encode)
usual = st.just("") | st.tuples(
    st.text().filter(lambda text: "\0" not in text),
    st.decimals(0, 10**6, allow_nan=False, places=2).map(str),
    st.sampled_from(("USD", "BSV", '"odd"')),
    st.sampled_from(("none", "P1M", "PT1H", "never")),
    st.sampled_from(("", "1")),
).map("\0".join)
OFFERS = st.sampled_from((b"", b"[]\n[0,[],[]]", b'[["a","USD","1.5","none",["USD","BSV"]]]\n[0,[],[null]]'))
records = st.builds(
    Record, st.text(), st.integers(0, 2**63 - 1), st.booleans(), usual, OFFERS, ITEMS, st.binary(), st.binary(),
    st.booleans(),
)  # fmt: skip


@given(records)
def test_a_packed_record_is_unpacked_the_same(record: Record) -> None:
    assert Record.unpack(record.pack()) == record


@given(st.lists(records, max_size=5))
def test_records_are_unpacked_where_they_lie(several: list[Record]) -> None:
    with TemporaryDirectory() as folder:
        file = Records(Path(folder) / "records", write=True)
        places = [file.append(record.pack()) for record in several]
        assert file.unpacked(places) == several
        shown = [(each.id, each.cheapest, each.offers, each.item, each.ages) for each in several]
        assert file.shown(places) == shown
        assert file.shown(places[::-1]) == shown[::-1]
        assert list(map(file.id_at, places)) == [record.id for record in several]
        points = np.arange(len(places), dtype=np.uint64) * np.uint64(16_383)
        written = file.written(np.array((points, points, places), np.uint64), 0, len(places))
        assert (written is None) == any(record.ages for record in several)
        if written is not None:
            told = [as_told(record, made / BEST) for record, made in zip(several, points.tolist(), strict=True)]
            assert bytes(written.enclosed(b"[", b"]")) == b"[" + b",".join(told) + b"]"
        file.close()


def as_told(record: Record, score: float) -> bytes:
    """What a page shows of a record."""
    told = {**json.loads(record.item), "score": None}
    found = record.item[:-1] + cheapest(prices.read_usual(record.cheapest)) + scored(score)[:-1]
    assert json.loads(found).keys() == told.keys() | {"cheapest"}
    return found


def test_a_large_page_is_whole(tmp_path: Path) -> None:
    file = Records(tmp_path / "records", write=True)
    items = [b'{"id":"%s"}' % (bytes([letter]) * 9_000) for letter in range(ord("a"), ord("a") + 20)]
    records = [Record("id", 0, True, "", b"", item, b"") for item in items]
    places = [file.append(record.pack()) for record in records]
    written = file.written(np.array((range(20), range(20), places), np.uint64), 3, 20)
    assert written is not None
    page = b",".join(as_told(records[at], at / BEST) for at in range(3, 20))
    assert bytes(written.enclosed(b"<", b">" * 99)) == b"<" + page + b">" * 99
    assert bytes(written.enclosed(b"<" * 99, b"")) == b"<" * 99 + page
    assert len(page) > 150_000
    file.close()


def test_records_that_are_damaged_are_not_read_beyond_the_file(tmp_path: Path) -> None:
    record = Record("id", 0, True, "", b"", b"{}", b"words").pack()
    item = int.from_bytes(record[8:12], "little")
    told = int.from_bytes(record[16:20], "little")
    choices = int.from_bytes(record[20:24], "little")
    damaged = [
        record[:44],  # cut short behind its head
        record[:20] + (told - 1).to_bytes(4, "little") + record[24:],
        record[:20] + (choices + 99).to_bytes(4, "little") + record[24:],
        record[:12] + (told + 1).to_bytes(4, "little") + record[16:],
        record[:16] + (told + 9_999).to_bytes(4, "little") + record[20:],
        record[:8] + (told + 1).to_bytes(4, "little") + record[12:],
        record[:16] + (item - 1).to_bytes(4, "little") + record[20:],
    ]
    for number, data in enumerate(damaged):
        file = Records(tmp_path / f"{number}", write=True)
        place = file.append(data)
        with pytest.raises(ValueError, match="before one that is told of: rebuild the index"):
            file.written(np.array([[0], [0], [place]], np.uint64), 0, 1)
        file.close()


def test_what_is_appended_between_two_looks_is_seen_and_what_was_seen_stays(tmp_path: Path) -> None:
    file = Records(tmp_path / "records", write=True)
    other = Records(tmp_path / "records", write=False)
    first = file.append(b"first")
    before = other.read([first])
    assert next(before) == b"first"
    later = [file.append(bytes([number]) * 5_000) for number in range(9)]
    assert list(other.read([first, *later])) == [b"first", *(bytes([number]) * 5_000 for number in range(9))]
    with pytest.raises(ValueError, match="the records end before 45,005 \\+ 7: rebuild the index"):
        list(other.read([45_005 << 24 | 7]))
    with pytest.raises(ValueError, match="the records end before 45,005 \\+ 7: rebuild the index"):
        other.shown([first, 45_005 << 24 | 7])
    with pytest.raises(ValueError, match="the records end before 45,005 \\+ 7: rebuild the index"):
        other.written(np.array([[0], [0], [45_005 << 24 | 7]], np.uint64), 0, 1)
    with pytest.raises(ValueError, match="the records end after 45,005 bytes, before one that is told of: rebuild"):
        other.written(np.array([[0], [0], [45_000 << 24 | 5]], np.uint64), 0, 1)
    with pytest.raises(ValueError, match="the records end after 45,005 bytes, before one that is told of: rebuild"):
        other.written(np.array([[65_536], [0], [first]], np.uint64), 0, 1)
    file.close()
    other.close()


def test_what_was_appended_is_read_at_its_place_also_by_others(tmp_path: Path) -> None:
    file = Records(tmp_path / "records", write=True)
    other = Records(tmp_path / "records", write=False)
    given_data = [b"one", b"", b"three" * 1000]
    places = [file.append(data) for data in given_data]
    file.sync()
    assert list(file.read(places)) == list(other.read(places)) == given_data
    file.close()
    other.close()


def test_a_file_that_was_cut_short_is_noticed(tmp_path: Path) -> None:
    file = Records(tmp_path / "records", write=True)
    place = file.append(b"something")
    (tmp_path / "records").write_bytes(b"some")
    with pytest.raises(ValueError, match="rebuild the index"):
        list(file.read([place]))
    file.close()


def test_a_record_that_is_too_large_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="the document of big takes"):
        Record("big", 0, True, "", b"", b"{%b}" % bytes(LARGEST), b"").pack()


def test_an_item_that_is_no_object_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="the item of odd is no JSON object"):
        Record("odd", 0, True, "", b"", b"[]", b"").pack()
