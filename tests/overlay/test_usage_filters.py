"""Listings are found by how they are used: where they run, what they need, and whether they have a price."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from overlay.api.problems import BadRequestError
from overlay.api.search_request import from_pairs
from tests.chainkit import agent, tool
from tests.overlay.test_unconfirmed import UnconfirmedRegistry

PRICE = [
    {"id": "call", "amount": 1, "currency": "BSV", "address": "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"},
    {"id": "trial", "amount": 0, "currency": "USD", "interval": "P1D"},
    {"id": "year", "amount": 9, "currency": "USD", "interval": "P1Y", "address": "by letter"},
]
CARDS = {
    "clock": (tool("clock", command="npx", args=["-y", "clock"], env={"CLOCK_TOKEN": "your token"}), "a2b-mcp"),
    "map": ({"mcpServers": {"map": {"url": "https://map.example/mcp", "type": "http"}}}, "a2b-mcp"),
    "home": ({"mcpServers": {"home": {"url": "http://localhost:80/mcp"}}}, "a2b-mcp"),
    "echo": (agent("echo", protocolVersion="0.3.0", capabilities={"streaming": True}), "a2b-agent"),
    "bank": (agent("bank", **{"x-payment-config": PRICE}, capabilities={"streaming": False}), "a2b-agent"),
    "open": (agent("open", securitySchemes={}, security=[], pricing="ask"), "a2b-agent"),
}


@pytest.fixture(params=["native", "whoosh"])
async def registry(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[UnconfirmedRegistry]:
    with UnconfirmedRegistry(tmp_path, request.param) as created:
        created.mine(*(created.kit.inscribe(card, kind) for card, kind in CARDS.values()))
        await created.look()
        yield created


def names_of(registry: UnconfirmedRegistry, **parameters: str) -> set[str]:
    query = from_pairs(parameters.items(), {}).query
    return {item["name"] for item in registry.ask(**query._asdict())}


async def test_each_way_of_use_is_a_filter(registry: UnconfirmedRegistry) -> None:
    assert names_of(registry, access="local") == {"clock"}
    assert names_of(registry, access="remote,local") == {"clock", "map", "echo", "bank", "open"}
    assert names_of(registry, runnable="false") == {"home"}
    assert names_of(registry, transport="streamable-http") == {"map"}
    assert names_of(registry, transport="stdio,jsonrpc") == {"clock", "echo"}
    assert names_of(registry, auth="key") == {"clock"}
    assert names_of(registry, auth="none") == {"open"}
    assert names_of(registry, protocol="0.3") == {"echo"}
    assert names_of(registry, launcher="NPX") == {"clock"}
    assert names_of(registry, launcher="npx", type="agent") == set()


async def test_the_command_and_names_of_variables_are_excluded_but_not_found(registry: UnconfirmedRegistry) -> None:
    assert "clock" not in names_of(registry, q="npx")
    for word in ("-npx", "-NPX", "-tokens", "-clock_token", '-"clock"'):
        assert names_of(registry, q=word) == CARDS.keys() - {"clock"}, word
    assert "clock" in names_of(registry, q='clock -docker -your -"clock npx"')


async def test_what_a_card_does_not_say_is_neither_true_nor_false(registry: UnconfirmedRegistry) -> None:
    assert names_of(registry, streaming="true") == {"echo"}
    assert names_of(registry, streaming="false") == {"bank"}
    assert names_of(registry, hasPrice="true") == {"bank"}
    assert names_of(registry, hasPrice="false") == {"clock", "map", "home", "echo"}


async def test_one_offer_is_free_or_can_be_paid(registry: UnconfirmedRegistry) -> None:
    assert names_of(registry, free="true") == names_of(registry, free="false") == {"bank"}
    assert names_of(registry, free="true", acceptedCurrency="BSV") == set(), "another offer is free"
    assert names_of(registry, free="false", interval="P1D") == set()
    assert names_of(registry, free="true", payable="true", interval="P1D") == {"bank"}
    assert names_of(registry, payable="true", interval="P1Y") == set()
    assert names_of(registry, payable="false", free="false", interval="P1Y", maxPrice="9") == {"bank"}
    assert names_of(registry, free="true", minPrice="1") == set()


async def test_a_facet_counts_what_its_filter_would_find(registry: UnconfirmedRegistry) -> None:
    names = ("access", "transport", "auth", "protocol", "launcher")
    query = from_pairs([("facets", ",".join(names)), ("access", "local")], {}).query
    facets = registry.engine.search(query).facets or {}
    assert {name: dict(values) for name, values in facets.items()} == {
        "access": {"remote": 4, "local": 1}, "transport": {"stdio": 1}, "auth": {"key": 1}, "protocol": {},
        "launcher": {"npx": 1},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "would_be_right"),
    [
        ("access", "cloud", "remote, local"),
        ("transport", "http", "stdio, streamable-http, sse, jsonrpc, rest, grpc"),
        ("auth", "bearer", "none, key, oauth, payment"),
        ("protocol", "2.0", "0.2, 0.3, 1.0"),
        ("launcher", "make", "npx, npm, pnpm"),
        ("minCustomers", "0", "between 1 and 256"),
        ("minCustomers", "257", "between 1 and 256"),
        ("streaming", "maybe", "neither true nor false"),
    ],
)
def test_a_refused_value_says_what_would_be_right(name: str, value: str, would_be_right: str) -> None:
    with pytest.raises(BadRequestError) as refused:
        from_pairs([(name, value)], {})
    [fault] = refused.value.faults
    assert fault.parameter == name
    assert would_be_right in fault.detail
