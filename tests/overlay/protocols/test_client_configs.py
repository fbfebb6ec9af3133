"""Entries of `mcpServers` as the documentation of real clients writes them, and what installs or connects them."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from overlay.systems.mcp_registry.server_json import server_json
from tests.overlay.protocols.test_server_json import servers


class ClientConfig(NamedTuple):
    """An entry in the words of a client's documentation, the package (registry, identifier) and the remote (type, URL,
    headers) that it comes to."""

    client: str
    entry: dict[str, Any]
    package: tuple[str, str] | None = None
    remote: tuple[str, str, tuple[str, ...]] | None = None


URL = "https://mcp.example/mcp"
AUTHORIZED = {"Authorization": "Bearer ${API_TOKEN}"}
CONFIGS = [
    ClientConfig(
        "Claude Desktop",
        {"command": "npx", "args": ["-y", "@acme/files", "/home/me"], "env": {"API_KEY": "your key"}},
        ("npm", "@acme/files"),
    ),
    ClientConfig(
        "Claude Desktop, Windows",
        {"command": "cmd", "args": ["/c", "npx", "-y", "@acme/files", "C:\\Users\\me"]},
        ("npm", "@acme/files"),
    ),
    ClientConfig(
        "Claude Code",
        {"type": "http", "url": URL, "headers": AUTHORIZED},
        remote=("streamable-http", URL, ("Authorization",)),
    ),
    ClientConfig(
        "Claude Code, SSE",
        {"type": "sse", "url": "https://mcp.example/events"},
        remote=("sse", "https://mcp.example/events", ()),
    ),
    ClientConfig(
        "VS Code",
        {"type": "http", "url": URL, "headers": {"X-Api-Key": "${input:key}"}},
        remote=("streamable-http", URL, ("X-Api-Key",)),
    ),
    ClientConfig(
        "VS Code, stdio",
        {"type": "stdio", "command": "uvx", "args": ["acme-mcp"], "envFile": "${workspaceFolder}/.env"},
        ("pypi", "acme-mcp"),
    ),
    ClientConfig(
        "Cursor",
        {"url": URL, "headers": {"Authorization": "Bearer ${env:TOKEN}"}},
        remote=("streamable-http", URL, ("Authorization",)),
    ),
    ClientConfig("Cursor, one line", {"command": "npx -y @acme/files"}, ("npm", "@acme/files")),
    ClientConfig(
        "Windsurf",
        {"serverUrl": URL, "headers": {"API_KEY": "Bearer ${env:AUTH_TOKEN}"}},
        remote=("streamable-http", URL, ("API_KEY",)),
    ),
    ClientConfig(
        "Cline",
        {"url": URL, "type": "streamableHttp", "headers": AUTHORIZED, "alwaysAllow": [], "disabled": False},
        remote=("streamable-http", URL, ("Authorization",)),
    ),
    ClientConfig(
        "Cline, older",
        {"url": "https://mcp.example/sse", "transportType": "sse", "autoApprove": []},
        remote=("sse", "https://mcp.example/sse", ()),
    ),
    ClientConfig(
        "Roo Code",
        {"type": "streamable-http", "url": "https://mcp.example/sse", "alwaysAllow": ["a"]},
        remote=("streamable-http", "https://mcp.example/sse", ()),
    ),
    ClientConfig(
        "Zed",
        {"source": "custom", "command": "docker", "args": ["run", "-i", "--rm", "-e", "KEY", "acme/mcp:1"]},
        ("oci", "acme/mcp:1"),
    ),
    ClientConfig(
        "Zed, older",
        {"command": {"path": "/usr/local/bin/npx", "args": ["-y", "acme-mcp"], "env": {}}, "settings": {}},
        ("npm", "acme-mcp"),
    ),
    ClientConfig(
        "Gemini CLI",
        {"httpUrl": "https://mcp.example/sse", "headers": {"Authorization": "Bearer $TOKEN"}, "timeout": 5000},
        remote=("streamable-http", "https://mcp.example/sse", ("Authorization",)),
    ),
    ClientConfig(
        "LM Studio",
        {"url": "https://hf.example/mcp", "headers": {"Authorization": "Bearer <YOUR_HF_TOKEN>"}},
        remote=("streamable-http", "https://hf.example/mcp", ("Authorization",)),
    ),
    ClientConfig(
        "OpenCode",
        {"type": "local", "command": ["bun", "x", "acme-mcp"], "environment": {"A_KEY": "x y"}},
        ("npm", "acme-mcp"),
    ),
    ClientConfig(
        "OpenCode, remote",
        {"type": "remote", "url": URL, "headers": {"K": "{env:KEY}"}, "enabled": True},
        remote=("streamable-http", URL, ("K",)),
    ),
    ClientConfig(
        "Cherry Studio",
        {"type": "sse", "baseUrl": "https://mcp.example/a", "isActive": True},
        remote=("sse", "https://mcp.example/a", ()),
    ),
    ClientConfig(
        "Copilot CLI",
        {"type": "local", "command": "npx", "args": ["@acme/files@1.2.3"], "tools": ["*"]},
        ("npm", "@acme/files"),
    ),
    ClientConfig(
        "FastMCP",
        {"transport": "streamable-http", "url": "https://mcp.example/sse/"},
        remote=("streamable-http", "https://mcp.example/sse/", ()),
    ),
    ClientConfig("a local server", {"url": "http://localhost:3000/sse"}),
    ClientConfig("a server on the network", {"type": "http", "url": "http://192.168.0.7/mcp"}),
]


@pytest.mark.parametrize("config", CONFIGS, ids=[config.client for config in CONFIGS])
def test_the_configs_of_clients_install_and_connect_what_they_say(config: ClientConfig) -> None:
    [server] = servers({"mcpServers": {"acme": config.entry}})
    assert "missing" not in [warning.code for warning in server.warnings]
    document = server_json("network.a2b.0123456789ab/acme", "1", server)
    packages = [(package["registryType"], package["identifier"]) for package in document.get("packages", ())]
    remotes = [
        (remote["type"], remote["url"], tuple(header["name"] for header in remote.get("headers", ())))
        for remote in document.get("remotes", ())
    ]
    assert packages == ([config.package] if config.package else [])
    assert remotes == ([config.remote] if config.remote else [])


def remote(**entry: Any) -> dict[str, Any]:
    [server] = servers({"mcpServers": {"a": entry}})
    [only] = server_json("network.a2b.0123456789ab/a", "1", server)["remotes"]
    return dict(only)


@pytest.mark.parametrize(
    "value", ["Bearer ${TOKEN}", "Bearer ${env:TOKEN}", "Bearer ${TOKEN:-none}", "Bearer {env:TOKEN}", "Bearer $TOKEN",
              "Bearer <TOKEN>", "Bearer {{TOKEN}}", "Bearer ${input:TOKEN}"],
)  # fmt: skip
def test_a_header_with_a_placeholder_asks_for_it_as_a_secret(value: str) -> None:
    [header] = remote(url=URL, headers={"Authorization": value})["headers"]
    assert header == {
        "name": "Authorization", "isRequired": True, "isSecret": True, "value": "Bearer {TOKEN}",
        "variables": {"TOKEN": {"isRequired": True, "isSecret": True}},
    }  # fmt: skip


def test_values_of_secret_headers_are_not_repeated_and_others_are() -> None:
    headers = {
        "Authorization": "Bearer abc",
        "X-Region": "eu",
        "Cookie": "a=1",
        "X-Odd": "{",
        "bad name": "x",
        "X-Line": "a\nb",
    }
    assert remote(url=URL, headers=headers)["headers"] == [
        {"name": "Authorization", "isRequired": True, "isSecret": True},
        {"name": "X-Region", "isRequired": True, "value": "eu"},
        {"name": "Cookie", "isRequired": True, "isSecret": True},
        {"name": "X-Odd", "isRequired": True},
        {"name": "X-Line", "isRequired": True},
    ]


def test_a_live_secret_in_a_header_is_warned_of_and_nowhere_repeated() -> None:
    secret = "ghp_" + "a1" * 18
    [server] = servers({"mcpServers": {"a": {"url": URL, "headers": {"X-Thing": f"x {secret}"}}}})
    assert [(warning.code, warning.pointer) for warning in server.warnings] == [
        ("secret", "/mcpServers/a/headers/X-Thing")
    ]
    assert secret not in str(server_json("network.a2b.0123456789ab/a", "1", server))


def test_placeholders_of_a_url_are_variables() -> None:
    served = remote(url="https://${env:TENANT}.example/mcp?api_key=${API_KEY}")
    assert served["url"] == "https://{TENANT}.example/mcp?api_key={API_KEY}"
    assert served["variables"] == {"TENANT": {"isRequired": True}, "API_KEY": {"isRequired": True, "isSecret": True}}


def test_a_command_that_serves_at_a_local_url_is_a_package_with_this_transport() -> None:
    entry = {"command": "npx", "args": ["acme-mcp", "--port", "3001"], "type": "sse", "url": "http://localhost:3001/x"}
    [server] = servers({"mcpServers": {"a": entry}})
    document = server_json("network.a2b.0123456789ab/a", "1", server)
    assert document["packages"][0]["transport"] == {"type": "sse", "url": "http://localhost:3001/x"}
    assert "remotes" not in document
    [elsewhere] = servers({"mcpServers": {"a": entry | {"url": URL}}})
    assert "packages" not in server_json("network.a2b.0123456789ab/a", "1", elsewhere)
