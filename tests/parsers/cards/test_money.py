"""Amounts are exact decimals from 0 up, written and ordered without exponent."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.bitcoin.address import looks_valid
from parsers.cards.money import amount, decimal_key, plain

amounts = st.builds(
    lambda digits, exponent: Decimal(digits).scaleb(exponent),
    st.integers(0, 10**20) | st.sampled_from([0, 1, 10, 100]),
    st.integers(-400, 400) | st.integers(-6, 6),
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (20, "20"),
        (Decimal("0.0005"), "0.0005"),
        (Decimal("-0.0"), "0"),
        ("0.05", "0.05"),
        (" 1e-8 ", "0.00000001"),
        ("5.", "5"),
        (".5", "0.5"),
        ("+1", "1"),
        ("-0", "0"),
        (-1, None),
        (Decimal("-0.01"), None),
        ("-1", None),
        (Decimal("NaN"), None),
        (Decimal("Infinity"), None),
        ("NaN", None),
        ("inf", None),
        ("1,5", None),
        ("1_000", None),
        ("٣", None),
        ("free", None),
        ("", None),
        ("1e401", None),
        ("9" * 101, None),
        ("1e" + "9" * 300, None),
        (True, None),
        (None, None),
        ([1], None),
        ({}, None),
    ],
)
def test_what_says_an_amount(value: Any, text: str | None) -> None:
    read = amount(value)
    assert (None if read is None else plain(read)) == text


@given(amounts, amounts)
def test_keys_sort_as_amounts_do(one: Decimal, other: Decimal) -> None:
    assert (decimal_key(one) < decimal_key(other)) == (one < other)
    assert (decimal_key(one) == decimal_key(other)) == (one == other)


@given(amounts)
def test_an_amount_is_written_without_exponent_and_read_back(value: Decimal) -> None:
    text = plain(value)
    assert Fraction(text) == Fraction(value)
    assert set(text) <= set("0123456789.")
    assert len(text) <= 1000
    assert plain(value.scaleb(3).scaleb(-3)) == text


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-1", "1e600", "1e-600"])
def test_what_is_no_amount_has_neither_key_nor_text(value: str) -> None:
    for write in (plain, decimal_key):
        with pytest.raises(ValueError, match="is not an amount"):
            write(Decimal(value))


@pytest.mark.parametrize(
    ("address", "valid"),
    [
        ("1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", True),
        ("1111111111111111111114oLvT2", True),
        ("3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy", True),
        ("1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb", False),
        ("1WatchtowerAddr", False),
        ("1A1zP1eP5QGefi2DMPTfTL5SLmv7Divf0a", False),
        ("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", True),
        ("alice@pay.example", True),
        ("", False),
        ("1" * 5000, False),
    ],
)
def test_an_address_is_checked_by_its_checksum(address: str, valid: bool) -> None:
    assert looks_valid(address) is valid


@given(st.integers(0, 10**100 - 1), st.integers(-400, 400))
def test_an_amount_of_a_hundred_digits_is_not_rounded(digits: int, exponent: int) -> None:
    literal = f"{digits}e{exponent}"
    for value in (Decimal(literal), literal):
        read = amount(value)
        assert read is not None
        assert Fraction(read) == Fraction(plain(read)) == digits * Fraction(10) ** exponent


@given(st.integers(0, 10**15 - 1), st.integers(-20, 20))
def test_a_number_with_a_fraction_is_what_was_written_whatever_reader_parsed_it(digits: int, exponent: int) -> None:
    """Of up to 15 digits, which floating point holds; its binary value is another number."""
    text = f"{digits}e{exponent}"
    assert amount(json.loads(text)) == amount(json.loads(text, parse_float=Decimal)) == Decimal(text)


@given(st.floats())
def test_any_floating_point_number_is_its_shortest_text_or_no_amount(value: float) -> None:
    read = amount(value)
    assert read == (Decimal(repr(value)) if 0 <= value < math.inf else None)
    assert read is None or float(read) == value
