"""The default engine: an index of arrays in mapped files, read by compiled loops (docs/index-format.md)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from overlay.engines import EARLIER, NATIVE_LAYOUT, EngineError, IndexContent, IndexPosition
from overlay.engines.index_versions import IndexVersions
from overlay.engines.native import manifest as manifests
from overlay.engines.native.background_jobs import BackgroundJobs, Job
from overlay.engines.native.completing import completed
from overlay.engines.native.folder_lock import FolderLock
from overlay.engines.native.manifest import Manifest, SegmentEntry
from overlay.engines.native.searching import search
from overlay.engines.native.segment import Segment
from overlay.engines.native.view import NativeView
from overlay.engines.native.with_document import ViewWithDocument
from overlay.engines.native.writing import (
    DamagedSegmentError,
    as_one,
    committed,
    damaged,
    due,
    joined,
    new_name,
    replaced,
    while_filled,
)
from overlay.search.planner import QueryPlan
from overlay.search.query import Matches, Query
from overlay.search.suggesting import Completed, Typed
from overlay.search.term_dictionary import Terms

if TYPE_CHECKING:
    from overlay.search.document import Document

_Read = TypeVar("_Read")

SLOW = False

CHECK_SECONDS = 86_400.0
"""Seconds between two checks of all files."""

SUSPECT_SECONDS = 60.0
"""Seconds between two checks of all files because of searches that fail."""

RETRY_SECONDS = 60.0
"""Seconds before work in the background is tried again after it failed, as on a full disk."""

_ATTEMPTS = 5

log = logging.getLogger(__name__)


class NativeEngine:
    """See `overlay.engines.Engine`."""

    has_vectors = True

    def __init__(self, folder: Path, *, make: bool, for_search: bool = True) -> None:
        """Open the index in a folder; unless `for_search`, the contents of its segments are not read. Raises OSError or
        ValueError."""
        if make:
            folder.mkdir(parents=True, exist_ok=True)
        elif not folder.is_dir():
            raise ValueError(f"there is no index in {folder}")
        self.folder, self._for_search = folder, for_search
        self._stamp = manifests.commit_stamp(folder)
        self._refreshing, self._writing = threading.RLock(), threading.Lock()
        self._lock: FolderLock | None = None
        self._damaged: dict[str, str] = {}  # by name of a segment, what is wrong with its file
        self.suspected = -inf
        self.jobs = BackgroundJobs(self._next_job)
        self._merging: frozenset[str] = frozenset()
        self.check_at = self.retry_at = -inf
        self._seen = self._stamp.value()
        self._view = NativeView.empty()
        self._refresh()

    def _current(self) -> NativeView:
        """The view of the newest commit, of this or another process."""
        if self._stamp.value() != self._seen and self._refreshing.acquire(blocking=False):
            try:
                self._refresh()
            except OSError:
                log.warning(
                    "the index in %s cannot be read now: searching an earlier commit", self.folder, exc_info=True
                )
            finally:
                self._refreshing.release()
        return self._view

    def _refresh(self) -> NativeView:
        """Read the newest commit; one that is damaged has no position, and needs a rebuild. Raises OSError."""
        with self._refreshing:
            for attempt in range(_ATTEMPTS):
                seen = self._stamp.value()
                try:
                    view = NativeView.read(self.folder, self._view, self._damaged, for_search=self._for_search)
                except FileNotFoundError:  # another commit has replaced it meanwhile
                    if attempt == _ATTEMPTS - 1:
                        raise
                    continue
                if view.damage and view.damage != self._view.damage:
                    log.error("the index in %s is damaged, and must be rebuilt: %s", self.folder, view.damage)
                self._view, self._seen = view, seen
                break
            return self._view

    def position(self) -> IndexPosition | None:
        """How far this index has read."""
        return self._current().position

    def content(self) -> IndexContent | None:
        """The content that its documents were made by."""
        manifest = self._current().manifest
        return manifest.content if manifest.number else None

    def damage(self) -> str:
        """The damage of the index, in words; "" for none."""
        return self._current().damage

    def search(self, query: Query, plan: QueryPlan, start: int, stop: int) -> Matches:
        """Run a plan with the filters of a query."""
        is_current = query.as_of is None
        return self._checked(
            lambda view: search(
                view.current if is_current else view.segments, float(view.manifest.newest), query, plan, start, stop
            )
        )

    def with_document(self, document: Document) -> ViewWithDocument:
        """The current listings and this document, as if it were of the newest block."""
        return ViewWithDocument(self._current(), document)

    def complete(self, typed: Typed) -> Completed:
        """The completions of a text."""
        return self._checked(lambda view: completed(view.current, typed))

    def _checked(self, read: Callable[[NativeView], _Read]) -> _Read:
        """The result of `read` on the current view; read again, without damaged segments, when damage shows."""
        view = self._current()
        try:
            result = read(view)
            if not any(segment.is_suspect for segment in view.segments) or not self._is_found_damaged():
                return result
        except Exception:  # damage that no check at opening finds raises any error
            if not self._is_found_damaged():
                raise
        return read(self._current())

    def _is_found_damaged(self) -> bool:
        """Whether a check of all files, once in a while, finds damage that is not known yet."""
        if monotonic() < self.suspected + SUSPECT_SECONDS:
            return False
        self.suspected = monotonic()
        return sum(self._is_damaged(segment.entry) for segment in self._view.segments) > 0

    def _is_damaged(self, entry: SegmentEntry) -> bool:
        """Whether the file of a segment is damaged; then it is left out from now on."""
        damage = damaged(self.folder, entry)
        return bool(damage) and self._leave_out(entry.name, damage)

    def _leave_out(self, name: str, damage: str) -> bool:
        """Leave out a segment that is damaged; False when the index does not have the segment any more."""
        if any(segment.entry.name == name for segment in self._refresh().segments):
            self._damaged[name] = damage
            self._refresh()
        return name in self._damaged

    def terms(self) -> Terms:
        """The words of the current listings."""
        return self._current().terms

    def get(self, id: str) -> bytes | None:  # noqa: A002
        """The stored item of a current listing."""
        return self._current().item(id)

    def close(self) -> None:
        """Release files and the lock, once the merge in the background is complete or abandoned."""
        self.jobs.close()
        self.unlock()
        self._view = NativeView.empty()

    def unlock(self) -> None:
        """Release the lock for another process."""
        with self._writing:
            if self._lock is not None:
                self._lock.release(is_whole=not self._view.damage and monotonic() < self.check_at)
                self._lock = None

    def write(
        self,
        registrations: Sequence[str] | None,
        documents: Iterable[Document],
        position: IndexPosition | None,
        content: IndexContent = EARLIER,
    ) -> None:
        """Replace documents; the folder is locked for writing from the first time on, until it is closed."""
        with self._writing:
            if self._lock is None:
                self._lock = FolderLock(self.folder)
                self.check_at = monotonic() + (0 if self._lock.was_interrupted else CHECK_SECONDS)
                self._stamp.increase()  # the writer before may have ended between a manifest and its stamp
            try:
                view = self._refresh()
                if registrations is not None and view.position is None and (view.damage or view.segments):
                    reason = view.damage or "its text vectors are of another table"
                    raise EngineError(f"the index in {self.folder} must be rebuilt: {reason}")
                is_filled = position is not None and not position.seq  # no search comes before it has read any changes
                was_filled = view.position is not None and not view.position.seq
                grouping = while_filled if is_filled else as_one if was_filled else None
                manifest = committed(
                    self.folder, view, registrations, documents, position, content, merging=self._merging,
                    grouping=grouping,
                )  # fmt: skip
                self._finish(manifest)
            except OSError as error:
                raise EngineError(f"the index in {self.folder} cannot be written: {error}") from error
            if not is_filled:
                self.jobs.start()

    def _finish(self, manifest: Manifest) -> None:
        """Show a published commit to searches, and remove the files that it does not use. Only while `_writing`."""
        self._refresh()
        manifests.sweep(self.folder, manifest, self._merging)

    def _next_job(self) -> Job | None:
        """The work to do beside the commits."""
        view, now = self._view, monotonic()
        if view.position is None or now < self.retry_at:
            return None
        if now >= self.check_at:
            return partial(self._attempt, partial(self._check, view.manifest))
        sources = due(view)
        return partial(self._attempt, partial(self._merge, sources)) if sources else None

    def _attempt(self, job: Job) -> None:
        """Run a job; if the disk fails, the next one is later."""
        try:
            job()
        except DamagedSegmentError as error:
            self._leave_out(error.name, str(error))
        except OSError:
            log.warning("work on the index in %s is put off", self.folder, exc_info=True)
            self.retry_at = monotonic() + RETRY_SECONDS

    def _check(self, manifest: Manifest) -> None:
        """Read all files of a commit."""
        for entry in manifest.segments:
            if not self.jobs.is_closed:
                self._is_damaged(entry)
        if not self.jobs.is_closed:
            self.check_at = monotonic() + CHECK_SECONDS

    def _merge(self, sources: Sequence[Segment]) -> None:
        """Merge segments, and publish the result unless the engine is closed meanwhile."""
        name = new_name()
        with self._writing:  # a commit that has begun would remove the new file
            self._merging = frozenset((name, *(source.entry.name for source in sources)))
        try:
            entry = joined(self.folder, name, sources)
            with self._writing:
                view, self._merging = self._refresh(), frozenset()
                if not view.damage and not self.jobs.is_closed:
                    self._finish(replaced(self.folder, view, sources, entry) or view.manifest)
        finally:
            self._merging = frozenset()


def open_versions(location: str) -> IndexVersions:
    """The versions of the index in a folder."""
    return IndexVersions(Path(location), NATIVE_LAYOUT)


def open_engine(version: Path, *, make: bool, for_search: bool = True) -> NativeEngine:
    """Open the index in a folder."""
    return NativeEngine(version, make=make, for_search=for_search)
