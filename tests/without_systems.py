"""A plugin for the core alone: `pytest -p tests.without_systems -m quick` refuses every system when it is imported, and
leaves out the test files that need one."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).parent.parent
SYSTEMS = "overlay.systems."
FOLDERS = ("liveness", "payments", "protocols", "rating", "relay", "webhooks")
"""Folders of `tests/overlay/` that test systems."""

ASKING = frozenset(
    (
        "test_agents_see_the_mark_and_routers_get_no_offer",
        "test_an_order_of_ratings_says_that_nothing_is_rated",
        "test_no_route_fails_while_the_search_is_compiled",
        "test_where_nothing_is_near_the_answer_says_so_and_how_to_follow_the_search",
        "test_while_the_search_is_compiled_pages_are_served_and_searches_are_refused",
    )
)
"""Tests of the core that send requests to routes of systems."""


class Refusing(MetaPathFinder):
    """Refuses modules below these."""

    def __init__(self, refused: tuple[str, ...]) -> None:
        self.refused = refused

    def find_spec(self, fullname: str, *_: object) -> None:
        if f"{fullname}.".startswith(self.refused):
            self._refuse(fullname)

    def _refuse(self, name: str) -> NoReturn:
        raise ModuleNotFoundError(f"{name} is taken out", name=name)


def refuse(names: Iterable[str]) -> None:
    """Let no module of these systems be imported by this process."""
    sys.meta_path.insert(0, Refusing(tuple(f"{SYSTEMS}{name}." for name in names)))


def pytest_configure() -> None:
    """Refuse all of them."""
    from overlay.installation import NAMES

    refuse(NAMES)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out files that import a system, or a helper that does, and folders whose `conftest.py` does."""
    if collection_path.parent == ROOT / "tests" / "overlay" and collection_path.name in FOLDERS:
        return True
    file = collection_path / "conftest.py" if collection_path.is_dir() else collection_path
    return True if file.is_relative_to(ROOT / "tests") and needs_systems(file) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out tests that send requests to routes of systems."""
    items[:] = [item for item in items if item.name.partition("[")[0] not in ASKING]


@cache
def needs_systems(path: Path) -> bool:
    """Whether a file imports a system when it is imported itself."""
    return (
        path.suffix == ".py"
        and path.is_file()
        and any(_is_of_system(name) for name in _imports(ast.parse(path.read_text())))
    )


def _is_of_system(name: str) -> bool:
    if name.startswith("tests."):
        return needs_systems(ROOT / f"{name.replace('.', '/')}.py")
    return f"{name}.".startswith(SYSTEMS)


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            yield node.module or ""
        yield from _imports(node)
