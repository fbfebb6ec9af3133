"""The folders of an index in files: one answers, another may be made beside it and take its place at one stroke.

    PATH/NAME            the first one
    PATH/NAME.5f0c11aa   one that was made later
    PATH/NAME.live       names the one that answers; the first does where this is missing
    PATH/NAME.commits    locked by who commits, together with others, and by who exchanges, alone
    PATH/NAME.renewal    locked by the one process that makes another, and holds how far that is

What answers changes by a rename, so that a crash at any instant leaves the one or the other. Locks are of the operating
system (flock) and end with their process.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple
from uuid import uuid4

from overlay.engines import BusyError

log = logging.getLogger(__name__)

_GLANCE_SECONDS = 0.25
"""How long is waited for those who only look whether another one is being made."""

_SHOWN = re.compile(r"[a-z0-9-]+(?:\.[0-9a-f]{8})?")


class Progress(NamedTuple):
    """How far a version is that is being built: registrations written, of how many."""

    done: int
    of: int


class IndexVersions:
    """Those of the layout `name` in the folder `root`. Raises OSError."""

    def __init__(self, root: Path, name: str) -> None:
        self._root, self._name = root, name
        self._pointer = root / f"{name}.live"

    def live(self) -> Path:
        """The folder of the one that answers; it may not have been made yet."""
        try:
            shown = self._pointer.read_text(encoding="ascii", errors="replace").strip()
        except FileNotFoundError:
            return self._root / self._name
        if not _SHOWN.fullmatch(shown) or shown.partition(".")[0] != self._name:
            log.warning("%s holds %a, which names no index: the first one answers", self._pointer, shown[:60])
            return self._root / self._name
        return self._root / shown

    def new(self) -> Path:
        """A name for another one."""
        return self._root / f"{self._name}.{uuid4().hex[:8]}"

    @contextmanager
    def writing(self, folder: Path) -> Iterator[None]:
        """While something is committed to the one that answers. Raises BusyError while it is exchanged, or when
        `folder` is not the one any more."""
        with self._locked("commits", fcntl.LOCK_SH | fcntl.LOCK_NB, f"the index in {self._root} is being exchanged"):
            if self.live() != folder:
                raise BusyError(f"the index in {self._root} was exchanged meanwhile; look again")
            yield

    @contextmanager
    def promoting(self) -> Iterator[None]:
        """While nobody commits; waits for who does."""
        with self._locked("commits", fcntl.LOCK_EX, ""):
            yield

    @contextmanager
    def rebuilding(self) -> Iterator[Path]:
        """A folder to make another one in, removed in the end if it is not shown. Raises BusyError while another
        process makes one."""
        told = f"another process makes the index in {self._root} anew"
        with self._locked("renewal", fcntl.LOCK_EX | fcntl.LOCK_NB, told, _GLANCE_SECONDS) as file:
            os.ftruncate(file, 0)
            self._sweep()
            try:
                yield self.new()
            finally:
                self._sweep()

    def report_progress(self, done: int, of: int) -> None:
        """Say how far the one is that is being made here; only while `renewing`."""
        with (self._root / f"{self._name}.renewal").open("r+b", buffering=0) as file:
            file.write(b"%20d %20d\n" % (done, of))  # always as long, so that who reads meanwhile reads numbers

    def progress(self) -> Progress | None:
        """What the process that makes another one said last; None where none does."""
        try:
            file = os.open(self._root / f"{self._name}.renewal", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            said = [] if _taken(file, fcntl.LOCK_SH | fcntl.LOCK_NB) else os.read(file, 64).split()
        finally:
            os.close(file)
        return Progress(*map(int, said)) if said else None

    def promote(self, folder: Path) -> None:
        """Let this one answer from now on, durably, once all of it is on the disk. Only while `exchanging`."""
        for path in (*folder.iterdir(), folder, self._root):
            _flush(path)
        beside = self._pointer.with_suffix(".live-new")
        with beside.open("w", encoding="ascii") as file:
            file.write(f"{folder.name}\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._pointer)
        _flush(self._root)

    def cleanup(self) -> None:
        """Remove what a process that was killed left behind, unless another one is at work; and say what is of another
        version of this program, which may still need it."""
        layout = self._name.rpartition("-")[0]
        for folder in sorted(self._root.glob(f"{layout}-*")):
            if folder.is_dir() and folder.name.partition(".")[0] != self._name:
                log.info("%s is an index that this version cannot read; without another version, remove it", folder)
        try:
            with self._locked("renewal", fcntl.LOCK_EX | fcntl.LOCK_NB, ""):
                self._sweep()
        except BusyError:
            return

    def _sweep(self) -> None:
        """Remove all but the one that answers; who has files of others open keeps these."""
        live = self.live()
        found = [self._root / self._name, *self._root.glob(f"{self._name}.{'[0-9a-f]' * 8}")]
        for folder in found:
            if folder != live:
                # whoever writes there at this moment makes it fail, and the next sweep removes the rest
                shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def _locked(self, what: str, how: int, told: str, patience: float = 0.0) -> Iterator[int]:
        """Hold a lock; the file that is locked. Raises BusyError, after so many seconds."""
        self._root.mkdir(parents=True, exist_ok=True)
        file = os.open(self._root / f"{self._name}.{what}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            until = monotonic() + patience
            while not _taken(file, how):
                if monotonic() >= until:
                    raise BusyError(told)
                sleep(0.01)
            yield file
        finally:
            os.close(file)


def _taken(file: int, how: int) -> bool:
    """Whether a lock is had; one that is waited for always is."""
    try:
        fcntl.flock(file, how)
    except BlockingIOError:
        return False
    return True


def _flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
