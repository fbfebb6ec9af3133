"""Documents of servers pass the validators of the official MCP Registry, its own in Go and a restatement of its
rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.systems.mcp_registry.official_rules import is_version, name_part
from overlay.systems.mcp_registry.server_json import server_json
from parsers.cards import McpServer
from tests.overlay.protocols.official_oracle import issues, issues_by_go
from tests.overlay.protocols.test_client_configs import CONFIGS
from tests.overlay.protocols.test_server_json import servers

NAME = "network.a2b.0123456789ab/server"
VERSIONS = (
    "1.0.0",
    "1.x",
    "1.2.X",
    "v1.x.2",
    "1.0.0-next",
    "1.0.0-beta.1",
    "1.0.0+linux",
    "2024.1",
    "latest",
    "x.1",
    "1",
)
HOSTS = ("a.example", "localhost", "127.0.0.1", "a.localhost", "${HOST}", "10.0.0.1", "[::1]", "LOCALHOST", "0x7f.1")
URLS = st.builds(
    "{}://{}{}{}".format, st.sampled_from(("https", "http", "wss")), st.sampled_from(HOSTS),
    st.sampled_from(("", ":443", ":${PORT}")),
    st.sampled_from(("", "/mcp", "/sse?key=${env:KEY}", "/{a}/<your key>", "/{")),
)  # fmt: skip
TEXTS = st.text(max_size=30) | st.sampled_from(("", "Bearer ${TOKEN}", "{", "<b>&" * 900))
WORDS = st.sampled_from(
    ("-y", "", "tool", "tool@1.x", "tool@1.0.0-next", "a b", "--", "run", "@a/b@2.0.0", "--key={K}")
)
ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "command": st.sampled_from(("npx", "uvx", "docker", "cmd", "npx -y tool@3.x", "/usr/bin/npx")),
        "args": st.lists(WORDS, max_size=4), "url": URLS, "serverUrl": URLS, "httpUrl": URLS, "name": TEXTS,
        "type": st.sampled_from(("sse", "http", "stdio", "ws", "")), "description": TEXTS,
        "headers": st.dictionaries(st.text(max_size=12), TEXTS, max_size=3),
        "env": st.dictionaries(st.text(max_size=12), TEXTS, max_size=3),
        "provider": st.builds(lambda url: {"organization": "a", "url": url}, URLS), "logo": URLS,
    },
)  # fmt: skip


def documents(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [server_json(NAME, "1", server) for entry in entries for server in servers({"mcpServers": {"a": entry}})]


@given(ENTRIES)
def test_any_config_breaks_no_rule(entry: dict[str, Any]) -> None:
    for document in documents([entry]):
        assert issues(document) == []


@settings(max_examples=10, deadline=None)
@given(st.lists(ENTRIES, min_size=1, max_size=200))
def test_the_validators_themselves_refuse_no_config(entries: list[dict[str, Any]]) -> None:
    served = documents(entries)
    for document, broken in zip(served, issues_by_go(served), strict=True):
        assert broken == [], document


def test_every_config_of_the_field_and_of_real_clients_passes_the_validators(shared: Path) -> None:
    lines = (shared / "data" / "a2b-mcp-payloads.jsonl").read_text().splitlines()
    served = [server_json(NAME, "1", server) for line in lines for server in servers(json.loads(line)["payload"])]
    served += [document for config in CONFIGS for document in documents([config.entry])]
    assert list(filter(None, issues_by_go(served))) == []
    assert list(filter(None, map(issues, served))) == []


@given(st.text(max_size=90) | st.text("._-aX0", max_size=6))
def test_any_key_becomes_a_name_that_the_rules_take(key: str) -> None:
    part = name_part(key)
    assert issues({"name": f"network.a2b.0123456789ab/{part}", "version": "1"}) == []
    assert name_part(part) == part


def test_the_restated_rules_agree_with_the_validators() -> None:
    """The oracle is as strict as what it stands for: names, versions and addresses that only some of them take."""
    names = [
        f"{space}/{part}" for space in ("a.b", "a.", "-a", "a") for part in ("x", "ab", "_a", "a_", ".a", "a.b", "a/b")
    ]
    bare = {"$schema": server_json(NAME, "1", McpServer(key="a", name="a"))["$schema"], "description": "d"}
    served: list[dict[str, Any]] = [bare | {"name": name, "version": "1"} for name in names]
    served += [bare | {"name": NAME, "version": version} for version in (*VERSIONS, "^1.0", "1 - 2", "1 || 2", ">=1")]
    for url in ("https://a.example", "http://a.example", "https://localhost/x", "https://{h}/x", "https://b.localhost"):
        served.append(bare | {"name": NAME, "version": "1", "websiteUrl": url})
        served.append(bare | {"name": NAME, "version": "1", "remotes": [{"type": "sse", "url": url}]})
    broken = issues_by_go(served)
    assert [bool(one) for one in broken] == [bool(issues(document)) for document in served]
    assert any(broken)
    assert not all(broken)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_is_taken_where_the_rules_take_it(version: str) -> None:
    assert is_version(version) == (issues({"name": NAME, "version": version}) == [])
