"""The drawings of the documents agree with the program: packages and imports, calls, machines and commands.
`tests/browser/test_drawings.py` renders them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from graphlib import TopologicalSorter
from itertools import pairwise, product
from pathlib import Path

import pytest

from overlay import cli
from tests.conftest import ROOT
from tests.test_docs import DOCS, DOCUMENTS, name_of
from tests.test_rooms import MAY_IMPORT, ROOMS, arrows

Arrow = tuple[str, str]

ARCHITECTURE = DOCS / "architecture.md"


def drawings(path: Path) -> list[str]:
    """The Mermaid drawings of a document."""
    return re.findall(r"^```mermaid\n(.*?)^```$", path.read_text(), re.DOTALL | re.MULTILINE)


def drawing(words: str) -> str:
    """The drawing of the architecture with these words in it."""
    (match,) = (text for text in drawings(ARCHITECTURE) if words in text)
    return match


def drawn_arrows(lines: Iterable[str]) -> Iterator[Arrow]:
    """The arrows of lines such as `a & b --> c --> d`."""
    for line in lines:
        steps = [[name.strip() for name in step.split("&")] for step in line.split("-->")]
        for before, after in pairwise(steps):
            yield from product(before, after)


def rooms() -> tuple[dict[str, set[Arrow]], set[Arrow]]:
    """The drawn arrows within each room, and those between rooms."""
    text = drawing("subgraph overlay")
    within = dict(re.findall(r"^    subgraph (\w+)\n(.*?)^    end$", text, re.DOTALL | re.MULTILINE))
    between = re.findall(r"^    (\w.*-->.*)$", text, re.MULTILINE)
    return {room: set(drawn_arrows(body.splitlines())) for room, body in within.items()}, set(drawn_arrows(between))


def reached(graph: set[Arrow], start: str) -> set[str]:
    """The nodes that are reached from a node over any number of arrows."""
    results: set[str] = set()
    waiting = [start]
    while waiting:
        node = waiting.pop()
        following = {target for origin, target in graph if origin == node} - results
        results |= following
        waiting += following
    return results


def reduced(graph: set[Arrow]) -> set[Arrow]:
    """A graph without circles, and without the arrows that a longer way replaces."""
    TopologicalSorter({origin: [target for start, target in graph if start == origin] for origin, _ in graph}).prepare()
    return {arrow for arrow in graph if arrow[1] not in reached(graph - {arrow}, arrow[0])}


def imports_between_packages(room: str) -> set[Arrow]:
    packages = {path.parent.name for path in (ROOT / room).glob("*/__init__.py")}
    return {(origin, target) for _, origin, target in arrows(room) if {origin, target} <= packages}


def test_a_graph_is_reduced_to_the_arrows_that_no_longer_way_replaces() -> None:
    graph = {("a", "b"), ("b", "c"), ("a", "c"), ("a", "d")}
    assert reduced(graph) == {("a", "b"), ("b", "c"), ("a", "d")}
    assert set(drawn_arrows(["a --> b & c --> d"])) == {("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")}


@pytest.mark.parametrize("room", ROOMS)
def test_the_drawing_of_a_room_shows_its_packages_and_imports(room: str) -> None:
    within, _ = rooms()
    expected = reduced(imports_between_packages(room))
    assert within[room] == expected, "draw: " + "; ".join(
        f"{origin} --> {target}" for origin, target in sorted(expected)
    )
    packages = {path.parent.name for path in (ROOT / room).glob("*/__init__.py")}
    assert {name for arrow in within[room] for name in arrow} == packages


def test_the_drawing_shows_which_room_may_import_which() -> None:
    within, between = rooms()
    allowed = {(room, other) for room, others in MAY_IMPORT.items() for other in others - {room}}
    assert set(within) == set(ROOMS)
    assert between == reduced(allowed)


def test_the_drawn_trips_of_a_block_and_a_question_make_the_calls_of_the_table() -> None:
    table = re.findall(r"^\| (\d+) \| `([\w.]+)` \|", ARCHITECTURE.read_text(), re.MULTILINE)
    block, question = (text for text in drawings(ARCHITECTURE) if "sequenceDiagram" in text)
    calls = [re.findall(r": (\d+) ([\w.]+)$", text, re.MULTILINE) for text in (block, question)]
    assert calls[0] + calls[1] == table
    assert [number for number, _ in calls[1]] == ["11", "12", "13", "14"]


def test_participants_of_the_trips_are_classes_or_modules() -> None:
    code = "\n".join(path.read_text() for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    modules = {path.stem for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    for text in drawings(ARCHITECTURE):
        for name in re.findall(r"^    participant (\w+)$", text, re.MULTILINE):
            assert name in modules or re.search(rf"^class {name}\b", code, re.MULTILINE), name


def test_the_drawn_machines_run_commands_of_the_program() -> None:
    text = drawing("a2b serve")
    commands = re.findall(r"<b>a2b ([^<]*)</b>([^<]*)<br>", text)
    assert {name for name, _ in commands} == {"serve", "index"}
    for name, options in commands:
        cli.parser().parse_args([name, *options.split()])


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_no_drawing_is_made_of_characters(path: Path) -> None:
    assert not re.search(
        r"[─-╿▲-◿]|-{2,}>(?!$)", re.sub(r"```mermaid\n.*?```|<!--.*?-->", "", path.read_text(), flags=re.DOTALL)
    )
