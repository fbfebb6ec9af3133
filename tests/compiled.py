"""Compiled loops for tests that start a server: a small registry does not wait for them, and a short test would end the
process that compiles, again and again."""

from __future__ import annotations

import os
from contextlib import redirect_stderr
from functools import cache
from io import StringIO
from pathlib import Path

from overlay.app.compilation import ALL_LOOPS, cache_folder, wait_until_compiled


@cache
def compile_loops() -> None:
    """Fill the cache that the environment names, once."""
    if "NUMBA_CACHE_DIR" not in os.environ:
        return
    os.environ["NUMBA_CACHE_DIR"] = str(cache_folder(Path(os.environ["NUMBA_CACHE_DIR"])))
    with redirect_stderr(StringIO()):
        for loops in ALL_LOOPS:
            wait_until_compiled(loops)
