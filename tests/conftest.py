"""Fixtures that every room's tests share."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from hypothesis import HealthCheck, settings

from overlay.app.compilation import cache_folder
from overlay.app.memory import collect_garbage_rarely
from overlay.installation import declare_tables
from tests import lanes
from tests.databases import database_url, empty_database_url, postgresql
from tests.opensearch_server import new_opensearch_url, opensearch, opensearch_programs, opensearch_url

if TYPE_CHECKING:
    from tests.chainkit import ChainKit

__all__ = [
    "database_url",
    "empty_database_url",
    "new_opensearch_url",
    "opensearch",
    "opensearch_programs",
    "opensearch_url",
    "postgresql",
]

# how long an example takes says more about who else uses the machine than about what is tested; in CI the same
# examples are tried again and again, so that a failure is one of the commit, and everywhere else always new ones
settings.register_profile(
    "a2b",
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=os.environ.get("A2B_REQUIRE_ALL") == "1",
)
settings.load_profile("a2b")

collect_garbage_rarely()  # as the program does; it takes a fifth of the processor time of most tests else

# hundreds of processes import the product: each but the first reads its bytecode
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# a commit waits for the disk, some 10 ms each: thousands of databases and indexes are in memory where there is room
_MEMORY = Path("/dev/shm")  # noqa: S108
if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free >= 6 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))
    tempfile.tempdir = str(_MEMORY)

ROOT = Path(__file__).parent.parent
SAMPLE = ROOT / "sample-blocks" / "bsv-regtest"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import files without quick tests where only the quick lane runs: that takes longer than many tests."""
    if config.option.markexpr != "quick" or collection_path.suffix != ".py":
        return None
    return True if not lanes.is_quick(collection_path.relative_to(ROOT / "tests").as_posix(), "") else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the quick lane."""
    for item in items:
        if lanes.is_quick(item.path.relative_to(ROOT / "tests").as_posix(), item.name):
            item.add_marker(pytest.mark.quick)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run what needs a server of OpenSearch in one process, as each such server takes 40 s of a processor; else each
    file in any."""
    from xdist.scheduler import LoadFileScheduling

    class Files(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return "opensearch" if path.startswith(lanes.ON_OPENSEARCH) else path

    return Files(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_finish() -> None:
    """Leave modules and tests, which stay, out of each collection of garbage."""
    gc.collect()
    gc.freeze()


def missing(what: str) -> NoReturn:
    """Skip the test because `what` is not installed, or fail where everything must be (`A2B_REQUIRE_ALL=1`)."""
    if os.environ.get("A2B_REQUIRE_ALL") == "1":
        pytest.fail(f"{what} is missing, and A2B_REQUIRE_ALL=1 says that nothing may be skipped")
    pytest.skip(f"{what} is missing")


@pytest.fixture(scope="session", autouse=True)
def compiled_loops() -> None:
    """One cache of kernels for all test runs and their processes: xdist's workers and the programs that tests start."""
    base = Path(os.environ.get("NUMBA_CACHE_DIR", ROOT / ".pytest_cache" / "numba"))
    os.environ["NUMBA_CACHE_DIR"] = str(cache_folder(base))


@pytest.fixture(scope="session", autouse=True)
def tables_of_systems() -> None:
    """Databases of tests have the tables of all systems, as those that the program opens."""
    declare_tables()


@pytest.fixture(autouse=True)
def networks_are_confirmed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Followers in the process of the tests ask twice for the network, without ten seconds between."""
    if "indexer.sync.follower" in sys.modules:  # tests that follow nothing do not import it
        monkeypatch.setattr("indexer.sync.follower.CONFIRM_SECONDS", 0.0)


@pytest.fixture(scope="module")
def often_collected() -> Iterator[None]:
    """Look for garbage as often as Python itself does: what is not collected yet counts where memory is measured."""
    rarely = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*rarely)


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


@pytest.fixture
def kit() -> ChainKit:
    """A new builder of a chain."""
    from tests.chainkit import ChainKit  # here: most tests build no chain, and need none of its imports

    return ChainKit()
