"""The A2A clients of PyPI and npm, unmodified and in both versions, search a running overlay; and recorded requests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.conftest import missing
from tests.waiting import PATIENCE

HERE = Path(__file__).parent
PYTHON = str(HERE / "python_modules")
CLIENTS = {
    "a2a-sdk 1.3.0": ("sdk_1.py", "1.0"),
    "a2a-sdk 1.3.0 speaking 0.3": ("sdk_1.py", "0.3"),
    "a2a-sdk 0.3.26": ("sdk_0_3.py",),
    "@a2a-js/sdk 1.3.0": ("sdk.mjs", "1.0", "@a2a-js/sdk"),
    "@a2a-js/sdk 0.3.14": ("sdk.mjs", "0.3", "a2a-js-sdk-0.3"),
}
NO_HEADERS: Mapping[str, str] = {}
WATCHTOWER = "dc35745fe6bf0623a33a2d79bcfeaeb9d34808c5d37d772598ebe5fa93db9dd7_0"


@cache
def run(url: str, script: str, *arguments: str) -> dict[str, Any]:
    """The JSON that a client prints."""
    if script.endswith(".mjs"):
        if not (HERE / "node_modules").is_dir() or (node := shutil.which("node")) is None:
            missing("@a2a-js/sdk (npm ci in tests/overlay/protocols/a2a)")
        command, environment = [node], {}
    else:
        if find_spec("a2a") is None:
            missing("a2a-sdk")
        command, environment = [sys.executable], {}
        if script == "sdk_0_3.py":
            if not Path(PYTHON).is_dir():
                missing("a2a-sdk 0.3 (pip install --no-deps --target python_modules -r python_modules.txt)")
            environment = {"PYTHONPATH": PYTHON}
    done = subprocess.run(
        [*command, HERE / script, url, *arguments], capture_output=True, text=True, timeout=PATIENCE,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


def parts(message: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The text and the data of a message, as any of the clients shows it."""
    values = [part.get("content", {}).get("value") or part.get("text") or part["data"] for part in message["parts"]]
    text, data = values
    return text, data


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_reads_the_card_and_searches(client: str, overlay_url: str) -> None:
    answers = run(overlay_url, *CLIENTS[client])
    assert (answers["name"], answers["old"], answers["skills"]) == (*["A2B registry overlay"] * 2, ["search"])
    text, data = parts(answers["question"])
    assert WATCHTOWER in text
    assert [item["id"] for item in data["items"]] == [WATCHTOWER]
    assert data["total"] == 1
    assert answers["question"]["contextId"] == "c1"
    text, data = parts(answers["nothing"])
    assert (text, data["items"]) == ("No listings for zzqxjkv.", [])
    _, data = parts(answers["data"])
    assert [item["type"] for item in data["items"]] == ["tool"]
    assert data["nextCursor"]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_understands_the_errors(client: str, overlay_url: str) -> None:
    answers = run(overlay_url, *CLIENTS[client])
    assert "'tipe' is not a parameter here; did you mean type?" in answers["unknown"]
    assert answers["file"].startswith(("ContentTypeNotSupportedError", "-32005"))
    assert answers["task"].startswith(("TaskNotFoundError", "-32001"))


def fetch(url: str, body: str = "", headers: Mapping[str, str] = NO_HEADERS) -> Any:
    """The JSON at a URL; with a body it is posted."""
    with urlopen(Request(url, data=body.encode() or None, headers=dict(headers))) as response:  # noqa: S310 - http only
        return json.load(response)


def search(url: str, *parts: dict[str, Any]) -> dict[str, Any]:
    """The data part that answers a message of these parts."""
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": {"parts": parts}}}
    data: dict[str, Any] = fetch(f"{url}/a2a", json.dumps(call))["result"]["message"]["parts"][1]["data"]
    return data


@pytest.mark.parametrize("name", ["a2a_sdk", "a2a_js"])
def test_recorded_requests_of_clients_are_answered(name: str, overlay_url: str, shared: Path) -> None:
    for line in (shared / "vectors" / "clients" / f"{name}.jsonl").read_text().splitlines():
        recorded = json.loads(line)
        method, path = recorded["request"].split(" ", 1)
        answer = fetch(f"{overlay_url}{path}", recorded["body"], recorded["headers"])
        if method == "GET":
            assert answer["url"] == "http://overlay.example/a2a"
        elif recorded["body"] == "{":
            assert (answer["error"]["code"], answer["id"]) == (-32700, None)
        elif "nothing/at-all" in recorded["body"]:
            assert (answer["error"]["code"], answer["id"]) == (-32601, 1)
        elif '"message":' not in recorded["body"]:
            assert (answer["error"]["code"], answer["id"]) == (-32009, 2)  # message/send in version 1.0
        else:
            is_first = '"message/send"' in recorded["body"]
            answered = answer["result"] if is_first else answer["result"]["message"]
            assert answered["role"] == ("agent" if is_first else "ROLE_AGENT")
            ids = [item["id"] for item in answered["parts"][1]["data"]["items"]]
            assert ids == ([WATCHTOWER] if "watchtower" in recorded["body"] else [])


def test_text_and_data_are_one_search(overlay_url: str) -> None:
    parts = [{"text": "tower"}, {"data": {"type": "agent", "limit": 1.0, "offset": None, "tag": ["lightning", "x"]}}]
    data = search(overlay_url, *parts)
    assert (data["query"], data["limit"]) == ("tower", 1)
    [item] = data["items"]
    assert "lightning" in item["tags"]
    assert item["listingUrl"] == f"{overlay_url}/v1/listings/{item['id']}"
    assert fetch(item["listingUrl"])["id"] == item["id"]


def test_pages_follow_each_other_by_the_cursor(overlay_url: str) -> None:
    ids: list[str] = []
    members: dict[str, Any] = {"sort": "name", "limit": 2}
    for _ in range(2):
        data = search(overlay_url, {"data": members})
        ids += [item["id"] for item in data["items"]]
        members["cursor"] = data["nextCursor"]
    assert len(set(ids)) == 4
