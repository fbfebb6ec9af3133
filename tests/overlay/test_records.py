"""The file of records gives back what was put in, and reports when it is too short."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.search.records import LARGEST, Record, Records

records = st.builds(Record, st.text(), st.binary(), st.binary(), st.binary(), st.booleans(), st.binary())


@given(records)
def test_a_packed_record_is_unpacked_the_same(record: Record) -> None:
    assert Record.unpack(record.pack()) == record


@given(st.lists(records, max_size=5))
def test_records_are_read_where_they_lie(several: list[Record]) -> None:
    with TemporaryDirectory() as folder:
        file = Records(Path(folder) / "records", write=True)
        places = [file.append(record.pack()) for record in several]
        assert file.read(places) == several
        assert file.read(places[::-1]) == several[::-1]
        file.close()


def test_a_record_beyond_the_end_is_an_error_and_one_that_was_added_meanwhile_is_not(tmp_path: Path) -> None:
    writing = Records(tmp_path / "records", write=True)
    reading = Records(tmp_path / "records", write=False)
    first = Record("1", b"forward", b"", b"{}", is_listed=True)
    place = writing.append(first.pack())
    assert reading.read([place]) == [first]
    with pytest.raises(ValueError, match="the records end before"):
        reading.read([place + (1 << 24)])
    later = writing.append(first.pack())
    assert writing.sync() == reading.size()
    assert reading.read([later, place]) == [first, first]
    writing.close()
    reading.close()


def test_a_record_that_is_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="more than an index holds"):
        Record("1", b"", b"", bytes(LARGEST), is_listed=True).pack()
