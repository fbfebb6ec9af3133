"""The file of records gives back what was put in, and reports when it is too short."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.search.record_file import LARGEST, IndexRecord, RecordFile, pack


def packed(id_: str, forward: bytes, offers: bytes, item: bytes, is_listed: bool, words: bytes) -> bytes:
    return pack(id_, forward, offers, item, is_listed=is_listed, words=words)


def members(record: IndexRecord) -> tuple[object, ...]:
    return (
        record.id,
        record.forward,
        record.offers,
        record.item,
        record.is_listed,
        b" ".join(word.encode() for word in record.words),
    )


fields = st.tuples(
    st.text(),
    st.binary(),
    st.binary(),
    st.binary(),
    st.booleans(),
    st.lists(st.text("abc", min_size=1)).map(lambda words: " ".join(words).encode()),
)


@given(fields)
def test_a_packed_record_is_unpacked_the_same(values: tuple[str, bytes, bytes, bytes, bool, bytes]) -> None:
    data = packed(*values)
    record = IndexRecord(b"before" + data + b"after", 6, 6 + len(data))
    assert members(record) == values
    assert record.packed == data


@given(st.lists(fields, max_size=5))
def test_records_are_read_where_they_lie(rows: list[tuple[str, bytes, bytes, bytes, bool, bytes]]) -> None:
    with TemporaryDirectory() as folder:
        file = RecordFile(Path(folder) / "records", write=True)
        addresses = [file.append(packed(*values)) for values in rows]
        assert list(map(members, file.read(addresses))) == rows
        assert list(map(members, file.read(addresses[::-1]))) == rows[::-1]
        file.close()


def test_a_record_beyond_the_end_is_an_error_and_one_that_was_added_meanwhile_is_not(tmp_path: Path) -> None:
    writing = RecordFile(tmp_path / "records", write=True)
    reading = RecordFile(tmp_path / "records", write=False)
    first = pack("1", b"forward", b"", b"{}", is_listed=True)
    address = writing.append(first)
    assert [record.packed for record in reading.read([address])] == [first]
    with pytest.raises(ValueError, match="the records end before"):
        reading.read([address + (1 << 24)])
    later = writing.append(first)
    assert writing.sync() == reading.size()
    assert [record.packed for record in reading.read([later, address])] == [first, first]
    writing.close()
    reading.close()


def test_a_record_that_is_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="more than an index holds"):
        pack("1", b"", b"", bytes(LARGEST), is_listed=True)
