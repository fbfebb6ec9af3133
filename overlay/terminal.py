"""What a person at a terminal sees: strangers' text made harmless, JSON, and how far long work has come."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from overlay.visible import one_line, visible, visible_in_json


def say(text: str = "") -> None:
    """A line or several on standard output; nothing in it steers the terminal, and none of it is markup."""
    sys.stdout.write(f"{visible(text)}\n")


def complain(text: str) -> None:
    """One line on standard error."""
    sys.stderr.write(f"a2b: {one_line(' '.join(text.split()))}\n")
    sys.stderr.flush()


def say_json(value: Any) -> None:
    """A value as JSON that other programs read, and a terminal shows without harm."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    sys.stdout.write(f"{visible_in_json(text)}\n")


def survive_any_encoding() -> None:
    """Escape what the terminal's encoding has no letters for, rather than fail."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def is_terminal() -> bool:
    """Whether somebody watches standard error."""
    return sys.stderr.isatty()


@contextmanager
def counting(what: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """Progress of one piece of work: a bar on a terminal, a line every so often elsewhere.

    Gives a function to be told (done, of how many); 0 for how many that is not known.
    """
    if is_terminal():
        with _bar(what, unit) as tell:
            yield tell
    else:
        yield _lines(what, unit)


@contextmanager
def _bar(what: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TextColumn(unit),
               TimeRemainingColumn())  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total or None)


def _lines(what: str, unit: str) -> Callable[[int, int], None]:
    from time import monotonic

    said = monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal said
        if monotonic() - said >= 1.0:
            said = monotonic()
            of = f" of {total:,}" if total else ""
            sys.stderr.write(f"{what}: {done:,}{of} {unit}\n")

    return tell
