"""The measures of `tests.shape`, and the pages of a newcomer: they agree with the way of a block and of a question."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests import shape
from tests.shape import Call, Way
from tests.test_docs import DOCS

READING, ARCHITECTURE = (DOCS / "reading.md").read_text(), (DOCS / "architecture.md").read_text()

LARGE = 12
"""Functions of one file on the way from which on a newcomer reads the file, or the page says why not."""


@pytest.fixture(scope="module")
def way(tmp_path_factory: pytest.TempPathFactory) -> Way:
    shape.compile_kernels()  # in another process: a compiler that is profiled takes minutes
    return asyncio.run(shape.way(tmp_path_factory.mktemp("way")))


def rows_of(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table after a heading."""
    table = re.search(r"\n\|--.*\n((?:\|.*\n)+)", page[page.index(f"# {heading}\n") :])
    assert table
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[1].splitlines()]


def files_of(cells: Iterable[str]) -> list[str]:
    return [name for cell in cells for name in re.findall(r"`([\w/]+\.py)`", cell)]


def matches(call: Call, name: str, file: str) -> bool:
    return call.file == file and f"{call.name}.".startswith(f"{name}.")


SMALL_TREE = {
    "parsers/reasons.py": '"""A docstring."""\n\nfrom overlay import text\n\n# a comment\nLAST = text\n',
    "indexer/model.py": """\
from parsers import reasons


def _once(
    value: int,
) -> int:
    return value


@cache
def use() -> int:
    '''A docstring

    of three lines.'''
    return _once(1) + len(reasons.LAST)
""",
    "overlay/text.py": "from indexer import model\nfrom parsers import reasons\n\nBOTH = model, reasons\n",
}


def test_a_small_tree_is_measured(tmp_path: Path) -> None:
    for name, text in SMALL_TREE.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    model, text_module, reasons = modules = shape.modules(tmp_path)
    assert [module.name for module in modules] == ["indexer.model", "overlay.text", "parsers.reasons"]
    assert shape.line_kinds(model) == {"code": 2, "signature": 5, "import": 1, "docstring": 3, "blank": 4}
    assert shape.line_kinds(reasons) == {"code": 1, "import": 1, "docstring": 1, "comment": 1, "blank": 2}
    assert [function.name for function in shape.functions(model)] == ["_once", "use"]
    assert shape.used_once(model) == ["_once"]
    graph = shape.imports(modules)
    assert graph[text_module.name] == {"indexer.model", "parsers.reasons"}
    assert shape.with_one_importer(modules, graph) == ["indexer.model", "overlay.text"]
    assert set(shape.circle(graph)) >= {"overlay.text", "parsers.reasons"}
    assert shape.upward_imports(graph) == ["parsers.reasons imports overlay.text"]
    del graph["parsers.reasons"]
    assert shape.circle(graph) == []
    way = Way([Call("a.py", "f"), Call("a.py", "g")], [Call("b.py", "f")], [Call("a.py", "f")], [Call("c.py", "f")], [])
    assert dict(shape.rows(modules, way)) == {
        "functions (files) that one block passes from bytes to the answer of a question": "3 (2)",
        "- until it is stored": "2 (1)",
        "- until its listing is in the index": "1 (1)",
        "- the question": "1 (1)",
        "- and what duplicates and HTTP add": "1 (1)",
        "private functions that are used once": "1",
        "modules with one importer": "2",
        "code lines, without blanks, comments, docstrings and imports": "9",
        "- of all lines": "25",
        "functions; modules": "2; 3",
        "circles of imports": " → ".join(shape.circle(shape.imports(modules))),
        "imports upwards": "parsers.reasons imports overlay.text",
    }
    assert shape.shares(way.calls()) == [("a.py", 2), ("b.py", 1)]


def test_the_reading_list_is_on_the_way(way: Way) -> None:
    rows = rows_of(READING, "A day's reading")
    assert [row[0] for row in rows] == [str(number) for number in range(1, len(rows) + 1)]
    assert 20 <= len(rows) <= 30
    listed = files_of(row[1] for row in rows)
    assert len(set(listed)) == len(rows)
    passed = {call.file for call in way.everything()}
    assert set(listed) - passed == set(files_of(row[0] for row in rows_of(READING, "Not on the way")))


def test_large_files_on_the_way_are_read(way: Way) -> None:
    large = {file for file, count in shape.shares(way.everything()) if count >= LARGE}
    listed = set(files_of(row[1] for row in rows_of(READING, "A day's reading")))
    later = set(files_of(row[0] for row in rows_of(READING, "Read when they are needed")))
    assert not listed & later
    assert later <= {call.file for call in way.everything()}
    assert large - listed - later == set(), f"they have {LARGE} functions on the way, or more: name them on a page"


def test_the_numbers_of_the_way_are_those_that_run(way: Way) -> None:
    match = re.search(r"passes about (\d+) functions in (\d+) files.*?; (\d+) of them", ARCHITECTURE, re.DOTALL)
    assert match
    functions, files, named = map(int, match.groups())
    assert functions == pytest.approx(len(way.calls()), rel=0.05), (
        "write the number that `python -m tests.shape` prints"
    )
    assert files == pytest.approx(len({call.file for call in way.calls()}), rel=0.05)
    assert named == len(re.findall(r"^\| \d+ \| `[\w.]+` \|", ARCHITECTURE, re.MULTILINE))


def test_the_calls_of_the_table_run_in_this_order(way: Way) -> None:
    rows = re.findall(r"^\| (\d+) \| `([\w.]+)` \| `([\w./]+)` \|", ARCHITECTURE, re.MULTILINE)
    first = [*way.store, *way.projection, *way.http, *way.question]
    order = []
    for _, name, file in rows:
        calls = [number for number, call in enumerate(first) if matches(call, name, file)]
        assert calls, f"{name} of {file} does not run"
        order.append(calls[0])
    assert order == sorted(order)


CONDITIONAL = {"Catchup.look_up", "OutputRanges.locate", "BoundedExecutor.run"}
"""Calls on the side for missing values, for a satoshi that is moved, and for a long search."""

INTERFACES = {"Chain.tip", "Chain.ref", "Chain.blocks", "Engine.search"}
"""Calls on the side of the source and the engine that the settings choose."""


def test_the_calls_on_the_side_run(way: Way) -> None:
    rows = re.findall(r"^\| \d+ \| `[\w.]+` \| `.*\| (.*) \|$", ARCHITECTURE, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([\w.]+)`", row)}
    modules = {f"{Path(call.file).stem}.{call.name}" for call in way.everything()}
    packages = {f"{Path(call.file).parent.name}.{call.name}" for call in way.everything()}
    calls = {call.name for call in way.everything()} | modules | packages
    running = {name for name in named if any(f"{call}.".startswith(f"{name}.") for call in calls)}
    assert named - running == CONDITIONAL | INTERFACES
