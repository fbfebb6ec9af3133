"""Cards are read by hard rules and warnings (laws 6 and 12)."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers import cards
from parsers.cards import AgentCard, Kind, McpServer, ToolConfig, examine, read, server_id, split_id
from parsers.cards.fields import MAX_OF_A_CODE, MAX_WARNINGS, cut
from parsers.errors import CardError
from tests.oracles.hard_rules import faults

MINIMAL: dict[str, Any] = {
    "name": "Weather",
    "url": "https://weather.example",
    "version": "1",
    "capabilities": {},
    "skills": [{"id": "now", "name": "Now"}],
}


def body(card: Any) -> bytes:
    return json.dumps(card, ensure_ascii=False).encode()


def agent(**changes: Any) -> AgentCard:
    card = read(body(MINIMAL | changes))
    assert isinstance(card, AgentCard)
    return card


def config(servers: Any, **more: Any) -> ToolConfig:
    card = read(body({"mcpServers": servers, **more}))
    assert isinstance(card, ToolConfig)
    return card


def server(entry: dict[str, Any], key: str = "tool") -> McpServer:
    return config({key: {"command": "npx", **entry}}).servers[0]


def sentences(card: Any, kind: Kind | None = None) -> list[str]:
    with pytest.raises(CardError) as caught:
        read(card if isinstance(card, bytes) else body(card), kind)
    return [reason.sentence for reason in caught.value.reasons]


def codes(card: AgentCard | McpServer | ToolConfig) -> list[tuple[str, str]]:
    return [(warning.code, warning.pointer) for warning in card.warnings]


# Hard rules of an agent


@pytest.mark.parametrize(
    ("changes", "messages"),
    [
        ({"name": None}, ["the card has no name"]),
        ({"name": " \n"}, ["the card has no name"]),
        ({"name": 5}, ["the card has no name"]),
        ({"skills": []}, ["the card has no skills"]),
        ({"skills": None}, ["the card has no skills"]),
        ({"skills": {"id": "x"}}, ["the card has no skills"]),
        ({"skills": ["x", None, {"name": "no id"}, {"id": ""}, {"id": 7}]}, ["the card has no skills"]),
        ({"url": None}, ["the card has neither a url nor an interface"]),
        ({"url": "", "supportedInterfaces": []}, ["the card has neither a url nor an interface"]),
        ({"url": 1, "additionalInterfaces": [{"url": " "}]}, ["the card has neither a url nor an interface"]),
        (
            {"name": "", "skills": 1, "url": None},
            ["the card has no name", "the card has no skills", "the card has neither a url nor an interface"],
        ),
    ],
)
def test_the_hard_rules_that_an_agent_breaks_are_listed_in_order_of_importance(
    changes: dict[str, Any], messages: list[str]
) -> None:
    assert sentences(MINIMAL | changes) == messages


def test_what_is_no_object_is_no_card() -> None:
    for value in ([], "text", 5, None, True):
        assert sentences(value) == ["the card is not a JSON object"]
    assert sentences(b"{") == ["the card is not JSON"]


@pytest.mark.parametrize(
    "changes",
    [
        {"skills": [None, {"id": "a"}]},
        {"url": None, "supportedInterfaces": [{"url": "https://a.example"}]},
        {"url": None, "additionalInterfaces": [{"url": "https://a.example"}]},
        {"url": "not a url at all"},
        {"version": None, "capabilities": None, "description": 5},
    ],
)
def test_one_skill_with_an_id_and_any_address_to_call_are_enough(changes: dict[str, Any]) -> None:
    assert agent(**changes).skills


def test_a_skill_with_an_id_beyond_the_indexed_ones_still_makes_a_card() -> None:
    card = agent(skills=[{"name": "none"}] * 5000 + [{"id": "last"}])
    assert [skill.id for skill in card.skills] == ["last"]
    assert [warning.code for warning in card.warnings] == ["skill-id"] * 16 + ["missing", "more-warnings"]
    assert card.warnings[-1].sentence == "there are 4,984 more warnings"


# What is read from an agent


def test_the_specifications_minimal_card_is_read_without_a_warning() -> None:
    card = agent()
    assert (card.name, card.url, card.version, card.protocol) == ("Weather", "https://weather.example", "1", "0.1")
    assert card.warnings == ()
    assert card.kind is Kind.AGENT


def test_nulls_are_absent() -> None:
    nulls = dict.fromkeys(
        ["description", "provider", "documentationUrl", "authentication", "tags", "iconUrl", "x-payment-config"]
    )
    skill = {"id": "now", "name": "Now", "description": None, "tags": None, "examples": None}
    assert agent(**nulls, skills=[skill]) == agent()


def test_wrong_types_are_ignored_with_a_warning_that_names_the_pointer() -> None:
    card = agent(
        description=["no"],
        iconUrl=5,
        provider="Acme",
        capabilities=["streaming"],
        tags="weather",
        skills=[{"id": "now", "name": 3, "tags": ["rain", 7, None, " "], "examples": {"a": 1}}, 9],
    )
    assert (card.description, card.logo, card.provider, card.capabilities) == ("", "", {}, {})
    assert card.skills[0].tags == ("rain",)
    wrong = {warning.pointer: warning.detail for warning in card.warnings if warning.code == "wrong-type"}
    assert wrong == {
        "/description": "description is a list, not a string",
        "/iconUrl": "iconUrl is a number, not a string",
        "/provider": "provider is a string, not an object",
        "/capabilities": "capabilities is a list, not an object",
        "/tags": "tags is a string, not a list",
        "/skills/0/name": "name is a number, not a string",
        "/skills/0/tags/1": "1 is a number, not a string",
        "/skills/0/tags/2": "2 is null, not a string",
        "/skills/0/examples": "examples is an object, not a list",
        "/skills/1": "1 is a number, not an object",
    }


@pytest.mark.parametrize(
    ("changes", "version"),
    [
        ({}, "0.1"),
        ({"authentication": {"schemes": ["Bearer"]}, "defaultInputModes": ["text"]}, "0.1"),
        ({"protocolVersion": "0.1.0", "preferredTransport": "GRPC"}, "0.1"),
        ({"defaultInputModes": ["text"], "securitySchemes": {}}, "0.2"),
        ({"protocolVersion": "0.2.6", "preferredTransport": "JSONRPC"}, "0.2"),
        ({"protocolVersion": "0.3.0"}, "0.3"),
        ({"preferredTransport": "JSONRPC"}, "0.3"),
        ({"additionalInterfaces": []}, "0.3"),
        ({"signatures": []}, "0.3"),
        ({"supportedInterfaces": [{"url": "https://a.example"}]}, "1.0"),
        ({"supportedInterfaces": [{"url": "https://a.example"}], "protocolVersion": "0.3.0"}, "1.0"),
        ({"protocolVersion": "1.0"}, "1.0"),
        ({"supportedInterfaces": None, "signatures": None, "protocolVersion": 3}, "0.1"),
    ],
)
def test_the_version_is_recognised_by_its_own_members(changes: dict[str, Any], version: str) -> None:
    assert agent(**changes).protocol == version


def test_what_a_version_requires_and_the_card_lacks_is_warned_of() -> None:
    card = agent(protocolVersion="0.3.0", provider={"organization": "Acme"}, version=None)
    assert sorted(codes(card)) == sorted(
        ("missing", pointer)
        for pointer in (
            "/description",
            "/version",
            "/defaultInputModes",
            "/defaultOutputModes",
            "/skills/0/description",
            "/skills/0/tags",
            "/provider/url",
        )
    )
    assert "the card lacks description, which A2A 0.3 requires" in [warning.sentence for warning in card.warnings]


def test_a_1_0_card_is_called_at_its_first_interface() -> None:
    card = agent(
        url=None,
        supportedInterfaces=[
            {"url": "https://one.example", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": "two.example:443", "protocolBinding": "GRPC", "protocolVersion": "1.0", "tenant": "t"},
            {"protocolBinding": "GRPC"},
        ],
    )
    assert card.url == "https://one.example"
    assert [entry["url"] for entry in card.interfaces] == ["https://one.example", "two.example:443"]
    assert card.interfaces[1]["tenant"] == "t"
    assert ("missing", "/supportedInterfaces/2/url") in codes(card)


def test_before_1_0_the_main_interface_is_the_url() -> None:
    card = agent(
        protocolVersion="0.3.0",
        preferredTransport="JSONRPC",
        additionalInterfaces=[{"url": "https://grpc.example", "transport": "GRPC"}],
    )
    assert card.url == "https://weather.example"
    assert card.interfaces == (
        {"url": "https://weather.example", "protocolBinding": "JSONRPC"},
        {"url": "https://grpc.example", "protocolBinding": "GRPC"},
    )


@pytest.mark.parametrize(
    ("changes", "logo"),
    [
        ({"iconUrl": "a", "provider": {"logo": "b"}, "icons": [{"src": "c"}]}, "a"),
        ({"provider": {"logo": "b"}, "icons": [{"src": "c"}]}, "b"),
        ({"icons": [{"src": "c"}, {"src": "d"}]}, "c"),
        ({"icons": []}, ""),
        ({}, ""),
    ],
)
def test_the_logo_is_the_first_of_three_places(changes: dict[str, Any], logo: str) -> None:
    assert agent(**changes).logo == logo


def test_tags_are_those_of_card_and_skills_once_whatever_their_case() -> None:
    skills = [{"id": "a", "tags": ["Rain", "STRASSE"]}, {"id": "b", "tags": ["straße", "sun"]}]
    assert agent(tags=["weather", "rain "], keywords=["Weather", "oracle"], skills=skills).tags == (
        "weather",
        "rain",
        "oracle",
        "STRASSE",
        "sun",
    )


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("weather.example", "url-form"),
        ("https://", "url-form"),
        ("https://a b", "url-form"),
        ("http://localhost:8080/a2a", "url-local"),
        ("http://127.0.0.1", "url-local"),
        ("https://user@192.168.1.5/x", "url-local"),
        ("http://box.local/", "url-local"),
        ("http://[::1]:80/", "url-local"),
        ("http://[::]:8080/invoke", "url-local"),
        ("http://2130706433/", "url-local"),
        ("https://${HOST}/mcp", "url-host"),
        ("https://agents.example:99999/", "url-host"),
        ("https://agents.example:0/", "url-host"),
        ("https://agents..example/", "url-host"),
        ("https://agents/", "url-host"),
        ("https://127.example.org/", None),
        ("https://localhost.example/", None),
        ("https://weather.example:8443/a2a?x=1", None),
    ],
)
def test_urls_that_nobody_else_can_call_are_warned_of(url: str, code: str | None) -> None:
    assert codes(agent(url=url)) == ([(code, "/url")] if code else [])


def test_every_url_that_a_client_may_choose_is_looked_at() -> None:
    local = {"url": "http://localhost:8000/", "protocolBinding": "GRPC", "protocolVersion": "1.0", "transport": "GRPC"}
    assert ("url-local", "/additionalInterfaces/0/url") in codes(agent(additionalInterfaces=[local]))
    public = local | {"url": "https://a.example/"}
    card = agent(supportedInterfaces=[public, local])
    assert [pointer for code, pointer in codes(card) if code == "url-local"] == ["/supportedInterfaces/1/url"]
    assert ("url-local", "/mcpServers/tool/serverUrl") in codes(server({"serverUrl": "http://0.0.0.0:3000/mcp"}))


def test_two_skills_of_one_id_are_kept_and_warned_of() -> None:
    card = agent(skills=[{"id": "a", "name": "A"}, {"id": "a", "name": "B"}])
    assert len(card.skills) == 2
    assert codes(card) == [("skill-repeated", "/skills/1/id")]


def test_repeated_keys_and_foreign_price_lists_are_warned_of() -> None:
    text = body(MINIMAL | {"pricing": {"model": "free"}}).replace(b'"version": "1"', b'"version": "0", "version": "1"')
    card = read(text)
    assert codes(card) == [("duplicate-key", "/version"), ("ignored", "/pricing")]


# Limits


def test_nul_becomes_the_replacement_character_in_every_text() -> None:
    text = body(MINIMAL | {"description": "a\0b", "skills": [{"id": "x\0", "tags": ["\0t"]}], "mod\0es": 1})
    card = read(text.replace(b"\\u0000", b"\\u0000"))
    assert isinstance(card, AgentCard)
    assert (card.description, card.skills[0].id, card.tags) == ("a\ufffdb", "x\ufffd", ("\ufffdt",))


def test_eight_kilobytes_of_a_text_are_indexed_and_no_character_is_split() -> None:
    card = agent(description="é" * 5000)
    assert card.description == "é" * 4096
    assert codes(card) == [("not-indexed", "/description")]
    assert agent(description="x" * 8192).warnings == ()
    assert len(agent(description="x" + "😀" * 3000).description.encode()) == 8189


def test_sixty_four_kilobytes_of_a_listing_are_indexed_ids_first() -> None:
    skills = [{"id": f"s{n}", "name": "n", "examples": ["x" * 8000]} for n in range(40)]
    card = agent(skills=skills, tags=["t" * 100])
    texts = [
        card.url,
        card.version,
        *card.tags,
        card.name,
        card.description,
        *(text for skill in card.skills for text in (skill.id, skill.name)),
    ]
    texts += [text for skill in card.skills for text in skill.examples]
    assert [skill.id for skill in card.skills] == [f"s{n}" for n in range(40)]
    assert 60_000 < sum(len(text.encode()) for text in texts) <= 64 * 1024
    assert sum(warning.code == "not-indexed" for warning in card.warnings) == 1


def test_the_first_256_skills_and_64_tags_are_indexed() -> None:
    card = agent(skills=[{"id": f"s{n}", "tags": [f"t{n}"]} for n in range(300)])
    assert (len(card.skills), len(card.tags)) == (256, 64)
    assert {("not-indexed", "/skills"), ("not-indexed", "/tags")} == {
        pair for pair in codes(card) if pair[0] == "not-indexed"
    }


@given(st.text(max_size=60), st.integers(0, 120))
def test_cut_is_the_longest_beginning_that_fits(text: str, room: int) -> None:
    slow = max((text[:end] for end in range(len(text) + 1) if len(text[:end].encode()) <= room), key=len)
    assert cut(text, room) == slow


def test_the_first_64_interfaces_and_extensions_are_indexed_and_only_booleans_are_capabilities() -> None:
    card = agent(
        protocolVersion="1.0",
        description="d",
        defaultInputModes=["text"],
        defaultOutputModes="text",
        supportedInterfaces=[
            {"url": f"https://n{n}.example", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"} for n in range(70)
        ],
        capabilities={
            "streaming": "yes",
            "pushNotifications": True,
            "extensions": [{"uri": f"urn:{n}", "required": n == 1} for n in range(70)],
        },
        skills=[{"id": "a", "name": "A", "description": "d", "tags": [f"t{n}" for n in range(70)]}],
    )
    assert len(card.interfaces) == len(card.capabilities["extensions"]) == len(card.skills[0].tags) == 64
    assert card.capabilities["extensions"][1] == {"uri": "urn:1", "description": "", "required": True}
    assert card.capabilities["pushNotifications"] is True
    assert "streaming" not in card.capabilities
    assert sorted(codes(card)) == [
        ("not-indexed", "/capabilities/extensions"),
        ("not-indexed", "/skills/0/tags"),
        ("not-indexed", "/supportedInterfaces"),
        ("wrong-type", "/capabilities/streaming"),
        ("wrong-type", "/defaultOutputModes"),
    ]


def test_a_1_0_card_with_empty_lists_lacks_their_entries() -> None:
    card = agent(supportedInterfaces=[], description="d", defaultInputModes=[], defaultOutputModes=["t"])
    assert ("missing", "/supportedInterfaces") in codes(card)
    assert ("missing", "/defaultInputModes") in codes(card)
    assert card.url == "https://weather.example"


def test_the_stated_interface_of_a_card_without_url_is_called() -> None:
    card = agent(url=None, protocolVersion="0.3.0", additionalInterfaces=[{"url": "https://a.example"}])
    assert card.url == "https://a.example"
    assert ("missing", "/url") in codes(card)
    assert ("missing", "/additionalInterfaces/0/transport") in codes(card)


# Tools


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ({"mcpServers": []}, ["the config has no object mcpServers"]),
        ({"mcpServers": {}}, ["mcpServers has no named entry"]),
        ({"mcpServers": {"": {"command": "x"}, " ": {}}}, ["mcpServers has no named entry"]),
        ({"mcpServers": {"a": None}}, ["mcpServers has no named entry"]),
        ({"mcpServers": {f"s{n}": {} for n in range(65)}}, ["mcpServers has more than 64 entries"]),
        ({"mcpServers": {"é" * 129: {}}}, ["a name in mcpServers is longer than 256 bytes"]),
    ],
)
def test_the_hard_rules_that_a_tool_breaks_are_listed(value: Any, messages: list[str]) -> None:
    assert sentences(value) == messages


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"name": "io.github.acme/weather", "version": "1", "packages": [{"identifier": "x"}]}, "a server.json of the"),
        ({"name": "io.github.acme/weather", "remotes": [{"url": "https://a.example"}]}, "a server.json of the"),
        ({"servers": {"a": {"command": "npx"}}}, "which calls it servers"),
        ({"context_servers": {"a": {}}}, "which calls it context_servers"),
        ({"command": "npx", "args": ["x"]}, "one entry of a config"),
        ({"a": {"command": "npx"}, "b": {"url": "https://a.example"}}, "without mcpServers around them"),
        ({"type": "data", "data": {"x-payment": {"configId": "a", "rawTx": "00"}}}, "this is a payment claim"),
        ({"x-payment": {"configId": "a", "rawTx": "00"}}, "this is a payment claim"),
        ({"configId": "a", "stage": "full", "rawTx": "00", "currency": "BSV"}, "this is a payment claim"),
    ],
)
def test_what_is_taken_for_a_config_is_named(value: Any, words: str) -> None:
    [sentence] = [reason.explanation for reason in examine(body(value)).errors]
    assert sentence.startswith("the config has no object mcpServers: ")
    assert words in sentence
    assert [reason.code for reason in cards.faults(body(value))] == ["config-servers"]
    assert isinstance(read(body(MINIMAL | value)), AgentCard), "an agent card with such a member is one all the same"


def test_members_in_the_spelling_of_protobuf_are_named() -> None:
    card = {"name": "A", "skills": [{"id": "a"}], "supported_interfaces": [{"url": "https://a.example"}]}
    [reason] = examine(body(card)).errors
    assert (
        reason.explanation
        == "the card has neither a url nor an interface: supported_interfaces is spelt supportedInterfaces"
    )


@pytest.mark.parametrize("member", [{"disabled": True}, {"enabled": False}])
def test_a_server_that_clients_do_not_start_is_warned_of(member: dict[str, bool]) -> None:
    [name] = member
    assert codes(server(member)) == [("inactive", f"/mcpServers/tool/{name}")]
    assert codes(server({name: not member[name]})) == []


def test_the_kind_follows_from_mcp_servers_unless_it_is_passed() -> None:
    both = MINIMAL | {"mcpServers": {"a": {"command": "x"}}}
    assert read(body(both)).kind is Kind.TOOL
    assert read(body(both), Kind.AGENT).kind is Kind.AGENT
    assert sentences(MINIMAL, Kind.TOOL) == ["the config has no object mcpServers"]
    assert read(body(MINIMAL | {"mcpServers": None})).kind is Kind.AGENT


def test_sixty_four_servers_and_a_key_of_256_bytes_are_allowed() -> None:
    assert len(config({f"s{n}": {} for n in range(64)}).servers) == 64
    assert config({"é" * 128: {}}).servers[0].name == "é" * 128
    assert config({"\0" * 256: {}}).servers[0].key == "\ufffd" * 256


def test_a_server_is_read_as_publishers_write_it() -> None:
    tool = server(
        {
            "description": "Clock",
            "keywords": ["time", "Time"],
            "tools": ["now", {"name": "zone", "description": "Time zones", "tags": ["tz"]}, {"x": 1}, "now"],
            "prompts": ["p", {"name": "q"}],
            "resources": ["https://r.example", {"uri": "file:///r", "name": "R"}],
            "args": ["-y", "clock", 5],
            "env": {"TZ": "the time zone to start with"},
        }
    )
    assert (tool.name, tool.key, tool.command, tool.args) == ("tool", "tool", "npx", ("-y", "clock"))
    assert (tool.keywords, tool.tags) == (("time", "Time"), ("time", "tz"))
    assert tool.tools == ("now", "zone")
    assert [(skill.id, skill.name, skill.description) for skill in tool.skills] == [
        ("now", "now", ""),
        ("zone", "zone", "Time zones"),
    ]
    assert (tool.prompts, tool.resources) == (("p", "q"), ("https://r.example", "file:///r"))
    assert tool.env == {"TZ": "the time zone to start with"}
    assert codes(tool) == [
        ("wrong-type", "/mcpServers/tool/args/2"),
        ("unpinned", "/mcpServers/tool/args"),
        ("ignored", "/mcpServers/tool/tools/2"),
        ("skill-repeated", "/mcpServers/tool/tools/3"),
    ]


def test_a_servers_own_name_is_shown_and_its_key_names_it_otherwise() -> None:
    assert server({"name": "Clock"}, "c").name == "Clock"
    assert server({"title": "Clock!"}, "c").name == "Clock!"
    assert server({"name": 5}, "c").name == "c"


def test_a_remote_server_has_a_url_and_one_without_either_is_warned_of() -> None:
    remote = config({"r": {"url": "https://mcp.example"}}).servers[0]
    assert (remote.url, remote.command, remote.warnings) == ("https://mcp.example", "", ())
    assert codes(config({"a/b": {}}).servers[0]) == [("missing", "/mcpServers/a~1b")]


def test_long_lists_of_a_server_are_bounded() -> None:
    names = [f"n{n}" for n in range(300)]
    tool = server(
        {"tools": names, "prompts": [5, *names], "resources": names, "args": names, "env": dict.fromkeys(names)}
    )
    sizes = {len(tool.tools), len(tool.prompts), len(tool.resources), len(tool.args), len(tool.env)}
    assert sizes == {256}
    assert sorted(codes(tool)) == [
        ("ignored", "/mcpServers/tool/prompts/0"),
        *(("not-indexed", f"/mcpServers/tool/{member}") for member in ("args", "env", "prompts", "resources", "tools")),
        ("unpinned", "/mcpServers/tool/args"),
    ]


def test_each_server_of_a_large_config_has_64_kilobytes_of_its_own() -> None:
    text = {"command": "x", "description": "d" * 8000, "prompts": ["p" * 8000] * 9}
    price = {"currency": "USD", "amount": 1, "description": "q" * 5000}
    tools = config(
        {"a": text, "b": {"command": "y", "env": {"E": "what for"}, "timeout": 5}, "c": text},
        **{"x-payment-config": [price]},
    )
    first, small, last = tools.servers
    assert (
        [warning.code for warning in first.warnings] == ["not-indexed"] == [warning.code for warning in last.warnings]
    )
    used = sum(map(len, (first.command, first.description, *first.prompts, first.offers[0].description)))
    assert 60_000 < used <= 64 * 1024
    assert small.env == {"E": "what for"}
    assert small.warnings == ()


def test_an_entry_that_is_no_object_is_listed_by_its_name_with_a_warning() -> None:
    tools = config({"a": 5, "b": {"command": "x"}})
    assert [tool.key for tool in tools.servers] == ["a", "b"]
    assert codes(tools) == [("wrong-type", "/mcpServers/a")]


def test_a_value_where_a_description_belongs_is_warned_of() -> None:
    tool = server({"env": {"NODE_ENV": "production", "A": "what A is for", "B": "<b>", "C": "", "D": 5}})
    assert codes(tool) == [
        ("env-value", "/mcpServers/tool/env/NODE_ENV"),
        ("wrong-type", "/mcpServers/tool/env/D"),
    ]


def test_only_one_server_has_the_plain_id() -> None:
    assert server_id("ab_0", "Bitcoin SV", 1) == "ab_0"
    assert server_id("ab_0", "Bitcoin SV", 2) == "ab_0#Bitcoin%20SV"
    assert server_id("ab_0", "a/b#c%é~", 2) == "ab_0#a%2Fb%23c%25%C3%A9~"


def test_a_server_named_by_a_number_is_not_taken_for_the_number_of_an_inscription() -> None:
    assert server_id("ab_0", "12", 2) == "ab_0#%312"
    assert split_id("ab_0#%312") == ("ab_0", "%312")
    assert split_id("ab_0#12") == ("ab_0#12", None)
    assert split_id(server_id("ab_0#12", "7", 2)) == ("ab_0#12", "%37")
    assert split_id("ab_0") == ("ab_0", None)


@given(st.sampled_from(["ab_0", "ab_0#3"]), st.text("0123456789a#%١", max_size=4))
def test_ids_of_registrations_and_servers_are_distinguished(registration: str, key: str) -> None:
    base, name = split_id(server_id(registration, key, 2))
    assert (base, unquote(name or "")) == (registration, key)


@given(st.text(max_size=40).filter(lambda key: "\ud800" not in key))
def test_a_key_can_be_had_back_from_its_id(key: str) -> None:
    try:
        key.encode()
    except UnicodeEncodeError:
        return
    identity = server_id("ab_0", key, 2)
    assert identity.isascii()
    assert not set(identity[5:]) & set("/#?& ")
    assert unquote(identity.removeprefix("ab_0#")) == key


# Whatever is thrown at it

WORDS = [
    "name", "skills", "id", "url", "tags", "examples", "description", "capabilities", "extensions", "params",
    "configs", "provider", "icons", "src", "supportedInterfaces", "x-payment-config", "x-payment", "amount",
    "currency", "interval", "acceptedCurrencies", "skillIds", "mcpServers", "tools", "env", "args", "command",
    "keywords", "protocolVersion", "depositPct", "address", "prompts", "resources",
]  # fmt: skip

wild = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=4), inner, max_size=6)
    ),
    max_leaves=40,
)


@settings(max_examples=400)
@given(st.dictionaries(st.sampled_from(WORDS), wild, max_size=8), st.sampled_from([None, *Kind]), st.booleans())
def test_any_json_is_a_card_or_breaks_a_rule(value: dict[str, Any], kind: Kind | None, whole: bool) -> None:
    check(body(MINIMAL | {"mcpServers": {"a": value}} | value if whole else value), kind)


@settings(max_examples=400)
@given(st.dictionaries(st.sampled_from(WORDS), wild, max_size=8), st.booleans())
def test_the_rules_broken_are_those_that_a_plain_second_reader_finds(value: dict[str, Any], whole: bool) -> None:
    raw = body(MINIMAL | value if whole else value)
    assert [reason.sentence for reason in examine(raw, Kind.AGENT).errors] == faults(raw, "agent")
    servers = value.get("mcpServers")
    if not isinstance(servers, dict) or all(key.strip() and entry is not None for key, entry in servers.items()):
        assert [reason.sentence for reason in examine(raw, Kind.TOOL).errors] == faults(raw, "tool")


@given(st.binary(max_size=100))
def test_any_bytes_are_a_card_or_break_a_rule(raw: bytes) -> None:
    check(raw, None)


def check(raw: bytes, kind: Kind | None) -> None:
    """Check the laws of every examination: a card or reasons, each with a sentence; all texts storable anywhere."""
    card, errors, warnings = examine(raw, kind)
    assert (card is None) == bool(errors)
    assert cards.faults(raw, kind) == errors
    for reason in errors + warnings:
        assert reason.sentence
        assert reason.pointer == "" or reason.pointer.startswith("/")
    assert "\\u0000" not in json.dumps([repr(card), [tuple(reason) for reason in errors + warnings]])
    if isinstance(card, AgentCard):
        assert card.name.strip()
        assert card.url.strip()
        assert card.skills
    elif card is not None:
        assert 1 <= len(card.servers) <= 64


@pytest.mark.parametrize(
    "raw",
    [
        b'{"name":"x","url":"u","skills":[' + b"{}," * 150_000 + b'{"id":"a"}]}',
        b'{"name":"x","url":"u","skills":[{"id":"a","tags":[' + b"1," * 300_000 + b"1]}]}",
        b'{"name":"' + b"\\u0000" * 100_000 + b'","url":"u","skills":[{"id":"a"}]}',
        b'{"mcpServers":{' + b",".join(b'"%d":5' % n for n in range(60_000)) + b"}}",
        b'{"name":"x","url":"u","skills":[{"id":"a"}],"x-payment-config":[' + b"{}," * 150_000 + b"{}]}",
        b'{"name":"x","url":"u","skills":[{"id":"a"}],"capabilities":{"extensions":[' + b"{}," * 150_000 + b"{}]}}",
        b'{"name":"x","url":"u","additionalInterfaces":[' + b"{}," * 150_000 + b'{}],"skills":[{"id":"a"}]}',
    ],
    ids=["skills", "tags", "nul", "servers", "prices", "extensions", "interfaces"],
)
def test_a_megabyte_of_one_wrong_thing_gives_a_bounded_answer(raw: bytes) -> None:
    card, errors, warnings = examine(raw)
    assert (card is None) == bool(errors)
    assert len(warnings) <= MAX_WARNINGS + MAX_OF_A_CODE + 1
    assert len(repr(card)) < 200_000
    assert len(repr(warnings)) < 100_000
