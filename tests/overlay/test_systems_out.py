"""Each system can be taken out: with an import hook that refuses its folder, and all of them at once, `up` starts and
answers."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest
from sqlalchemy import inspect

from indexer.store import connect
from overlay.api.openapi import document
from overlay.app.http_app import ROUTES, load_systems
from overlay.installation import NAMES, installed
from tests.conftest import ROOT
from tests.running import Running, a2b
from tests.waiting import PATIENCE

MEMBERS = {"rating": "rating", "motebit": "motebit"}
"""The members of items that a system brings."""


def without(names: tuple[str, ...], folder: Path) -> dict[str, str]:
    """The environment of a process that can import no module of these systems."""
    (folder / "sitecustomize.py").write_text(f"from tests.without_systems import refuse\nrefuse({names!r})\n")
    return {"PYTHONPATH": f"{folder}:{ROOT}"}


def paths(names: tuple[str, ...]) -> set[str]:
    return set(document(ROUTES, "", load_systems(names))["paths"])


def page(url: str) -> str:
    """The page at a URL, which is answered with 200."""
    with urlopen(Request(url, headers={"Accept": "text/html"}), timeout=PATIENCE) as answer:  # noqa: S310 - http only
        text: str = answer.read().decode()
        return text


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The items of a search with every system."""
    with Running("up", "--port", "0", cwd=tmp_path_factory.mktemp("all")) as up:
        up.until_ready()
        assert set(up.get("/openapi.json")["paths"]) >= paths(NAMES)
        return up.get("/v1/search?limit=100")["items"]


GROUPS = len(NAMES) if os.environ.get("A2B_SLOW_TESTS") == "1" else 4
"""The systems are taken out in so many groups, each in one of them."""


@pytest.mark.parametrize(
    "refused", [*(NAMES[start::GROUPS] for start in range(GROUPS)), NAMES], ids=lambda names: " ".join(names[:2])
)
def test_up_answers_without_a_system(refused: tuple[str, ...], tmp_path: Path, items: Any) -> None:
    with Running("up", "--port", "0", cwd=tmp_path, **without(refused, tmp_path)) as up:
        up.until_ready()
        absent = {member for name, member in MEMBERS.items() if name in refused}
        expected = [{name: value for name, value in item.items() if name not in absent} for item in items]
        assert up.get("/v1/search?limit=100")["items"] == expected
        if "rating" in refused:
            assert up.get("/v1/search?sort=-rating")["errors"] == [
                {"code": "unknown-value", "detail": "sort: rating is not installed", "parameter": "sort"}
            ]
            assert up.get("/v1/search?minCustomers=1")["errors"] == [
                {
                    "code": "unknown-value",
                    "detail": "minCustomers: rating is not installed",
                    "parameter": "minCustomers",
                }
            ]
        for path in ("/", "/?q=tower", f"/listings/{quote(items[0]['id'], safe='')}", "/publish", "/status", "/docs"):
            assert "</html>" in page(up.url + path), path
        served = set(up.get("/openapi.json")["paths"])
        assert served == paths(tuple(name for name in NAMES if name not in refused))
        assert up.get("/v1/status")["chains"]
        assert "Traceback" not in up.err


def test_a_system_that_is_taken_out_is_refused_by_name(tmp_path: Path) -> None:
    run: Callable[..., Any] = partial(a2b, "up", "--port", "0", cwd=tmp_path, **without(("rating", "relay"), tmp_path))
    named = run(A2B_SYSTEMS="mcp rating")
    assert (named.returncode, named.stderr) == (2, "a2b: systems holds rating, and rating is not installed\n")
    set_ = run(A2B_RELAY="on")
    assert (set_.returncode, set_.stderr) == (2, "a2b: relay is set, and relay is not installed\n")


def test_a_command_goes_with_its_system(tmp_path: Path) -> None:
    commands = {one.name: one.commands for one in installed() if one.commands}
    assert commands.keys() == {"delegateos", "mcp", "motebit", "mrp", "payments", "rating", "relay"}
    shown = a2b("--help", cwd=tmp_path, **without(tuple(commands), tmp_path)).stdout
    assert "search" in shown
    assert not [
        name for name in ("mcp", "dct", "motebit", "pay-check", "refunds", "block", "relay") if f"    {name} " in shown
    ]


def test_the_tables_of_a_system_that_is_taken_out_are_left_alone(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/a2b.db"
    engine = connect(database)
    with engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO blocked_workers (worker, blocked_at) VALUES ('ww', 1)")
        connection.exec_driver_sql("ALTER TABLE blocked_workers ADD COLUMN of_another_version TEXT")
        connection.exec_driver_sql("DROP TABLE subscriptions")
    run: Callable[..., Any] = partial(a2b, "export", "facts.jsonl", cwd=tmp_path, A2B_DATABASE=database)
    refused = run()
    assert refused.returncode == 3
    assert "lacks the tables subscriptions" in refused.stderr
    written = run(**without(NAMES, tmp_path))
    assert written.returncode == 0, written.stderr
    with engine.begin() as connection:
        assert connection.exec_driver_sql("SELECT worker FROM blocked_workers").scalars().all() == ["ww"]
        connection.exec_driver_sql("ALTER TABLE blocked_workers DROP COLUMN of_another_version")
    assert "subscriptions" not in inspect(engine).get_table_names()
    (tmp_path / "facts.jsonl").unlink(missing_ok=True)
    migrated = a2b("migrate", cwd=tmp_path, A2B_DATABASE=database)
    assert migrated.returncode == 0, migrated.stderr
    again = run()
    assert again.returncode == 0, again.stderr
    assert "subscriptions" in inspect(engine).get_table_names()
    engine.dispose()
