"""Conversion between currencies and to prices per day: laws, and the same in fractions."""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.cards.intervals import interval_key, per_day
from parsers.cards.money import decimal_key, plain
from parsers.cards.rate_table import LARGEST, SMALLEST, RateTable, amount_bounds, convert

CURRENCIES = ("BSV", "USD", "BTC", "JPY")
quoted = st.decimals(SMALLEST, LARGEST, allow_nan=False, allow_infinity=False).filter(bool) | st.decimals(
    "0.01", 1000, places=4
)
amounts = (
    st.builds(
        lambda digits, exponent: Decimal((0, tuple(map(int, str(digits))), exponent)),
        st.integers(0, 10**100 - 1),
        st.integers(-400, 400),
    )
    | st.decimals(0, 1000, places=2)
    | st.sampled_from([Decimal(0), Decimal("1e-499"), Decimal("9.99e499"), Decimal("0e400")])
)


@st.composite
def tables(draw: st.DrawFn) -> RateTable:
    results = {currency: draw(quoted) for currency in CURRENCIES[1:]}
    return RateTable(base="BSV", rates={"BSV": Decimal(1), **results}, source="feed", quoted_at=0, until=1)


def exact(table: RateTable, currency: str, into: str) -> Fraction:
    return Fraction(table.rates[into]) / Fraction(table.rates[currency])


def close(one: Fraction, other: Fraction, steps: int = 1) -> bool:
    """Equal but for as many roundings to 12 digits."""
    return abs(one - other) <= other * steps * Fraction(1, 10**11)


any_currency = st.sampled_from(CURRENCIES)


@given(tables(), any_currency, any_currency)
def test_a_rate_goes_through_the_base_and_is_rounded_once(table: RateTable, one: str, other: str) -> None:
    rate = table.rate(one, other)
    assert rate is not None
    assert len(rate.normalize().as_tuple().digits) <= 12
    assert close(Fraction(rate), exact(table, one, other))
    if one != other:
        assert table.crosses(other)[one] == rate
        assert other not in table.crosses(other)


@given(tables(), any_currency, any_currency, any_currency, amounts)
def test_round_trips_and_detours_come_back(table: RateTable, one: str, other: str, third: str, amount: Decimal) -> None:
    there, back, onward, straight = (
        table.rate(one, other), table.rate(other, one), table.rate(other, third), table.rate(one, third),
    )  # fmt: skip
    assert there is not None is not straight
    assert back is not None is not onward
    assert close(Fraction(amount) * Fraction(there) * Fraction(back), Fraction(amount), 3)
    assert close(Fraction(there) * Fraction(onward), Fraction(straight), 4)


@given(tables(), any_currency, any_currency, amounts, amounts)
def test_conversion_is_exact_and_keeps_the_order(
    table: RateTable, one: str, other: str, less: Decimal, more: Decimal
) -> None:
    rate = table.rate(one, other)
    assert rate
    results = [convert(item, rate) for item in (less, more)]
    assert Fraction(results[0]) == Fraction(less) * Fraction(rate)
    assert (results[0] < results[1], results[0] == results[1]) == (less < more, less == more)
    assert (decimal_key(results[0]) < decimal_key(results[1])) == (less < more)
    assert Fraction(plain(results[0])) == Fraction(results[0])


bounds = st.none() | amounts | st.sampled_from([Decimal("1e139"), Decimal("1e-139"), Decimal("1e450")])


@given(tables(), any_currency, any_currency, bounds, bounds, amounts, st.sampled_from([None, -1, 0, 1]), st.booleans())
def test_bounds_before_conversion_say_the_same_as_bounds_after_it(
    table: RateTable, one: str, other: str, least: Decimal | None, most: Decimal | None, amount: Decimal,
    beside: int | None, upper: bool,
) -> None:  # fmt: skip
    rate = table.rate(one, other)
    assert rate
    if beside is not None:  # a bound that the price meets, or misses in its last place
        wide = Context(prec=300)
        exactly = convert(amount, rate)
        nearly = wide.add(exactly, Decimal((0, (1,), exactly.adjusted() - 135)) * beside).copy_abs()
        least, most = (least, nearly) if upper else (nearly, most)
    price = Fraction(amount) * Fraction(rate)
    expected = (least is None or price >= Fraction(least)) and (most is None or price <= Fraction(most))
    results = amount_bounds(least, most, rate)
    admitted = results is not None and (
        (results.least is None or amount >= results.least) and (results.most is None or amount <= results.most)
    )
    assert admitted == expected
    if results is not None:
        for bound in results:
            assert bound is None or decimal_key(bound)


def test_what_is_not_quoted_has_no_rate_but_everything_is_worth_itself() -> None:
    table = RateTable(base="BSV", rates={"BSV": Decimal(1), "USD": Decimal(50)}, source="feed", quoted_at=0, until=1)
    assert table.rate("BSV", "USD") == 50
    assert table.rate("USD", "BSV") == Decimal("0.02")
    assert table.rate("EUR", "USD") is table.rate("USD", "EUR") is None
    assert table.rate("EUR", "EUR") == 1
    assert table.crosses("EUR") == {}
    assert table.crosses("USD") == {"BSV": 50}


@pytest.mark.parametrize(
    ("amount", "interval", "a_day"),
    [
        ("1", "day", "1"), ("7", "P1W", "1"), ("7", "week", "1"), ("30.436875", "month", "1"), ("730.485", "P2Y", "1"),
        ("365.2425", "P12M", "1"), ("1", "PT1H", "24"), ("0.5", "PT12H", "1"), ("20", "P1M", "0.657097681677"),
        ("61", "P2M0D", "1.00207396456"), ("0", "P1M", "0"), ("2", "P1DT24H", "1"),
        ("1", None, None), ("1", "none", None), ("1", "P0D", None), ("1", "per task", None),
        ("1e490", "PT1S", "8.64e494"),
        ("1e499", f"PT0.{'0' * 60}1S", None),
    ],
)  # fmt: skip
def test_a_price_for_an_interval_is_converted_per_day(amount: str, interval: str | None, a_day: str | None) -> None:
    result = per_day(Decimal(amount), interval_key(interval))
    assert result == (None if a_day is None else Decimal(a_day))


@given(amounts, amounts, st.integers(1, 400), st.sampled_from("DWMY"))
def test_prices_per_day_keep_the_order_and_are_nearly_exact(
    less: Decimal, more: Decimal, count: int, unit: str
) -> None:
    key = interval_key(f"P{count}{unit}")
    days = Fraction(count) * {"D": 1, "W": 7, "M": Fraction("365.2425") / 12, "Y": Fraction("365.2425")}[unit]
    result, other = per_day(less, key), per_day(more, key)
    if result is not None:
        assert close(Fraction(result), Fraction(less) / days)
        if other is not None and less <= more:
            assert result <= other
    else:
        assert less.adjusted() < -490 or less.adjusted() > 490
