"""The claims of all indexed listings, in a SQLite file beside the index, and the groups of near-identical texts.

It is a projection with its own cursor, rebuilt with the index. In order of rank and seniority, a listing is shown
unless it shares a cluster key with a more senior shown listing, which becomes the head of its group. Groups therefore
do not depend on the order of reading, and every hidden text is near-identical to the shown one. A change examines the
keys of the changed listing only, and, where a shown listing is added or removed, the listings that share its keys."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from overlay.duplicates.claims import CLUSTER, TEXT, URL, digest
from overlay.duplicates.duplicate_status import WARNED, DuplicateStatus
from overlay.duplicates.grouping import HEAD, leave, regroup
from overlay.engines import BusyError, Cursor, EngineError
from overlay.search.document import AT_HOME, NAMED, NOTHING, UNVERIFIED
from overlay.search.facts import HERE, LISTED

if TYPE_CHECKING:
    from overlay.search.document import Document

FILE = "duplicates-2.db"
"""The file name; it changes with the layout."""

NAMING = 100
"""Listings whose warnings are updated when the earliest claimant changes; further ones name the former claimant until
they change."""

AT_ONCE = 2_000
"""Listings that are reindexed in one step."""

_WAIT = 30.0
_TABLES = """
CREATE TABLE IF NOT EXISTS listings (
  number INTEGER PRIMARY KEY, listing TEXT, chain TEXT, registration TEXT, owner TEXT, rank INTEGER, place BLOB,
  is_shown INTEGER DEFAULT 0, head INTEGER, UNIQUE (listing, chain));
