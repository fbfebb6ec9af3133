"""`a2b rebuild` beside `a2b up`, or `a2b index` and two workers: nobody who asks meanwhile sees a part of the index."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.journey.test_following import Node, folder
from tests.ports import free_port
from tests.running import Running, a2b, environment


@pytest.fixture(params=["native", "whoosh"])
def shared_settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """The settings that all processes share."""
    return {
        "A2B_DATA": f"{tmp_path}/data", "A2B_SEARCH": f"{request.param}:{tmp_path}/{INDEX}", "A2B_LIMITS": "off",
    }  # fmt: skip


INDEX = "index-files"


@contextmanager
def serving(node: Node, tmp_path: Path, answer: dict[str, Any]) -> Iterator[Running]:
    """As one process for one engine, and for the other as an indexer and two workers."""
    if answer["A2B_SEARCH"].startswith("whoosh"):
        with Running("up", "--port", "0", cwd=folder(tmp_path, "up"), A2B_CHAINS=node.chains, **answer) as running:
            yield running
        return
    serve = ("serve", "--workers", "2", "--port", str(free_port()))
    with (
        Running("index", cwd=folder(tmp_path, "index"), A2B_CHAINS=node.chains, **answer),
        Running(*serve, cwd=folder(tmp_path, "serve"), **answer) as running,
    ):
        yield running


def test_an_index_is_rebuilt_while_others_write_and_serve_it(shared_settings: dict[str, Any], tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.mine(25)
    with serving(node, tmp_path, shared_settings) as running:

        def total() -> int:
            page = running.get("/v1/search?q=router&limit=100")
            if page.get("status") == 503:
                return 0  # there is no index yet
            assert len(page["items"]) == page["total"]
            return int(page["total"])

        running.until(lambda: total() == 25)
        before = folders(tmp_path)
        assert rebuilt(tmp_path, shared_settings, lambda: total() == 25) == 25
        assert len(folders(tmp_path)) == 1
        assert folders(tmp_path) != before
        # what comes now is found in the new one, by all workers, which go over to it by themselves
        node.mine(1)
        for _ in range(4):
            running.until(lambda: total() == 26)
        # a worker that nobody has asked since may tell of the old one until it has read the new one
        assert rebuilt(tmp_path, shared_settings, lambda: total() in (25, 26)) == 26
        node.mine(1)
        for _ in range(4):
            running.until(lambda: total() == 27)
    assert len(folders(tmp_path)) == 1
    done = a2b("search", "router", "--limit", "1", cwd=tmp_path, **shared_settings)
    assert (done.returncode, "27 listings" in done.stdout) == (0, True), done


def rebuilt(tmp_path: Path, answer: dict[str, Any], query: Callable[[], bool]) -> int:
    """Make the index anew, asking all the time; how many registrations the command tells of."""
    command = [sys.executable, "-m", "overlay", "rebuild"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(**answer), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as maker:
        while maker.poll() is None:
            assert query()
        out, err = maker.communicate()
    assert maker.returncode == 0, err
    words = out.split()
    return int(words[words.index("indexed") + 1])


def folders(tmp_path: Path) -> list[str]:
    """The indexes that there are."""
    return sorted(path.name for path in (tmp_path / INDEX).iterdir() if path.is_dir())
