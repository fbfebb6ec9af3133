"""The claims of all indexed listings, in a SQLite file beside the index, and the groups of near-identical texts.

It is a projection with its own cursor, rebuilt with the index. In order of rank and seniority, a listing is shown
unless it shares a cluster key with a more senior shown listing, which becomes the head of its group. Groups therefore
do not depend on the order of reading, and every hidden text is near-identical to the shown one. A change examines the
keys of the changed listing only, and, where a shown listing is added or removed, the listings that share its keys."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from overlay.duplicates.claims import CLUSTER, TEXT, URL, digest
from overlay.duplicates.duplicate_status import WARNED, DuplicateStatus
from overlay.duplicates.grouping import leave, regroup
from overlay.engines import BusyError, Cursor, EngineError
from overlay.search.document import AT_HOME, NAMED, NOTHING, UNVERIFIED
from overlay.search.facts import HERE, LISTED

if TYPE_CHECKING:
    from overlay.search.document import Document

FILE = "duplicates-1.db"
"""The file name; it changes with the layout."""

FRESH = f"{FILE}-new"
"""The name of a temporary file until it is unlinked."""

NAMING = 100
"""Listings whose warnings are updated when the earliest claimant changes; further ones name the former claimant until
they change."""

AT_ONCE = 2_000
"""Listings that are reindexed in one step."""

_WAIT = 30.0
_TABLES = """
CREATE TABLE IF NOT EXISTS listings (
  number INTEGER PRIMARY KEY, listing TEXT, chain TEXT, registration TEXT, owner TEXT, rank INTEGER,
  place BLOB, is_shown INTEGER DEFAULT 0, head INTEGER, UNIQUE (listing, chain));
