"""Carry the store's changes into the search index. The index is a projection: its cursor says how far it has read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import islice
from time import monotonic, sleep
from typing import TYPE_CHECKING

from indexer.store import Store, StoreUnavailableError, pointed, walk
from indexer.store.outbox import Outbox
from overlay.catalogue import Catalogue
from overlay.duplicates.index import DuplicateIndex
from overlay.duplicates.status import document_with_status
from overlay.engines import BusyError, Cursor, UnavailableError, is_further

if TYPE_CHECKING:
    from overlay.document import Document
    from overlay.index import SearchIndex

log = logging.getLogger(__name__)

BATCH = 2_000
"""Changes or registrations carried into the index in one commit."""


TOLD_SECONDS = 5.0
"""Between two lines about an index that is made anew."""

BEHIND_SECONDS = 0.1
"""How often is looked whether a replica has caught up with what the index read elsewhere."""


def _why(cursor: Cursor | None) -> str:
    return "it holds nothing, or nothing that can be read" if cursor is None else "it was made of another database"


def _continues(cursor: Cursor, outbox: Outbox) -> bool:
    return cursor.epoch == outbox.epoch and cursor.seq <= outbox.newest_seq


class Feed:
    """Keeps one index in step with the store. Every call may take its time: call it from a worker thread."""

    def __init__(self, store: Store, engine: SearchIndex, duplicates: DuplicateIndex | None = None) -> None:
        """With `duplicates`, searches show one of those listings that are the same or nearly so."""
        self._store, self._engine, self._duplicates = store, engine, duplicates
        self._catalogue = Catalogue(store)
        self._is_fed_elsewhere = False

    def begin(self) -> None:
        """Let a new index answer where there is nothing to be found yet: no search has to wait for that."""
        with suppress(BusyError, UnavailableError):
            if self._engine.cursor() is None and not self._store.newest_seq():
                self.fill(lambda _: None)

    def tidy(self) -> None:
        """Remove what a process left that was killed while it made the index anew."""
        self._engine.cleanup()

    def behind(self) -> int:
        """How many changes the index has not seen."""
        cursor = self._engine.cursor()
        outbox = self._store.outbox()
        if cursor is not None and self._is_ahead(cursor, outbox):
            return 0
        return outbox.newest_seq - (cursor.seq if cursor and _continues(cursor, outbox) else 0)

    def _continues(self, cursor: Cursor) -> bool:
        """Whether a cursor is of this outbox: a restored or failed-over database has another epoch, or fewer rows."""
        return _continues(cursor, self._store.outbox())

    def _is_ahead(self, cursor: Cursor, outbox: Outbox) -> bool:
        """Whether the index only knows more than a replica yet does: then nothing is to be done but to wait."""
        if not outbox.is_replica or _continues(cursor, outbox):
            return False
        if cursor.epoch == outbox.epoch:
            return True
        try:
            return self._store.at_home().outbox().epoch == cursor.epoch
        except StoreUnavailableError:
            return True

    def step(self, progress: Callable[[int], None] = lambda _: None) -> int:
        """Carry over the next batch of changes; the number of changes carried, 0 when the index is up to date.

        An index that is of no use here is rebuilt, which takes its time: `progress` is told of each batch, and may
        raise to give up. Raises BusyError while another process feeds the index and has not carried over all.
        """
        index, outbox = self._engine.cursor(), self._store.outbox()
        if index is not None and self._is_ahead(index, outbox):
            return 0
        if self._is_fed_elsewhere and index == (outbox.epoch, outbox.newest_seq):
            return 0
        try:
            carried = self._feed(progress)
        except BusyError:
            self._is_fed_elsewhere = True
            if self.behind():
                raise
            return 0  # claims of our own, which may be missing or behind, are of use to who feeds it alone
        self._is_fed_elsewhere = False
        return carried

    def _feed(self, progress: Callable[[int], None]) -> int:
        """Carry over the next batch, as the process that feeds the index; how many."""
        cursor = self._stands(progress)
        if cursor is None or not self._continues(cursor):
            return self._begin(cursor, progress)
        return self.carry(cursor)

    def _begin(self, cursor: Cursor | None, progress: Callable[[int], None]) -> int:
        """Make an index that is of use here, of one that is not."""
        if cursor is None and not self._store.newest_seq():
            return self.fill(progress)  # all there is: nothing
        log.info("index: %s, so it is made anew", _why(cursor))
        return self.rebuild(lambda done, _: progress(done))

    def carry(self, cursor: Cursor) -> int:
        """Carry over the next batch of changes after `cursor`; how many."""
        changes = self._store.changes(cursor.seq, BATCH)
        if not changes:
            return self._tell_others(cursor)
        touched = list(dict.fromkeys(change.id for change in changes))
        began = monotonic()
        self._put(touched, Cursor(cursor.epoch, changes[-1].seq))
        log.info("index: %d changes carried over in %.0f ms", len(changes), 1000 * (monotonic() - began))
        return len(changes)

    def _stands(self, progress: Callable[[int], None]) -> Cursor | None:
        """What both the index and the claims have read; None where the index is of no use."""
        index = self._engine.cursor()
        if index is None or self._duplicates is None or not self._continues(index):
            return index
        claims = self._duplicates.cursor()
        if claims is None or not self._continues(claims):
            claims = self._claim_anew(index, progress)
        return min(index, claims)

    def _claim_anew(self, index: Cursor, progress: Callable[[int], None]) -> Cursor:
        """Read all claims from the store, where their file was lost, or another machine fed the index before. What
        was told of any listing meanwhile is not known, so all are told again, after what is new."""
        if self._duplicates is not None:
            self._engine.replace([], [], index)  # who does not get to write the index need not read them
            total = self._claim_all(self._duplicates, progress)
            self._duplicates.doubt()
            self._duplicates.take([], [], index)
            log.info("index: the claims of %d registrations read from the store", total)
        return index

    def _claim_all(self, duplicates: DuplicateIndex, progress: Callable[[int], None]) -> int:
        """Read the claims of all there is, and no others; the number of registrations."""
        duplicates.clear()
        total = 0
        for batch, number in self._all():
            duplicates.take(batch, self._catalogue.documents(batch), None)
            total += number
            progress(total)
        return total

    def _put(self, touched: Sequence[str], cursor: Cursor) -> None:
        """Let the index say of these registrations what the store does, and of others what follows for them."""
        if self._duplicates is None:
            self._tell(touched, cursor)
            return
        # claims are taken once the engine asks for documents: who does not get to write the index writes no claims
        self._engine.replace(touched, self._claiming(self._duplicates, touched, cursor), cursor)
        self._tell_others(cursor)

    def _claiming(self, duplicates: DuplicateIndex, touched: Sequence[str], cursor: Cursor) -> Iterator[Document]:
        found = list(self._catalogue.documents(touched))
        duplicates.take(touched, found, cursor)
        yield from self._marked(touched, found)

    def _tell(self, registrations: Sequence[str], cursor: Cursor) -> None:
        """Let the index say of these registrations what the store does, and what follows from all claims."""
        documents = self._catalogue.documents(registrations)
        self._engine.replace(registrations, self._marked(registrations, documents), cursor)

    def _marked(self, registrations: Sequence[str], documents: Iterable[Document]) -> Iterator[Document]:
        """The documents of registrations, with what follows for them from all claims by now."""
        if self._duplicates is None:
            yield from documents
            return
        statuses = self._duplicates.statuses(registrations)
        yield from (document_with_status(each, statuses) for each in documents)

    def _tell_others(self, cursor: Cursor) -> int:
        """Look again at listings for which something follows from others."""
        others = self._duplicates.waiting() if self._duplicates is not None else []
        if self._duplicates is not None and others:
            self._tell(others, cursor)
            self._duplicates.done(others)
        return len(others)

    def run(self) -> int:
        """Carry over all there is; the number of changes carried."""
        total = 0
        while carried := self.step():
            total += carried
        return total

    def rebuild(self, progress: Callable[[int, int], None] = lambda *_: None) -> int:
        """Make the index anew from the store; the number of registrations carried.

        It is made beside the one that answers, which is exchanged for it at one stroke, and stays when this is broken
        off. `progress` is told how many registrations were carried, of how many. Raises BusyError while another process
        makes one.
        """
        with self._engine.rebuilding() as fresh, ExitStack() as ending:
            claims = ending.enter_context(self._duplicates.rebuilding()) if self._duplicates is not None else None
            total = self._exchange(Feed(self._store, fresh, claims), progress)
            if self._duplicates is not None and claims is not None:
                self._duplicates.become(claims)
        log.info("index: made anew from the store, %d registrations", total)
        return total

    def _exchange(self, beside: Feed, progress: Callable[[int, int], None]) -> int:
        """Fill an index beside this one, and let it answer once it has read as much; the number of registrations."""
        of = walk.registrations(self._store.engine) + len(self._store.newcomer_ids())
        told = monotonic()

        def tell(done: int) -> None:
            nonlocal told
            self._engine.report_progress(done, of)
            if monotonic() - told >= TOLD_SECONDS:
                told = monotonic()
                log.info("index: made anew beside the one that answers, %d of %d registrations", done, of)
            progress(done, of)

        self._engine.report_progress(0, of)
        total = beside.fill(tell)
        while True:
            cursor = beside.cursor()
            if cursor is None or not self._continues(cursor):
                total = beside.fill(tell)  # of another database by now
            elif not (back := self._went_back()) and is_further(self._engine.cursor(), cursor):
                if not beside.carry(cursor):
                    sleep(BEHIND_SECONDS)  # a replica: what the other one has read is not here yet
            elif self._engine.promote(beside._engine, back=back):
                return total
            tell(total)

    def _went_back(self) -> bool:
        """Whether the index has read what the database does not hold any more, as after it was restored."""
        cursor, outbox = self._engine.cursor(), self._store.outbox()
        return cursor is not None and not _continues(cursor, outbox) and not self._is_ahead(cursor, outbox)

    def cursor(self) -> Cursor | None:
        """Where the index stands."""
        return self._engine.cursor()

    def fill(self, progress: Callable[[int], None]) -> int:
        """Put all there is into an index that nobody looks at yet; the number of registrations.

        What follows for each from the claims of all is known before the first is told: else those of which duplicates
        turn up later are written again (one in five of the offers of the benchmarks), and leave old records behind.
        Only what is both registered and pointed at is told twice.
        """
        self._engine.clear()
        epoch, newest, _ = self._store.outbox()
        claimed = None
        if self._duplicates is not None:
            claimed = self._claim_all(self._duplicates, lambda done: progress(done // 2))
            self._duplicates.all_done()
        total = 0
        for batch, number in self._all():
            self._tell(batch, Cursor(epoch, 0))
            total += number
            progress(total if claimed is None else (claimed + total) // 2)
        self._put([], Cursor(epoch, newest))
        return total

    def _all(self) -> Iterator[tuple[list[str], int]]:
        """All that is registered, unconfirmed, or pointed at, listed or not, in batches; and how many of each count:
        what is pointed at does not."""
        yield from ((batch, len(batch)) for batch in self._batches())
        yield from ((batch, 0) for batch in self._pointed())

    def _batches(self) -> Iterator[list[str]]:
        after: tuple[str, str] | None = None
        while found := self._store.ids(after, BATCH):
            yield list(dict.fromkeys(id_ for _, id_ in islice(found, BATCH)))
            after = found[-1]
        newcomers = self._store.newcomer_ids()
        for start in range(0, len(newcomers), BATCH):
            yield newcomers[start : start + BATCH]

    def _pointed(self) -> Iterator[list[str]]:
        """All that anything points at, listed or not."""
        last: str | None = None
        while ids := list(pointed.ids(self._store.engine, last, BATCH)):
            yield ids
            last = ids[-1]
