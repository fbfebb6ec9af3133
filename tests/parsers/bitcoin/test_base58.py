"""Base58: what another library writes and reads, and nothing beside it."""

from __future__ import annotations

import base58 as oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.bitcoin.base58 import MAX_TEXT, decode, encode

ADDRESS = "1BgGZ9tcN4rm9KBzDn7KprQz87SZ26SAMH"
LETTERS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


@given(st.binary(min_size=1, max_size=80))
def test_bytes_are_written_as_the_other_library_writes_them_and_read_again(data: bytes) -> None:
    assert encode(data) == oracle.b58encode(data).decode()
    assert encode(data, checksum=True) == oracle.b58encode_check(data).decode()
    assert decode(encode(data)) == data
    assert decode(encode(data, checksum=True), checksum=True) == data


@given(st.text(LETTERS, min_size=1, max_size=60) | st.text(max_size=60))
def test_a_text_is_read_as_the_other_library_reads_it_or_refused(text: str) -> None:
    raw = decode(text)
    assert (raw is not None) == (text != "" and {*text} <= {*LETTERS})
    assert raw is None or raw == oracle.b58decode(text)
    checked = decode(text, checksum=True)
    assert checked is None or checked == oracle.b58decode_check(text)


@pytest.mark.parametrize("end", [" ", "\0", "\n", "\ud800", "é", "J"])
def test_an_end_that_does_not_belong_to_a_text_is_not_ignored(end: str) -> None:
    assert decode(ADDRESS, checksum=True) is not None
    assert decode(ADDRESS + end, checksum=True) is None


def test_long_texts_are_not_decoded() -> None:
    assert decode("1" * MAX_TEXT) == bytes(MAX_TEXT)
    assert decode("1" * (MAX_TEXT + 1)) is None
