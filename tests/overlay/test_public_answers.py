"""Public answers of a server: they name none of the users, hosts, ports and folders that it is configured with."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.chainkit import ChainKit
from tests.running import Running, a2b
from tests.waiting import PATIENCE

DEAD = 9
"""A port on which nothing answers."""

ANSWERS = ("/v1/status", "/status", "/readyz", "/metrics", "/health", "/health/live", "/openapi.json", "/admin")


def answer(url: str) -> str:
    """The body at a URL, whatever its status."""
    try:
        with urlopen(url, timeout=PATIENCE) as response:  # noqa: S310 - http only
            return str(response.read().decode())
    except HTTPError as error:
        with error:
            return str(error.read().decode())


def metrics_url(running: Running) -> str:
    """Where the process serves metrics at an address of their own."""
    lines: list[str] = running.until(lambda: re.findall("^metrics on (.*)$", running.out, re.MULTILINE))
    return lines[0]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Running:
    """A server of a folder of blocks, two nodes and a peer that do not answer, and metrics apart."""
    folder = tmp_path_factory.mktemp("secret-folder")
    (folder / "blocks").mkdir()
    ChainKit().write(folder / "blocks")
    nodes = f"bsv=http://rpcuser:hunter2@127.0.0.7:{DEAD} bsv=http://127.0.0.8:{DEAD}"
    with Running(
        "up", "--port", "0", "--metrics", ":0", "--gasp-peers", f"http://127.0.0.9:{DEAD}", "--chains",
        f"demo=files:{folder}/blocks {nodes}", cwd=folder,
    ) as running:  # fmt: skip
        running.until(lambda: "unreachable" in answer(f"{running.url}/v1/status"))
        running.until(lambda: running.get("/v1/status")["chains"][0]["state"] == "following")
        yield running


def test_no_answer_names_a_user_host_port_or_folder_of_a_source(server: Running) -> None:
    texts = [answer(f"{server.url}{path}") for path in ANSWERS] + [answer(metrics_url(server))]
    secrets = ("rpcuser", "hunter2", "127.0.0.7", "127.0.0.8", "127.0.0.9", "secret-folder")
    for text in texts:
        without_itself = text.replace(server.url, "")
        assert not [word for word in secrets if word in without_itself], without_itself[:2000]
    assert "rpcuser" in server.out, "the operator reads what is followed"
    assert f"127.0.0.7:{DEAD} does not answer" in server.err


def test_the_status_names_the_kinds_of_sources_and_where_the_reason_is(server: Running) -> None:
    demo, nodes = server.get("/v1/status")["chains"]
    assert (demo["source"], nodes["source"]) == ("files", "node")
    assert nodes["error"] == "the source does not answer; the log of this server says why"
    assert "bsv is unreachable: the source does not answer" in answer(f"{server.url}/readyz")


def test_metrics_at_an_address_of_their_own_are_not_public(server: Running) -> None:
    answer(f"{server.url}/v1/search?q=light")
    assert "there is nothing at" in answer(f"{server.url}/metrics")
    assert "/metrics" not in answer(f"{server.url}/status") + answer(f"{server.url}/openapi.json")
    assert "a2b_chain_height" in answer(metrics_url(server))
    for route in ("/v1/search", "/metrics"):
        server.until(lambda: f'route="{route}"' in answer(metrics_url(server)))  # noqa: B023 - called here only


def test_several_workers_serve_metrics_once(server: Running, tmp_path: Path) -> None:
    with Running(
        "serve", "--workers", "2", "--port", "18719", "--metrics", ":0", "--data", str(server.cwd / "a2b-data"),
        "--statistics", "on", cwd=tmp_path,
    ) as running:  # fmt: skip
        url = metrics_url(running)
        running.until_ready()
        for _ in range(8):
            answer(f"{running.url}/v1/search?q=light&limit=1")
        counts = r'a2b_http_request_seconds_count\{route="/v1/search",status="[0-9]+"\} (\S+)'
        running.until(lambda: sum(map(float, re.findall(counts, answer(url)))) == 8)
        text = answer(url)
        answered = int(float(re.search(r'_count\{route="/v1/search",status="200"\} (\S+)', text)[1]))  # type: ignore[index]
        counted = sum(map(float, re.findall(r"a2b_searches_total\{\S+\} (\S+)", text)))
        assert counted == answered, "what a worker that starts refuses is no search"
        assert "<h1>What is searched for</h1>" in answer(url.replace("/metrics", "/stats"))
        running.stop()
    done = a2b("stats", "--json", "--data", str(server.cwd / "a2b-data"), cwd=server.cwd)
    assert sum(day["searches"] for day in json.loads(done.stdout)["days"]) == answered, "of both workers"


def test_the_status_on_this_machine_names_kinds_too(server: Running) -> None:
    done = a2b("status", "--json", "--data", str(server.cwd / "a2b-data"), cwd=server.cwd)
    assert done.returncode == 0, done.stderr
    assert str(server.cwd) not in done.stdout
