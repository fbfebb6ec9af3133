"""What statements cost, counted in instructions of SQLite's virtual machine: the same on every machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.event import listen, remove

AT_ONCE = 1
"""Instructions between two calls of the counter."""


@contextmanager
def counting(engine: Engine) -> Iterator[Callable[[], int]]:
    """Count the instructions of all statements of an engine; the number until now."""
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += AT_ONCE

    def before(connection: Any, *_: Any) -> None:
        connection.connection.driver_connection.set_progress_handler(step, AT_ONCE)

    listen(engine, "before_cursor_execute", before)
    try:
        yield lambda: steps
    finally:
        remove(engine, "before_cursor_execute", before)


def statements_of(engine: Engine, act: Callable[[], object]) -> int:
    """The statements that a call runs; one with many rows counts once."""
    statements: list[str] = []

    def before(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    listen(engine, "before_cursor_execute", before)
    try:
        act()
        return len(statements)
    finally:
        remove(engine, "before_cursor_execute", before)


def steps_of(engine: Engine, act: Callable[[], object]) -> int:
    """The instructions that a call takes."""
    with counting(engine) as steps:
        act()
        return steps()
