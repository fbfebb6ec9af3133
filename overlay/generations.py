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
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Self
from uuid import uuid4

from overlay.engines import BusyError, Cursor, Engine, EngineError, Renewal, is_further

log = logging.getLogger(__name__)

_GLANCE_SECONDS = 0.25
"""How long is waited for those who only look whether another one is being made."""

_SHOWN = re.compile(r"[a-z0-9-]+(?:\.[0-9a-f]{8})?")


class Generations:
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
    def exchanging(self) -> Iterator[None]:
        """While nobody commits; waits for who does."""
        with self._locked("commits", fcntl.LOCK_EX, ""):
            yield

    @contextmanager
    def renewing(self) -> Iterator[Path]:
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

    def tell(self, done: int, of: int) -> None:
        """Say how far the one is that is being made here; only while `renewing`."""
        with (self._root / f"{self._name}.renewal").open("r+b", buffering=0) as file:
            file.write(b"%20d %20d\n" % (done, of))  # always as long, so that who reads meanwhile reads numbers

    def renewal(self) -> Renewal | None:
        """What the process that makes another one said last; None where none does."""
        try:
            file = os.open(self._root / f"{self._name}.renewal", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            said = [] if _taken(file, fcntl.LOCK_SH | fcntl.LOCK_NB) else os.read(file, 64).split()
        finally:
            os.close(file)
        return Renewal(*map(int, said)) if said else None

    def show(self, folder: Path) -> None:
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

    def tidy(self) -> None:
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


class InGenerations(ABC):
    """What engines in files have in common: another index is made beside the one that answers, and shown."""

    is_live: bool
    _generations: Generations
    _folder: Path

    @contextmanager
    def renewing(self) -> Iterator[Self]:
        """An empty index beside the one that answers."""
        with self._generations.renewing() as folder:
            fresh = self._beside(folder)
            try:
                yield fresh
            finally:
                fresh.close()

    def show(self, fresh: Engine, *, back: bool = False) -> bool:
        """Let an index that was made beside this one answer in its place."""
        if not isinstance(fresh, type(self)) or fresh.is_live:
            raise EngineError("only an index that is being made anew can be shown")
        folder = fresh.finish()
        with self._generations.exchanging():
            self._go_over()
            if not back and is_further(self.cursor(), fresh.cursor()):
                return False
            before = self._folder  # from the next step on, another thread may go over
            self._generations.show(folder)
            self._leave(before)
        self._go_over()
        return True

    def tell(self, done: int, of: int) -> None:
        """Say how far the index is that is being made beside this one."""
        self._generations.tell(done, of)

    def renewal(self) -> Renewal | None:
        """How far the index is that some process makes beside this one."""
        return self._generations.renewal()

    def tidy(self) -> None:
        """Remove what was being made when a process was killed."""
        self._generations.tidy()

    @abstractmethod
    def cursor(self) -> Cursor | None:
        """Where this index stands."""

    @abstractmethod
    def close(self) -> None:
        """Release files and locks."""

    @abstractmethod
    def finish(self) -> Path:
        """Write no more for now to what is to be shown; its folder."""

    @abstractmethod
    def _beside(self, folder: Path) -> Self:
        """An empty index in a folder."""

    @abstractmethod
    def _go_over(self) -> None:
        """See the newest commit of the index that answers."""

    @abstractmethod
    def _leave(self, before: Path) -> None:
        """Let all who still look at the index in this folder notice that another one answers."""


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
