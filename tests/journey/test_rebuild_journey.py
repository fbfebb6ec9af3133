"""`a2b rebuild` beside `a2b index` and two workers that serve: nobody who asks meanwhile sees a part of the index."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.journey.test_following import Node, folder
from tests.litecoind import free_port
from tests.running import Running, a2b, compiled, environment

__all__ = ["compiled"]


@pytest.mark.parametrize(("engine", "times"), [("tantivy", 2), ("whoosh", 1)])
def test_an_index_is_made_anew_while_others_feed_and_serve_it(
    engine: str, times: int, tmp_path: Path, compiled: Path
) -> None:
    node = Node(tmp_path)
    node.mine(25)
    index = f"{tmp_path}/index-files"
    told: dict[str, Any] = {
        "A2B_DATA": f"{tmp_path}/data", "A2B_SEARCH": f"{engine}:{index}", "NUMBA_CACHE_DIR": str(compiled),
        "A2B_LIMITS": "off",
    }  # fmt: skip
    serve = ("serve", "--workers", "2", "--port", str(free_port()))
    with (
        Running("index", cwd=folder(tmp_path, "one"), A2B_CHAINS=node.chains, **told),
        Running(*serve, cwd=folder(tmp_path, "two"), **told) as serving,
    ):

        def total(path: str = "/v1/search?q=router&limit=100") -> int:
            page = serving.get(path)
            assert len(page["items"]) == page["total"]
            return int(page["total"])

        serving.until(lambda: total() == 25)
        before = folders(index)
        for count in range(25, 25 + times):
            maker = subprocess.Popen(
                [sys.executable, "-m", "overlay", "rebuild"], cwd=tmp_path, env=environment(**told),
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            while maker.poll() is None:
                assert total() == count
            out, err = maker.communicate()
            assert (maker.returncode, err) == (0, "")
            assert f"indexed {count} registrations" in out
            # what comes now is found in the new one, by both workers, which go over to it by themselves
            node.mine(1)
            for _ in range(4):
                serving.until(lambda: total() > count)  # noqa: B023 - it is called at once
        assert len(folders(index)) == 1
        assert folders(index) != before
    done = a2b("search", "router", "--limit", "1", cwd=tmp_path, **told)
    assert (done.returncode, f"{25 + times} listings" in done.stdout) == (0, True), done


def folders(index: str) -> list[str]:
    """The indexes that there are."""
    return sorted(path.name for path in Path(index).iterdir() if path.is_dir())
