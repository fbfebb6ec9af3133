"""ERC-8004 registration files as cards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers import cards
from parsers.cards import AgentCard, Kind, McpServer, ToolConfig
from parsers.errors import CardError
from parsers.pointers.erc8004 import InlineFile, Registered, UriUpdated, read_log, read_uri
from parsers.reasons import SENTENCES
from tests.registry_kit import MAINNET, file

ENTRY = f"eip155:1:{MAINNET}/22"


def read(content: Any) -> cards.Card:
    return cards.read(json.dumps(content).encode(), entry=ENTRY)


def agent(content: Any) -> AgentCard:
    parsed = read(content)
    assert isinstance(parsed, AgentCard)
    return parsed


def tool(content: Any) -> McpServer:
    parsed = read(content)
    assert isinstance(parsed, ToolConfig)
    return parsed.servers[0]


def codes(card: AgentCard | McpServer) -> list[str]:
    assert all(warning.sentence and warning.code in SENTENCES for warning in card.warnings)
    return [warning.code for warning in card.warnings]


def test_a_file_with_an_a2a_service_is_an_agent_with_all_its_services() -> None:
    result = agent(file(supportedTrust=["reputation"], x402Support=True, registrations=[
        {"agentId": 22, "agentRegistry": "eip155:1:0x8004A169FB4a3325136EB29fA0ceB6D2e539a432"},
    ]))  # fmt: skip
    assert (result.name, result.description) == ("Weather Agent", "Weather Agent tells what the sky will do.")
    assert (result.protocol, result.logo) == ("ERC-8004", "https://weather.example/logo.png")
    assert result.url == "https://weather.example/.well-known/agent-card.json"
    assert result.interfaces == (
        {"url": result.url, "protocolBinding": "A2A", "protocolVersion": "0.3.0"},
        {"url": "https://weather.example/mcp", "protocolBinding": "MCP", "protocolVersion": "2025-06-18"},
    )
    assert [skill.id for skill in result.skills] == ["forecast", "get_forecast"]
    assert result.tags == ("reputation", "x402")
    assert codes(result) == []


def test_a_file_whose_only_protocol_is_mcp_is_a_tool() -> None:
    result = tool(file(services=[
        {"name": "web", "endpoint": "https://sky.example"},
        {"name": "mcp", "endpoint": "https://sky.example/mcp", "version": "2025-06-18", "mcpTools": ["rain", "wind"],
         "mcpPrompts": ["ask", "ask", {"name": "tell"}, 5], "mcpResources": ["maps"]},
        {"name": "OASF", "endpoint": "https://oasf.example", "skills": ["weather/rain"], "domains": ["nature"]},
    ]))  # fmt: skip
    assert (result.key, result.name, result.url) == ("Weather Agent", "Weather Agent", "https://sky.example/mcp")
    assert (result.tools, result.prompts, result.resources) == (("rain", "wind"), ("ask", "tell"), ("maps",))
    assert [skill.id for skill in result.skills] == ["rain", "wind", "weather/rain"]
    assert result.tags == ("nature",)
    assert cards.server_id(ENTRY, result.key, 1) == ENTRY


@pytest.mark.parametrize("endpoint", ["https://github.com/agntcy/oasf/", "https://schema.oasf.example", "", None])
@pytest.mark.parametrize("name", ["OASF", "oasf"])
def test_an_entry_of_a_taxonomy_names_skills_and_domains_and_no_endpoint(name: str, endpoint: str | None) -> None:
    taxonomy = {"name": name, "endpoint": endpoint, "version": "v0.8.0", "skills": ["a/b"], "domains": ["c/d"]}
    email = {"name": "email", "endpoint": "me@a.example"}
    alone = agent(file(services=[taxonomy, email]))
    assert (alone.url, alone.interfaces, codes(alone)) == ("", (), [])
    assert ([skill.id for skill in alone.skills], alone.tags) == (["a/b"], ("c/d",))
    other = agent(file(services=[taxonomy, {"name": "x402 API", "endpoint": "https://pay.example/api"}]))
    assert [other.url] == [interface["url"] for interface in other.interfaces] == ["https://pay.example/api"]
    assert agent(file(services=[taxonomy], external_url="https://own.example")).url == "https://own.example"


def test_no_real_agent_is_called_at_the_taxonomy_of_its_skills(shared: Path) -> None:
    logs = json.loads((shared / "data" / "erc8004-mainnet-event-logs.json").read_text())
    classified = 0
    for log in logs["registeredLogs"] + logs["uriUpdatedLogs"]:
        record = read_log([bytes.fromhex(topic[2:]) for topic in log["topics"]], bytes.fromhex(log["data"][2:]))
        assert isinstance(record, Registered | UriUpdated)
        carried = read_uri(record.uri)
        card = cards.examine(carried.body, entry=ENTRY).card if isinstance(carried, InlineFile) else None
        if isinstance(card, AgentCard) and b"github.com/agntcy/oasf" in carried.body:
            classified += 1
            addresses = [card.url, *(interface["url"] for interface in card.interfaces)]
            assert not [address for address in addresses if "agntcy/oasf" in address]
    assert classified > 20


def test_older_files_call_services_endpoints() -> None:
    content = file()
    content["endpoints"] = content.pop("services")
    assert agent(content).interfaces == agent(file()).interfaces
    assert codes(agent(content)) == ["tolerated"]
    assert len(agent(file(endpoints=[])).interfaces) == 2


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"type": None}, ["missing"]),
        ({"type": "https://eips.ethereum.org/EIPS/eip-8004#registration"}, ["tolerated"]),
        ({"description": None, "image": None}, ["missing", "missing"]),
        ({"services": None}, ["missing"]),
        ({"services": {"web": []}}, ["wrong-type"]),
        ({"services": [5, {"name": "web"}, {"endpoint": "https://a.example"}]}, ["wrong-type", "missing"]),
        ({"active": False}, ["inactive"]),
        ({"services": [{"name": "web", "endpoint": "http://10.0.0.7/"}]}, ["url-local"]),
        ({"image": "data:image/png;base64," + "A" * 9000}, ["not-indexed"]),
        ({"services": [{"endpoint": f"https://a.example/{n}"} for n in range(70)]}, ["not-indexed"]),
        ({"registrations": [{"agentId": 23, "agentRegistry": f"eip155:1:{MAINNET}"}]}, ["entry-unnamed"]),
        ({"registrations": [{"agentId": None, "agentRegistry": f"eip155:1:{MAINNET}"}, 7]}, []),
        ({"registrations": "mine", "supportedTrust": [1]}, ["wrong-type"]),
    ],
)
def test_what_a_file_could_do_better_is_a_warning(members: dict[str, Any], expected: list[str]) -> None:
    result = agent(file(**members))
    assert result.name == "Weather Agent"
    assert codes(result) == expected


@pytest.mark.parametrize("name", [None, "", "  ", 5])
def test_a_file_without_a_name_is_refused(name: object) -> None:
    with pytest.raises(CardError) as refused:
        read(file() | {"name": name})
    assert [reason.code for reason in refused.value.reasons] == ["card-name"]


def test_the_url_is_that_of_a2a_then_of_the_web_then_of_any_service_then_the_files_own() -> None:
    web, email = {"name": "Web", "endpoint": "https://a.example"}, {"name": "email", "endpoint": "a@a.example"}
    git, a2a = {"name": "git", "endpoint": "git://a.example"}, {"name": "a2a", "endpoint": "https://a.example/a2a"}
    assert agent(file(services=[email, git, web, a2a])).url == "https://a.example/a2a"
    assert agent(file(services=[email, git, web])).url == "https://a.example"
    assert agent(file(services=[email, git])).url == "git://a.example"
    assert agent(file(services=[email], url="https://own.example")).url == "https://own.example"
    assert agent(file(services=[email], url="nonsense")).url == ""
    assert agent(file(services=[email, git])).interfaces == ({"url": "git://a.example", "protocolBinding": "git"},)


def test_skills_may_be_objects_and_are_listed_once() -> None:
    service = {"name": "A2A", "endpoint": "https://a.example", "skills": [
        {"id": "a", "name": "Alpha", "description": "First"}, {"name": "b"}, "a", {}, 7, "", "c",
    ]}  # fmt: skip
    result = agent(file(services=[service]))
    assert [(skill.id, skill.name) for skill in result.skills] == [("a", "Alpha"), ("b", "b"), ("c", "")]
    assert codes(result) == ["skill-id", "ignored", "ignored"]
    many = {"name": "A2A", "endpoint": "https://a.example", "a2aSkills": [f"s{n}" for n in range(300)]}
    assert len(agent(file(services=[many])).skills) == 256


def test_prices_of_a2b_are_read_from_a_file_too() -> None:
    priced = file() | {"x-payment-config": [{"amount": "0.02", "currency": "USD", "skillIds": ["forecast"]}]}
    assert [offer.currency for offer in agent(priced).offers] == ["USD"]


def test_only_an_entry_of_a_registry_may_carry_a_registration_file() -> None:
    body = json.dumps(file(services=[])).encode()
    with pytest.raises(CardError):
        cards.read(body)
    with pytest.raises(CardError):
        cards.read_of("weather.example", body, Kind.AGENT)
    assert cards.read_of(ENTRY, body, Kind.TOOL) == cards.read(body, entry=ENTRY)
    assert cards.faults(body) == cards.faults(body, Kind.AGENT) != ()


def test_an_entry_may_lead_to_an_agent_card_or_a_config_instead() -> None:
    card = {"name": "A", "url": "https://a.example", "skills": [{"id": "s"}], "version": "1", "capabilities": {}}
    assert agent(card).protocol == "0.1"
    assert tool({"mcpServers": {"weather": {"command": "npx"}}}).key == "weather"
    with pytest.raises(CardError):
        read({"name": "A", "skills": []})


TYPES = st.sampled_from(["https://eips.ethereum.org/EIPS/eip-8004#registration-v1", "", None, 7])
LEAVES = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=12)
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner))
KEYS = st.sampled_from(["name", "endpoint", "version", "skills", "domains", "mcpTools", "a2aSkills", "mcpPrompts"])
SERVICES = st.lists(st.dictionaries(KEYS, JSON | st.sampled_from(["MCP", "a2a", "https://a.example"])) | JSON)
FILES = st.fixed_dictionaries(
    {"type": TYPES},
    optional=dict.fromkeys(("name", "description", "image", "active", "x402Support", "tags", "supportedTrust"), JSON)
    | {"services": SERVICES, "endpoints": SERVICES, "registrations": SERVICES, "url": JSON},
)


@settings(max_examples=60)
@given(FILES, st.booleans())
def test_any_file_is_a_card_or_refused_with_its_reasons(content: dict[str, Any], named: bool) -> None:
    body = json.dumps(content | ({"name": "A"} if named else {})).encode()
    result = cards.examine(body, entry=ENTRY)
    assert (result.card is None) == bool(result.errors)
    assert all(reason.sentence for reason in result.errors + result.warnings)
    assert result.card or not named


def test_hostile_files_stay_within_the_limits_of_a_listing() -> None:
    long = "x" * 9_000
    service = {"name": long, "endpoint": f"https://{long}", "version": long, "domains": [long] * 2, "skills": [long]}
    result = agent(file(long, description=long, services=[service] * 10, tags=[long] * 9))
    texts = [result.name, result.description, result.url, *result.tags, *(skill.id for skill in result.skills)]
    texts += [text for interface in result.interfaces for text in interface.values()]
    assert sum(len(text.encode()) for text in texts) <= 2 * (64 << 10)
    assert "not-indexed" in codes(result)


def test_of_98_real_files_those_with_a_name_are_listed(shared: Path) -> None:
    body = json.loads((shared / "data" / "erc8004-mainnet-event-logs.json").read_text())
    listed: dict[str, int] = {}
    for log in body["registeredLogs"] + body["uriUpdatedLogs"]:
        record = read_log([bytes.fromhex(topic[2:]) for topic in log["topics"]], bytes.fromhex(log["data"][2:]))
        assert isinstance(record, Registered | UriUpdated)
        carried = read_uri(record.uri)
        if not isinstance(carried, InlineFile):
            continue
        name = json.loads(carried.body)["name"]
        card = cards.examine(carried.body, entry=ENTRY).card
        assert (card is not None) == bool(name.strip())
        if card is not None:
            shown = card.servers[0] if isinstance(card, ToolConfig) else card
            assert shown.name == name
            listed[card.kind.value] = listed.get(card.kind.value, 0) + 1
    assert listed["agent"] + listed["tool"] > 90
    assert listed["tool"] > 5
