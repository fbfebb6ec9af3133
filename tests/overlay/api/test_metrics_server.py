"""`a2b index` alone: what it tells who watches it, where it is asked to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from indexer.model import EventKind
from tests.running import SAMPLE, Running
from tests.waiting import PATIENCE


def ask(url: str, method: str = "GET") -> tuple[int, Any, bytes]:
    """Status, headers and body."""
    try:
        with urlopen(Request(url, method=method), timeout=PATIENCE) as answer:  # noqa: S310 - http only
            return answer.status, answer.headers, answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


class _Rates(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"rates": {"USD": 50}}')

    def log_message(self, *_: object) -> None:
        """Nothing is worth a line."""


@contextmanager
def feed() -> Iterator[str]:
    """A feed of exchange rates, as a setting."""
    with HTTPServer(("127.0.0.1", 0), _Rates) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"BSV=http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def metrics_url(running: Running) -> str:
    """Where it tells its metrics, once it does."""
    lines: list[str] = running.until(lambda: [line for line in running.out.splitlines() if "metrics on" in line])
    return lines[0].removeprefix("metrics on ").removesuffix("/metrics")


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, str]]:
    """An indexer of the sample blocks and of a feed of rates, caught up; and where it is watched."""
    folder = tmp_path_factory.mktemp("index")
    with (
        feed() as rates,
        Running("index", "--chains", SAMPLE, "--metrics", ":0", "--rates", rates, cwd=folder) as running,
    ):
        url = metrics_url(running)
        running.until(lambda: ask(f"{url}/readyz")[0] == 200)
        yield running, url


def test_it_tells_what_it_reads(watched: tuple[Running, str]) -> None:
    _, url = watched
    status, headers, body = ask(f"{url}/metrics")
    assert (status, headers["Content-Type"].partition(";")[0]) == (200, "text/plain")
    families = {family.name: family for family in text_string_to_metric_families(body.decode())}
    results = {
        (sample.name, *sample.labels.values()): sample.value
        for family in families.values()
        for sample in family.samples
    }
    assert results["a2b_chain_height", "demo"] == results["a2b_chain_tip_height", "demo"] == 125
    assert results["a2b_chain_lag_blocks", "demo"] == 0
    assert results["a2b_ingested_blocks_total", "demo"] == 126
    assert {key[2] for key in results if key[0] == "a2b_ingested_events_total"} == {item.value for item in EventKind}
    assert results["a2b_ingested_events_total", "demo", "rejected"] > 0
    assert results["a2b_chain_reorgs_total", "demo"] == 0
    assert results["a2b_listings", "live"] > 0
    assert results["a2b_log_lines_total", "error"] == 0
    assert results[("a2b_rates_age_seconds",)] >= 0
    assert {"a2b_fetches", "a2b_rates_feed_usable", "a2b_ingest_requests"} <= set(families)
    assert not any(name.startswith("a2b_index") for name in families), "there is no index to tell of"
    status, headers, _ = ask(f"{url}/metrics", "HEAD")
    assert (status, int(headers["Content-Length"]) > 1_000) == (200, True)


def test_it_tells_that_it_is_well_and_nothing_else(watched: tuple[Running, str]) -> None:
    _, url = watched
    for path, word in (("/healthz", "ok"), ("/readyz", "ready")):
        status, _, body = ask(f"{url}{path}")
        assert (status, json.loads(body)["status"]) == (200, word)
    for path in ("/", "/v1/search", "/v1/status", "/metrics/more"):
        status, headers, _ = ask(f"{url}{path}")
        assert (status, headers["Content-Type"]) == (404, "application/problem+json")
    status, headers, _ = ask(f"{url}/metrics", "POST")
    assert (status, headers["Allow"]) == (405, "GET, HEAD, OPTIONS")


def test_an_address_that_is_taken_ends_it_with_the_reason(watched: tuple[Running, str], tmp_path: Path) -> None:
    running, url = watched
    taken = url.removeprefix("http://")
    with Running("index", "--chains", SAMPLE, "--metrics", taken, cwd=tmp_path) as other:
        assert other.process.wait(PATIENCE) == 3
        assert f"cannot serve on 127.0.0.1 port {taken.partition(':')[2]}: Address already in use" in other.err
    assert running.process.poll() is None


def test_it_is_not_ready_while_its_source_does_not_answer_and_ends_at_once(tmp_path: Path) -> None:
    chains = "bsv=http://user:secret@127.0.0.1:1"
    with Running("index", "--metrics", "127.0.0.1:0", "--chains", chains, cwd=tmp_path) as running:
        url = metrics_url(running)
        running.until(lambda: b"unreachable" in ask(f"{url}/readyz")[2])
        status, _, body = ask(f"{url}/readyz")
        assert (status, b"secret" in body) == (503, False)
        assert b'a2b_chain_state{chain="bsv",state="unreachable"} 1.0' in ask(f"{url}/metrics")[2]
        code, _ = running.stop()
        assert code == 0


def test_it_listens_only_where_it_is_configured_to(tmp_path: Path) -> None:
    with Running("index", "--chains", SAMPLE, cwd=tmp_path) as running:
        running.until(lambda: "125" in running.err)
        inodes = set(sockets(running.process.pid))
        tables = [Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
        rows = [line.split() for table in tables for line in table]
        assert not [row for row in rows if row[9] in inodes and row[3] == LISTENING]


LISTENING = "0A"  # as the kernel writes the state of a socket


def sockets(pid: int) -> Iterator[str]:
    """The inodes of the sockets that a process has open."""
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            kind, _, inode = str(path.readlink()).partition(":")
            if kind == "socket":
                yield inode.strip("[]")
