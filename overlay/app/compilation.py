"""The cache of compiled loops: where Numba keeps it, and compiling in a process of its own."""

from __future__ import annotations

import os
import sys
from hashlib import sha1
from pathlib import Path
from typing import NamedTuple

from indexer.settings import Settings

_ROOT = Path(__file__).parents[2]
_CACHE = "NUMBA_CACHE_DIR"


class CompiledLoops(NamedTuple):
    """Loops that are compiled together: the modules that hold them, and the program that compiles them."""

    sources: tuple[Path, ...]
    program: str


BLOCK_LOOPS = CompiledLoops(
    (_ROOT / "parsers" / "bitcoin" / "block_loop.py",), "from parsers.bitcoin import block; block.prepare()"
)


def set_cache_folder(settings: Settings) -> None:
    """Let Numba cache compiled loops in the data folder, unless that is read-only or the environment names another
    folder. To be called before Numba is imported."""
    if _CACHE not in os.environ and os.access(settings.data, os.W_OK):
        os.environ[_CACHE] = str(settings.data.absolute() / "numba")


def is_compiled(loops: CompiledLoops = BLOCK_LOOPS) -> bool:
    """Whether the cache holds these loops, compiled from the present source files."""
    return all(map(_has_index, loops.sources))


def _has_index(source: Path) -> bool:
    """Whether the cache has an index file of a module that is not older than the module: importing the module makes
    the folder, and only compiling makes the index."""
    # Numba names the folder so: https://github.com/numba/numba/blob/main/numba/core/caching.py
    folder = f"{source.parent.name}_{sha1(str(source.parent).encode(), usedforsecurity=False).hexdigest()}"
    indexes = Path(os.environ.get(_CACHE, os.devnull), folder).glob(f"{source.stem}.*.nbi")
    return any(index.stat().st_mtime >= source.stat().st_mtime for index in indexes)


async def compile_in_subprocess(loops: CompiledLoops) -> None:
    """Fill the cache from a process of its own, so that the 90 MB of the compiler are freed when it ends.

    Without a cache folder, or when that process fails, the loops are compiled here at their first use.
    """
    if _CACHE not in os.environ or is_compiled(loops):
        return
    import asyncio
    from asyncio.subprocess import DEVNULL

    command = (sys.executable, "-c", loops.program)
    child = await asyncio.create_subprocess_exec(*command, stdout=DEVNULL, stderr=DEVNULL)
    try:
        await child.wait()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()  # or asyncio logs that its loop was closed before the child ended
