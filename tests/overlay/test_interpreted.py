"""A server with a small registry answers before its kernels are compiled, in threads, and what it will answer then."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest

from overlay.app.compilation import ALL_LOOPS, cache_folder
from tests.compiled import compile_loops
from tests.running import Running

QUESTIONS = (
    "chart", "dex chrat", "translate a contract into german", "pdf", "price of bitcoin", "weather in Miami",
    "mcp server",
    "agent that summarises papers", '"on-chain"', "chart -dex", "asdf qwer", "übersetzen", "file system tools", "the",
)  # fmt: skip
FILTERS = (
    "", "&type=agent", "&currency=BSV", "&sort=price", "&sort=-updated", "&sort=name&limit=3",
    "&facets=tag,type,currency",
    "&maxPrice=25&priceCurrency=USD", "&status=all&limit=2", "&words=all", "&duplicates=true",
)  # fmt: skip
OTHERS = (
    "/v1/search?limit=5", "/v1/search?sort=price&limit=4", "/v1/suggest?q=ch", "/v1/suggest?q=tra", "/v0.1/servers",
    "/agents", "/v1/feeds/search.atom?q=chart", "/mrp/registry/query", "/api/v1/agents/discover",
    "/discovery/resources", "/v1/facets", "/sitemap.xml", "/llms.txt",
)  # fmt: skip
PATHS = (*(f"/v1/search?q={quote_plus(text)}{more}" for text in QUESTIONS for more in FILTERS), *OTHERS)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache that holds every kernel, and no mark that it does."""
    compile_loops()
    folder = cache_folder(tmp_path / "numba")
    shutil.copytree(os.environ["NUMBA_CACHE_DIR"], folder, ignore=shutil.ignore_patterns("*.compiled", "*.lock"))
    return folder


@pytest.fixture
def compilers(cache: Path) -> Iterator[ExitStack]:
    """The locks of the processes that compile, which wait until these are closed."""
    with ExitStack() as locks:
        for loops in ALL_LOOPS:
            file = locks.enter_context((cache / f"{loops.name}.lock").open("w"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield locks


def bodies(server: Running) -> dict[str, str]:
    return {path: re.sub('"requestId":"[0-9a-f]+"', "", server.text(path)) for path in PATHS}


def test_answers_are_the_same_before_and_after_kernels_are_compiled_and_none_is_interpreted_by_the_event_loop(
    tmp_path: Path, cache: Path, compilers: ExitStack
) -> None:
    calls = tmp_path / "calls"
    more: dict[str, Any] = {"NUMBA_CACHE_DIR": str(cache), "CALLS": str(calls), "A2B_LIMITS": "off"}
    with Running("up", "--port", "0", cwd=tmp_path, module="tests.overlay.interpreting_server", **more) as server:
        server.until_ready()
        server.until(lambda: server.get("/v1/search?q=chart")["total"] == 2)
        assert server.get("/v1/status")["index"]["compiling"] is True
        before = bodies(server)
        compilers.close()
        server.until(lambda: "compiling" not in server.get("/v1/status")["index"])
        after = bodies(server)
    assert not calls.exists(), calls.read_text()
    assert sum('"total":0' not in text for text in before.values()) > 100
    assert not {path: (before[path], after[path]) for path in PATHS if before[path] != after[path]}
