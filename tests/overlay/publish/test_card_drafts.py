"""Where a card begins: an example, a few fields, or what a host serves, a `server.json` among that."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.listings.card_check import check
from overlay.publish.card_drafts import EXAMPLE, FIELDS, card_of_document, card_of_fields
from overlay.systems.mcp_registry.server_json import server_json
from parsers.cards import Kind, ToolConfig, read
from parsers.cards.command_packages import installed
from parsers.cards.official_server import config_of
from tests.conftest import ROOT


def test_the_example_is_listed_without_a_warning_and_is_that_of_the_docs() -> None:
    text = card_of_fields(EXAMPLE)
    review = check(text.encode())
    assert (review["ok"], review["errors"], review["warnings"]) == (True, [], [])
    docs = (ROOT / "docs" / "publishing.md").read_text()
    assert json.loads(docs.partition("```json\n")[2].partition("```")[0]) == json.loads(text)


def test_a_price_is_a_number_and_has_a_currency_that_can_be_paid() -> None:
    card = json.loads(card_of_fields({**EXAMPLE, "amount": "2.50", "currency": "eur", "interval": "month"}))
    assert card["x-payment-config"] == [
        {"id": "basic", "amount": 2.5, "currency": "EUR", "acceptedCurrencies": ["BSV"], "interval": "month",
         "address": EXAMPLE["address"]},
    ]  # fmt: skip
    assert "x-payment-config" not in json.loads(card_of_fields({**EXAMPLE, "amount": ""}))
    with pytest.raises(ValueError, match="is not a number"):
        card_of_fields({**EXAMPLE, "amount": "much"})


@given(st.dictionaries(st.sampled_from(sorted(FIELDS)), st.text(max_size=20)))
def test_any_fields_make_a_card_or_name_the_fault(fields: dict[str, str]) -> None:
    try:
        card = json.loads(card_of_fields(fields))
    except ValueError as fault:
        assert "is not a number" in str(fault)  # noqa: PT017
    else:
        assert card["skills"][0]["id"]


PACKAGE = {"registryType": "npm", "identifier": "@a/clock", "version": "1.2.0", "transport": {"type": "stdio"}}
VARIABLES = [{"name": "KEY", "description": "the key", "isSecret": True}]
SERVER = {"name": "io.github.a/clock", "description": "Tells the time", "version": "1.2.0"}


@pytest.mark.parametrize(
    ("more", "entry"),
    [
        (
            {"packages": [PACKAGE | {"environmentVariables": VARIABLES}]},
            {"command": "npx", "args": ["-y", "@a/clock@1.2.0"], "env": {"KEY": "the key"}},
        ),
        (
            {"packages": [{"registryType": "mcpb", "identifier": "https://x"}, PACKAGE | {"registryType": "pypi"}]},
            {"command": "uvx", "args": ["@a/clock@1.2.0"]},
        ),
        (
            {"packages": [{"registryType": "oci", "identifier": "ghcr.io/a/clock:1", "version": "2",
                           "environmentVariables": VARIABLES}]},
            {"command": "docker", "args": ["run", "-i", "--rm", "-e", "KEY", "ghcr.io/a/clock:1"],
             "env": {"KEY": "the key"}},
        ),
        (
            {"packages": [PACKAGE | {"packageArguments": [
                {"type": "named", "name": "--zone", "value": "utc"}, {"type": "positional", "valueHint": "folder"},
                {"type": "positional", "value": "now"},
            ]}]},
            {"command": "npx", "args": ["-y", "@a/clock@1.2.0", "--zone", "utc", "now"]},
        ),
        (
            {"remotes": [{"type": "streamable-http", "url": "https://a.example/mcp", "headers": VARIABLES}],
             "packages": [PACKAGE]},
            {"url": "https://a.example/mcp", "type": "streamable-http", "headers": {"KEY": "the key"}},
        ),
    ],
)  # fmt: skip
def test_a_server_json_becomes_a_config(more: dict[str, Any], entry: dict[str, Any]) -> None:
    expected = {"mcpServers": {"clock": {"description": "Tells the time", "version": "1.2.0", **entry}}}
    assert config_of(SERVER | more) == expected
    assert json.loads(card_of_document(json.dumps({"server": SERVER | more, "_meta": {}}).encode())) == expected
    assert check(json.dumps(expected).encode())["ok"]


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "npx", "args": ["-y", "@a/clock@1.2.0"], "env": {"KEY": "the key"}},
        {"command": "uvx", "args": ["clock"]},
        {"url": "https://a.example/mcp", "type": "sse"},
    ],
)
def test_what_the_registry_view_writes_leads_to_the_same_package_or_url(entry: dict[str, Any]) -> None:
    config = read(json.dumps({"mcpServers": {"clock": {"description": "Tells the time", **entry}}}).encode(), Kind.TOOL)
    assert isinstance(config, ToolConfig)
    (server,) = config.servers
    again = config_of(server_json("io.github.a/clock", "1.2.0", server))
    assert again is not None
    result = again["mcpServers"]["clock"]
    assert result.get("url", "") == server.url
    package, former = (
        installed(result.get("command", ""), result.get("args", [])),
        installed(server.command, server.args),
    )
    assert (package and package.name) == (former and former.name)


@given(st.recursive(
    st.none() | st.booleans() | st.text(max_size=6) | st.integers(),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(
        st.sampled_from(["name", "packages", "remotes", "url", "identifier", "registryType", "value", "server"]),
        part, max_size=5,
    ),
))  # fmt: skip
def test_any_json_is_a_config_or_none(value: Any) -> None:
    config = config_of(value)
    assert config is None or list(config) == ["mcpServers"]


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"\xff", b'{"name": "A"'])
def test_what_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="it serves no card"):
        card_of_document(body)