CREATE INDEX IF NOT EXISTS listings_by_registration ON listings (registration);
CREATE INDEX IF NOT EXISTS listings_by_head ON listings (head);
CREATE TABLE IF NOT EXISTS claims (
  kind TEXT, value BLOB, place BLOB, number INTEGER, PRIMARY KEY (kind, value, place, number)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS claims_by_number ON claims (number);
CREATE TABLE IF NOT EXISTS waiting (registration TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cursors (epoch TEXT, seq INTEGER);
"""
_OF_REGISTRATION = """
SELECT number, listing, chain, registration, owner, rank, is_shown, head FROM listings WHERE registration = ?
"""
_NEW = "INSERT INTO listings (listing, chain, registration) VALUES (?, ?, ?)"
_ABOUT = "UPDATE listings SET owner = ?, rank = ?, place = ? WHERE number = ?"
_CLAIMS = f"SELECT kind, value, place, number FROM claims WHERE number = ? AND kind <> '{HEAD}'"  # noqa: S608
_FIRST = """
SELECT claims.place, number, listing, registration, owner FROM claims CROSS JOIN listings USING (number)
WHERE kind = ? AND value = ? ORDER BY claims.place, number LIMIT 1
"""
_WAIT_FOR_HOLDERS = """
INSERT OR IGNORE INTO waiting SELECT registration FROM (
  SELECT number FROM claims WHERE kind = ? AND value = ? ORDER BY place, number LIMIT ?)
CROSS JOIN listings USING (number)
"""
_WAIT_FOR = "INSERT OR IGNORE INTO waiting SELECT registration FROM listings WHERE number = ?"

_Claim = tuple[str, bytes, bytes, int]
"""Its kind, its value, its place in the order of seniority, the number of its listing."""


class _ListingRow(NamedTuple):
    number: int
    id: str
    chain: str
    registration: str
    owner: str
    rank: int
    is_shown: int
    head: int | None


class _First(NamedTuple):
    """The listing with the earliest claim to a key, and the place of the claim."""

    place: bytes
    number: int
    id: str
    registration: str
    owner: str


class DuplicateIndex:
    """Safe from several threads and processes; the one that feeds the search index writes. Raises EngineError when the
    file cannot be used, BusyError while another process holds it."""

    def __init__(self, folder: str = "") -> None:
        """Open the file in a folder, making it when there is none. Without a folder it is a temporary file, which goes
        with the process: for a version of the index that is being built."""
        self._path = str(Path(folder) / FILE) if folder else ""  # SQLite's name for a temporary file
        self._lock = threading.Lock()
        with self._checked():
            if folder:
                Path(folder).mkdir(parents=True, exist_ok=True)
            try:
                self._db = self._opened()
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError:
                Path(self._path).unlink()  # damaged; it is a projection and can be rebuilt
                self._db = self._opened()

    def _opened(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, timeout=_WAIT, isolation_level=None, check_same_thread=False)
        try:
            db.executescript(f"PRAGMA synchronous = NORMAL; PRAGMA cache_size = -16000; {_TABLES}")
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
        with self._lock, self._checked(), self._db as db:  # commits, or rolls back
            db.execute("BEGIN IMMEDIATE")
            yield db

    def cursor(self) -> Cursor | None:
        """How far the store's changes were read; None where a rebuild is needed."""
        with self._lock, self._checked():
            row = self._db.execute("SELECT epoch, seq FROM cursors").fetchone()
        return Cursor(*row) if row else None

    def clear(self) -> None:
        """Remove everything."""
        with self._writing() as db:
            for table in ("claims", "listings", "waiting", "cursors"):
                db.execute(f"DELETE FROM {table}")  # noqa: S608  names of our own

    def copy_from(self, other: DuplicateIndex) -> None:
        """Replace the content by that of another one, atomically."""
        with self._lock, self._checked():
            other._db.backup(self._db)

    # -- claims

    def update(self, registrations: Sequence[str], documents: Iterable[Document], cursor: Cursor | None) -> None:
        """Replace the claims of registrations by those of documents. Other registrations whose status changes are
        `queued` until they are dequeued. `cursor` is None while a rebuild is in progress."""
        touched = dict.fromkeys(registrations)
        with self._writing() as db:
            old = {(row.id, row.chain): row.number for id_ in touched for row in _listings(db, id_)}
            after: set[_Claim] = set()
            new: set[int] = set()
            for document in _current(documents):
                number = old.get((document.id, document.chain)) or _added(db, document)
                claims, fingerprint = set(_claims(document, number)), document.fingerprint or NOTHING
                place = next((place for kind, _, place, _ in claims if kind == CLUSTER), b"")
                db.execute(_ABOUT, (fingerprint.owner, fingerprint.rank, place, number))
                after |= claims
                new.add(number)
            changed = _exchange(db, {row for number in old.values() for row in db.execute(_CLAIMS, (number,))}, after)
            db.executemany("DELETE FROM listings WHERE number = ?", [(number,) for number in {*old.values()} - new])
            db.executemany(_WAIT_FOR, [(number,) for number in changed])
            _dequeue(db, touched)
            db.execute("DELETE FROM cursors")
            if cursor is not None:
                db.execute("INSERT INTO cursors VALUES (?, ?)", cursor)

    def queued(self) -> list[str]:
        """Up to `AT_ONCE` registrations whose status has changed."""
        with self._lock, self._checked():
            rows = self._db.execute("SELECT registration FROM waiting ORDER BY registration LIMIT ?", (AT_ONCE,))
            return [registration for (registration,) in rows]

    def dequeue(self, registrations: Iterable[str]) -> None:
        """Remove registrations from the queue: the index has their present status."""
        with self._writing() as db:
            _dequeue(db, registrations)

    def statuses(self, registrations: Iterable[str]) -> dict[tuple[str, str], DuplicateStatus]:
        """The duplicate status of the listings of registrations, by id and chain."""
        with self._lock, self._checked():
            rows = [row for id_ in registrations for row in _listings(self._db, id_)]
            return {(row.id, row.chain): _status(self._db, row) for row in rows}


def _listings(db: sqlite3.Connection, registration: str) -> list[_ListingRow]:
    return [_ListingRow(*row) for row in db.execute(_OF_REGISTRATION, (registration,))]


def _added(db: sqlite3.Connection, document: Document) -> int:
    """The number of a new listing."""
    return db.execute(_NEW, (document.id, document.chain, document.registration)).lastrowid or 0


def _dequeue(db: sqlite3.Connection, registrations: Iterable[str]) -> None:
    db.executemany("DELETE FROM waiting WHERE registration = ?", [(id_,) for id_ in registrations])


def _current(documents: Iterable[Document]) -> Iterable[Document]:
    """The documents that make claims, one per listing and chain: current ones that are listed."""
    current: dict[tuple[str, str], Document] = {}
    for document in documents:
        if document.fingerprint is not None and document.until_height is None and document.status in LISTED:
            current[document.id, document.chain] = document
    return current.values()


def _claims(document: Document, number: int) -> Iterator[_Claim]:
    """The claims of a listing; a claim to a text has one row per view."""
    fingerprint = document.fingerprint or NOTHING
    chains = (document.chain, *document.also_on)
    is_verified = str(fingerprint.rank < UNVERIFIED)
    for kind, value, since in fingerprint.claims:
        place = since.ordering(fingerprint.rank if kind in (TEXT, CLUSTER) else 0, document.id)
        if kind != TEXT:
            yield kind, value, place, number
            continue
        for chain in chains:
            yield f"{TEXT}@{chain}", value, place, number
        here = digest(value.hex(), document.domain, is_verified, *sorted(chains))
        yield f"{TEXT}@{HERE}", here, place, number


def _exchange(db: sqlite3.Connection, before: set[_Claim], after: set[_Claim]) -> set[int]:
    """Replace claims; the numbers of the listings whose status changes, holders of keys are queued."""
    firsts = {row[:2]: _first(db, *row[:2]) for row in before | after if row[0] != CLUSTER}
    moved = {number for kind, _, _, number in before ^ after if kind == CLUSTER}
    changed, queue = leave(db, moved)
    db.executemany("DELETE FROM claims WHERE kind = ? AND value = ? AND place = ? AND number = ?", before - after)
    db.executemany("INSERT INTO claims VALUES (?, ?, ?, ?)", sorted(after - before))
    queue |= {(place, number) for kind, _, place, number in after if kind == CLUSTER and number in moved}
    changed |= regroup(db, queue)
    for key, first in firsts.items():
        if first != _first(db, *key):
            is_text = key[0].startswith(f"{TEXT}@")
            db.execute(_WAIT_FOR_HOLDERS, (*key, 1 if is_text else NAMING))
            changed |= {first.number} if first and is_text else set()
    return changed


def _first(db: sqlite3.Connection, kind: str, value: bytes) -> _First | None:
    row = db.execute(_FIRST, (kind, value)).fetchone()
    return _First(*row) if row else None


def _status(db: sqlite3.Connection, mine: _ListingRow) -> DuplicateStatus:
    hidden_in = [] if mine.is_shown else [""]
    earlier: dict[str, tuple[bytes, str, bool]] = {}
    uncontested = WARNED.keys() if mine.rank == NAMED else {URL} if mine.rank == AT_HOME else ()
    for kind, value, _, _ in db.execute(_CLAIMS, (mine.number,)).fetchall():
        first = None if kind == CLUSTER else _first(db, kind, value)
        if first is None or first.number == mine.number:
            continue
        if kind not in WARNED:
            hidden_in.append(kind.removeprefix(f"{TEXT}@"))
        elif first.registration != mine.registration and kind not in uncontested:
            warning = first.place, first.id, bool(mine.owner) and first.owner == mine.owner
            earlier[kind] = min(earlier.get(kind, warning), warning)
    (duplicates,) = db.execute("SELECT COUNT(*) FROM listings WHERE head = ?", (mine.number,)).fetchone()
    (head,) = db.execute("SELECT listing FROM listings WHERE number = ?", (mine.head or mine.number,)).fetchone()
    warnings = tuple((kind, *earlier[kind][1:]) for kind in WARNED if kind in earlier)
    return DuplicateStatus(tuple(sorted(hidden_in)), duplicates, head if mine.head or duplicates else "", warnings)