CREATE INDEX IF NOT EXISTS listings_by_registration ON listings (registration);
CREATE INDEX IF NOT EXISTS listings_by_head ON listings (head);
CREATE TABLE IF NOT EXISTS claims (
  kind TEXT, value BLOB, place BLOB, number INTEGER, PRIMARY KEY (kind, value, place, number)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS claims_by_number ON claims (number);
CREATE TABLE IF NOT EXISTS heads (
  value BLOB, place BLOB, number INTEGER, PRIMARY KEY (value, place, number)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS waiting (registration TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cursors (epoch TEXT, seq INTEGER);
"""
_OLD = "SELECT number, listing, chain, is_shown, head FROM listings WHERE registration = ?"
_ROWS = "SELECT kind, value, place, number FROM claims WHERE number = ?"
_PUT = """
INSERT INTO listings (number, listing, chain, registration, owner, rank, place) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (number) DO UPDATE SET owner = excluded.owner, rank = excluded.rank, place = excluded.place
"""
_FIRST = """
SELECT number, listing, registration, owner, claims.place FROM claims CROSS JOIN listings USING (number)
WHERE kind = ? AND value = ? ORDER BY claims.place, number LIMIT 1
"""
_HOLDERS = """
INSERT OR IGNORE INTO waiting SELECT registration FROM (
  SELECT number FROM claims WHERE kind = ? AND value = ? ORDER BY place, number LIMIT ?)
CROSS JOIN listings USING (number)
"""
_WAIT_FOR = "INSERT OR IGNORE INTO waiting SELECT registration FROM listings WHERE number = ?"

_Row = tuple[str, bytes, bytes, int]
"""A claim: its kind, its value, its place in the order of seniority, the number of its listing."""


class _First(NamedTuple):
    number: int
    listing: str
    registration: str
    owner: str
    place: bytes


class DuplicateIndex:
    """Safe from several threads and processes; the one that feeds the search index writes. Raises EngineError when the
    file cannot be used, BusyError while another process holds it."""

    def __init__(self, folder: str, *, temporary: bool = False) -> None:
        """Open the file in a folder, making it when there is none; a `temporary` one is empty and has no name, so that
        it goes with the process."""
        self._path = Path(folder) / (FRESH if temporary else FILE)
        self._lock = threading.Lock()
        with self._checked():
            Path(folder).mkdir(parents=True, exist_ok=True)
            if temporary:
                self._path.unlink(missing_ok=True)
            self._db = self._open()
            if temporary:
                # a journal would need the name
                self._db.execute("PRAGMA journal_mode = MEMORY")
                self._path.unlink()

    def _open(self) -> sqlite3.Connection:
        try:
            return self._prepared()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            self._path.unlink()  # damaged; it is a projection and can be rebuilt
            return self._prepared()

    def _prepared(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, timeout=_WAIT, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("PRAGMA cache_size = -16000")
            db.executescript(_TABLES)
        except BaseException:
            db.close()
            raise
        return db

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    @contextmanager
    def _checked(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            kind = BusyError if "locked" in str(error) else EngineError
            raise kind(f"cannot use {self._path}: {error}") from error

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._checked():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise

    def cursor(self) -> Cursor | None:
        """How far the store's changes were read; None where a rebuild is needed."""
        with self._lock, self._checked():
            row = self._db.execute("SELECT epoch, seq FROM cursors").fetchone()
        return Cursor(*row) if row else None

    def clear(self) -> None:
        """Remove everything."""
        with self._writing() as db:
            for table in ("claims", "heads", "listings", "waiting", "cursors"):
                db.execute(f"DELETE FROM {table}")  # noqa: S608  names of our own

    @contextmanager
    def rebuilding(self) -> Iterator[DuplicateIndex]:
        """A temporary empty one, for a version of the index that is being built."""
        fresh = DuplicateIndex(str(self._path.parent), temporary=True)
        try:
            yield fresh
        finally:
            fresh.close()

    def copy_from(self, other: DuplicateIndex) -> None:
        """Replace the content by that of another one, atomically."""
        with self._lock, self._checked():
            other._db.backup(self._db)

    # -- claims

    def update(self, registrations: Sequence[str], documents: Iterable[Document], cursor: Cursor | None) -> None:
        """Replace the claims of registrations by those of documents. Other registrations whose status changes are
        `queued` until they are dequeued. `cursor` is None while a rebuild is in progress."""
        with self._writing() as db:
            touched = dict.fromkeys(registrations)
            old = {(row[1], row[2]): row for id_ in touched for row in db.execute(_OLD, (id_,))}
            (last,) = db.execute("SELECT coalesce(max(number), 0) FROM listings").fetchone()
            new: dict[int, tuple[Document, set[_Row]]] = {}
            for document in _current(documents):
                row = old.get((document.id, document.chain))
                last += row is None
                number = row[0] if row else last
                new[number] = document, set(_rows(document, number))
            _exchange(db, [row[0] for row in old.values()], new)
            db.executemany("DELETE FROM waiting WHERE registration = ?", [(id_,) for id_ in touched])
            db.execute("DELETE FROM cursors")
            if cursor is not None:
                db.execute("INSERT INTO cursors VALUES (?, ?)", cursor)

    def queued(self) -> list[str]:
        """Up to `AT_ONCE` registrations whose status has changed."""
        with self._lock, self._checked():
            rows = self._db.execute("SELECT registration FROM waiting ORDER BY registration LIMIT ?", (AT_ONCE,))
            return [registration for (registration,) in rows]

    def queue_all(self) -> None:
        """Queue all registrations: their status in the index is unknown."""
        with self._writing() as db:
            db.execute("INSERT OR IGNORE INTO waiting SELECT registration FROM listings")

    def dequeue(self, registrations: Iterable[str]) -> None:
        """Remove registrations from the queue: the index has their present status."""
        gone = [(id_,) for id_ in registrations]
        if gone:
            with self._writing() as db:
                db.executemany("DELETE FROM waiting WHERE registration = ?", gone)

    # -- statuses

    def statuses(self, registrations: Iterable[str]) -> dict[tuple[str, str], DuplicateStatus]:
        """The duplicate status of the listings of registrations, by id and chain."""
        with self._lock, self._checked():
            rows = [row for id_ in registrations for row in self._db.execute(_LISTED, (id_,)).fetchall()]
            return {(row[1], row[2]): _status(self._db, *row) for row in rows}


_LISTED = (
    "SELECT number, listing, chain, registration, owner, rank, is_shown, head FROM listings WHERE registration = ?"
)
_COUNT = "SELECT COUNT(*) FROM listings WHERE head = ?"
_NAME_OF = "SELECT listing FROM listings WHERE number = ?"


def _current(documents: Iterable[Document]) -> Iterable[Document]:
    """The documents that make claims, one per listing and chain: current ones that are listed."""
    current: dict[tuple[str, str], Document] = {}
    for document in documents:
        if document.fingerprint is not None and document.until_height is None and document.status in LISTED:
            current[document.id, document.chain] = document
    return current.values()


def _rows(document: Document, number: int) -> Iterator[_Row]:
    """The rows of a listing's claims; a claim to a text has one row per view."""
    fingerprint = document.fingerprint or NOTHING
    chains = (document.chain, *document.also_on)
    is_verified = str(fingerprint.rank < UNVERIFIED)
    for kind, value, since in fingerprint.claims:
        is_ranked = kind in (TEXT, CLUSTER)
        place = since.ordering(fingerprint.rank if is_ranked else 0, document.id)
        if kind != TEXT:
            yield kind, value, place, number
            continue
        for chain in chains:
            yield f"{TEXT}@{chain}", value, place, number
        here = digest(value.hex(), document.domain, is_verified, *sorted(chains))
        yield f"{TEXT}@{HERE}", here, place, number


def _exchange(db: sqlite3.Connection, old: Sequence[int], new: dict[int, tuple[Document, set[_Row]]]) -> None:
    """Replace the claims of the old listings by those of the new ones, and queue those whose status changes."""
    before = {row for number in old for row in db.execute(_ROWS, (number,))}
    after = {row for _, rows in new.values() for row in rows}
    keys = {row[:2] for row in before | after if row[0] != CLUSTER}
    firsts = {key: _first(db, *key) for key in keys}
    moved = {row[3] for row in before ^ after if row[0] == CLUSTER}
    changed, queue = leave(db, [number for number in old if number in moved])
    db.executemany("DELETE FROM claims WHERE kind = ? AND value = ? AND place = ? AND number = ?", before - after)
    db.executemany("INSERT INTO claims VALUES (?, ?, ?, ?)", sorted(after - before))
    db.executemany("DELETE FROM listings WHERE number = ?", [(number,) for number in old if number not in new])
    db.executemany(_PUT, [_about(number, document, rows) for number, (document, rows) in new.items()])
    queue |= {(place, number) for kind, _, place, number in after if kind == CLUSTER and number in moved}
    changed |= regroup(db, queue)
    for key, first in firsts.items():
        then = _first(db, *key)
        if first != then:
            is_text = key[0].startswith(f"{TEXT}@")
            db.execute(_HOLDERS, (*key, 1 if is_text else NAMING))
            changed |= {first.number} if first and is_text else set()
    db.executemany(_WAIT_FOR, [(number,) for number in changed])


def _about(number: int, document: Document, rows: set[_Row]) -> tuple[int, str, str, str, str, int, bytes]:
    fingerprint = document.fingerprint or NOTHING
    place = next((place for kind, _, place, _ in rows if kind == CLUSTER), b"")
    return number, document.id, document.chain, document.registration, fingerprint.owner, fingerprint.rank, place


def _first(db: sqlite3.Connection, kind: str, value: bytes) -> _First | None:
    """The listing with the earliest claim to a key."""
    row = db.execute(_FIRST, (kind, value)).fetchone()
    return _First(*row) if row else None


def _status(
    db: sqlite3.Connection, number: int, _: str, __: str, registration: str, owner: str, rank: int, is_shown: int,
    head: int | None,
) -> DuplicateStatus:  # fmt: skip
    hidden_in = [] if is_shown else [""]
    earlier: dict[str, tuple[bytes, str, bool]] = {}
    for kind, value, _place, _number in db.execute(_ROWS, (number,)).fetchall():
        first = None if kind == CLUSTER else _first(db, kind, value)
        if first is None or first.number == number:
            continue
        if kind not in WARNED:
            hidden_in.append(kind.removeprefix(f"{TEXT}@"))
        elif first.registration != registration and rank != NAMED and (kind, rank) != (URL, AT_HOME):
            warning = first.place, first.listing, bool(owner) and first.owner == owner
            earlier[kind] = min(earlier.get(kind, warning), warning)
    (duplicates,) = db.execute(_COUNT, (number,)).fetchone()
    group = db.execute(_NAME_OF, (number if head is None else head,)).fetchone()[0] if head or duplicates else ""
    warnings = tuple((kind, *earlier[kind][1:]) for kind in WARNED if kind in earlier)
    return DuplicateStatus(tuple(sorted(hidden_in)), duplicates, group, warnings)
