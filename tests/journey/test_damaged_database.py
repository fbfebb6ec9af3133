"""The program over a SQLite file that a failing disk has damaged: it says what to do, and answers nothing from it."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.damage import damage_table
from tests.running import Running, a2b
from tests.waiting import PATIENCE

UP = ("up", "--port", "0", "--limits", "off", "--log", "json")
WHAT_TO_DO = "put a backup in its place"


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """The folder of a program that has read the packaged sample blocks and was killed."""
    with Running(*UP, cwd=tmp_path) as running:
        running.until_ready()
        running.stop(signal.SIGKILL)
    return tmp_path


def file(folder: Path) -> Path:
    return folder / "a2b-demo" / "a2b.db"


def status_of(running: Running, path: str, accept: str = "application/json") -> tuple[int, str]:
    request = Request(f"{running.url}{path}", headers={"Accept": accept})  # noqa: S310 - http only
    try:
        with urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310 - http only
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def checked(running: Running) -> Any:
    """The check in status, once it has ended; what status answers instead where the database is damaged."""

    def look() -> Any:
        answer = running.get("/v1/status")
        return answer if answer.get("status") == 503 else answer.get("integrity", {}).get("state", "checking") != (
            "checking"
        ) and answer["integrity"]  # fmt: skip

    return running.until(look)


def test_after_a_kill_the_database_is_checked_and_status_says_so_until_the_next(killed: Path) -> None:
    with Running(*UP, cwd=killed) as running:
        assert checked(running)["state"] == "ok"
        assert "Check of the database" in status_of(running, "/status", "text/html")[1]
        printed = a2b("status", cwd=killed)
        assert "database check: ok, 20" in printed.stdout
        assert running.stop()[0] == 0
        assert running.err.count("did not stop cleanly") == 1
    checked_at = json.loads(Path(f"{file(killed)}.check").read_text())["written_at"]
    with Running(*UP, cwd=killed) as running:
        running.until_ready()
        assert "did not stop cleanly" not in running.err
        running.stop()
    assert json.loads(Path(f"{file(killed)}.check").read_text())["written_at"] == checked_at, (
        "a clean stop causes no check"
    )


def test_a_damaged_page_is_found_and_from_then_on_nothing_is_answered_but_what_to_do(killed: Path) -> None:
    damage_table(file(killed), "proofs")
    with Running(*UP, cwd=killed) as running:
        problem = checked(running)
        assert WHAT_TO_DO in problem["detail"]
        assert str(killed) not in problem["detail"], "strangers read it"
        for path in ("/v1/search?q=agent", "/v1/status", "/readyz", "/v1/changes", "/v1/listings/x"):
            code, body = status_of(running, path)
            assert (code, WHAT_TO_DO in body) == (503, True), path
        for path in ("/", "/status"):
            code, body = status_of(running, path, "text/html")
            assert (code, "put a backup in its place" in body) == (503, True), path
        assert status_of(running, "/healthz")[0] == 200
        assert status_of(running, "/metrics")[0] == 200
        assert WHAT_TO_DO in running.err
        for command in (("status",), ("search", "agent"), ("diagnose", "ab" * 32)):
            printed = a2b(*command, cwd=killed)
            assert (printed.returncode, WHAT_TO_DO in printed.stderr) == (3, True), command
        assert running.stop()[0] == 0
    refused = a2b(*UP, cwd=killed)
    assert (refused.returncode, WHAT_TO_DO in refused.stderr, "Traceback" in refused.stderr) == (3, True, False)


def test_damage_while_serving_is_a_503_that_says_what_to_do_and_causes_a_check(killed: Path) -> None:
    with Running(*UP, cwd=killed) as running:
        assert checked(running)["state"] == "ok"
        running.stop()
    with Running(*UP, cwd=killed) as indexing:
        indexing.until_ready()
        listing = indexing.get("/v1/search")["items"][0]["id"]
        indexing.stop()
    Path(f"{file(killed)}.check").unlink()
    damage_table(file(killed), "events")
    with Running("serve", "--data", "a2b-demo", "--port", "0", "--limits", "off", cwd=killed) as running:
        code, body = status_of(running, f"/v1/listings/{listing}/history")
        assert (code, "malformed" in body, WHAT_TO_DO in body) == (503, True, True)
        running.until(lambda: status_of(running, "/v1/search?q=agent")[0] == 503)
        assert "Traceback" not in running.err
        assert running.stop()[0] == 0


def test_a_database_that_is_damaged_at_the_start_ends_the_program_with_what_to_do(killed: Path) -> None:
    damage_table(file(killed), "meta")
    printed = a2b(*UP, cwd=killed)
    assert (printed.returncode, WHAT_TO_DO in printed.stderr, "Traceback" in printed.stderr) == (3, True, False)
