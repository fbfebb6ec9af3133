"""A listing as a model reads it: what decides comes first, what is not stated is absent, and a page is short."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from overlay.listings.item_json import card_fields, cheapest_json
from overlay.systems.mcp.listing_forms import compact, listing, question_words, result
from overlay.text.compact_json import encode
from parsers.cards import AgentCard, ToolConfig, examine

ID = "d2563ca67be157bfda8e5715e0051400701e972809eaf9b74ea8c8afa7cad682_40"
HEAD = {
    "id": ID, "type": "tool", "status": "live", "domain": None, "rating": None, "chain": "bsv", "caip2": "bsv:mainnet",
    "outpoint": ID, "origin": ID, "owner": None, "txid": ID[:64], "app": "", "cardSha256": ID[:64],
    "integrity": "inscribed", "anchors": [], "updatedHeight": 900_000, "createdHeight": 900_000, "timestamp": None,
}  # fmt: skip


def items(value: Any) -> Iterator[dict[str, Any]]:
    """The items of a card as a search answers them."""
    card = examine(json.dumps(value).encode()).card
    shown = card.servers if isinstance(card, ToolConfig) else (card,) if isinstance(card, AgentCard) else ()
    for single in shown:
        kind = "agent" if isinstance(single, AgentCard) else "tool"
        yield HEAD | card_fields(single) | {"type": kind, "cheapest": cheapest_json(single.offers), "score": 1.0}


def item(value: Any, **members: Any) -> dict[str, Any]:
    (single,) = items(value)
    return single | members


def config(**entry: Any) -> dict[str, Any]:
    return {"mcpServers": {"jira": {"description": "Reads issues.", **entry}}}


def agent(*skills: str, **members: Any) -> dict[str, Any]:
    return {"name": "Echo", "url": "https://echo.example/", "skills": [{"id": skill} for skill in skills], **members}


def test_a_tool_shows_its_command_line_or_its_url_and_whether_it_can_be_used() -> None:
    by_command = result(item(config(command="npx", args=["-y", "jira-mcp@1.2.0", "a b"])))
    assert (by_command["runnable"], by_command["commandLine"]) == (True, "npx -y jira-mcp@1.2.0 'a b'")
    remote = result(item(config(url="https://jira.example/mcp")))
    assert (remote["runnable"], remote["url"]) == (True, "https://jira.example/mcp")
    assert "commandLine" not in remote
    assert result(item(config(url="http://localhost:3000/mcp")))["runnable"] is False
    assert result(item(config()))["runnable"] is False


def test_a_long_command_line_is_cut_so_that_nobody_runs_the_part() -> None:
    line = result(item(config(command="npx", args=["x" * 600])))["commandLine"]
    assert line.endswith("x…")
    assert len(line) == 501


def test_what_a_card_does_not_state_is_absent_and_what_it_states_stays() -> None:
    form = listing(item(config(command="npx", args=["-y", ""])))
    assert not {"env", "headers", "tools", "skills", "offers", "url", "rating", "domain"} & form.keys()
    assert form["args"] == ["-y", ""]
    assert listing(item(config(command="npx", env={"TOKEN": "", "SITE": "its URL"})))["env"] == {
        "TOKEN": "", "SITE": "its URL",
    }  # fmt: skip
    assert compact({"a": {"b": [], "c": {"d": None}}, "e": 0, "f": False, "g": [{}, {"h": ""}]}) == {
        "e": 0, "f": False, "g": [{}, {}],
    }  # fmt: skip


def test_an_offer_says_that_it_is_per_call() -> None:
    (offer,) = listing(item(agent("a", **{"x-payment-config": {"id": "p", "currency": "BSV", "amount": 1}})))["offers"]
    assert offer == {"id": "p", "currency": "BSV", "amount": "1", "interval": "none", "acceptedCurrencies": ["BSV"]}


def test_skills_that_match_are_shown_and_five_others_are_named() -> None:
    skills = ["translate", *(f"skill-{number}" for number in range(9))]
    form = result(item(agent(*skills)), question_words("please translate documents"))
    assert form["skills"] == [{"id": "translate"}]
    assert form["otherSkills"] == skills[1:6]
    assert form["skillCount"] == 10
    none_matches = result(item(agent("a", "b")), question_words("translating"))
    assert none_matches["otherSkills"] == ["a", "b"]
    assert not {"skills", "skillCount"} & none_matches.keys()


def test_prices_are_a_few_words_each_the_cheapest_first() -> None:
    prices = [
        {"id": "year", "currency": "USD", "amount": 90, "interval": "P1Y"},
        {"id": "call", "currency": "USD", "amount": "0.10", "acceptedCurrencies": ["USD", "BSV"]},
        *({"id": f"p{number}", "currency": "USD", "amount": 500} for number in range(4)),
    ]
    form = result(item(agent("a", **{"x-payment-config": prices})))
    assert list(form["prices"].items()) == [
        ("call", "0.1 USD per call, also paid in BSV"), ("year", "90 USD per year"), ("p0", "500 USD per call"),
    ]  # fmt: skip
    assert form["offerCount"] == 6
    assert "cheapest" not in form
    converted = {"offerId": "call", "amount": "0.1", "converted": {"amount": "0.002", "currency": "BSV"}}
    assert result(item(agent("a"), cheapest=converted))["cheapest"] == converted


def test_warnings_are_codes_severe_ones_have_their_details_and_older_listings_come_once() -> None:
    older = [
        {"code": code, "severity": "low", "pointer": "", "detail": f"another listing had this before: {ID}{ending}"}
        for code, ending in (("same-name", ""), ("same-text", ", of the same owner; in your name?"))
    ]
    others = [
        {"code": "unpinned", "severity": "low", "pointer": "/args", "detail": "the newest version is run"},
        {"code": "env-value", "severity": "info", "pointer": "/env", "detail": "this one looks like a value"},
        {"code": "pipe-to-shell", "severity": "high", "pointer": "/args", "detail": "it runs what it downloads"},
    ]
    form = result(item(config(command="sh"), warnings=[*others, *older]))
    assert form["warnings"] == ["unpinned", "pipe-to-shell: it runs what it downloads"]
    assert form["earlier"] == {ID: "name, text"}


@pytest.mark.parametrize(
    ("domain", "shown"),
    [
        ({"host": "a.example", "verified": False, "checkedAt": None}, None),
        (
            {"host": "a.example", "verified": False, "checkedAt": "2026-11-30T00:00:00Z"},
            {"host": "a.example", "checkedAt": "2026-11-30T00:00:00Z", "badge": False},
        ),
        (
            {"host": "a.example", "verified": True, "checkedAt": "2026-11-30T00:00:00Z", "by": "dns"},
            {"host": "a.example", "checkedAt": "2026-11-30T00:00:00Z", "badge": "dns"},
        ),
        (
            {"host": "a.example", "verified": True, "checkedAt": "2026-11-30T00:00:00Z"},
            {"host": "a.example", "checkedAt": "2026-11-30T00:00:00Z", "badge": "hash"},
        ),
    ],
)
def test_a_domain_says_how_its_host_confirms_the_listing(domain: dict[str, Any], shown: dict[str, Any] | None) -> None:
    assert result(item(agent("a"), domain=domain)).get("domain") == shown
    assert listing(item(agent("a"), domain=domain))["domain"] == (shown or {"host": "a.example"})


@pytest.mark.parametrize(
    ("file", "member", "limit"),
    [("a2b-mcp-payloads", "payload", 5_000), ("a2b-agent-cards-synthetic-pricing", "card", 8_000)],
)
def test_ten_real_results_are_short(shared: Path, file: str, member: str, limit: int) -> None:
    """Each is a result of a search for its own name."""
    with (shared / "data" / f"{file}.jsonl").open() as lines:
        real = [single for line in lines for single in items(json.loads(line)[member])]
    sizes = [len(encode(result(single, question_words(single["name"])))) + 1 for single in real]
    page = len('{"notice":"","items":[],"total":10000,"matched":10000,"nextCursor":""}') + 220 + 120
    assert 10 * mean(sizes) + page <= limit
