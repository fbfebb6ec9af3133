"""Evaluate vectors, and compare each answer with what its vector expects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.vectors.documents import Result, evaluate_document

MAX_SHOWN = 300
"""Characters of a value that are printed."""


@dataclass(frozen=True, slots=True)
class Vector:
    """One line of a file. `row` is its object with floats, `line` the text, for kinds that parse numbers exactly."""

    row: Mapping[str, Any]
    line: str

    @property
    def kind(self) -> tuple[str, str]:
        """The system and the kind, which choose the function that evaluates it."""
        return str(self.row.get("system", "")), str(self.row.get("kind", ""))


Evaluate = Callable[[Vector], Any]
"""The answer of the product to the input of a vector, in the form of its `expected`. An object may have more members
than are expected; every expected one must be equal."""

Kinds = Mapping[tuple[str, str], Evaluate]


def disagreement(line: str, kinds: Kinds) -> str | None:
    """Why the product does not agree with a vector; None where it does. A line that is not a vector, a kind that
    nothing evaluates and an exception are disagreements."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    if not isinstance(row, dict) or not (names := _expectations(row)):
        return "not an object with a member `expected`"
    vector = Vector(row, line)
    evaluate = kinds.get(vector.kind)
    if evaluate is None:
        return f"{_title(row)}: nothing evaluates {' '.join(filter(None, vector.kind))!r}"
    try:
        answer = evaluate(vector)
    except Exception as error:  # a vector that the product cannot answer must not end the run
        return f"{_title(row)}: raises {type(error).__name__}: {error}"
    different = list(_differences(row[names[0]], answer, ""))
    return f"{_title(row)}: {'; '.join(different)}" if different else None


REFERENCE = "expected_reference"


def _expectations(row: Mapping[str, Any]) -> list[str]:
    """The members that say what is expected, the one that counts first: where an implementation diverges from its
    specification, it is what the specification says (`expected_spec`, `expected_semantic`)."""
    names = [name for name in row if name == "expected" or name.startswith("expected_")]
    return sorted(names, key=lambda name: (name == REFERENCE, name == "expected", name))


def _differences(expected: Any, answer: Any, pointer: str) -> Iterator[str]:
    """The members of what is expected that the answer has differently. True is not 1."""
    if isinstance(expected, dict) and isinstance(answer, dict):
        for name, value in expected.items():
            if name in answer:
                yield from _differences(value, answer[name], f"{pointer}/{name}")
            else:
                yield f"{pointer}/{name} is absent, expected {_shown(value)}"
    elif _typed(expected) != _typed(answer):
        yield f"{pointer or 'the answer'} is {_shown(answer)}, expected {_shown(expected)}"


def _typed(value: Any) -> Any:
    """A value in which booleans differ from numbers at every depth."""
    if isinstance(value, dict):
        return {name: _typed(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_typed(member) for member in value]
    return (bool, value) if isinstance(value, bool) else value


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def _title(row: Mapping[str, Any]) -> str:
    return " ".join(str(row[key]) for key in ("system", "kind", "name") if row.get(key))


def run(paths: list[Path], kinds: Kinds, show: Callable[[str], None] = print) -> int:
    """Evaluate every non-empty line of these files, and what documents have. Shows one line for each disagreement, and
    last `N of M agree`. The exit code: 0 when all of at least one agree, else 1."""
    agreed = total = 0
    for path in paths:
        for name, reason in _results(path, kinds):
            total += 1
            agreed += reason is None
            if reason is not None:
                show(f"{path}:{name}: {' '.join(reason.split())}")
    show(f"{agreed} of {total} agree")
    return 0 if total and agreed == total else 1


def _results(path: Path, kinds: Kinds) -> Iterator[Result]:
    """Where in a file each vector is, and why the product does not agree with it."""
    if path.suffix == ".json":
        yield from evaluate_document(path)
        return
    for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
        if line.strip():
            yield str(number), disagreement(line, kinds)
