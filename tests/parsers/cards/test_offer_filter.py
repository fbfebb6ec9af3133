"""Filters hold on the same offer, and the cheapest is among those that meet all (law 14)."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.cards import Skill
from parsers.cards.intervals import interval_key
from parsers.cards.offer_filter import OfferFilter, cheapest, entries, meets, worth
from parsers.cards.offers import Offer
from tests.contracts.listed import price
from tests.oracles.prices import Row, row_meets, row_price, rows


class Listed(NamedTuple):
    skills: tuple[Skill, ...] = ()
    offers: tuple[Offer, ...] = ()


def offer(
    number: int, currency: str, amount: str, interval: str | None = None, *others: str, skills: str | None = None
) -> Offer:
    return price(amount, currency, interval, *others, number=number, id=f"o{number}", skills=skills)


def listed(skills: str, *offers: Offer) -> Listed:
    return Listed(tuple(Skill(identity) for identity in skills), offers)


def test_two_offers_do_not_meet_two_filters_between_them() -> None:
    both = listed("ab", offer(0, "USD", "5", "month", skills="a"), offer(1, "BSV", "1", None, skills="b"))
    assert meets(both, OfferFilter(skills=["a"], intervals=["P1M"]))
    assert meets(both, OfferFilter(currencies=["BSV"], intervals=["none"]))
    assert not meets(both, OfferFilter(skills=["a"], currencies=["BSV"]))
    assert not meets(both, OfferFilter(currencies=["BSV"], intervals=["P1M"]))
    assert not meets(both, OfferFilter(intervals=["P1M"], max_price=Decimal(2)))


def test_skills_that_no_offer_names_are_one_unpriced_entry() -> None:
    mixed = listed("abc", offer(0, "USD", "5", skills="a"))
    assert [(sorted(entry.skill_ids), entry.offer is None) for entry in entries(mixed)] == [
        (["a"], False),
        (["b", "c"], True),
    ]
    assert meets(mixed, OfferFilter(skills=["b"]))
    assert not meets(mixed, OfferFilter(skills=["b"], currencies=["USD"]))
    assert not meets(mixed, OfferFilter(skills=["b"], max_price=Decimal(10)))


def test_an_offer_for_all_skills_leaves_none_unpriced() -> None:
    assert len(entries(listed("ab", offer(0, "USD", "5"), offer(1, "USD", "1", skills="a")))) == 2
    assert meets(listed("ab", offer(0, "USD", "5")), OfferFilter(skills=["b"], currencies=["USD"]))


@pytest.mark.parametrize(
    ("offer_filter", "met"),
    [
        (OfferFilter(), True),
        (OfferFilter(skills=["a"]), True),
        (OfferFilter(skills=["z"]), False),
        (OfferFilter(currencies=["USD"]), False),
        (OfferFilter(intervals=["none"]), False),
        (OfferFilter(min_price=Decimal(0)), False),
        (OfferFilter(price_currency="USD"), True),
    ],
)
def test_an_unpriced_listing_meets_skill_filters_only(offer_filter: OfferFilter, met: bool) -> None:
    assert meets(listed("a"), offer_filter) is met
    assert cheapest(entries(listed("a")), offer_filter) is None


def test_a_listing_without_skills_has_an_entry_too() -> None:
    assert meets(listed(""), OfferFilter())
    assert meets(listed("", offer(0, "USD", "1")), OfferFilter(currencies=["USD"]))
    assert not meets(listed("", offer(0, "USD", "1")), OfferFilter(skills=["a"]))


def test_prices_compare_in_the_anchor_or_in_the_currency_requested() -> None:
    two = listed("a", offer(0, "USD", "5", None, "BSV"), offer(1, "BSV", "0.1"))
    assert meets(two, OfferFilter(max_price=Decimal("0.5")))
    assert not meets(two, OfferFilter(max_price=Decimal("0.5"), price_currency="USD"))
    assert meets(two, OfferFilter(max_price=Decimal(5), price_currency="USD"))
    assert not meets(two, OfferFilter(min_price=Decimal(6)))
    assert not meets(two, OfferFilter(max_price=Decimal(9), price_currency="EUR"))


def lowest_id(listing: Listed, **filters: object) -> str | None:
    result = cheapest(entries(listing), OfferFilter(**filters))  # type: ignore[arg-type]
    return result and result.offer.id


def test_a_price_per_call_comes_before_one_for_an_interval_and_these_compare_by_the_day() -> None:
    agent = listed("a", offer(0, "EUR", "0.004", "year"), offer(1, "EUR", "0.02", "day"), offer(2, "EUR", "0.03"))
    assert lowest_id(agent) == "o2"
    assert lowest_id(agent, intervals=["P1D", "P1Y"]) == "o0"
    assert lowest_id(agent, by_amount=True) == "o0"
    a_week_and_a_month = listed(
        "a", offer(0, "USD", "3", "P1W"), offer(1, "USD", "9", "P1M"), offer(2, "USD", "1", "P0D")
    )
    assert lowest_id(a_week_and_a_month) == "o1"
    assert lowest_id(listed("a", offer(0, "USD", "2", "P0D"), offer(1, "USD", "1", "P0D"))) == "o1"


def test_only_prices_that_can_be_compared_are_and_the_others_are_named() -> None:
    mixed = listed(
        "a", offer(0, "BSV", "11.32"), offer(1, "USD", "0.05"), offer(2, "USD", "0.03984"), offer(3, "ETH", "1")
    )
    least = cheapest(entries(mixed), OfferFilter())
    assert least
    assert (least.offer.id, least.others) == ("o2", ("BSV", "ETH"))
    converted = cheapest(entries(mixed), OfferFilter(price_currency="USD", rates={"BSV": Decimal("0.001")}))
    assert converted
    assert (converted.offer.id, converted.others) == ("o0", ("ETH",))
    assert lowest_id(listed("a", offer(0, "ETH", "5"), offer(1, "EUR", "1"))) == "o0", "the first of as many"


def test_the_cheapest_is_of_the_offers_that_meet_all() -> None:
    many = listed(
        "ab",
        offer(0, "USD", "20", "month", "BSV"),
        offer(1, "BSV", "0.001"),
        offer(2, "USD", "0.05", None, "BSV", skills="a"),
        offer(3, "USD", "0.050", "day", skills="b"),
    )

    def lowest(**filters: object) -> str | None:
        return lowest_id(many, **filters)

    assert lowest() == "o2"
    assert lowest(price_currency="BSV") == "o1"
    assert lowest(skills=["b"]) == "o3"
    assert lowest(intervals=["P1M"]) == "o0"
    assert lowest(currencies=["BSV"], min_price=Decimal(1)) == "o0"
    assert lowest(price_currency="EUR") is None
    assert lowest(skills=["z"]) is None


def test_offers_in_other_currencies_count_by_what_they_are_worth() -> None:
    rates = {"BSV": Decimal(50)}
    mixed = listed("a", offer(0, "USD", "5"), offer(1, "BSV", "0.1"), offer(2, "EUR", "0"))
    offer_filter = OfferFilter(price_currency="USD", rates=rates)
    assert [worth(item, offer_filter) for item in mixed.offers] == [5, 5, None]
    assert cheapest(entries(mixed), offer_filter) == (mixed.offers[0], ("EUR",))
    assert cheapest(entries(mixed), offer_filter._replace(max_price=Decimal("4.99"))) is None
    dear = listed("a", offer(0, "USD", "5.01"), offer(1, "BSV", "0.1"))
    assert cheapest(entries(dear), offer_filter) == (dear.offers[1], ())
    assert meets(dear, offer_filter._replace(max_price=Decimal(5)))
    assert not meets(dear, offer_filter._replace(max_price=Decimal("4.9999999999")))
    assert not meets(listed("a", offer(0, "EUR", "0")), offer_filter._replace(max_price=Decimal(5)))


ids = st.sampled_from("abc")
tickers = st.sampled_from(["USD", "BSV", "SOL"])
prices = st.sampled_from([Decimal(text) for text in ("0", "0.5", "0.50", "1", "2")])
intervals = st.sampled_from([None, "month", "P1M", "day", "P12M", "year"])
offer_lists = st.lists(
    st.builds(
        lambda currency, amount, interval, others, skills: (currency, amount, interval, others, skills),
        tickers,
        prices,
        intervals,
        st.lists(tickers, max_size=2),
        st.none() | st.lists(ids | st.just("x"), max_size=2),
    ),
    max_size=4,
)
listings = st.builds(
    lambda skills, drawn: listed(
        "".join(skills),
        *(
            offer(
                number,
                currency,
                str(amount),
                interval,
                *(other for other in others if other != currency),
                skills=None if skills_of is None else "".join(skills_of),
            )
            for number, (currency, amount, interval, others, skills_of) in enumerate(drawn)
        ),
    ),
    st.lists(ids, unique=True),
    offer_lists,
)
filters = st.builds(
    OfferFilter,
    skills=st.lists(ids | st.just("x"), max_size=2),
    currencies=st.lists(tickers, max_size=2),
    intervals=st.lists(intervals.map(interval_key), max_size=2),
    min_price=st.none() | prices,
    max_price=st.none() | prices,
    price_currency=st.none() | tickers,
    rates=st.dictionaries(tickers, st.sampled_from([Decimal("0.5"), Decimal(2), Decimal("1.0000000001")])),
    per_day=st.just(False),
    by_amount=st.booleans(),
    calls=st.none(),
    free=st.sampled_from([None, None, True, False]),
    payable=st.sampled_from([None, None, True, False]),
)


@settings(max_examples=500)
@given(listings, filters)
def test_a_listing_is_met_when_one_row_of_its_flat_table_is(listing: Listed, offer_filter: OfferFilter) -> None:
    assert meets(listing, offer_filter) == any(row_meets(row, offer_filter) for row in rows(*listing))


@settings(max_examples=500)
@given(listings, filters)
def test_the_cheapest_is_what_reading_the_list_by_hand_finds(listing: Listed, offer_filter: OfferFilter) -> None:
    met = [
        item
        for item in listing.offers
        if any(row.amount is not None and row_meets(row, offer_filter) for row in rows(listing.skills, [item]))
    ]
    prices = {item.id: row_price(Row(None, None, None, item.currency, item.amount), offer_filter) for item in met}
    quoted = [item for item in met if prices[item.id] is not None]
    if offer_filter.price_currency is None and quoted:
        names = [item.currency for item in quoted]
        best_name = max(names, key=lambda name: (names.count(name), -names.index(name)))
        quoted = [item for item in quoted if item.currency == best_name]
    days = {"none": 1, "P1D": 1, "P1M": Fraction("30.436875"), "P1Y": Fraction("365.2425")}

    def position(item: Offer) -> tuple[bool, Fraction]:
        price = prices[item.id]
        assert price is not None
        if offer_filter.by_amount:
            return False, price
        return item.interval_key != "none", price / days[item.interval_key]

    least = cheapest(entries(listing), offer_filter)
    if not quoted:
        assert least is None
        return
    assert least
    assert position(least.offer)[0] == min(map(position, quoted))[0]
    assert position(least.offer)[1] == pytest.approx(min(map(position, quoted))[1], rel=1e-9)
    assert set(least.others) == {item.currency for item in met} - {item.currency for item in quoted}


def lowest_offer(*offers: Offer, of: OfferFilter) -> Offer:
    result = cheapest(entries(listed("", *offers)), of)
    assert result
    return result.offer


def test_prices_per_day_are_compared_among_offers_that_have_one() -> None:
    monthly, daily, call = offer(0, "USD", "30", "month"), offer(1, "USD", "2", "day"), offer(2, "USD", "0.5")
    assert lowest_offer(monthly, daily, call, of=OfferFilter()) == call
    assert lowest_offer(monthly, daily, call, of=OfferFilter(per_day=True)) == monthly
    assert lowest_offer(call, of=OfferFilter(per_day=True)) == call
    abroad = offer(3, "BSV", "1", "year")
    rates = {"BSV": Decimal(20)}
    assert lowest_offer(abroad, monthly, of=OfferFilter(per_day=True)) == abroad
    in_dollars = OfferFilter(price_currency="USD", rates=rates, per_day=True)
    assert lowest_offer(monthly, abroad, of=in_dollars) == abroad
    assert lowest_offer(monthly, abroad, of=in_dollars._replace(rates={})) == monthly
