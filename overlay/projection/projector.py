"""Project the store's changes into the search index: read the outbox after its position, and write in batches."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import chain, islice
from time import monotonic, sleep
from typing import TYPE_CHECKING

from indexer.failures import LeftOut, is_of_machine
from indexer.store import Store
from overlay.duplicates.duplicate_index import DuplicateIndex
from overlay.duplicates.duplicate_status import document_with_status
from overlay.engines import IN_FILES, BusyError, EngineError, IndexPosition, UnavailableError, is_further
from overlay.installation import NAMES
from overlay.projection.documents import DocumentReader
from overlay.projection.unread_changes import continues, is_ahead, pending_changes
from overlay.projection.written_ids import WrittenIds

if TYPE_CHECKING:
    from overlay.projection.search_index import SearchIndex
    from overlay.search.document import Document

log = logging.getLogger(__name__)

_WORK = "index"
"""The kind of work in `LeftOut`: writing a listing to the index."""

RETRIED = 100
"""Registrations that failed an hour ago, at most, in one step: each that fails again takes a dozen commits."""

BATCH, MOST_BATCHES = 1_000, 8
"""Changes or registrations whose documents are in memory together, and such batches in one commit: their words are
analysed once, and large segments are merged less often. A commit has about CARD_BYTES of cards at most."""

LOG_SECONDS = 5.0
"""Seconds between two log lines about a rebuild."""

COUNT_PAUSE = 50.0
"""Pause after counting the registrations during a rebuild, as a multiple of the time that took."""

REPLICA_SECONDS = 0.1
"""Seconds between two looks at a replica that lags behind the index."""


@contextmanager
def _without_collection() -> Iterator[None]:
    """Run without Python's collector of cyclic garbage, which would go through all documents of a commit repeatedly (a
    seventh of the processor time) and find none: they are freed when the commit ends."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class IndexProjector:
    """Keeps one index in step with the store. Calls block: call them from a worker thread."""

    def __init__(
        self,
        store: Store,
        engine: SearchIndex,
        duplicates: DuplicateIndex | None = None,
        systems: tuple[str, ...] = NAMES,
        left_out: LeftOut | None = None,
    ) -> None:
        """With `duplicates`, near-identical listings are one result. Items have the facts of these systems. `left_out`
        remembers which registrations failed, as `duplicates` does beyond a restart."""
        self._store, self._engine, self._duplicates = store, engine, duplicates
        self._left_out = left_out if left_out is not None else LeftOut()
        self._read_failed()
        self._reader, self._systems = DocumentReader(store, systems), systems
        self._is_fed_elsewhere = False
        self._written = WrittenIds()

    def _read_failed(self) -> None:
        """Read which registrations failed in another process, or before a restart."""
        if self._duplicates is not None:
            self._left_out.restore(_WORK, self._duplicates.failed())

    def initialize(self) -> None:
        """Give a new index the position before the first change: it is filled by following the outbox, so searches
        find each batch once it is written, and a process that is killed goes on there."""
        with suppress(BusyError, UnavailableError):
            if self._engine.is_new:
                start = self._emptied()
                self._write([], start, start)
                log.info("index: new, filled from the first change on")

    def _emptied(self) -> IndexPosition:
        """Remove everything from the index; the position before the first change. Raises BusyError."""
        self._engine.clear()
        if self._duplicates is not None:
            self._duplicates.clear()
        return IndexPosition(self._store.outbox.epoch, 0)

    def cleanup(self) -> None:
        """Remove the partly built index of a process that was killed during a rebuild."""
        self._engine.cleanup()

    def count(self) -> int:
        """How many registrations were ever in a stored block."""
        return self._store.registrations.count()

    def position(self) -> IndexPosition | None:
        """How far the index has read."""
        return self._engine.position()

    def step(self, progress: Callable[[int], None] = lambda _: None) -> int:
        """Project the next batch of changes; the number of changes, 0 when the index is up to date.

        An index of another database, or one that cannot be read, is rebuilt in this call. `progress` receives a number
        of registrations after each batch, and may raise to stop. Raises BusyError while another process feeds the index
        and has not finished.
        """
        index, outbox = self._engine.position(), self._store.outbox.position()
        if index is not None and is_ahead(self._store, index, outbox):
            return 0
        if self._is_fed_elsewhere and index == (outbox.epoch, outbox.newest_seq):
            return 0
        try:
            position = self._position()
            if position is not None and continues(self._store, position):
                count = self.project_after(position, progress)
            elif position is None and not self._store.outbox.newest_seq():
                count = self.fill(progress)  # an empty store
            else:
                reason = (
                    "it is of another release or of other systems"
                    if self._engine.is_outdated
                    else "it is empty or cannot be read, or its text keys were lost"
                    if position is None
                    else "it was built from another database"
                )
                log.info("index: rebuilding, because %s", reason)
                count = self.rebuild(lambda done, _: progress(done))
        except BusyError:
            self._is_fed_elsewhere = True
            self._read_failed()
            if pending_changes(self._store, self._engine):
                raise
            return 0  # only the process that feeds the index needs a current duplicate index
        self._is_fed_elsewhere = False
        return count

    def run(self) -> int:
        """Project all changes; their number."""
        total = 0
        while count := self.step():
            total += count
        return total

    def project_after(self, position: IndexPosition, progress: Callable[[int], None] = lambda _: None) -> int:
        """Project the next changes after `position`; without any, listings with a changed duplicate status, or
        registrations that failed an hour ago. Returns their number. Registrations that were written with all changes
        of now are not written again for the later ones of them."""
        # on a server the lease of a writer is not renewed in a commit; the first changes are soon found
        batches = MOST_BATCHES if self._engine.name in IN_FILES and position.seq else 1
        (_, newest, _), changes, _ = self._store.outbox.page(position.seq, batches * BATCH)
        if not changes:
            if reindexed := self._reindex_changed(position):
                return reindexed
            due = self._left_out.due(_WORK, RETRIED)
            if due:
                self._write(due, position, position)
            return len(due)
        if position != self._written.position:
            self._written = WrittenIds()
        registrations = self._written.unwritten([change for change, _ in changes])
        last, epoch = changes[-1]
        began, after = monotonic(), IndexPosition(epoch, last.seq)
        self._write(registrations, position, after, progress=lambda ids: progress(len(ids)))
        if newest > last.seq:
            self._written.add(registrations, newest)
        self._written.move(after)
        self._reindex_changed(after)
        log.info("index: %d changes projected in %.0f ms", len(changes), 1000 * (monotonic() - began))
        return len(changes)

    def _position(self) -> IndexPosition | None:
        """The position up to which both the index and the duplicate index have read; None where they must be rebuilt,
        also where the text keys were lost or another machine fed the index before."""
        index = self._engine.position()
        if index is None or self._duplicates is None or not continues(self._store, index):
            return index
        duplicates = self._duplicates.position()
        if duplicates is not None and continues(self._store, duplicates):
            return min(index, duplicates, key=lambda position: position.seq)
        self._engine.replace([], [], index)  # raises BusyError where another process feeds the index
        return None

    @_without_collection()
    def _write(
        self,
        registrations: Sequence[str],
        before: IndexPosition,
        after: IndexPosition,
        *,
        has_new_texts: bool = True,
        progress: Callable[[Sequence[str]], None] = lambda _: None,
    ) -> None:
        """Replace the documents of registrations by the documents of the store, in as many commits as their bytes need,
        the last of which moves the index to `after`. With `has_new_texts`, others whose duplicate status changes are
        queued. A registration that fails is left out, and found by halves: the others are written."""
        finished, stopped = set[str](), list[Exception]()

        def report(ids: Sequence[str]) -> None:
            finished.update(ids)
            try:
                progress(ids)
            except Exception as error:  # which is to stop the work
                stopped.append(error)
                raise

        try:
            self._write_all(registrations, before, after, has_new_texts=has_new_texts, progress=report)
        except Exception as error:
            if not registrations or is_of_machine(error) or isinstance(error, EngineError) or error in stopped:
                raise
            if len(registrations) == 1:
                self._leave_out(registrations[0], after, error)
                progress([id_ for id_ in registrations if id_ not in finished])
                return
        else:
            written = [id_ for id_ in registrations if self._left_out.remove(_WORK, id_)]
            if written and self._duplicates is not None:
                self._duplicates.forget_failed(written)
            return
        middle = len(registrations) // 2

        def report_rest(ids: Sequence[str]) -> None:
            progress([id_ for id_ in ids if id_ not in finished])

        for half, end in ((registrations[:middle], before), (registrations[middle:], after)):
            self._write(half, before, end, has_new_texts=has_new_texts, progress=report_rest)

    def _leave_out(self, id_: str, after: IndexPosition, error: Exception) -> None:
        """Remove a registration from the index until it changes, or for an hour. Raises the errors of the index: then
        the index fails, and not the registration."""
        self._engine.replace([id_], [], after)
        reason = self._left_out.add(_WORK, id_, error)
        if self._duplicates is not None:
            self._duplicates.update([id_], [], after)
            self._duplicates.fail(id_, reason)

    def _write_all(
        self,
        registrations: Sequence[str],
        before: IndexPosition,
        after: IndexPosition,
        *,
        has_new_texts: bool,
        progress: Callable[[Sequence[str]], None],
    ) -> None:
        """Write registrations in commits of `BATCH`; any that fails raises its error."""
        done = 0
        for ids, portions in self._reader.commits(registrations, BATCH) if registrations else [([], [([], ())])]:
            done += len(ids)
            position = after if done == len(registrations) else before
            documents = self._documents(portions, ids, (before, position) if has_new_texts else None, progress)
            self._engine.replace(ids, documents, position)

    def _documents(
        self,
        portions: Iterable[tuple[Sequence[str], Iterable[Document]]],
        ids: Sequence[str],
        positions: tuple[IndexPosition, IndexPosition] | None,
        progress: Callable[[Sequence[str]], None],
    ) -> Iterator[Document]:
        """The documents of the registrations `ids` of a commit with their duplicate status; with `positions`, once
        their text keys are recorded, the last portion has the second position: an index that is copied meanwhile reads
        registrations again that are not recorded. Nothing is done before the engine iterates: a process that may not
        write the index writes no text keys."""
        remaining = len(ids)
        for registrations, documents in portions:
            remaining -= len(registrations)
            if self._duplicates is None:
                yield from documents
            else:
                if positions is not None:
                    documents = list(documents)
                    self._duplicates.update(registrations, documents, positions[0 if remaining else 1])
                statuses = self._duplicates.statuses(registrations)
                yield from (document_with_status(document, statuses) for document in documents)
            documents = ()
            gc.collect(0)  # the garbage of requests that were answered meanwhile
            progress(registrations)

    def _reindex_changed(self, position: IndexPosition) -> int:
        """Reindex a batch of listings with a changed duplicate status; returns their number."""
        if self._duplicates is None:
            return 0
        changed = self._duplicates.queued()
        if changed:
            self._write(changed, position, position, has_new_texts=False)
            self._duplicates.dequeue(changed)
        return len(changed)

    def rebuild(self, progress: Callable[[int, int], None] = lambda *_: None) -> int:
        """Rebuild the index from the store; the number of registrations written.

        The new version is built beside the live one and promoted atomically; an interrupted rebuild leaves the live one
        as it was. `progress` receives the registrations written and their total. Raises BusyError while another process
        rebuilds.
        """
        arrays = None if self._duplicates is None else self._duplicates.arrays
        with self._engine.rebuilding() as fresh, closing(DuplicateIndex(arrays=arrays)) as keys:
            projector = IndexProjector(self._store, fresh, None if self._duplicates is None else keys, self._systems)
            total = self._fill_and_promote(projector, progress)
            self._written = projector._written
            if self._duplicates is not None:
                self._duplicates.copy_from(keys)
                self._read_failed()
        log.info("index: rebuilt from the store, %d registrations", total)
        return total

    def _fill_and_promote(self, fresh: IndexProjector, progress: Callable[[int, int], None]) -> int:
        """Fill a new version, and promote it once it has read as much as the live one; the number of registrations."""
        count, logged = _RegistrationCount(self._store), monotonic()

        def report(done: int) -> None:
            nonlocal logged
            of = max(done, count.now())
            self._engine.report_progress(done, of)
            if monotonic() - logged >= LOG_SECONDS:
                logged = monotonic()
                log.info("index: rebuilding, %d of %d registrations", done, of)
            progress(done, of)

        self._engine.report_progress(0, count.now())
        total = fresh.fill(report)
        while True:
            position = fresh.position()
            if position is None or not continues(self._store, position):
                total = fresh.fill(report)  # the database was replaced meanwhile
            elif not (back := self._database_went_back()) and is_further(self._engine.position(), position):
                if not fresh.project_after(position):
                    sleep(REPLICA_SECONDS)  # this replica lags behind what the live index has read
            elif self._engine.promote(fresh._engine, back=back):
                return total
            report(total)

    def _database_went_back(self) -> bool:
        """Whether the index has read changes that the database does not hold, as after a restored backup."""
        position, outbox = self._engine.position(), self._store.outbox.position()
        return (
            position is not None
            and not continues(self._store, position)
            and not is_ahead(self._store, position, outbox)
        )

    def fill(self, progress: Callable[[int], None]) -> int:
        """Write all registrations to an index that is not live yet; their number. Those whose duplicate status changes
        for a later one are written twice."""
        start, total = self._emptied(), 0
        epoch, newest, _ = self._store.outbox.position()
        written = WrittenIds()

        batches = self._batches()
        while some := list(islice(batches, MOST_BATCHES)):
            now = self._store.outbox.newest_seq()
            remaining: dict[str, int] = {}
            for id_, count in chain.from_iterable(batch.items() for batch in some):
                remaining.setdefault(id_, count)

            def report(ids: Iterable[str]) -> None:
                nonlocal total
                total += sum(map(remaining.pop, ids))  # noqa: B023
                progress(total)

            ids = list(remaining)
            self._write(ids, start, start, progress=report)
            if now > newest:
                written.add(ids, now)
        while self._reindex_changed(start):
            progress(total)
        end = IndexPosition(epoch, newest)
        self._write([], end, end)
        written.move(end)
        self._written = written
        return total

    def _batches(self) -> Iterator[dict[str, int]]:
        """The ids of all registrations (confirmed, then unconfirmed) and of all pointer targets, in batches, each with
        1 if it counts as a registration: targets do not. The oldest first, as a later registration seldom changes the
        documents of an earlier one."""
        after: tuple[str, int] | None = None
        while rows := self._store.registrations.by_age(after, BATCH):
            yield dict.fromkeys((id_ for _, _, id_ in rows), 1)
            after = rows[-1][:2]
        unconfirmed = self._store.pending.new_ids()
        for start in range(0, len(unconfirmed), BATCH):
            yield dict.fromkeys(unconfirmed[start : start + BATCH], 1)
        last: str | None = None
        while targets := list(self._store.pointers.ids(last, BATCH)):
            yield dict.fromkeys(targets, 0)
            last = targets[-1]


class _RegistrationCount:
    """How many registrations a store has, counted again while it grows, for a fiftieth of the time."""

    def __init__(self, store: Store) -> None:
        self._store, self._count, self._newest, self._count_at = store, 0, -1, 0.0

    def now(self) -> int:
        """The number of registrations and of new unconfirmed ones."""
        began, newest = monotonic(), self._store.outbox.newest_seq()
        if began >= self._count_at and newest != self._newest:
            self._count = self._store.registrations.count() + len(self._store.pending.new_ids())
            self._newest, self._count_at = newest, monotonic() + COUNT_PAUSE * (monotonic() - began)
        return self._count
