"""The claims of all listings of an index, in a SQLite file beside it: who said the same, and who said it first.

It is part of the index, not of the store: a projection with a cursor of its own, disposable, made anew with the index.
Each question is one look into an ordered table, however many copies there are.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from overlay.copies.claims import ADDRESS, CARD, NAME, NOTHING, URL, digest
from overlay.copies.marks import Marks
from overlay.engines import BusyError, Cursor, EngineError
from overlay.search.facts import HERE, LISTED

if TYPE_CHECKING:
    from overlay.document import Document

FILE = "copies-4.db"
"""A new layout gets a new name."""

PASSING = f"{FILE}-new"
"""The name of one that is being made, for an instant."""

NAMING = 100
"""Listings that are told at once when another one turns out to be the first of what they say; those beyond go on naming
the one before."""

AT_ONCE = 2_000
"""Listings of others that are looked at again in one step."""

_WAIT = 30.0
_ON = f"{CARD}@"
_NAMED, _AT_HOME = 1, 2

_TABLES = """
CREATE TABLE IF NOT EXISTS listings (
  number INTEGER PRIMARY KEY, listing TEXT, registration TEXT, owner TEXT, flags INTEGER);
CREATE INDEX IF NOT EXISTS listings_by_registration ON listings (registration);
CREATE TABLE IF NOT EXISTS claims (
  kind TEXT, value BLOB, rank INTEGER, time INTEGER, chain TEXT, place INTEGER, number INTEGER,
  PRIMARY KEY (kind, value, rank, time, chain, place, number)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS claims_by_number ON claims (number);
CREATE TABLE IF NOT EXISTS waiting (registration TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cursors (epoch TEXT, seq INTEGER);
"""
_SCRATCH = """
CREATE TEMP TABLE touched (number INTEGER PRIMARY KEY);
CREATE TEMP TABLE said (kind TEXT, value BLOB, PRIMARY KEY (kind, value)) WITHOUT ROWID;
"""
_WHOLE = """
SELECT kind, value, rank, time, chain, place, number, listing, registration, owner, flags
"""
_FIRST = f"""
{_WHOLE} FROM claims CROSS JOIN listings USING (number) WHERE kind = ? AND value = ? AND registration != ?
ORDER BY rank, time, chain, place, number LIMIT 1
"""
_TOUCH = "INSERT INTO temp.touched SELECT number FROM listings WHERE registration = ?"
_SAID_BEFORE = """
INSERT OR IGNORE INTO temp.said SELECT kind, value FROM claims WHERE number IN (SELECT number FROM temp.touched)
"""
_COUNT = "SELECT COUNT(*) FROM claims WHERE kind = ? AND value = ?"
_SHARED = """
SELECT kind, value FROM temp.said s WHERE EXISTS (
  SELECT 1 FROM claims c WHERE c.kind = s.kind AND c.value = s.value
  AND c.number NOT IN (SELECT number FROM temp.touched))
"""
_OTHERS = """
INSERT OR IGNORE INTO waiting SELECT registration FROM (
  SELECT number FROM claims WHERE kind = ? AND value = ? AND number <= ?
  ORDER BY rank, time, chain, place, number LIMIT ?) CROSS JOIN listings USING (number)
"""


class _Row(NamedTuple):
    kind: str
    value: bytes
    rank: int
    time: int
    chain: str
    place: int
    number: int
    listing: str
    registration: str
    owner: str
    flags: int


class Copies:
    """Safe from several threads and processes; whoever feeds the index writes. Raises EngineError when the file cannot
    be used, BusyError while another process holds it."""

    def __init__(self, folder: str, *, passing: bool = False) -> None:
        """Open the file in an index' folder, making it when there is none; a `passing` one is empty, and has no name
        any more, so that it goes with the process."""
        self._path = Path(folder) / (PASSING if passing else FILE)
        self._lock = threading.Lock()
        with self._told():
            Path(folder).mkdir(parents=True, exist_ok=True)
            if passing:
                self._path.unlink(missing_ok=True)
            self._db = self._open()
            if passing:
                # a journal would need the name
                self._db.execute("PRAGMA journal_mode = MEMORY")
                self._path.unlink()

    def _open(self) -> sqlite3.Connection:
        try:
            return self._prepared()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            self._path.unlink()  # no database any more: it can be made anew
            return self._prepared()

    def _prepared(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, timeout=_WAIT, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("PRAGMA cache_size = -16000")
            db.executescript(_TABLES + _SCRATCH)
        except BaseException:
            db.close()
            raise
        return db

    def close(self) -> None:
        """Give up the file."""
        with self._lock:
            self._db.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            kind = BusyError if "locked" in str(error) else EngineError
            raise kind(f"cannot use {self._path}: {error}") from error

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._told():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise

    def cursor(self) -> Cursor | None:
        """How far the store's changes were read, None where that must begin anew."""
        with self._lock, self._told():
            row = self._db.execute("SELECT epoch, seq FROM cursors").fetchone()
        return Cursor(*row) if row else None

    def clear(self) -> None:
        """Forget everything."""
        with self._writing() as db:
            for table in ("claims", "listings", "waiting", "cursors"):
                db.execute(f"DELETE FROM {table}")  # noqa: S608  names of our own

    @contextmanager
    def anew(self) -> Iterator[Copies]:
        """An empty one, for an index that is made beside the one that answers."""
        fresh = Copies(str(self._path.parent), passing=True)
        try:
            yield fresh
        finally:
            fresh.close()

    def become(self, other: Copies) -> None:
        """Claim what the other one does, and nothing else: all or nothing."""
        with self._lock, self._told():
            other._db.backup(self._db)

    # -- what is claimed

    def take(self, registrations: Sequence[str], documents: Iterable[Document], cursor: Cursor | None) -> None:
        """Let these registrations claim what these documents do, and nothing else. Others of whom something else is
        to be told for it wait, as `waiting` says, until they are `done`. The `cursor` is None while there is more to
        come than one call can hold."""
        with self._writing() as db:
            (last,) = db.execute("SELECT coalesce(max(number), 0) FROM listings").fetchone()
            listed = [each for each in documents if _claims(each)]
            rows = sorted(row for number, each in enumerate(listed, last + 1) for row in _rows(each, number))
            db.execute("DELETE FROM temp.touched")
            db.execute("DELETE FROM temp.said")
            for registration in dict.fromkeys(registrations):
                db.execute(_TOUCH, (registration,))
            db.execute(_SAID_BEFORE)
            db.executemany("INSERT OR IGNORE INTO temp.said VALUES (?, ?)", ((row.kind, row.value) for row in rows))
            shared = db.execute(_SHARED).fetchall()
            before = {key: _firsts(db, *key) for key in shared}
            db.execute("DELETE FROM claims WHERE number IN (SELECT number FROM temp.touched)")
            db.execute("DELETE FROM listings WHERE number IN (SELECT number FROM temp.touched)")
            db.executemany("INSERT INTO claims VALUES (?, ?, ?, ?, ?, ?, ?)", (row[:7] for row in rows))
            about = [(number, *_about(each)) for number, each in enumerate(listed, last + 1)]
            db.executemany("INSERT INTO listings VALUES (?, ?, ?, ?, ?)", about)
            for key in shared:
                most = _affected(key[0], changed=before[key] != _firsts(db, *key))
                db.execute(_OTHERS, (*key, last, most))
            db.execute("DELETE FROM cursors")
            if cursor is not None:
                db.execute("INSERT INTO cursors VALUES (?, ?)", cursor)

    def waiting(self) -> list[str]:
        """Registrations of which something else is to be told, some of them."""
        with self._lock, self._told():
            found = self._db.execute("SELECT registration FROM waiting ORDER BY registration LIMIT ?", (AT_ONCE,))
            return [registration for (registration,) in found]

    def doubt(self) -> None:
        """Let all listings wait: what was told of them is not known."""
        with self._writing() as db:
            db.execute("INSERT OR IGNORE INTO waiting SELECT registration FROM listings")

    def done(self, registrations: Iterable[str]) -> None:
        """The index tells of these as it should."""
        gone = [(each,) for each in registrations]
        if gone:
            with self._writing() as db:
                db.executemany("DELETE FROM waiting WHERE registration = ?", gone)

    def all_done(self) -> None:
        """The index is about to tell of all as it should. There is no cursor until it has, so a break begins anew."""
        with self._writing() as db:
            db.execute("DELETE FROM waiting")

    # -- what follows

    def marks(self, registrations: Iterable[str]) -> dict[str, Marks]:
        """What follows for the listings of these registrations, by their ids; of those left out, nothing."""
        found: dict[str, Marks] = {}
        with self._lock, self._told():
            for registration in list(registrations):
                for number, listing, owner, flags in self._db.execute(_OF_REGISTRATION, (registration,)).fetchall():
                    own = listing, registration, owner, flags
                    rows = [_Row._make((*row, *own)) for row in self._db.execute(_COMMON, (number,))]
                    if rows:
                        found[listing] = _marks(self._db, rows)
        return found


_OF_REGISTRATION = "SELECT number, listing, owner, flags FROM listings WHERE registration = ?"
_COMMON = """
SELECT kind, value, rank, time, chain, place, number FROM claims c WHERE number = ? AND 2 = (
  SELECT COUNT(*) FROM (SELECT 1 FROM claims o WHERE o.kind = c.kind AND o.value = c.value LIMIT 2))
"""
"""The claims of a listing that are not its alone."""


def _claims(document: Document) -> bool:
    """Whether a document claims anything: only those of what is listed now do."""
    return document.likeness is not None and document.until_height is None and document.status in LISTED


def _about(document: Document) -> tuple[str, str, str, int]:
    likeness = document.likeness or NOTHING
    flags = _NAMED * likeness.named | _AT_HOME * (likeness.rank == 0)
    return document.id, document.registration, likeness.owner, flags


def _rows(document: Document, number: int) -> Iterator[_Row]:
    """A listing's claims under its number, those to a card in each view that it is searched in."""
    likeness = document.likeness or NOTHING
    about = _about(document)
    chains = (document.chain, *document.also_on)
    for claim in likeness.claims:
        names = [(claim.kind, claim.value)]
        if claim.kind == CARD:
            names += [(_ON + chain, claim.value) for chain in chains]
            names.append((HERE, digest(claim.value.hex(), document.domain, str(likeness.rank < 2), *sorted(chains))))
        order = likeness.rank if claim.kind == CARD else 0
        for kind, value in names:
            time, chain, place = claim.since
            yield _Row(kind, value, order, time, chain, place, number, *about)


def _affected(kind: str, *, changed: bool) -> int:
    """How many others are to be told something else after a change of those who claim the same."""
    if kind in (NAME, URL, ADDRESS):
        return NAMING if changed else 0
    # of identical cards the first one alone, which may have been, or be from now on, another one, or have more copies
    return 1 if changed or kind == CARD else 0


def _first(db: sqlite3.Connection, kind: str, value: bytes, not_of: str = "") -> _Row | None:
    """Who was first, but for a registration."""
    row = db.execute(_FIRST, (kind, value, not_of)).fetchone()
    return _Row(*row) if row else None


def _firsts(db: sqlite3.Connection, kind: str, value: bytes) -> list[str]:
    """Whom others are told of: who was first, and for those of his registration the first one of another. Ids, since
    numbers change with every revision."""
    first = _first(db, kind, value)
    named = first is not None and kind in (NAME, URL, ADDRESS)
    second = _first(db, kind, value, first.registration) if first and named else None
    return [row.listing for row in (first, second) if row]


def _marks(db: sqlite3.Connection, rows: list[_Row]) -> Marks:
    """What follows for a listing from those of its claims that others share."""
    behind: list[str] = []
    duplicates = 0
    earlier: dict[str, _Row] = {}
    for row in rows:
        if row.kind in (NAME, URL, ADDRESS):
            first = None if row.flags & _NAMED else _first(db, row.kind, row.value, row.registration)
            is_later = first is not None and _order(first) < _order(row)
            if first is None or not is_later or (row.kind == URL and row.flags & _AT_HOME):
                continue
            if row.kind not in earlier or _order(first) < _order(earlier[row.kind]):
                earlier[row.kind] = first
        elif _is_another(_first(db, row.kind, row.value), row):
            behind.append(row.kind.removeprefix(_ON) if row.kind != CARD else "")
        elif row.kind == CARD:
            duplicates = db.execute(_COUNT, row[:2]).fetchone()[0] - 1
    told = [(kind, earlier[kind]) for kind in (NAME, URL, ADDRESS) if kind in earlier]
    owner = rows[0].owner
    return Marks(
        tuple(behind), duplicates, tuple((kind, row.listing, bool(owner) and row.owner == owner) for kind, row in told)
    )


def _order(row: _Row) -> tuple[int, int, str, int, int]:
    return row[2:7]


def _is_another(before: _Row | None, after: _Row | None) -> bool:
    """Whether another listing is the first now; numbers change with every revision."""
    return (before and before.listing) != (after and after.listing)
