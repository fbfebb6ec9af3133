"""The cost of statements, counted in instructions of SQLite's virtual machine: the same on every machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.event import listen, remove

AT_ONCE = 1
"""Instructions between two calls of the counter."""


@contextmanager
def _before_statements(engine: Engine, act: Callable[..., None]) -> Iterator[None]:
    listen(engine, "before_cursor_execute", act)
    try:
        yield
    finally:
        remove(engine, "before_cursor_execute", act)


def statements_of(engine: Engine, act: Callable[[], object]) -> int:
    """The statements that a call runs; one with many rows counts once."""
    statements: list[str] = []

    def before(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    with _before_statements(engine, before):
        act()
    return len(statements)


def steps_of(engine: Engine, act: Callable[[], object]) -> int:
    """The instructions that a call takes."""
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += AT_ONCE

    def before(connection: Any, *_: Any) -> None:
        connection.connection.driver_connection.set_progress_handler(step, AT_ONCE)

    with _before_statements(engine, before):
        act()
    return steps


def check_growth(engine: Engine, fill: Callable[[range], object], act: Callable[[], object], few: int) -> None:
    """A call takes hardly longer beside twice as many unrelated rows as beside few: less than a step more for each.
    `fill` adds those with some numbers."""
    act()  # composes its statements, and adds what is the first of its kind
    steps = []
    for some in (range(few), range(few, 2 * few)):
        fill(some)
        steps.append(steps_of(engine, act))
    assert steps[1] - steps[0] < few, f"{steps[0]:,} and then {steps[1]:,} steps"


def python_steps_of(act: Callable[[], object]) -> int:
    """The instructions of Python that a call takes in this thread: the steps of its loops, but not those inside
    compiled functions."""
    steps = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal steps
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        steps += event == "opcode"
        return trace

    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(None)
    return steps
