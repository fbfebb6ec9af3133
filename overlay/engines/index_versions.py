"""The versions of an index in files: one is live, another may be built beside it and replace it atomically.

    PATH/NAME            the folder of the first version
    PATH/NAME.5f0c11aa   a later version
    PATH/NAME.live       names the live version; without this file it is the first
    PATH/NAME.stamp      a counter that readers map: it is increased when another version becomes live
    PATH/NAME.commits    lock file: shared for commits, exclusive for promoting another version
    PATH/NAME.renewal    lock file of the process that rebuilds; contains its progress

The live version changes by a rename, so a crash leaves the old one or the new one. Locks are flock(2), which end with
their process.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple
from uuid import uuid4

from indexer.durable_files import flush, new_file, release_lock, write
from indexer.opened_path import OpenedPath
from overlay.engines import BusyError, Progress
from overlay.engines.change_counter import ChangeCounter

log = logging.getLogger(__name__)

_PROGRESS_SECONDS = 0.25
"""How long a rebuild waits for processes that hold its lock for an instant to read the progress."""

_LOOK_SECONDS = 1.0
"""How often the pointer itself is looked at, in case that what changed it did not increase the stamp."""

_FOLDER = re.compile(r"[a-z0-9-]+(?:\.[0-9a-f]{8})?")


class _Seen(NamedTuple):
    """A reader's state: the stamp (None without one), the pointer's identity, the live version, and until when
    (monotonic seconds) this is valid while the stamp is unchanged."""

    stamp: int | None
    pointer: tuple[int, int]
    live: Path
    until: float


class IndexVersions:
    """The versions of the layout `name` in the folder `root`. Methods raise OSError."""

    def __init__(self, root: Path, name: str) -> None:
        self._root, self._name = root, name
        self._pointer = root / f"{name}.live"
        self._stamp: ChangeCounter | None = None
        self._seen = _Seen(None, (0, 0), root / name, 0.0)

    def live(self) -> Path:
        """The folder of the live version; it may not exist yet. While the stamp is the same, this takes no system call,
        but one a second; without a stamp it takes one each time."""
        seen = self._seen
        if self._stamp is None or self._stamp.value() != seen.stamp or monotonic() >= seen.until:
            return self._look()
        return seen.live

    def watch(self, folder: Path) -> Callable[[], bool]:
        """Whether a folder that was opened is there still."""
        return OpenedPath(folder).is_there

    def _look(self) -> Path:
        """The live version by the current pointer: the stamp is read first, then the pointer."""
        seen, now = self._seen, monotonic()
        if self._stamp is None and now >= seen.until:
            with suppress(OSError, ValueError):  # without one yet, the pointer is read each time
                self._stamp = ChangeCounter(self._path("stamp"), make=False)
        stamp = self._stamp.value() if self._stamp else None
        until = seen.until if self._stamp is None and now < seen.until else now + _LOOK_SECONDS
        try:
            stat = self._pointer.stat()
        except FileNotFoundError:
            pointer, live = (0, 0), self._root / self._name
        else:
            pointer = stat.st_mtime_ns, stat.st_ino
            live = seen.live if pointer == seen.pointer else self._read()
        self._seen = _Seen(stamp, pointer, live, until)
        return live

    def _path(self, what: str) -> Path:
        return self._root / f"{self._name}.{what}"

    def _read(self) -> Path:
        shown = self._pointer.read_text(encoding="ascii", errors="replace").strip()
        if not _FOLDER.fullmatch(shown) or shown.partition(".")[0] != self._name:
            log.warning("%s holds %a, which names no index: using the first version", self._pointer, shown[:60])
            return self._root / self._name
        return self._root / shown

    @contextmanager
    def writing(self, folder: Path) -> Iterator[None]:
        """Hold the lock for a commit to the live version. Raises BusyError while another version is promoted, or when
        `folder` is no longer live."""
        with self._locked("commits", fcntl.LOCK_SH | fcntl.LOCK_NB, f"the index in {self._root} is being replaced"):
            if self._look() != folder:
                raise BusyError(f"the index in {self._root} was replaced meanwhile; read its position again")
            if self._stamp is None:
                with suppress(OSError, ValueError):  # readers can do without it
                    ChangeCounter(self._path("stamp"))
            yield

    @contextmanager
    def promoting(self) -> Iterator[None]:
        """Exclude commits; waits for those in progress."""
        with self._locked("commits", fcntl.LOCK_EX, ""):
            yield

    @contextmanager
    def rebuilding(self) -> Iterator[Path]:
        """A folder for a new version, removed at the end if it was not promoted. Raises BusyError while another process
        rebuilds."""
        busy = f"another process rebuilds the index in {self._root}"
        with self._locked("renewal", fcntl.LOCK_EX | fcntl.LOCK_NB, busy, _PROGRESS_SECONDS) as file:
            os.ftruncate(file, 0)
            self._sweep()
            try:
                yield self._root / f"{self._name}.{uuid4().hex[:8]}"
            finally:
                self._sweep()

    def report_progress(self, done: int, of: int) -> None:
        """Publish the progress of a rebuild to all processes; only while `rebuilding`."""
        with self._path("renewal").open("r+b", buffering=0) as file:
            file.write(b"%20d %20d\n" % (done, of))  # fixed width, so that concurrent readers read whole numbers

    def progress(self) -> Progress | None:
        """The progress of the process that rebuilds; None without one."""
        try:
            file = os.open(self._path("renewal"), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            numbers = [] if _taken(file, fcntl.LOCK_SH | fcntl.LOCK_NB) else os.read(file, 64).split()
        finally:
            os.close(file)
        return Progress(*map(int, numbers)) if numbers else None

    def promote(self, folder: Path) -> None:
        """Make a version live, durably, after syncing its files. Only while `promoting`."""
        for path in (*folder.iterdir(), folder, self._root):
            flush(path)
        try:
            with new_file(self._pointer, mode=0o600, beside=self._pointer.with_suffix(".live-new")) as file:
                write(file, f"{folder.name}\n".encode())
        finally:
            with suppress(OSError, ValueError, TypeError):  # it may be another user's: readers look once a second, too
                ChangeCounter(self._path("stamp")).increase()
            self._look()

    def cleanup(self) -> None:
        """Remove versions that a killed process left, unless a rebuild is in progress; log folders of other layouts,
        which another release may still need."""
        layout = self._name.rpartition("-")[0]
        for folder in sorted(self._root.glob(f"{layout}-*")):
            if folder.is_dir() and folder.name.partition(".")[0] != self._name:
                log.info(
                    "%s is an index of another release, which this one cannot read: remove it if no other release runs",
                    folder,
                )
        try:
            with self._locked("renewal", fcntl.LOCK_EX | fcntl.LOCK_NB, ""):
                self._sweep()
        except BusyError:
            return

    def _sweep(self) -> None:
        """Remove all versions but the live one; open files stay readable."""
        live = self._look()
        folders = [self._root / self._name, *self._root.glob(f"{self._name}.{'[0-9a-f]' * 8}")]
        for folder in folders:
            if folder != live:
                # a concurrent writer makes this fail; the next sweep removes the rest
                shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def _locked(self, name: str, mode: int, busy_message: str, timeout: float = 0.0) -> Iterator[int]:
        """Hold a lock; yields the locked file. Raises BusyError after `timeout` seconds."""
        self._root.mkdir(parents=True, exist_ok=True)
        file = os.open(self._path(name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            until = monotonic() + timeout
            while not _taken(file, mode):
                if monotonic() >= until:
                    raise BusyError(busy_message)
                sleep(0.01)
            yield file
        finally:
            release_lock(file)


def _taken(file: int, how: int) -> bool:
    """Try to take a lock; False when another process holds it."""
    try:
        fcntl.flock(file, how)
    except BlockingIOError:
        return False
    return True
