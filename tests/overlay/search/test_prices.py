"""Offers as an index holds them say what the law says of the offers themselves."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.search.document import Document
from overlay.search.prices import (
    asks_offer,
    by_currency,
    cheapest_for,
    meets,
    pack,
)
from overlay.search.query import Query
from parsers.cards import Skill, offer_filter
from parsers.cards.intervals import interval_key
from parsers.cards.offers import Offer
from tests.bench.listings import listings

MODEL = next(listing for listing in listings() if listing.offers)
CURRENCIES = ("USD", "BSV", "ODD")
SKILLS = ("search", "pay", "x")
amounts = st.decimals(0, 10, places=1) | st.sampled_from(
    [Decimal("1e400"), Decimal("1e-400"), Decimal("1.0000000000001"), Decimal("1.0000000000002"), Decimal("1.00")]
)
any_amount = st.builds(
    lambda digits, exponent: Decimal((0, tuple(map(int, str(digits))), exponent)),
    st.integers(0, 10**100 - 1),
    st.integers(-400, 400),
)


@st.composite
def offers(draw: st.DrawFn) -> Offer:
    currency = draw(st.sampled_from(CURRENCIES))
    interval = draw(st.sampled_from((None, "P1M", "month", "P1D")))
    skills = draw(st.none() | st.lists(st.sampled_from(SKILLS), max_size=2, unique=True).map(tuple))
    return replace(
        MODEL.offers[0],
        id=draw(st.sampled_from(("a", "b", "c"))),
        currency=currency,
        amount=draw(amounts),
        interval=interval,
        interval_key=interval_key(interval),
        accepted=tuple(dict.fromkeys((currency, *draw(st.lists(st.sampled_from(CURRENCIES), max_size=2))))),
        skill_ids=skills,
        address=draw(st.sampled_from(("", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"))),
    )


documents = st.builds(
    lambda skills, supplied: replace(MODEL, skills=tuple(Skill(skill) for skill in skills), offers=tuple(supplied)),
    st.lists(st.sampled_from(SKILLS), max_size=3, unique=True),
    st.lists(offers(), max_size=4),
)


def some(values: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.just(()) | st.lists(st.sampled_from(values), min_size=1, max_size=2).map(tuple)


queries = st.builds(
    Query()._replace,
    skills=some(SKILLS),
    currencies=some(CURRENCIES),
    intervals=some(("none", "P1M", "P1D")),
    min_price=st.none() | amounts,
    max_price=st.none() | amounts,
    price_currency=st.none() | st.sampled_from(CURRENCIES),
    free=st.sampled_from((None, None, True, False)),
    payable=st.sampled_from((None, None, True, False)),
)
quoted = st.sampled_from([Decimal("0.02"), Decimal(50), Decimal("1.00000000001"), Decimal("1e-60"), Decimal("1e60")])


@st.composite
def with_rates(draw: st.DrawFn) -> Query:
    """A query, often with rates into the currency that it asks prices in."""
    query = draw(queries)
    others = [currency for currency in CURRENCIES if currency != query.price_currency]
    rates = draw(st.dictionaries(st.sampled_from(others), quoted)) if query.price_currency else {}
    return query._replace(rates=rates)


def law(query: Query) -> offer_filter.OfferFilter:
    prices = (query.min_price, query.max_price, query.price_currency, query.rates)
    kinds = {"free": query.free, "payable": query.payable}
    return offer_filter.OfferFilter(query.skills, query.currencies, query.intervals, *prices, **kinds)


@given(documents, with_rates())
@settings(max_examples=600)
def test_packed_offers_meet_a_filter_and_are_cheapest_as_the_law_says(document: Document, query: Query) -> None:
    packed = pack(document)
    least = offer_filter.cheapest(offer_filter.entries(document), law(query))
    result = cheapest_for(query)(packed)
    assert (result is None) == (least is None)
    if result and least:
        best = least.offer
        assert result.others == least.others
        assert (result.offer_id, result.currency, result.interval) == (best.id, best.currency, best.interval_key)
        assert Decimal(result.amount) == best.amount
        worth = offer_filter.worth(best, law(query))
        amount, currency = result.converted or (result.amount, result.currency)
        assert (Decimal(amount), currency) == (worth, query.price_currency or best.currency)
        assert (result.converted is None) == (currency == best.currency)
    if asks_offer(query):
        assert meets(packed, query) == offer_filter.meets(document, law(query))


def priced(*answers: tuple[str, str, str, tuple[str, ...] | None]) -> Document:
    """A listing with the skills `search` and `pay`, and offers of an id, amount, currency and skills."""
    supplied = (
        replace(
            MODEL.offers[0], id=id_, amount=Decimal(amount), currency=currency, accepted=(currency, "ODD"),
            skill_ids=skills, interval=None, interval_key="none",
        )
        for id_, amount, currency, skills in answers
    )  # fmt: skip
    return replace(MODEL, skills=(Skill("search"), Skill("pay")), offers=tuple(supplied))


TWO = priced(("a", "2", "USD", None), ("b", "3", "USD", ("pay",)), ("c", "1", "BSV", None))


@pytest.mark.parametrize(
    ("query", "id_"),
    [
        (Query(price_currency="USD", max_price=Decimal(5)), "a"),
        (Query(price_currency="USD", min_price=Decimal(3)), "b"),
        (Query(price_currency="USD", max_price=Decimal(5), rates={"BSV": Decimal("0.5")}), "c"),
        (Query(price_currency="USD", max_price=Decimal(5), rates={"BSV": Decimal(50)}), "a"),
        (Query(price_currency="USD", skills=("pay",)), "a"),
        (Query(price_currency="USD", currencies=("ODD",)), "a"),
        (Query(price_currency="USD", currencies=("BSV", "USD")), "a"),
        (Query(price_currency="BSV", max_price=Decimal(5)), "c"),
        (Query(currencies=("BSV",)), "c"),
    ],
)
def test_the_cheapest_that_meets_a_query_is_shown(query: Query, id_: str) -> None:
    result = cheapest_for(query)(pack(TWO))
    assert result is not None
    assert result.offer_id == id_


def test_the_cheapest_of_all_may_be_for_other_skills() -> None:
    packed = pack(priced(("a", "2", "USD", ("pay",)), ("b", "3", "USD", ("search",))))
    result = cheapest_for(Query(price_currency="USD", skills=("search",)))(packed)
    assert result
    assert result.offer_id == "b"


@given(documents, with_rates())
def test_an_offer_meets_a_question_when_it_meets_it_in_its_own_currency(document: Document, query: Query) -> None:
    if query.price_currency is None:
        return
    items = list(by_currency(query, lambda currency: currency != "ODD"))
    changed = replace(document, offers=tuple(offer for offer in document.offers if offer.currency != "ODD"))
    if query.price_currency != "ODD" and (query.min_price is not None or query.max_price is not None):
        assert offer_filter.meets(changed, law(query)) == any(offer_filter.meets(changed, law(one)) for one in items)
    assert len({one.price_currency for one in items}) == len(items)
    assert not any(one.rates for one in items)
