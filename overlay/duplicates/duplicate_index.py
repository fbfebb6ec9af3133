"""The text keys of all indexed listings and the groups of near-identical texts (`text_key_groups`), beside the index.

It is a projection with its own position, rebuilt with the index. A SQLite file has a row for each listing; the groups
are in memory, read from the rows before the first use, and again after another process has written.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, groupby
from pathlib import Path
from struct import Struct, pack, unpack
from struct import error as StructError  # noqa: N812
from typing import TYPE_CHECKING

from indexer.opened_path import OpenedPath
from overlay.duplicates.duplicate_status import DuplicateStatus
from overlay.duplicates.text_key_groups import KeyedListing, TextKeyGroups
from overlay.duplicates.text_key_table import PLACE_BYTES
from overlay.engines import BusyError, EngineError, IndexPosition
from overlay.search.facts import LISTED

if TYPE_CHECKING:
    from overlay.search.document import Document

FILE = "duplicates-6.db"
"""The file name; it changes with the layout."""

AT_ONCE = 2_000
"""Listings that are reindexed in one step."""

_WAIT = 30.0
_CHUNK = 2_000
_SENIORITY = Struct(f"<H{PLACE_BYTES}s")  # `text_key_table.SENIORITY`

_TABLES = """
CREATE TABLE IF NOT EXISTS listings (
  number INTEGER PRIMARY KEY, id TEXT, chain TEXT, registration TEXT, owner TEXT, rank INTEGER, destination INTEGER,
  host INTEGER, kinds TEXT, keys BLOB, places BLOB, head INTEGER);
