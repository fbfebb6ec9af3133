"""Fixtures that every room's tests share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, settings

from tests import lanes
from tests.databases import database_url, postgresql
from tests.opensearch_server import new_opensearch_url, opensearch, opensearch_programs, opensearch_url

__all__ = ["database_url", "new_opensearch_url", "opensearch", "opensearch_programs", "opensearch_url", "postgresql"]

# how long an example takes says more about who else uses the machine than about what is tested
settings.register_profile("a2b", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("a2b")

ROOT = Path(__file__).parent.parent
SAMPLE = ROOT / "sample-blocks" / "bsv-regtest"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the quick lane."""
    for item in items:
        if lanes.is_quick(item.path.relative_to(ROOT / "tests").as_posix(), item.name):
            item.add_marker(pytest.mark.quick)


def missing(what: str) -> NoReturn:
    """Skip the test because `what` is not installed, or fail where everything must be (`A2B_REQUIRE_ALL=1`)."""
    if os.environ.get("A2B_REQUIRE_ALL") == "1":
        pytest.fail(f"{what} is missing, and A2B_REQUIRE_ALL=1 says that nothing may be skipped")
    pytest.skip(f"{what} is missing")


@pytest.fixture(scope="session", autouse=True)
def compiled_here(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Loops are compiled in the process of the tests, once, when they are first used, and not by a child of each
    service started here: it looks as if one had compiled, and the service waits for none."""
    folder = tmp_path_factory.mktemp("numba-here")
    (folder / "of-a-child").mkdir()
    for module in ("block_loop", "scoring"):
        (folder / "of-a-child" / f"{module}.loops.nbi").touch()
    os.environ.setdefault("NUMBA_CACHE_DIR", str(folder))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared vectors and data (`A2B_TEST_SHARED`, default `../shared`)."""
    folder = Path(os.environ.get("A2B_TEST_SHARED", ROOT.parent / "shared"))
    if not (folder / "vectors").is_dir():
        pytest.skip(f"the shared vectors are not at {folder}; set A2B_TEST_SHARED to where they are")
    return folder


@pytest.fixture(scope="session")
def sample() -> Path:
    """The sample chain mined by a real BSV node."""
    return SAMPLE
