"""Status, readiness, metrics and searches while an indexer is ended or stopped, the database is locked, or a disk is
full: of real processes, a real lock and a real small file system."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import Any, cast
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.chainkit import agent
from tests.conftest import missing
from tests.journey.test_following import Node
from tests.running import Running, a2b
from tests.waiting import PATIENCE

SHOWN_SECONDS = 90.0
"""Within which a fault is shown: 30 s, and what a busy machine adds."""


def get(running: Running, path: str, accept: str = "*/*") -> tuple[int, str]:
    """Status and body."""
    request = Request(f"{running.url}{path}", headers={"Accept": accept})  # noqa: S310 - http only
    try:
        with cast("HTTPResponse", urlopen(request, timeout=PATIENCE)) as answer:  # noqa: S310 - http only
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def within(running: Running, what: Callable[[], Any]) -> None:
    began = time.monotonic()
    running.until(what)
    assert time.monotonic() - began < SHOWN_SECONDS


def chain(running: Running) -> dict[str, Any]:
    result: dict[str, Any] = running.get("/v1/status")["chains"][0]
    return result


def is_silent(running: Running) -> bool:
    return chain(running)["state"] == "silent"


def folder(path: Path) -> Path:
    path.mkdir()
    return path


@contextmanager
def two_processes(path: Path, node: Node) -> Iterator[tuple[Running, Running]]:
    """An indexing and a serving process on the same database, once both are at the tip."""
    data = {"A2B_DATA": str(folder(path) / "data")}
    with (
        Running("index", "--chains", node.chains, cwd=folder(path / "index"), **data) as indexing,
        Running("serve", "--port", "0", cwd=folder(path / "serve"), **data) as serving,
    ):
        serving.until_ready()
        serving.until(lambda: chain(serving)["state"] == "following")
        yield indexing, serving


def test_an_indexer_that_is_killed_or_stopped_is_silent_within_half_a_minute(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.mine(2)
    with (
        two_processes(tmp_path / "killed", node) as (killed, beside_killed),
        two_processes(tmp_path / "stopped", node) as (stopped, beside_stopped),
    ):
        before = chain(beside_killed)
        assert (before["height"], before["tip"], before["lag"], before["mempool"]) == (3, 3, 0, None)
        assert before["followerSeenAt"] >= before["lastBlockAt"]
        assert beside_killed.get("/readyz")["degraded"] == []
        stopped.process.send_signal(signal.SIGSTOP)
        killed.process.kill()
        within(beside_killed, lambda: is_silent(beside_killed))
        within(beside_stopped, lambda: is_silent(beside_stopped))
        for serving in (beside_killed, beside_stopped):
            ready = serving.get("/readyz")
            assert (ready["status"], ready["degraded"]) == ("ready", ["follower:live"]), "it answers searches"
            assert serving.get("/v1/search?q=router")["total"] == 2
            status = serving.get("/v1/status")
            assert status["degraded"] == ["follower:live"]
            assert "has given no sign of life since 20" in status["chains"][0]["error"]
            metrics = get(serving, "/metrics")[1]
            assert 'a2b_chain_state{chain="live",state="silent"} 1.0' in metrics
            assert 'a2b_chain_lag_blocks{chain="live"} 0.0' in metrics
            assert 'a2b_follower_seen_seconds{chain="live"} 1' in metrics
            assert "is not followed" in get(serving, "/status", "text/html")[1]
        shown = a2b("status", cwd=tmp_path, A2B_DATA=str(tmp_path / "killed" / "data"))
        assert "live  bsv:regtest  silent: block 3" in shown.stdout
        assert "degraded: follower:live" in shown.stdout
        stopped.process.send_signal(signal.SIGCONT)
        within(beside_stopped, lambda: chain(beside_stopped)["state"] == "following")
        assert beside_stopped.get("/v1/status")["degraded"] == []


def test_a_locked_database_is_shown_until_it_is_free(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.mine(2)
    with Running("up", "--port", "0", "--chains", node.chains, cwd=folder(tmp_path / "up")) as running:
        running.until_ready()
        (file,) = (tmp_path / "up").glob("*/a2b.db")
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        node.mine(1)
        within(running, lambda: "database" in running.get("/readyz")["degraded"])
        assert running.get("/readyz")["status"] == "ready", "it answers searches"
        within(running, lambda: "error" in chain(running) and chain(running)["tip"] == 4)
        row = chain(running)
        assert row["state"] in ("unreachable", "silent")
        assert row["error"] == "the database cannot be used; the log of this server says why"
        assert (row["height"], row["lag"]) == (3, 1)
        assert "a2b_database_up 0.0" in get(running, "/metrics")[1]
        assert running.get("/v1/status")["degraded"] == ["database", "follower:live"]
        other.execute("ROLLBACK")
        running.until(lambda: chain(running)["state"] == "following" and chain(running)["height"] == 4)
        within(running, lambda: running.get("/v1/status")["degraded"] == [])


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    """A file system of this size."""
    path.mkdir()
    if shutil.which("mount") is None:
        missing("mount")
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "a2b-test", path], capture_output=True, text=True
    )
    if done.returncode:
        missing(f"the right to mount a file system ({done.stderr.strip()})")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


def fill(disk: Path) -> None:
    """Leave no room."""
    with (disk / "filling").open("ab", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def test_a_search_is_refused_where_the_disk_of_the_index_was_full_from_the_start(tmp_path: Path) -> None:
    node = Node(tmp_path)
    with small_disk(tmp_path / "disk", "256k") as disk:
        settings = {"A2B_DATA": str(disk), "A2B_DATABASE": f"sqlite:///{tmp_path}/a2b.db"}
        with Running("up", "--port", "0", "--chains", node.chains, cwd=folder(tmp_path / "up"), **settings) as running:
            running.until_ready()  # the index of an empty database
            fill(disk)
            node.mine(3)
            running.until(lambda: running.get("/v1/status")["listings"]["live"] == 3)
            within(running, lambda: "index-behind" in running.get("/v1/status")["degraded"])
            assert get(running, "/v1/search?q=router")[0] == 503
            status, html = get(running, "/", "text/html")
            assert status == 503
            assert "No listings" not in html
            assert get(running, "/readyz")[0] == 503
            (disk / "filling").unlink()
            running.until(lambda: get(running, "/readyz")[0] == 200)
            assert running.get("/v1/search?q=router")["total"] == 3
            assert running.get("/v1/status")["degraded"] == []


def test_a_full_disk_of_the_database_is_shown_until_there_is_room(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.mine(1)
    with small_disk(tmp_path / "disk", "48m") as disk:
        data = {"A2B_DATA": str(disk)}
        with Running("up", "--port", "0", "--chains", node.chains, cwd=folder(tmp_path / "up"), **data) as running:
            running.until_ready()
            fill(disk)
            for number in range(40):  # more than the write-ahead log has room for
                node.kit.mine(node.kit.inscribe(agent(f"Large {number}", description=f"{number} router " * 12_000)))
            node.mine(1)
            within(running, lambda: "database" in running.get("/readyz")["degraded"])
            assert running.get("/readyz")["status"] == "ready"
            running.until(lambda: "error" in chain(running))
            assert chain(running)["state"] == "unreachable"
            assert chain(running)["lag"] > 0
            (disk / "filling").unlink()
            running.until(lambda: (chain(running)["state"], chain(running)["height"]) == ("following", 43))
            within(running, lambda: running.get("/v1/status")["degraded"] == [])