CREATE INDEX IF NOT EXISTS listings_by_registration ON listings (registration);
CREATE TABLE IF NOT EXISTS waiting (registration TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS failed (registration TEXT PRIMARY KEY, reason TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cursors (epoch TEXT, seq INTEGER);
"""
_LISTINGS = (
    "SELECT number, id, chain, registration, owner, rank, destination, host, kinds, keys, places FROM listings WHERE"
)
_BY_NUMBER, _BY_REGISTRATION = f"{_LISTINGS} number = ?", f"{_LISTINGS} registration = ?"
_PUT = "INSERT OR REPLACE INTO listings VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_WAIT_FOR = "INSERT OR IGNORE INTO waiting SELECT registration FROM listings WHERE number = ?"


class DuplicateIndex:
    """The groups of duplicates in a file, safe from several threads and processes; the process that feeds the search
    index writes. Raises EngineError when the file cannot be used, BusyError while another process holds it."""

    def __init__(self, folder: str = "", *, arrays: Path | None = None) -> None:
        """Open the file in a folder, creating it if missing, and remove the files of older layouts. Without a folder it
        is a temporary file, which goes with the process: for a version of the index that is being built. Large arrays
        are in files in the folder, or in `arrays`."""
        self._path = str(Path(folder) / FILE) if folder else ""  # SQLite's name for a temporary file
        self.arrays = Path(folder) if folder else arrays
        self._lock = threading.Lock()
        self._groups: TextKeyGroups | None = None
        self._version = 0
        self._file: OpenedPath | None = None
        with self._checked():
            self._db = self._opened()
        for path in Path(folder).glob("duplicates-*.db*") if folder else ():
            if not path.name.startswith(FILE):
                with suppress(OSError):  # another process has it open, or has removed it
                    path.unlink()

    def _opened(self) -> sqlite3.Connection:
        if self._path:
            Path(self._path).parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(self._path, timeout=_WAIT, isolation_level=None, check_same_thread=False)
        # a temporary file is of no use after an error
        mode = "synchronous = NORMAL" if self._path else "journal_mode = OFF"
        try:
            db.executescript(f"PRAGMA {mode}; PRAGMA cache_size = -8000; {_TABLES}")
        except (sqlite3.Error, UnicodeDecodeError) as error:
            db.close()
            if not _is_damage(error):
                raise
            return self._replaced()
        self._file = OpenedPath(Path(self._path)) if self._path else None
        return db

    def _replaced(self) -> sqlite3.Connection:
        """A new file instead of a damaged one: it is a projection and can be rebuilt."""
        Path(self._path).unlink(missing_ok=True)
        return self._opened()

    def close(self) -> None:
        """Close the file."""
        with self._checked():
            self._db.close()

    @contextmanager
    def _checked(self) -> Iterator[None]:
        try:
            with self._lock:
                if self._file is not None and not self._file.is_there():
                    self._db.close()  # SQLite writes nothing to a file that was removed
                    self._db, self._groups = self._opened(), None
                yield
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            kind = BusyError if "locked" in str(error) else EngineError
            raise kind(f"cannot use {self._path}: {error}") from error

    @contextmanager
    def _transaction(self, mode: str = "DEFERRED") -> Iterator[sqlite3.Connection]:
        with self._checked():
            try:
                with self._db as db:  # commits, or rolls back
                    db.execute(f"BEGIN {mode}")
                    yield db
            except BaseException as error:
                self._groups = None  # they may have changes that are rolled back
                if self._path and _is_damage(error):
                    self._db.close()
                    self._db = self._replaced()
                raise

    def _loaded(self, db: sqlite3.Connection) -> TextKeyGroups:
        """The groups, read again where another process has written."""
        (version,) = db.execute("PRAGMA data_version").fetchone()
        if self._groups is None or self._version != version:
            self._groups = None  # before the next ones take memory
            groups = TextKeyGroups(lambda number: next(_listings(db, _BY_NUMBER, [number]), None), self.arrays)
            with _consistent():
                groups.load_heads(db.execute("SELECT number, head FROM listings").fetchall())
                rows = db.execute("SELECT number, keys, places FROM listings")
                groups.text_keys.load(iter(lambda: rows.fetchmany(_CHUNK), []))
            self._groups, self._version = groups, version
        return self._groups

    def position(self) -> IndexPosition | None:
        """How far the store's changes were read; None where a rebuild is needed."""
        with self._transaction() as db:
            row = db.execute("SELECT epoch, seq FROM cursors").fetchone()
        return IndexPosition(*row) if row else None

    def clear(self) -> None:
        """Remove everything."""
        with self._transaction("IMMEDIATE") as db:
            for table in ("listings", "waiting", "failed", "cursors"):
                db.execute(f"DELETE FROM {table}")  # noqa: S608  names of our own
            self._groups = None

    def copy_from(self, other: DuplicateIndex) -> None:
        """Replace the content by that of another one, atomically."""
        with self._checked():
            self._groups = None
            other._db.backup(self._db)

    def update(
        self, registrations: Sequence[str], documents: Iterable[Document], position: IndexPosition | None
    ) -> None:
        """Replace the text keys of registrations by the text keys of documents. Other registrations whose status
        changes are `queued` until they are dequeued. `position` is None while a rebuild is in progress."""
        with self._transaction("IMMEDIATE") as db:
            groups = self._loaded(db)
            new = {
                (document.id, document.chain): document
                for document in documents
                if document.fingerprint and document.until_height is None and document.status in LISTED
            }
            before = {row.number: row for row in _listings(db, _BY_REGISTRATION, registrations)}
            remaining = {number: new.pop((row.id, row.chain), None) for number, row in before.items()}
            (free,) = db.execute("SELECT COALESCE(MAX(number), 0) + 1 FROM listings").fetchone()
            listed = remaining | dict(enumerate(new.values(), free))
            after = {number: KeyedListing.of(number, document) for number, document in listed.items() if document}
            with _consistent():
                changed = groups.update(before, after)
            db.executemany(
                "DELETE FROM listings WHERE number = ?", [(number,) for number in before if number not in after]
            )
            db.executemany(_PUT, [(*_stored(row), groups.heads[number]) for number, row in after.items()])
            heads = [(groups.heads[number], number) for number in changed]
            db.executemany("UPDATE listings SET head = ? WHERE number = ?", heads)
            db.executemany(_WAIT_FOR, [(number,) for number in changed])
            _dequeue(db, registrations)
            db.execute("DELETE FROM cursors")
            if position is not None:
                db.execute("INSERT INTO cursors VALUES (?, ?)", position)

    def queued(self) -> list[str]:
        """Up to `AT_ONCE` registrations with a changed status."""
        with self._transaction() as db:
            rows = db.execute("SELECT registration FROM waiting ORDER BY registration LIMIT ?", (AT_ONCE,))
            return [registration for (registration,) in rows]

    def dequeue(self, registrations: Iterable[str]) -> None:
        """Remove registrations from the queue: the index has their present status."""
        with self._transaction("IMMEDIATE") as db:
            _dequeue(db, registrations)

    def failed(self) -> dict[str, str]:
        """The registrations that are not in the index because they failed, with the reasons."""
        with self._transaction() as db:
            return dict(db.execute("SELECT registration, reason FROM failed ORDER BY registration").fetchall())

    def fail(self, registration: str, reason: str) -> None:
        """Note that a registration failed; it has no text keys and waits for nothing."""
        with self._transaction("IMMEDIATE") as db:
            db.execute("INSERT OR REPLACE INTO failed VALUES (?, ?)", (registration, reason))
            _dequeue(db, [registration])

    def forget_failed(self, registrations: Iterable[str]) -> None:
        """Note that registrations that failed before are in the index, or gone."""
        with self._transaction("IMMEDIATE") as db:
            db.executemany("DELETE FROM failed WHERE registration = ?", [(id_,) for id_ in registrations])

    def statuses(self, registrations: Iterable[str]) -> dict[tuple[str, str], DuplicateStatus]:
        """The duplicate status of the listings of registrations, by id and chain."""
        with self._transaction() as db:
            groups = self._loaded(db)
            recent = [groups.recent.get(id_) or _listings(db, _BY_REGISTRATION, [id_]) for id_ in registrations]
            rows = list(chain.from_iterable(recent))
            groups.fetch(rows)
            with _consistent():
                return {(row.id, row.chain): groups.status(row) for row in rows}


@contextmanager
def _consistent() -> Iterator[None]:
    """Raise the errors that inconsistent rows cause as damage of the file."""
    try:
        yield
    except (ValueError, TypeError, LookupError, OverflowError, MemoryError, StructError) as error:
        raise sqlite3.DatabaseError(f"a row is damaged: {error!r}") from error


def _is_damage(error: BaseException) -> bool:
    is_text = isinstance(error, sqlite3.OperationalError | UnicodeDecodeError) and "decode" in str(error)
    return is_text or type(error) is sqlite3.DatabaseError


def _listings(db: sqlite3.Connection, query: str, values: Iterable[str | int]) -> Iterator[KeyedListing]:
    with _consistent():
        for value in values:
            for number, *members, kinds, keys, seniorities in db.execute(query, (value,)):
                tail, entries = pack(">I", number), list[bytes]()
                for count, identity in _SENIORITY.iter_unpack(seniorities):
                    entries += [identity + tail] * count
                names, numbers = kinds.split("\n") if kinds else (), unpack(f"<{len(entries)}q", keys)
                text_keys = tuple(zip(names, numbers, entries, strict=True))
                yield KeyedListing._make((number, *members, text_keys))


def _stored(row: KeyedListing) -> tuple[int | str | bytes, ...]:
    """The columns of a listing."""
    kinds, keys, entries = zip(*row.text_keys, strict=True) if row.text_keys else ((), (), ())
    seniorities = [_SENIORITY.pack(len(list(same)), entry[:PLACE_BYTES]) for entry, same in groupby(entries)]
    return (*row[:-1], "\n".join(kinds), pack(f"<{len(keys)}q", *keys), b"".join(seniorities))


def _dequeue(db: sqlite3.Connection, registrations: Iterable[str]) -> None:
    db.executemany("DELETE FROM waiting WHERE registration = ?", [(id_,) for id_ in registrations])
