"""Checking a card, a config or a price list before publishing it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.listings.card_check import check

AGENT: dict[str, Any] = {"name": "Tower", "url": "https://a.example", "skills": [{"id": "watch"}]}
PRICE: dict[str, Any] = {"id": "p", "currency": "BSV", "amount": 0.5, "skillIds": ["anything"]}


def checked(value: object, kind: str | None = None) -> dict[str, Any]:
    return check(json.dumps(value).encode(), kind)


def test_a_good_card_is_previewed_as_it_would_be_shown() -> None:
    result = checked(AGENT | {"description": "Watches. Always.", "x-payment-config": [PRICE | {"skillIds": ["watch"]}]})
    assert result["ok"]
    assert result["errors"] == []
    assert (result["preview"]["type"], result["preview"]["name"], result["preview"]["summary"]) == (
        "agent",
        "Tower",
        "Watches.",
    )
    price = {"offerId": "p", "amount": "0.5", "currency": "BSV", "interval": "none", "perDay": None}
    assert result["preview"]["cheapest"] == price


def test_every_hard_rule_broken_is_an_error_with_its_pointer() -> None:
    result = checked({"description": "nothing"})
    assert not result["ok"]
    assert result["preview"] is None
    assert [(error["code"], error["pointer"]) for error in result["errors"]] == [
        ("card-name", "/name"), ("card-skills", "/skills"), ("card-url", "/url"),
    ]  # fmt: skip


def test_text_that_is_not_json_is_reported_as_such() -> None:
    for body in (b"", b"{", b"nope", b"\xef\xbb\xbf{}", b"\xff", b"[" * 100_000):
        report = check(body)
        assert not report["ok"]
        assert report["errors"][0]["code"].startswith("card-")


def test_a_config_previews_each_server() -> None:
    one = checked({"mcpServers": {"clock": {"command": "npx", "args": ["clock"]}}})
    assert (one["preview"]["type"], one["preview"]["serverName"]) == ("tool", "clock")
    two = checked({"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}})
    assert [server["serverName"] for server in two["preview"]["servers"]] == ["a", "b"]


def test_the_kind_can_be_named() -> None:
    assert [error["code"] for error in checked(AGENT, "tool")["errors"]] == ["config-servers"]
    assert checked(AGENT, "agent")["ok"]


def test_a_price_list_is_known_by_its_shape() -> None:
    named = PRICE | {"name": "A call"}  # as the examples of A2B §4.1
    for value in ([PRICE], PRICE, [named], named, {"x-payment-config": [PRICE]}, {"x-payment": [PRICE]}):
        result = checked(value)
        assert result["ok"], result
        assert result["preview"]["type"] == "prices"
        assert [offer["amount"] for offer in result["preview"]["offers"]] == ["0.5"]
    assert [warning["code"] for warning in checked(named)["warnings"]] == ["unpayable"]
    assert checked(named | {"depositPct": 2})["warnings"][0]["pointer"] == "/depositPct"


def test_a_price_that_would_be_left_out_is_an_error_of_a_price_list_and_named_by_its_pointer() -> None:
    result = checked([PRICE, {"currency": "BSV"}, {"amount": 1}, "free"])
    assert not result["ok"]
    assert [(error["code"], error["pointer"]) for error in result["errors"]] == [
        ("offer-amount", "/1/amount"), ("offer-currency", "/2/currency"), ("wrong-type", "/3"),
    ]  # fmt: skip
    assert checked([])["errors"][0]["code"] == "missing"
    inside = checked({"x-payment-config": [{"currency": "BSV"}]})
    assert inside["errors"][0]["pointer"] == "/x-payment-config/0/amount"
    card = checked(AGENT | {"amount": 1, "currency": "BSV"})
    assert card["preview"]["type"] == "agent", "what has skills is a card"


def test_a_price_of_a_card_that_readers_leave_out_is_an_error_that_names_it() -> None:
    prices = [PRICE, {"currency": "BSV"}, {"amount": 1}, PRICE | {"interval": 30}, "free"]
    result = checked(AGENT | {"x-payment-config": prices})
    assert not result["ok"]
    assert [(error["code"], error["pointer"].removeprefix("/x-payment-config")) for error in result["errors"]] == [
        ("offer-amount", "/1/amount"), ("offer-currency", "/2/currency"), ("offer-interval", "/3/interval"),
        ("wrong-type", "/4"),
    ]  # fmt: skip
    assert len(result["preview"]["offers"]) == 1, "the card is valid with the other price"
    assert checked(AGENT | {"x-payment-config": [PRICE], "description": 5})["ok"], "other members are warnings"


@pytest.mark.parametrize("kind", ["agent", "tool", "prices", None])
def test_what_is_no_json_is_named_by_line_and_column(kind: str | None) -> None:
    (error,) = check(b'{"name": "Echo",\n "url": "x" "y"}', kind)["errors"]
    assert error["code"] == "card-json"
    assert error["detail"].startswith("the card is not JSON: ")
    assert error["detail"].endswith(" at line 2, column 13")


def test_a_card_larger_than_a_mebibyte_is_an_invalid_card() -> None:
    report = check(b'{"name":"' + b"x" * (1 << 20) + b'"}')
    assert [error["code"] for error in report["errors"]] == ["card-size"]


@pytest.mark.parametrize(
    ("card", "ok"),
    [
        ({"mcpServers": {"x-payment-config": False}}, True),
        ({"mcpServers": {"a": {"x-payment-config": False}}}, False),
        ({**AGENT, "x-payment-config": False}, False),
    ],
)
def test_a_price_of_the_wrong_type_is_an_error_and_a_server_of_its_name_is_not(card: dict[str, Any], ok: bool) -> None:
    report = check(json.dumps(card).encode())
    assert report["ok"] is ok
    assert report["preview"] is not None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["name", "skills", "x-payment-config", "amount", "currency", "mcpServers", "id"]), inner
        )
    ),
    max_leaves=12,
)


@given(
    st.binary(max_size=60) | json_values.map(lambda value: json.dumps(value).encode()),
    st.sampled_from([None, "agent", "tool", "prices"]),
)
def test_any_bytes_are_answered(body: bytes, kind: str | None) -> None:
    report = check(body, kind)
    assert report["ok"] == (not report["errors"])
    assert report["preview"] is not None or not report["ok"], "a card with a bad price has both errors and a preview"
    json.dumps(report, allow_nan=False).encode()
