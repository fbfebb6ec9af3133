"""Prices are read from where publishers put them (law 13)."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from parsers.cards import AgentCard, ToolConfig, read
from parsers.cards.intervals import interval_key
from parsers.cards.offers import Offer

PRICE: dict[str, Any] = {
    "id": "p",
    "name": "Price",
    "currency": "usd",
    "amount": 0.05,
    "address": "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
    "acceptedCurrencies": ["USD", "bsv", "Usd"],
    "skillIds": ["a"],
}


def card(prices: Any, key: str = "x-payment-config", **more: Any) -> AgentCard:
    members = {"name": "n", "url": "https://n.example", "version": "1", "capabilities": {}, key: prices}
    read_card = read(
        json.dumps({"skills": [{"id": "a", "name": "A"}, {"id": "b", "name": "B"}], **members, **more}).encode()
    )
    assert isinstance(read_card, AgentCard)
    return read_card


def offer(**changes: Any) -> Offer:
    (result,) = card([PRICE | changes]).offers
    return result


def codes(of: Any) -> list[tuple[str, str]]:
    return [(warning.code, warning.pointer) for warning in of.warnings]


def test_the_specifications_extensive_price_is_read_whole() -> None:
    text = """{"name":"Tower","url":"https://w.example","version":"2","capabilities":{},
      "skills":[{"id":"watchChannels","name":"W"}],
      "x-payment-config":[{"id":"watchtower-18m","name":"18-Month","currency":"BSV","amount":0.030,
        "address":"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa","acceptedCurrencies":["BSV","BTC","USD"],"depositPct":0.20,
        "priceFeedUrl":"https://oracle.example/spot","interval":"P18M","skillIds":["watchChannels"],
        "slippagePct":0.01,"description":"SLA"}]}"""
    tower = read(text.encode())
    assert isinstance(tower, AgentCard)
    assert tower.warnings == ()
    assert tower.offers == (
        Offer(
            number=0,
            id="watchtower-18m",
            name="18-Month",
            currency="BSV",
            amount=Decimal("0.03"),
            interval="P18M",
            interval_key="P18M",
            accepted=("BSV", "BTC", "USD"),
            skill_ids=("watchChannels",),
            address="1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
            deposit_pct=Decimal("0.2"),
            price_feed_url="https://oracle.example/spot",
            slippage_pct=Decimal("0.01"),
            description="SLA",
        ),
    )


def test_currencies_are_upper_case_the_anchor_first_each_once() -> None:
    assert (offer().currency, offer().accepted) == ("USD", ("USD", "BSV"))
    assert offer(acceptedCurrencies=None).accepted == ("USD",)
    assert offer(acceptedCurrencies=["sol", " bsv "]).accepted == ("USD", "SOL", "BSV")


@pytest.mark.parametrize("interval", [None, "", " ", "null", "per call", "None"])
def test_no_interval_is_per_call(interval: str | None) -> None:
    assert (offer(interval=interval).interval, offer(interval=interval).interval_key) == (None, "none")


def test_an_interval_is_kept_as_written_beside_its_key() -> None:
    assert (offer(interval="Month").interval, offer(interval="Month").interval_key) == ("Month", "P1M")
    assert offer(interval="P1M").interval_key == interval_key("month")


def test_an_interval_that_is_not_understood_is_a_warning_and_one_in_words_is_none() -> None:
    prices = [
        PRICE | {"id": text, "interval": text} for text in ("monthly", "per day", "1 month", "p1m", "fortnightly")
    ]
    result = card(prices)
    assert [item.interval_key for item in result.offers] == ["P1M", "P1D", "P1M", "p1m", "fortnightly"]
    assert codes(result) == [("interval-unknown", f"/x-payment-config/{number}/interval") for number in (3, 4)]


@pytest.mark.parametrize("skills", [None, []])
def test_a_price_that_names_no_skill_is_for_all(skills: Any) -> None:
    assert offer(skillIds=skills).skill_ids is None


def test_a_price_whose_skill_ids_are_all_unusable_is_for_none() -> None:
    result = card([PRICE | {"skillIds": [1, None]}])
    assert result.offers[0].skill_ids == ()
    assert [code for code, _ in codes(result)] == ["wrong-type", "wrong-type"]


@pytest.mark.parametrize(
    ("amount", "code"),
    [
        (-1, "offer-amount"),
        ("free", "offer-amount"),
        (None, "offer-amount"),
        (True, "offer-amount"),
        ("1e999", "offer-amount"),
        ([5], "offer-amount"),
    ],
)
def test_a_price_without_a_usable_amount_is_left_out_and_the_others_stay(amount: Any, code: str) -> None:
    result = card([PRICE | {"amount": amount}, PRICE | {"id": "good"}])
    assert [(item.id, item.number) for item in result.offers] == [("good", 1)]
    assert codes(result) == [(code, "/x-payment-config/0/amount")]


@pytest.mark.parametrize(
    ("changes", "code", "member"),
    [
        ({"currency": None}, "offer-currency", "currency"),
        ({"currency": " "}, "offer-currency", "currency"),
        ({"currency": 5}, "offer-currency", "currency"),
        ({"currency": "x" * 13}, "not-indexed", "currency"),
        ({"currency": "USDC.e"}, "not-indexed", "currency"),
        ({"currency": "\u20ac"}, "not-indexed", "currency"),
        ({"currency": "stra\u00df"}, "not-indexed", "currency"),
        ({"currency": "US\0D"}, "not-indexed", "currency"),
        ({"interval": 30}, "offer-interval", "interval"),
        ({"interval": {"months": 1}}, "offer-interval", "interval"),
    ],
)
def test_a_price_that_cannot_be_understood_is_left_out(changes: dict[str, Any], code: str, member: str) -> None:
    result = card([PRICE | changes])
    assert result.offers == ()
    assert codes(result) == [(code, f"/x-payment-config/0/{member}")]


def test_amounts_are_exact_and_strings_are_tolerated() -> None:
    text = json.dumps({"name": "n", "url": "https://n", "version": "1", "capabilities": {}, "skills": [{"id": "a"}]})
    prices = '[{"currency":"USD","amount":0.1000000000000000000000000000000001},{"currency":"USD","amount":"0.3"}]'
    parsed = read((text[:-1] + f', "x-payment-config": {prices}}}').encode())
    assert isinstance(parsed, AgentCard)
    assert [item.amount for item in parsed.offers] == [Decimal("0.1000000000000000000000000000000001"), Decimal("0.3")]
    assert ("tolerated", "/x-payment-config/1/amount") in codes(parsed)


@pytest.mark.parametrize("key", ["depositPct", "slippagePct", "slippage"])
@pytest.mark.parametrize(
    ("value", "ok"),
    [(0, True), (1, True), (0.2, True), ("0.2", True), (1.01, False), (-1, False), ({}, False)],
)
def test_shares_are_from_0_to_1(key: str, value: Any, ok: bool) -> None:
    result = card([PRICE | {key: value}])
    share = result.offers[0].deposit_pct if key == "depositPct" else result.offers[0].slippage_pct
    assert share == (Decimal(str(value)) if ok else None)
    assert codes(result) == ([] if ok else [("offer-fraction", f"/x-payment-config/0/{key}")])


def test_the_older_publishers_words_are_read_and_named() -> None:
    older = {"id": "p", "currency": "BSV", "amount": 1, "skills": ["b"], "interval": None, "address": ""}
    result = card([older], "x-payment")
    assert result.offers[0].skill_ids == ("b",)
    assert codes(result) == [("tolerated", "/x-payment"), ("tolerated", "/x-payment/0/skills")]


def test_skill_ids_count_before_skills() -> None:
    assert offer(skillIds=["a"], skills=["b"]).skill_ids == ("a",)
    assert offer(skillIds=None, skills=["b"]).skill_ids == ("b",)
    assert offer(skillIds=[], skills=["b"]).skill_ids is None


def test_one_price_in_place_of_a_list_is_tolerated() -> None:
    result = card(PRICE)
    assert result.offers == card([PRICE]).offers
    assert codes(result) == [("tolerated", "/x-payment-config")]


def test_what_is_no_list_of_prices_is_ignored() -> None:
    for value in ("5 USD", 5, True):
        result = card(value)
        assert result.offers == ()
        assert codes(result) == [("wrong-type", "/x-payment-config")]
    assert codes(card([5, PRICE])) == [("wrong-type", "/x-payment-config/0")]


@pytest.mark.parametrize(
    ("params", "where"),
    [
        ({"configs": [PRICE]}, "/configs"),
        ({"x-payment-config": [PRICE]}, "/x-payment-config"),
        ([PRICE], ""),
        (PRICE, ""),
    ],
)
def test_prices_are_found_in_an_extensions_params(params: Any, where: str) -> None:
    unrelated = {"uri": "https://ap2.example", "params": {"configs": ["x"], "roles": ["merchant"]}}
    extensions = [unrelated, {"uri": "https://a2b.example/ext", "params": params}, None, 5]
    result = card(None, capabilities={"extensions": extensions})
    assert [item.id for item in result.offers] == ["p"]
    broken = json.loads(json.dumps(extensions).replace("0.05", "-1"))
    pointers = [pointer for code, pointer in codes(card(None, capabilities={"extensions": broken})) if "offer" in code]
    last = "/0/amount" if not isinstance(params, dict) or where else "/amount"
    assert pointers == [f"/capabilities/extensions/1/params{where}{last}"]


def test_the_member_of_the_specification_counts_when_two_members_differ() -> None:
    other = PRICE | {"amount": 7}
    both = card([PRICE], **{"x-payment": [other]})
    assert [item.amount for item in both.offers] == [Decimal("0.05")]
    assert codes(both) == [("offer-conflict", "/x-payment")]
    extension = {"capabilities": {"extensions": [{"uri": "u", "params": {"configs": [other]}}]}}
    assert codes(card([PRICE], **extension)) == [("offer-conflict", "/capabilities/extensions/0/params/configs")]


def test_a_signed_twin_that_says_the_same_is_no_conflict() -> None:
    twin = PRICE | {"currency": "USD", "skills": ["a"], "amount": "0.050"}
    del twin["skillIds"]
    for params in ({"configs": [twin]}, {"configs": [PRICE]}):
        extension = {"capabilities": {"extensions": [{"uri": "u", "params": params}]}}
        assert codes(card([PRICE], **extension)) == []
    assert codes(card([], **extension)) == [("offer-conflict", "/capabilities/extensions/0/params/configs")]


def test_skills_that_the_card_lacks_repeated_ids_and_fake_addresses_are_warned_of() -> None:
    result = card([PRICE | {"skillIds": ["a", "zzz"]}, PRICE | {"currency": "BSV", "address": "1Addr"}])
    assert result.offers[0].skill_ids == ("a", "zzz")
    assert codes(result) == [
        ("offer-skill", "/x-payment-config/0/skillIds/1"),
        ("address-checksum", "/x-payment-config/1/address"),
        ("offer-repeated", "/x-payment-config/1/id"),
    ]


def test_an_address_is_checked_wherever_bsv_is_taken() -> None:
    for accepted, warned in ((["BSV"], True), (["USD", "btc"], True), (["EUR"], False), ([], False)):
        result = card([PRICE | {"currency": "USD", "acceptedCurrencies": accepted, "address": "1Addr"}])
        assert codes(result) == ([("address-checksum", "/x-payment-config/0/address")] if warned else [])


def test_a_skill_beyond_those_indexed_is_not_called_missing() -> None:
    many = card([PRICE | {"skillIds": ["s299"]}], skills=[{"id": f"s{n}", "name": "S"} for n in range(300)])
    assert codes(many) == [("not-indexed", "/skills")]
    tools = {
        "command": "x",
        "tools": [f"t{n}" for n in range(300)],
        "x-payment-config": [PRICE | {"skillIds": ["t299"]}],
    }
    config = read(json.dumps({"mcpServers": {"s": tools}}).encode())
    assert isinstance(config, ToolConfig)
    assert codes(config.servers[0]) == [("not-indexed", "/mcpServers/s/tools")]


def test_the_first_64_prices_are_indexed() -> None:
    result = card([PRICE | {"id": f"p{n}"} for n in range(70)])
    assert len(result.offers) == 64
    assert codes(result) == [("not-indexed", "/x-payment-config")]


def test_meaning_survives_when_a_listing_has_more_text_than_is_indexed() -> None:
    """Intervals, currencies and skill references are not text to be cut: a monthly price must not become a call's."""
    skills = [{"id": "a", "name": "A", "description": "x" * 8000, "examples": ["y" * 8000] * 8}] + [
        {"id": f"s{n}", "name": "S", "description": "z" * 8000} for n in range(20)
    ]
    result = card([PRICE | {"interval": "month", "skillIds": ["s19"]}], skills=skills)
    assert (result.offers[0].interval_key, result.offers[0].skill_ids) == ("P1M", ("s19",))
    assert result.offers[0].accepted == ("USD", "BSV")
    assert [code for code, _ in codes(result)].count("not-indexed") == 1


