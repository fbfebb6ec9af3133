"""The quick lane covers every room, and its list names files that exist."""

from __future__ import annotations

import pytest

from tests import lanes
from tests.conftest import ROOT

TESTS = ROOT / "tests"


@pytest.mark.parametrize("room", ["parsers", "indexer", "overlay", "contracts", "oracles"])
def test_every_room_has_quick_tests(room: str) -> None:
    files = [path.relative_to(TESTS).as_posix() for path in (TESTS / room).rglob("test_*.py")]
    assert sum(lanes.is_quick(file, "test") for file in files) >= len(files) // 4


def test_the_slow_files_exist() -> None:
    assert not [file for file in lanes.SLOW_FILES if not (TESTS / file).is_file()]


def test_tests_that_start_a_server_are_not_quick() -> None:
    assert not lanes.is_quick("contracts/test_chains.py", "test_a_page[opensearch]")
    assert not lanes.is_quick("journey/test_journey.py", "test_a_page")
    assert lanes.is_quick("test_names.py", "test_a_class_name_means_one_thing")


def test_the_files_that_need_a_server_of_opensearch_are_listed() -> None:
    words = ("opensearch_url", "opensearch_programs", "opensearch: Node", "tests.opensearch_server import index")
    for path in TESTS.rglob("test_*.py"):
        name = path.relative_to(ROOT).as_posix()
        if name != "tests/test_lanes.py" and any(word in path.read_text() for word in words):
            assert name.startswith(lanes.ON_OPENSEARCH), name
    assert not [name for name in lanes.ON_OPENSEARCH if not (ROOT / name).exists()]
