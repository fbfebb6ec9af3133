"""Compiled loops for tests that start a server: a small registry does not wait for them, and a short test would end the
process that compiles, again and again."""

from __future__ import annotations

from contextlib import redirect_stderr
from functools import cache
from io import StringIO

from overlay.app.compilation import ALL_LOOPS, wait_until_compiled


@cache
def compile_loops() -> None:
    """Fill the cache of the test run, once."""
    with redirect_stderr(StringIO()):
        for loops in ALL_LOOPS:
            wait_until_compiled(loops)