def test_prices_of_a_tool_stand_in_its_entry_or_in_the_config() -> None:
    entry = {"command": "x", "tools": ["a"], "x-payment-config": [PRICE | {"id": "own"}]}
    config = read(
        json.dumps({"mcpServers": {"t": entry, "u": {"command": "y", "tools": ["a"]}}, "x-payment": [PRICE]}).encode()
    )
    assert isinstance(config, ToolConfig)
    assert [[item.id for item in server.offers] for server in config.servers] == [["own"], ["p"]]
    assert codes(config) == [("tolerated", "/x-payment")]
    assert codes(config.servers[0]) == codes(config.servers[1]) == []


def test_of_the_prices_of_a_config_each_server_has_those_for_its_tools() -> None:
    prices = [
        PRICE | {"id": "all", "skillIds": None},
        PRICE | {"id": "ab", "skillIds": ["a", "b"]},
        PRICE | {"id": "nobody", "skillIds": ["zzz"]},
    ]
    servers = {"t": {"command": "x", "tools": ["a"]}, "u": {"command": "y", "tools": [{"name": "b"}, "c"]}, "v": {}}
    config = read(json.dumps({"mcpServers": servers, "x-payment-config": prices}).encode())
    assert isinstance(config, ToolConfig)
    assert [[(item.id, item.skill_ids) for item in server.offers] for server in config.servers] == [
        [("all", None), ("ab", ("a",))],
        [("all", None), ("ab", ("b",))],
        [("all", None)],
    ]
    assert codes(config) == [("offer-skill", "/x-payment-config/2/skillIds/0")]
    lone = read(json.dumps({"mcpServers": {"t": servers["t"]}, "x-payment-config": prices[2:]}).encode())
    assert isinstance(lone, ToolConfig)
    assert lone.servers[0].offers[0].skill_ids == ("zzz",)


