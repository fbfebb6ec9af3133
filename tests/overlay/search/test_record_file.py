"""Records give back what was put in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.search.record_file import LARGEST, IndexRecord, pack


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
    assert members(IndexRecord(packed(*values))) == values


def test_a_record_that_is_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="more than an index holds"):
        pack("1", b"", b"", bytes(LARGEST), is_listed=True)
