"""Changes of a revision that a buyer should look at before paying."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers import cards
from parsers.cards import AgentCard
from parsers.cards.offers import Offer
from parsers.cards.price_changes import ADDRESS, MAX_LISTED, PRICE, price_changes

ALICE, EVE = "1BoatSLRHtKNngkdXEeobR76b53LETtpyT", "1CounterpartyXXXXXXXXXXXXXXXUWLpVr"


def offers(*answers: dict[str, Any]) -> tuple[Offer, ...]:
    """Offers as a card gives them; 1 USD to Alice a month where nothing else is said."""
    usual = {"currency": "USD", "amount": 1, "interval": "month", "address": ALICE, "skillIds": ["a"]}
    supplied = [usual | {"id": f"o{number}"} | item for number, item in enumerate(answers)]
    body = {"name": "x", "url": "https://x.example", "skills": [{"id": "a"}], "x-payment-config": supplied}
    card = cards.read(json.dumps(body).encode())
    assert isinstance(card, AgentCard)
    assert len(card.offers) == len(answers)
    return card.offers


ONE = offers({})


@pytest.mark.parametrize(
    ("after", "messages"),
    [
        ([{"amount": 2}], [(PRICE, "price rose from 1 to 2 USD per P1M")]),
        ([{"amount": "1.0"}], []),
        ([{"interval": "P1M"}], []),
        ([{"interval": "day"}], [(PRICE, "price changed from 1 USD per P1M to 1 USD per P1D")]),
        ([{"interval": None}], [(PRICE, "price changed from 1 USD per P1M to 1 USD")]),
        ([{"currency": "EUR"}], [(PRICE, "price changed from 1 USD per P1M to 1 EUR per P1M")]),
        ([{"address": EVE}], [(ADDRESS, f"the pay-to address changed from {ALICE} to {EVE}")]),
        ([{"amount": "0.5"}], []),
        ([{"amount": "0.5", "currency": "BSV"}], [(PRICE, "price changed from 1 USD per P1M to 0.5 BSV per P1M")]),
        ([{"acceptedCurrencies": ["BSV"]}], [(PRICE, "1 USD per P1M can be paid in USD, BSV, before in USD")]),
        (
            [{"amount": 9, "address": EVE}],
            [
                (PRICE, "price rose from 1 to 9 USD per P1M"),
                (ADDRESS, f"the pay-to address changed from {ALICE} to {EVE}"),
            ],
        ),
        ([{"id": "renamed"}], []),
        ([{"id": "renamed", "amount": 7}], [(PRICE, "price rose from 1 to 7 USD per P1M")]),
        ([{}, {"amount": 5}], []),
        ([{}, {"amount": 5, "address": EVE}], [(ADDRESS, f"payments also go to {EVE}")]),
        ([{"address": ""}], []),
        ([], []),
    ],
)
def test_the_price_changes_of_a_revision(after: list[dict[str, Any]], messages: list[tuple[str, str]]) -> None:
    assert [reason[:2] for reason in price_changes(ONE, offers(*after))] == messages


def test_a_card_that_had_no_prices_changed_none() -> None:
    assert price_changes((), ONE) == ()


def test_many_changes_are_one_reason_beside_the_others() -> None:
    before = offers(*({} for _ in range(20)))
    [reason] = price_changes(before, offers(*({"amount": 3} for _ in range(20))), ", by another owner")
    assert reason.detail.endswith(f" and {20 - MAX_LISTED} more, by another owner")
    assert reason.sentence.startswith("price rose from 1 to 3 USD")


PRICES = st.fixed_dictionaries(
    {
        "id": st.sampled_from("abc"),
        "amount": st.integers(0, 2),
        "currency": st.sampled_from(["USD", "BSV"]),
        "interval": st.sampled_from([None, "P1D"]),
        "address": st.sampled_from(["", ALICE, EVE]),
    }
)
LISTS = st.lists(PRICES, max_size=4, unique_by=lambda item: item["id"]).map(lambda answer: offers(*answer))


@given(LISTS)
def test_the_same_offers_in_any_order_change_nothing(answers: tuple[Offer, ...]) -> None:
    assert price_changes(answers, answers[::-1]) == ()


@given(LISTS, LISTS)
def test_without_a_reason_there_is_no_change_that_a_buyer_would_see(
    before: tuple[Offer, ...], after: tuple[Offer, ...]
) -> None:
    """Held against a slow look: whatever can be bought now could be bought before for as much or more, or was added to
    what stayed."""
    if not before:
        return
    codes = {reason.code for reason in price_changes(before, after)}
    existing = {item.id: (item.amount, item.currency, item.interval_key) for item in before}
    changed = any(
        existing[item.id][1:] != (item.currency, item.interval_key) or existing[item.id][0] < item.amount
        for item in after
        if item.id in existing
    )
    assert (PRICE in codes) >= changed
    assert (ADDRESS in codes) == bool({item.address for item in after} - {item.address for item in before} - {""})
