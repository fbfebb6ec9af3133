"""Unmodified clients of ARD and of the MCP Registry against the whole program: ard-sdk, langchain-mcp-registry and
mcp-lookup in the environment `.venv-clients`, and ToolHive's client in Go. `.ci/run` makes both."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, missing
from tests.overlay.protocols.vectors import api_page
from tests.waiting import PATIENCE

PYTHON = ROOT / ".venv-clients" / "bin" / "python"
HERE = Path(__file__).parent
TOOLHIVE = HERE / "toolhive" / "toolhive"


def read_by(*command: str | Path) -> Any:
    """The output of a client, parsed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def read_by_python(script: str, url: str) -> Any:
    if not PYTHON.exists():
        missing(".venv-clients, an environment of Python 3.13 with registries' clients,")
    return read_by(PYTHON, HERE / script, url)


def tools(url: str) -> list[str]:
    """The names of the tools that the API lists."""
    return sorted(item["name"] for item in api_page(url, type="tool", limit=100)["items"])


def test_ard_sdk_searches_explores_and_lists(overlay_url: str) -> None:
    result = read_by_python("ard_sdk_client.py", overlay_url)
    everything, of_a = api_page(overlay_url, limit=100), api_page(overlay_url, q="a", limit=100)
    assert result["first"] == [item["id"] for item in api_page(overlay_url, q="watchtower")["items"]]
    assert len(result["paged"]) == len(set(result["paged"])) == result["federated"] == of_a["total"]
    assert sum(result["explored"].values()) == result["total"] == len(result["listed"]) == everything["total"]
    assert result["explores"]
    assert result["lists"]
    assert result["registries"] == ["http://overlay.example"]
    assert "no.such.path" in result["refused"]


@pytest.mark.parametrize("mount", ["", "/registry"])
def test_langchain_and_mcp_lookup_read_servers(overlay_url: str, mount: str) -> None:
    result = read_by_python("mcp_registry_clients.py", overlay_url + mount)
    for titles in result["titles"].values():
        assert sorted(titles) == tools(overlay_url)
    assert result["details"] == "PDF Extractor, reborn"
    assert result["versions"] == ["0.0.2", "0.0.1"]
    assert result["commands"]["Postgres Reader"] == ["npx", "-y", "postgres-reader-mcp", "--read-only"]
    assert result["commands"]["Weather Station"] == ["uvx", "weather-station-mcp"]
    assert result["missing"] == "ServerNotFoundError"
    assert result["looked_up"] == ["PDF Extractor, reborn", "0.0.2"]


@pytest.mark.parametrize("mount", ["", "/registry"])
def test_toolhive_lists_searches_and_gets_servers(overlay_url: str, mount: str) -> None:
    if not TOOLHIVE.exists():
        if shutil.which("go") is None:
            pytest.skip("ToolHive's client needs Go 1.26, which is not installed")
        missing("ToolHive's client: run `go build` in tests/overlay/protocols/toolhive;")
    result = read_by(TOOLHIVE, overlay_url + mount, "Extractor")
    assert sorted(result["titles"]) == tools(overlay_url)
    assert result["since"] == len(tools(overlay_url)) + 1  # and a tombstone
    [hit] = result["hits"]
    assert hit == result["one"]
    assert hit["packages"][0]["identifier"] == "example/pdf-extractor"
    assert "404" in result["missing"]