def test_one_skill_id_in_place_of_a_list_is_tolerated() -> None:
    result = card([PRICE | {"skillIds": "b"}])
    assert result.offers[0].skill_ids == ("b",)
    assert codes(result) == [("tolerated", "/x-payment-config/0/skillIds")]


def test_currencies_and_skills_of_a_price_are_bounded() -> None:
    tickers = [f"C{n}" for n in range(100)]
    skills = [{"id": f"s{n}", "name": "S"} for n in range(200)]
    ids = [skill["id"] for skill in skills] * 2
    result = card([PRICE | {"acceptedCurrencies": [None, 5, *tickers], "skillIds": ids}], skills=skills)
    assert result.offers[0].accepted == ("USD", *tickers[:15])
    assert result.offers[0].skill_ids == tuple(ids[:200])
    assert codes(result) == [
        ("ignored", "/x-payment-config/0/acceptedCurrencies/0"),
        ("ignored", "/x-payment-config/0/acceptedCurrencies/1"),
        ("not-indexed", "/x-payment-config/0/acceptedCurrencies"),
        ("not-indexed", "/x-payment-config/0/skillIds"),
    ]


def test_a_skill_id_of_any_length_still_names_its_skill() -> None:
    long = "\0" + "x" * 9000
    result = card([PRICE | {"skillIds": [long]}], skills=[{"id": long, "name": "L"}])
    assert result.offers[0].skill_ids == (result.skills[0].id,)
    assert len(result.skills[0].id.encode()) == 8192
    assert "offer-skill" not in dict(codes(result))
    assert card([PRICE | {"skillIds": ["\0"]}]).offers[0].skill_ids == ("\ufffd",)
