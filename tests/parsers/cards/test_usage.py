"""How a listing is used follows from its card alone; what a card does not state is absent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.cards import AgentCard, McpServer, ToolConfig, examine
from parsers.cards.usage import ACCESS, AUTH, LAUNCHERS, PROTOCOLS, TRANSPORTS, UNSTATED, Usage, usage_of

AGENT = {"name": "A", "url": "https://a.example/", "skills": [{"id": "a"}]}
FILE = {"type": "https://eips.ethereum.org/EIPS/eip-8004#registration-v1", "name": "A"}
PRICE = {"id": "p", "amount": 1, "currency": "BSV"}


def listed(card: dict[str, Any]) -> tuple[AgentCard | McpServer, ...]:
    checked = examine(json.dumps(card).encode(), entry="eip155:1:0x" + "ab" * 20 + "/1" if "type" in card else "")
    assert isinstance(checked.card, AgentCard | ToolConfig)
    return checked.card.servers if isinstance(checked.card, ToolConfig) else (checked.card,)


def agent(**more: Any) -> Usage:
    return usage_of(listed({**AGENT, **more})[0])


def tool(**entry: Any) -> Usage:
    return usage_of(listed({"mcpServers": {"one": entry}})[0])


def test_a_small_card_states_its_url_and_nothing_else() -> None:
    assert agent() == UNSTATED._replace(access=("remote",), has_price=False)


@pytest.mark.parametrize(
    ("entry", "access", "transports"),
    [
        ({"command": "npx", "args": ["-y", "x"]}, ("local",), ("stdio",)),
        ({"url": "https://a.example/mcp"}, ("remote",), ()),
        ({"url": "https://a.example/mcp", "type": "http"}, ("remote",), ("streamable-http",)),
        ({"url": "https://a.example/sse", "transport": "sse", "command": "x"}, ACCESS, ("stdio", "sse")),
        ({"command": "supergateway", "transport": "sse"}, ("local",), ("sse",)),
        ({"url": "http://localhost:3000/mcp"}, (), ()),
        ({"url": "http://192.168.1.2/mcp"}, (), ()),
        ({"url": "https://{tenant}.a.example/mcp"}, (), ()),
        ({"url": "https://tools/mcp"}, (), ()),
        ({"url": "https://192.0.2.1:8080/mcp"}, ("remote",), ()),
        ({"url": "https://[2001:db8::1]/mcp"}, ("remote",), ()),
        ({"url": "https://[::1]/mcp"}, (), ()),
        ({"url": "https://[x"}, (), ()),
        ({"url": "file:///etc/passwd"}, (), ()),
        ({"url": "https://bücher.example/mcp"}, ("remote",), ()),
    ],
)
def test_a_tool_runs_here_or_is_reached(
    entry: dict[str, Any], access: tuple[str, ...], transports: tuple[str, ...]
) -> None:
    usage = tool(**entry)
    assert (usage.access, usage.transports) == (access, transports)


@pytest.mark.parametrize(
    ("command", "args", "launcher"),
    [
        ("npx", ["-y", "x"], "npx"),
        ("cmd", ["/c", "npx", "-y", "x"], "npx"),
        ("/usr/local/bin/uvx", ["x"], "uvx"),
        ("python3.11", ["-m", "x"], "python"),
        ("docker", ["run", "-i", "x"], "docker"),
        ("npm", ["exec", "x"], "npm"),
        ("./npx", ["x"], None),
        ("my-server", [], None),
        ("bash", ["-c", "npx x | tee log"], None),
    ],
)
def test_a_tool_is_started_by_a_program(command: str, args: list[str], launcher: str | None) -> None:
    assert tool(command=command, args=args).launchers == ((launcher,) if launcher else ())


@pytest.mark.parametrize(
    ("members", "auth"),
    [
        ({}, ()),
        ({"securitySchemes": {}}, ()),
        ({"securitySchemes": {}, "security": []}, ("none",)),
        (
            {"securitySchemes": {"k": {"type": "apiKey", "in": "header", "name": "X"}}, "security": [{"k": []}]},
            ("key",),
        ),
        (
            {"securitySchemes": {"k": {"type": "http", "scheme": "bearer"}}, "security": [{}, {"k": []}]},
            ("none", "key"),
        ),
        ({"securitySchemes": {"o": {"type": "oauth2"}, "i": {"type": "openIdConnect"}}}, ("oauth",)),
        ({"securitySchemes": {"k": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}}, ("key",)),
        ({"securitySchemes": [{"type": "apiKey"}]}, ("key",)),
        ({"securitySchemes": {"m": {"type": "mutualTLS"}, "n": 1, "e": {}}, "security": "x"}, ()),
        ({"authentication": {"schemes": ["Bearer", "x402", 5]}}, ("key", "payment")),
        ({"authentication": {"schemes": ["none"]}}, ("none",)),
        ({"authentication": {"description": "a key"}}, ()),
        (
            {"capabilities": {"extensions": [{"uri": "https://github.com/google-a2a/a2a-x402/v0.1"}, {"uri": "x402"}]}},
            ("payment",),
        ),
    ],
)
def test_an_agent_says_what_a_client_needs(members: dict[str, Any], auth: tuple[str, ...]) -> None:
    assert agent(**members).auth == auth


def test_a_tool_needs_a_key_where_a_header_or_variable_is_named_so() -> None:
    assert tool(url="https://a.example/", headers={"Authorization": "Bearer YOUR_TOKEN"}).auth == ("key",)
    assert tool(command="npx", env={"GITHUB_TOKEN": "your token"}).auth == ("key",)
    assert tool(command="npx", env={"LOG_LEVEL": "info"}).auth == ()


@pytest.mark.parametrize(
    ("members", "transports", "protocols"),
    [
        ({"protocolVersion": "0.3.0"}, ("jsonrpc",), ("0.3",)),
        ({"protocolVersion": "0.3.0", "preferredTransport": "HTTP+JSON"}, ("rest",), ("0.3",)),
        (
            {
                "protocolVersion": "0.3.0",
                "preferredTransport": "GRPC",
                "additionalInterfaces": [{"url": "https://a.example/json", "transport": "JSONRPC"}],
            },
            ("jsonrpc", "grpc"),
            ("0.3",),
        ),
        (
            {
                "supportedInterfaces": [
                    {"url": "https://a.example/1", "protocolBinding": "JSONRPC", "protocolVersion": "1.0.1"},
                    {"url": "https://a.example/0", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
                ]
            },
            ("jsonrpc",),
            ("0.3", "1.0"),
        ),
        ({"supportedInterfaces": [{"url": "https://a.example/1"}]}, (), ("1.0",)),
        ({"preferredTransport": "smoke signals"}, (), ("0.3",)),
    ],
)
def test_an_agent_states_transports_and_versions(
    members: dict[str, Any], transports: tuple[str, ...], protocols: tuple[str, ...]
) -> None:
    usage = agent(**members)
    assert (usage.transports, usage.protocols) == (transports, protocols)


def test_a_registration_file_states_versions_and_payment() -> None:
    services = [
        {"name": "web", "endpoint": "https://a.example/", "version": "1.0"},
        {"name": "A2A", "endpoint": "https://a.example/card.json", "version": "0.3.0"},
    ]
    [card] = listed({**FILE, "services": services, "x402Support": True})
    assert usage_of(card) == Usage(("remote",), (), ("payment",), ("0.3",), has_price=False)


@pytest.mark.parametrize(("value", "streaming"), [(True, True), (False, False), (None, None), ("yes", None)])
def test_an_agent_streams_where_it_says_so(value: object, streaming: bool | None) -> None:
    assert agent(capabilities={"streaming": value}).streaming is streaming


@pytest.mark.parametrize(
    ("members", "has_price"),
    [
        ({"x-payment-config": [PRICE]}, True),
        ({"x-payment-config": [PRICE, {"id": "q"}]}, True),
        ({"x-payment-config": []}, False),
        ({"x-payment-config": [{**PRICE, "amount": "much"}]}, None),
        ({"x-payment-config": "1 BSV"}, None),
        ({"pricing": {"model": "free"}}, None),
        ({"tags": "wrong"}, False),
    ],
)
def test_a_price_that_cannot_be_read_is_neither_there_nor_missing(
    members: dict[str, Any], has_price: bool | None
) -> None:
    assert agent(**members).has_price is has_price


def test_a_price_of_a_config_is_one_of_its_servers() -> None:
    broken = {"mcpServers": {"a": {"command": "npx"}, "b": {"command": "uvx"}}, "x-payment-config": [{"amount": 1}]}
    checked = examine(json.dumps(broken).encode())
    assert isinstance(checked.card, ToolConfig)
    assert [usage_of(server, checked.card.warnings).has_price for server in checked.card.servers] == [None, None]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=12,
)
MEMBERS = ("securitySchemes", "security", "securityRequirements", "authentication", "capabilities", "url",
           "supportedInterfaces", "preferredTransport", "protocolVersion")  # fmt: skip


@given(st.dictionaries(st.sampled_from(MEMBERS), json_values))
def test_whatever_a_card_says_is_one_of_the_values_that_filters_take(members: dict[str, Any]) -> None:
    checked = examine(json.dumps({**AGENT, **members}).encode())
    if not isinstance(checked.card, AgentCard):
        return
    usage = usage_of(checked.card)
    for stated, values in zip(usage[:5], (ACCESS, TRANSPORTS, AUTH, PROTOCOLS, LAUNCHERS), strict=True):
        assert set(stated) <= set(values)
