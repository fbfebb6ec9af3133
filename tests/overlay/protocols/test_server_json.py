"""MCP configs as server.json: every one fits the registry's schema, and installs what its command would run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from overlay.systems.mcp_registry.server_json import package, server_json
from parsers import cards
from parsers.cards import Kind, McpServer, ToolConfig

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=120),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=6,
)
NAME = "network.a2b.0123456789ab/server"
MEMBERS = (
    "name",
    "description",
    "command",
    "args",
    "env",
    "url",
    "version",
    "serverUrl",
    "type",
    "headers",
    "provider",
)


def schema(shared: Path) -> Draft7Validator:
    text = (shared / "data" / "specs" / "mcp-server-2025-12-11.schema.json").read_text()
    return Draft7Validator(json.loads(text), format_checker=Draft7Validator.FORMAT_CHECKER)


def servers(config: object) -> tuple[McpServer, ...]:
    card = cards.examine(json.dumps(config).encode(), Kind.TOOL).card
    return card.servers if isinstance(card, ToolConfig) else ()


def test_every_config_of_the_field_becomes_a_valid_server_json(shared: Path) -> None:
    validator = schema(shared)
    count = installable = 0
    for line in (shared / "data" / "a2b-mcp-payloads.jsonl").read_text().splitlines():
        for server in servers(json.loads(line)["payload"]):
            document = server_json(NAME, "0.0.1", server)
            validator.validate(document)
            count += 1
            installable += "packages" in document or "remotes" in document
    assert count == 2_559
    assert installable > 0.9 * count


@given(st.dictionaries(st.sampled_from(MEMBERS), JSON))
def test_any_config_becomes_a_valid_server_json(shared: Path, entry: dict[str, Any]) -> None:
    for server in servers({"mcpServers": {"a": {"command": "npx", **entry}}}):
        schema(shared).validate(server_json(NAME, "0.0.1", server))


def installs(command: str, *args: str, **env: str) -> dict[str, Any]:
    installed = package(command, args, env)
    assert installed is not None
    assert installed.pop("transport") == {"type": "stdio"}
    return installed


def words(*values: str) -> list[dict[str, str]]:
    return [{"type": "positional", "value": value} for value in values]


def test_npx_runs_a_package_of_npm() -> None:
    installed = installs("npx", "-y", "@scope/a.b@1.2.3", "--port", "1", API_KEY="the key", REGION="")
    assert installed == {
        "registryType": "npm", "identifier": "@scope/a.b", "version": "1.2.3", "runtimeHint": "npx",
        "packageArguments": words("--port", "1"),
        "environmentVariables": [
            {"name": "API_KEY", "description": "the key", "isSecret": True}, {"name": "REGION"},
        ],
    }  # fmt: skip


def test_latest_is_no_version() -> None:
    assert installs("bunx", "tool@latest") == {"registryType": "npm", "identifier": "tool", "runtimeHint": "bunx"}


def test_uvx_runs_a_package_of_pypi() -> None:
    installed = installs("uvx", "--python", "3.12", "a-tool==2.0", "serve")
    assert installed == {
        "registryType": "pypi", "identifier": "a-tool", "version": "2.0", "runtimeHint": "uvx",
        "runtimeArguments": words("--python", "3.12"), "packageArguments": words("serve"),
    }  # fmt: skip
    assert installs("pipx", "run", "a-tool")["identifier"] == "a-tool"


def test_docker_runs_an_image_behind_its_flags() -> None:
    installed = installs("docker", "run", "-i", "--rm", "-e", "TOKEN", "--mount=type=bind", "ghcr.io/a/b:1.0", "x")
    assert installed == {
        "registryType": "oci", "identifier": "ghcr.io/a/b:1.0", "runtimeHint": "docker",
        "runtimeArguments": words("-e", "TOKEN", "--mount=type=bind"), "packageArguments": words("x"),
    }  # fmt: skip


@pytest.mark.parametrize(
    "command",
    [
        "node server.js", "./npx tool", "bin/npx tool", "python -m tool", "npx", "npx -y", "npx ./tool",
        "npx tool@^1.0",
        "npx -p other tool", "npx --package=other tool", "uvx --from other tool", "uvx git+https://a.example/b",
        "docker ps", "docker run -e", "go run a.example/b@latest", "npx https://a.example/b.tgz", "uvx tool[extra]",
        "npx tool@1.x", "npx tool@1.0.0-next.1", "npm install tool", "npm exec --package=other tool", "pnpm tool",
        "yarn dlx -p other tool", "pipx run --spec other tool", "pipx run --verbose tool", "uv run tool",
        "cmd /c", "cmd /k npx tool", "cmd /c npx tool & other", "cmd /c npx tool %KEY%", "sh -c", "bash run npx tool",
        "env KEY=1 npx tool", "/usr/bin/env", "cmd /c cmd /c cmd /c cmd /c cmd /c npx tool",
    ],
)  # fmt: skip
def test_a_command_that_names_no_package_for_certain_gives_none(command: str) -> None:
    program, *args = command.split()
    assert package(program, args, {}) is None


@pytest.mark.parametrize(
    "script", ["npx tool; rm x", "npx tool && x", "npx $TOOL", "npx 'tool'", "npx tool > log", "npx tool\nx"]
)
def test_a_script_of_more_than_one_plain_command_gives_none(script: str) -> None:
    for shell in ("sh", "bash", "/bin/zsh"):
        assert package(shell, ["-c", script], {}) is None
    assert package(script, [], {}) is None


def test_an_empty_argument_cannot_be_written(shared: Path) -> None:
    assert package("npx", ["tool", ""], {}) is None


@pytest.mark.parametrize(
    ("words", "registry", "hint"),
    [
        (["npm", "exec", "--yes", "--", "tool", "a"], "npm", "npx"), (["npm", "x", "tool", "--", "a"], "npm", "npx"),
        (["pnpm", "dlx", "tool", "a"], "npm", "pnpx"), (["yarn", "dlx", "tool", "a"], "npm", "npx"),
        (["bun", "x", "tool", "a"], "npm", "bunx"), (["uv", "tool", "run", "tool", "a"], "pypi", "uvx"),
        (["pipx", "run", "tool", "a"], "pypi", "uvx"), (["podman", "container", "run", "tool", "a"], "oci", "podman"),
        (["dotnet", "tool", "exec", "tool", "--yes"], "nuget", "dnx"), (["dnx", "tool", "--", "a"], "nuget", "dnx"),
        (["nerdctl", "run", "-i", "tool", "a"], "oci", "nerdctl"), (["NPX.CMD", "-y", "tool", "a"], "npm", "npx"),
        (["C:\\Program Files\\nodejs\\npx.cmd", "-y", "tool", "a"], "npm", "npx"),
        (["/opt/homebrew/bin/uvx", "tool", "a"], "pypi", "uvx"),
        (["~/.bun/bin/bunx", "tool", "a"], "npm", "bunx"), (["%APPDATA%\\npm\\npx", "tool", "a"], "npm", "npx"),
        (["${env:HOME}/.local/bin/uvx", "tool", "a"], "pypi", "uvx"),
        (["$HOME/.local/bin/uv", "tool", "run", "tool", "a"], "pypi", "uvx"),
        (["cmd", "/c", "npx", "-y", "tool", "a"], "npm", "npx"), (["cmd.exe", "/C", "npx -y tool a"], "npm", "npx"),
        (["C:\\Windows\\System32\\cmd.exe", "/c", "bunx", "tool", "a"], "npm", "bunx"),
        (["/bin/sh", "-c", "npx -y tool a"], "npm", "npx"), (["bash", "-lc", "uvx tool a"], "pypi", "uvx"),
        (["/usr/bin/env", "npx", "tool", "a"], "npm", "npx"), (["npx -y tool", "a"], "npm", "npx"),
        (["npx tool a"], "npm", "npx"),
    ],
)  # fmt: skip
def test_the_same_runner_by_another_name_runs_the_same_package(words: list[str], registry: str, hint: str) -> None:
    argument = words[-1].split()[-1]
    assert installs(*words) == {
        "registryType": registry, "identifier": "tool", "runtimeHint": hint,
        "packageArguments": [{"type": "positional", "value": argument}],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("url", "transport"),
    [
        ("https://a.example/mcp", "streamable-http"),
        ("https://a.example:8080/sse/", "sse"),
        ("http://a.example:8080/sse/", None),
        ("https://localhost/mcp", None),
        ("https://127.0.0.1/mcp", None),
        ("https://a.localhost/mcp", None),
        ("https://LocalHost:8080/mcp", None),
        ("https://127.1/mcp", None),
        ("https://0x7f000001/mcp", None),
        ("https://10.1.2.3/mcp", None),
        ("https://host.docker.internal/mcp", None),
        ("https://a.example:99999/", None),
        ("https://a b.example/", None),
        ("ftp://a.example/", None),
        ("https://a.example/<", None),
        ("https://a.example/{", None),
        ("", None),
    ],
)  # fmt: skip
def test_a_url_is_a_remote(url: str, transport: str | None) -> None:
    document = server_json(NAME, "1", McpServer(key="a", name="a", url=url))
    assert document.get("remotes") == ([{"type": transport, "url": url}] if transport else None)


def test_texts_are_cut_and_whole_beside() -> None:
    server = McpServer(key="a", name="n" * 300, description="word " * 100)
    document = server_json(NAME, "1", server)
    assert len(document["title"]) == len(document["description"] + "x") == 100 or len(document["description"]) <= 100
    assert document["description"].endswith("…")
    provided = document["_meta"]["io.modelcontextprotocol.registry/publisher-provided"]
    assert provided["description"] == server.description
    huge = server_json(NAME, "1", McpServer(key="a", name="a", description="x" * 5_000))
    assert "_meta" not in huge
