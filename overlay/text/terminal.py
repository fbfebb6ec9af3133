"""Write to the terminal: text that cannot steer it, JSON, and the progress of long work."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from overlay.text.safe_text import one_line, visible, visible_in_json


def say(text: str = "") -> None:
    """Print one or more lines; control characters are escaped."""
    sys.stdout.write(f"{visible(text)}\n")


def complain(text: str) -> None:
    """One line on standard error."""
    sys.stderr.write(f"a2b: {one_line(' '.join(text.split()))}\n")
    sys.stderr.flush()


def say_json(value: Any) -> None:
    """Print a value as JSON, with control characters escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    sys.stdout.write(f"{visible_in_json(text)}\n")


def survive_any_encoding() -> None:
    """Escape characters that the terminal's encoding lacks, rather than fail."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def is_terminal() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr.isatty()


@contextmanager
def progress_of(what: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """Show the progress of some work on standard error: a bar on a terminal where the server is installed, elsewhere a
    line each second.

    Yields a function to call with the units done and in all, 0 where that is not known.
    """
    if is_terminal() and find_spec("rich"):
        with _bar(what, unit) as report:
            yield report
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

    printed_at = monotonic()

    def report(done: int, total: int) -> None:
        nonlocal printed_at
        if monotonic() - printed_at >= 1.0:
            printed_at = monotonic()
            of = f" of {total:,}" if total else ""
            sys.stderr.write(f"{what}: {done:,}{of} {unit}\n")

    return report
