"""Kernels are compiled once for a user and version, in a process of their own: where Numba's cache is, and which
process compiles.

The cache is in the user's cache folder, else in the data folder, in a folder named by a digest of all sources of
kernels, because Numba itself notices changes only in the file of a kernel. There, `NAME.compiled` marks loops that were
compiled, and `NAME.lock` is locked by the process that compiles them: others wait for it.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha1
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from indexer.settings import Settings
from overlay.app import version
from overlay.text.terminal import complain
from parsers.interpretation import compiling, interpret, is_interpreting

if TYPE_CHECKING:
    from overlay.engines import IndexPosition

_ROOT = Path(__file__).parents[2]
_CACHE = "NUMBA_CACHE_DIR"
_CHECKED = "NUMBA_BOUNDSCHECK"
_NAMES = re.compile("[0-9a-f]{16}")

UNUSED_SECONDS = 30 * 86_400
"""Age of the compiled code of other sources, in seconds, from which it is removed."""


class CompiledLoops(NamedTuple):
    """Kernels that are compiled together: their files with the project's files that these use, and the modules with a
    function `prepare` that runs each kernel once, on tiny arrays of the types that are used later."""

    name: str
    sources: tuple[str, ...]
    modules: tuple[str, ...]


BLOCK_LOOPS = CompiledLoops(
    "blocks",
    (
        "parsers/interpretation.py",
        "parsers/jit.py",
        "parsers/numba_compiler.py",
        "parsers/bitcoin/intrinsics.py",
        "parsers/bitcoin/outpoint_table.py",
        "parsers/bitcoin/script_scan.py",
        "parsers/bitcoin/block_loop.py",
        "parsers/bitcoin/sha256_lanes.py",
        "parsers/bitcoin/batch_sha256.py",
    ),
    ("parsers.bitcoin.block", "parsers.bitcoin.batch_sha256"),
)
SEARCH_LOOPS = CompiledLoops(
    "search",
    (
        "overlay/duplicates/minhash.py",
        "overlay/engines/native/best_kernels.py",
        "overlay/engines/native/forward_kernels.py",
        "overlay/engines/native/label_kernels.py",
        "overlay/engines/native/merging.py",
        "overlay/engines/native/posting_kernels.py",
        "overlay/engines/native/schema.py",
        "overlay/engines/native/search_kernels.py",
        "overlay/engines/native/tables.py",
        "overlay/search/clusters.py",
        "overlay/search/least_word.py",
        "overlay/search/lexicon.py",
        "overlay/search/nearest.py",
        "overlay/search/ranker.py",
        "overlay/search/text_vectors.py",
    ),
    (
        "overlay.duplicates.minhash",
        "overlay.engines.native.merging",
        "overlay.engines.native.preparation",
        "overlay.search.clusters",
        "overlay.search.least_word",
        "overlay.search.lexicon",
        "overlay.search.nearest",
    ),
)

MOST_INTERPRETED = 2_000
"""Registrations that are searched by interpreted kernels until these are compiled."""

ALL_LOOPS = (BLOCK_LOOPS, SEARCH_LOOPS)


def set_cache_folder(settings: Settings) -> None:
    """Let Numba cache kernels in the user's cache folder, in the data folder where that is not the user's alone, or
    where the environment names another folder. Call it before Numba is imported."""
    if _CACHE in os.environ:
        base: Path | None = Path(os.environ[_CACHE])
    else:
        base = next(filter(_is_private, _folders(settings)), None)
    if base is not None:  # else each process compiles
        os.environ[_CACHE] = str(cache_folder(base))


def _folders(settings: Settings) -> Iterator[Path]:
    """The folders for compiled code, the best first."""
    with suppress(RuntimeError):  # a user without a home
        yield Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "a2b-registry" / version()
    if settings.data.is_dir():
        yield settings.data.absolute() / "numba"


def _is_private(folder: Path) -> bool:
    """Whether a folder, which is made if it is missing, is writable for this user and nobody else: what it holds is run
    as code."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = folder.stat()
    except OSError:
        return False
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022 and os.access(folder, os.W_OK | os.X_OK)


def cache_folder(base: Path) -> Path:
    """The folder for the kernels of these sources, which `base` may be already."""
    return base if base.name == _digest() else base / _digest()


@cache
def _digest() -> str:
    """16 hex digits for the sources of all kernels, and for whether Numba is to check bounds."""
    digest = sha1(os.environ.get(_CHECKED, "").encode(), usedforsecurity=False)
    for loops in ALL_LOOPS:
        for source in loops.sources:
            digest.update((_ROOT / source).read_bytes())
    return digest.hexdigest()[:16]


def is_compiled(loops: CompiledLoops) -> bool:
    """Whether the cache holds these kernels."""
    return _mark(loops.name).exists()


def _mark(name: str) -> Path:
    return Path(os.environ.get(_CACHE, os.devnull), f"{name}.compiled")


@cache
def prepare(loops: CompiledLoops) -> None:
    """Run each kernel once in this process: loads it from the cache, or compiles it. Does nothing the second time."""
    with compiling():
        for module in loops.modules:
            import_module(module).prepare()


def compile_once(name: str, *names: str) -> None:
    """The work of a separate process: compile the loops of this name, prepared by these modules, unless another process
    has done so meanwhile, and remove old caches of other sources. Raises OSError where the cache cannot be written."""
    folder = _mark(name).parent
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _mark(name).exists():
            prepare(CompiledLoops(name, (), names))
            _mark(name).touch()
    for other in folder.parent.iterdir():
        is_other = other != folder and _NAMES.fullmatch(other.name)
        if is_other and other.stat().st_mtime < time.time() - UNUSED_SECONDS:
            shutil.rmtree(other, ignore_errors=True)


def _command(loops: CompiledLoops) -> tuple[str, ...]:
    """The command that compiles; while kernels are interpreted, after all other work of the machine."""
    nice = "import os; os.nice(10); " if is_interpreting() else ""
    program = f"{nice}import sys; from overlay.app.compilation import compile_once; compile_once(*sys.argv[1:])"
    return sys.executable, "-c", program, loops.name, *loops.modules


def wait_until_compiled(loops: CompiledLoops = SEARCH_LOOPS) -> None:
    """Fill the cache for a command in a separate process, and wait for it. When that fails, kernels are compiled
    here at their first use."""
    if not is_compiled(loops):
        complain("compiling the search, once for this user and version, which takes about ten seconds")
        import subprocess

        command = _command(loops)
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)  # noqa: S603


def prepare_search(position: IndexPosition | None) -> None:
    """For a command that reads an index at this position: interpret kernels where it has few changes and the search is
    not compiled, else wait until it is."""
    if (position is None or position.seq <= MOST_INTERPRETED) and not is_compiled(SEARCH_LOOPS):
        interpret(on=True)
    else:
        wait_until_compiled()


async def compile_in_subprocess(loops: CompiledLoops) -> None:
    """Compile in another process, from an event loop; the process is ended when this is cancelled. It frees the 90 MB
    of the compiler."""
    if is_compiled(loops):
        return
    import asyncio
    from asyncio.subprocess import DEVNULL

    child = await asyncio.create_subprocess_exec(*_command(loops), stdout=DEVNULL, stderr=DEVNULL)
    try:
        await child.wait()
    finally:
        if child.returncode is None:
            with suppress(ProcessLookupError):
                child.kill()
            await child.wait()  # or asyncio logs that its loop was closed before the child ended
