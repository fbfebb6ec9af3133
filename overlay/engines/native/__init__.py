"""The default engine: an index of arrays in mapped files, read by compiled loops (docs/index-format.md)."""

from __future__ import annotations

import fcntl
import logging
import os
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from overlay.engines import BusyError, Cursor, EngineError
from overlay.engines.index_versions import IndexVersions
from overlay.engines.native import manifest as manifests
from overlay.engines.native.manifest import CommitStamp
from overlay.engines.native.searching import search
from overlay.engines.native.view import NativeView
from overlay.engines.native.writing import committed
from overlay.search.planner import QueryPlan
from overlay.search.query import Matches, Query
from overlay.search.term_dictionary import Terms

if TYPE_CHECKING:
    from overlay.search.document import Document

LAYOUT = "native-1"
SLOW = False

_LOCK = "lock"
_ATTEMPTS = 5

log = logging.getLogger(__name__)


class NativeEngine:
    """See `overlay.engines.Engine`."""

    ranks = True

    def __init__(self, folder: Path, *, make: bool) -> None:
        """Open the index in a folder. Raises OSError or ValueError."""
        if make:
            folder.mkdir(parents=True, exist_ok=True)
        elif not folder.is_dir():
            raise ValueError(f"there is no index in {folder}")
        self._folder = folder
        self._stamp = CommitStamp(folder)
        self._refreshing, self._writing = threading.Lock(), threading.Lock()
        self._lock: int | None = None
        self._seen = self._stamp.value()
        self._view = NativeView.empty()
        self._refresh()

    def _current(self) -> NativeView:
        """The view of the newest commit, of this or another process."""
        if self._stamp.value() != self._seen and self._refreshing.acquire(blocking=False):
            try:
                self._refresh()
            finally:
                self._refreshing.release()
        return self._view

    def _refresh(self) -> None:
        """Read the newest commit; one that cannot be read has no cursor, and needs a rebuild."""
        for _ in range(_ATTEMPTS):
            seen = self._stamp.value()
            try:
                self._view = NativeView.read(self._folder, self._view)
            except FileNotFoundError:  # another commit has replaced it meanwhile
                continue
            except (OSError, ValueError):
                log.warning("the index in %s cannot be read", self._folder, exc_info=True)
                self._view = NativeView.empty()
            self._seen = seen
            return
        self._view, self._seen = NativeView.empty(), seen

    def cursor(self) -> Cursor | None:
        """How far this index has read."""
        return self._current().cursor

    def search(self, query: Query, plan: QueryPlan, start: int, stop: int) -> Matches:
        """Run a plan with the filters of a query."""
        view = self._current()
        segments = view.current if query.as_of is None else view.segments
        return search(segments, float(view.manifest.newest), query, plan, start, stop)

    def terms(self) -> Terms:
        """The words of the current listings."""
        return self._current().terms

    def get(self, id: str) -> bytes | None:  # noqa: A002
        """The stored item of a current listing."""
        return self._current().item(id)

    def close(self) -> None:
        """Release files and the lock."""
        with self._writing:
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None
        self._view = NativeView.empty()

    def write(self, registrations: Sequence[str] | None, documents: Iterable[Document], cursor: Cursor | None) -> None:
        """Replace documents."""
        with self._writing:
            self._take_lock()
            with self._refreshing:
                self._refresh()
                view = self._view
            if view.cursor is None and view.manifest.segments and registrations is not None:
                raise EngineError(f"the index in {self._folder} is damaged: rebuild it")
            try:
                published = committed(self._folder, view, registrations, documents, cursor)
            except OSError as error:
                raise EngineError(f"the index in {self._folder} cannot be written: {error}") from error
            with self._refreshing:
                self._refresh()
            manifests.sweep(self._folder, published)

    def _take_lock(self) -> None:
        """Lock the folder for writing, until it is closed."""
        if self._lock is not None:
            return
        try:
            file = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise BusyError(f"{self._folder} cannot be written: {error}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            raise BusyError(f"another process writes to the index in {self._folder}") from error
        self._lock = file


def open_versions(place: str) -> IndexVersions:
    """The versions of the index in a folder."""
    return IndexVersions(Path(place), LAYOUT)


def open_engine(version: Path, *, make: bool) -> NativeEngine:
    """Open the index in a folder."""
    return NativeEngine(version, make=make)
