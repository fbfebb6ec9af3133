"""The claims of all indexed listings and the groups of near-identical texts, in a SQLite file beside the index.

It is a projection with its own cursor, rebuilt with the index. In order of rank and seniority, a listing is shown (a
head) unless it shares a cluster key with a more senior head, the most senior of which is its head. Groups therefore do
not depend on the order of reading, every hidden text is near-identical to the shown one, and no two heads share a key.
A change examines the changed listings, and where a head is added or removed, those that share its keys.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from overlay.duplicates.claims import CLUSTER, TEXT, URL, digest
from overlay.duplicates.duplicate_status import WARNED, DuplicateStatus
from overlay.engines import BusyError, Cursor, EngineError
from overlay.search.document import AT_HOME, NAMED, NOTHING, UNVERIFIED
from overlay.search.facts import HERE, LISTED

if TYPE_CHECKING:
    from overlay.search.document import Document

FILE = "duplicates-3.db"
"""The file name; it changes with the layout."""

NAMING = 100
"""Listings whose warnings are updated when the earliest claimant changes; further ones name the former claimant until
they change."""

AT_ONCE = 2_000
"""Listings that are reindexed in one step."""

_WAIT = 30.0
_VIEW = "@"
"""Begins the kinds of claims to a text, one for each view (`facts.collapsed`) in which only the first is shown."""

_TABLES = """
CREATE TABLE IF NOT EXISTS listings (
  number INTEGER PRIMARY KEY, id TEXT, chain TEXT, registration TEXT, owner TEXT, rank INTEGER, place BLOB,
  head INTEGER);
CREATE INDEX IF NOT EXISTS listings_by_registration ON listings (registration);
CREATE INDEX IF NOT EXISTS listings_by_head ON listings (head);
CREATE TABLE IF NOT EXISTS claims (
  key INTEGER, place BLOB, number INTEGER, kind TEXT, PRIMARY KEY (key, place, number)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS claims_by_number ON claims (number);
CREATE TABLE IF NOT EXISTS clusters (key INTEGER, number INTEGER, PRIMARY KEY (key, number)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS clusters_by_number ON clusters (number);
CREATE TABLE IF NOT EXISTS heads (key INTEGER PRIMARY KEY, number INTEGER);
CREATE TABLE IF NOT EXISTS waiting (registration TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cursors (epoch TEXT, seq INTEGER);
"""
_OF_REGISTRATION = "SELECT number, id, chain, registration, owner, rank, head FROM listings WHERE registration = ?"
_CLAIMS = (
    "SELECT key, claims.place, number, kind, owner FROM claims CROSS JOIN listings USING (number) WHERE number = ?"
)
_FIRST = "SELECT place, number FROM claims WHERE key = ? ORDER BY place, number LIMIT 1"
_FIRSTS = f"""
SELECT mine.kind, listings.* FROM claims AS mine CROSS JOIN claims AS first
ON first.key = mine.key AND (first.place, first.number) = ({_FIRST.replace("?", "mine.key")})
CROSS JOIN listings ON listings.number = first.number WHERE mine.number = ? ORDER BY first.place, first.number
"""  # noqa: S608  no values
_WAIT_FOR_HOLDERS = """
INSERT OR IGNORE INTO waiting SELECT registration FROM (
  SELECT number FROM claims WHERE key = ? ORDER BY place, number LIMIT ?) CROSS JOIN listings USING (number)
"""
_WAIT_FOR = "INSERT OR IGNORE INTO waiting SELECT registration FROM listings WHERE number = ?"
_OLDEST_HEAD = """
SELECT listings.number FROM clusters CROSS JOIN heads USING (key) CROSS JOIN listings ON listings.number = heads.number
WHERE clusters.number = ? AND (place, listings.number) < (?, ?) ORDER BY place, listings.number LIMIT 1
"""
_YOUNGER = """
SELECT DISTINCT place, listings.number FROM clusters AS mine CROSS JOIN clusters AS other USING (key)
CROSS JOIN listings ON listings.number = other.number WHERE mine.number = ? AND (place, listings.number) > (?, ?)
"""
_UNLIST = "DELETE FROM heads WHERE key IN (SELECT key FROM clusters WHERE number = ?1) AND number = ?1"


class _ClaimRow(NamedTuple):
    """A claim other than to a cluster key, its place in the order of seniority, and the number of its listing."""

    key: int
    place: bytes
    number: int
    kind: str
    owner: str


class _ListingRow(NamedTuple):
    number: int
    id: str
    chain: str
    registration: str
    owner: str
    rank: int
    head: int | None


class DuplicateIndex:
    """Safe from several threads and processes; the one that feeds the search index writes. Raises EngineError when the
    file cannot be used, BusyError while another process holds it."""

    def __init__(self, folder: str = "") -> None:
        """Open the file in a folder, making it when there is none, and remove those of older layouts. Without a folder
        it is a temporary file, which goes with the process: for a version of the index that is being built."""
        self._path = str(Path(folder) / FILE) if folder else ""  # SQLite's name for a temporary file
        self._lock = threading.Lock()
        with self._checked():
            if folder:
                Path(folder).mkdir(parents=True, exist_ok=True)
            self._db = self._opened()
        for path in Path(folder).glob("duplicates-*.db*") if folder else ():
            if not path.name.startswith(FILE):
                with suppress(OSError):  # another process has it open, or has removed it
                    path.unlink()

    def _opened(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, timeout=_WAIT, isolation_level=None, check_same_thread=False)
        # a temporary file is of no use after an error
        mode = "synchronous = NORMAL" if self._path else "journal_mode = OFF"
        try:
            db.executescript(f"PRAGMA {mode}; PRAGMA cache_size = -16000; {_TABLES}")
        except sqlite3.DatabaseError as error:
            db.close()
            if isinstance(error, sqlite3.OperationalError):
                raise
            Path(self._path).unlink()  # damaged; it is a projection and can be rebuilt
            return self._opened()
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
    def _transaction(self, mode: str = "DEFERRED") -> Iterator[sqlite3.Connection]:
        with self._lock, self._checked(), self._db as db:  # commits, or rolls back
            db.execute(f"BEGIN {mode}")
            yield db

    def cursor(self) -> Cursor | None:
        """How far the store's changes were read; None where a rebuild is needed."""
        with self._transaction() as db:
            row = db.execute("SELECT epoch, seq FROM cursors").fetchone()
        return Cursor(*row) if row else None

    def clear(self) -> None:
        """Remove everything."""
        with self._transaction("IMMEDIATE") as db:
            for table in ("claims", "clusters", "heads", "listings", "waiting", "cursors"):
                db.execute(f"DELETE FROM {table}")  # noqa: S608  names of our own

    def copy_from(self, other: DuplicateIndex) -> None:
        """Replace the content by that of another one, atomically."""
        with self._lock, self._checked():
            other._db.backup(self._db)

    def update(self, registrations: Sequence[str], documents: Iterable[Document], cursor: Cursor | None) -> None:
        """Replace the claims of registrations by those of documents. Other registrations whose status changes are
        `queued` until they are dequeued. `cursor` is None while a rebuild is in progress."""
        with self._transaction("IMMEDIATE") as db:
            old = {(row.id, row.chain): row for row in _listings(db, registrations)}
            new = {(document.id, document.chain): document for document in documents if _makes_claims(document)}
            numbered = {old[key].number if key in old else _added(db, new[key]): new[key] for key in new}
            before = {_ClaimRow(*claim) for row in old.values() for claim in db.execute(_CLAIMS, (row.number,))}
            after = {claim for number, document in numbered.items() for claim in _claims(document, number)}
            gone = [row for key, row in old.items() if key not in new]
            queue = {other for row in gone for other in _move(db, row.number, b"", set())}
            queue.update(other for number, document in numbered.items() for other in _store(db, number, document))
            _exchange(db, before - after, after - before)
            db.executemany("DELETE FROM listings WHERE number = ?", [(row.number,) for row in gone])
            changed = _regroup(db, queue) | {row.head for row in gone}
            db.executemany(_WAIT_FOR, [(number,) for number in changed])
            _dequeue(db, registrations)
            db.execute("DELETE FROM cursors")
            if cursor is not None:
                db.execute("INSERT INTO cursors VALUES (?, ?)", cursor)

    def queued(self) -> list[str]:
        """Up to `AT_ONCE` registrations whose status has changed."""
        with self._transaction() as db:
            rows = db.execute("SELECT registration FROM waiting ORDER BY registration LIMIT ?", (AT_ONCE,))
            return [registration for (registration,) in rows]

    def dequeue(self, registrations: Iterable[str]) -> None:
        """Remove registrations from the queue: the index has their present status."""
        with self._transaction("IMMEDIATE") as db:
            _dequeue(db, registrations)

    def statuses(self, registrations: Iterable[str]) -> dict[tuple[str, str], DuplicateStatus]:
        """The duplicate status of the listings of registrations, by id and chain."""
        with self._transaction() as db:
            return {(row.id, row.chain): _status(db, row) for row in _listings(db, registrations)}


def _listings(db: sqlite3.Connection, registrations: Iterable[str]) -> list[_ListingRow]:
    return [_ListingRow(*row) for id_ in registrations for row in db.execute(_OF_REGISTRATION, (id_,))]


def _added(db: sqlite3.Connection, document: Document) -> int:
    """The number of a new listing."""
    row = document.id, document.chain, document.registration
    return db.execute("INSERT INTO listings (id, chain, registration) VALUES (?, ?, ?)", row).lastrowid or 0


def _dequeue(db: sqlite3.Connection, registrations: Iterable[str]) -> None:
    db.executemany("DELETE FROM waiting WHERE registration = ?", [(id_,) for id_ in registrations])


def _makes_claims(document: Document) -> bool:
    return document.fingerprint is not None and document.until_height is None and document.status in LISTED


def _claims(document: Document, number: int) -> Iterator[_ClaimRow]:
    """The claims of a listing other than to cluster keys; one to a text is one for each view."""
    claims, rank, owner, _ = document.fingerprint or NOTHING
    chains = (document.chain, *document.also_on)
    for kind, value, since in claims:
        if kind == TEXT:
            place = since.ordering(rank, document.id)
            here = digest(HERE, str(value), document.domain, str(rank < UNVERIFIED), *sorted(chains))
            yield _ClaimRow(here, place, number, _VIEW + HERE, owner)
            for chain in chains:
                yield _ClaimRow(digest(_VIEW, chain, str(value)), place, number, _VIEW + chain, owner)
        elif kind != CLUSTER:
            yield _ClaimRow(digest(kind, str(value)), since.ordering(0, document.id), number, kind, owner)


def _exchange(db: sqlite3.Connection, removed: Set[_ClaimRow], added: Set[_ClaimRow]) -> None:
    """Replace claims, and queue the listings whose status changes where the first claim to a key is another one."""

    def firsts(claims: Set[_ClaimRow]) -> set[tuple[int, int]]:
        first = {claim for claim in claims if db.execute(_FIRST, claim[:1]).fetchone() == claim[1:3]}
        return {(claim.key, 2 if claim.kind.startswith(_VIEW) else NAMING) for claim in first}

    holders = firsts(removed)
    db.executemany("DELETE FROM claims WHERE key = ? AND place = ? AND number = ?", [claim[:3] for claim in removed])
    db.executemany("INSERT INTO claims VALUES (?, ?, ?, ?)", sorted(claim[:4] for claim in added))
    db.executemany(_WAIT_FOR_HOLDERS, holders | firsts(added))


def _store(db: sqlite3.Connection, number: int, document: Document) -> set[int]:
    """Store a listing and its cluster keys; the numbers of the listings to examine."""
    claims, rank, owner, _ = document.fingerprint or NOTHING
    db.execute("UPDATE listings SET owner = ?, rank = ? WHERE number = ?", (owner, rank, number))
    place = next((since.ordering(rank, document.id) for kind, _, since in claims if kind == CLUSTER), b"")
    return _move(db, number, place, {value for kind, value, _ in claims if kind == CLUSTER})


def _move(db: sqlite3.Connection, number: int, place: bytes, keys: Set[int]) -> set[int]:
    """Give a listing its place in the order of seniority and its cluster keys; the listings to examine for it."""
    before = {key for (key,) in db.execute("SELECT key FROM clusters WHERE number = ?", (number,))}
    former, head = db.execute("SELECT place, head FROM listings WHERE number = ?", (number,)).fetchone()
    if (former, before) == (place, keys):
        return set()
    followers = _unlist(db, number) if head == number else []
    db.execute("UPDATE listings SET place = ?, head = NULLIF(head, number) WHERE number = ?", (place, number))
    db.executemany("DELETE FROM clusters WHERE key = ? AND number = ?", [(key, number) for key in before])
    db.executemany("INSERT INTO clusters VALUES (?, ?)", [(key, number) for key in sorted(keys)])
    return {number, *(follower for _, follower in followers)}


def _regroup(db: sqlite3.Connection, numbers: Iterable[int]) -> set[int | None]:
    """Examine those of these listings that are stored, and those affected by them, all of lower seniority, so that each
    is examined once; the numbers of those whose status has changed."""
    by_number = "SELECT place, number FROM listings WHERE number = ?"
    heap = [row for number in numbers for row in db.execute(by_number, (number,))]
    heapify(heap)
    changed: set[int | None] = set()
    while heap:
        item = place, number = heappop(heap)
        while heap and heap[0] == item:
            heappop(heap)
        (former,) = db.execute("SELECT head FROM listings WHERE number = ?", (number,)).fetchone()
        (head,) = db.execute(_OLDEST_HEAD, (number, place, number)).fetchone() or (number,)
        if head == former:
            continue
        changed |= {number, head, former}
        db.execute("UPDATE listings SET head = ? WHERE number = ?", (head, number))
        affected: Iterable[tuple[bytes, int]] = ()
        if head == number:
            db.execute("INSERT OR REPLACE INTO heads SELECT key, number FROM clusters WHERE number = ?", (number,))
            affected = db.execute(_YOUNGER, (number, place, number)).fetchall()
        elif former == number:
            affected = _unlist(db, number)
        for other in affected:
            heappush(heap, other)
    return changed


def _unlist(db: sqlite3.Connection, number: int) -> list[tuple[bytes, int]]:
    """Stop showing a listing; the others that it is the head of."""
    db.execute(_UNLIST, (number,))
    return db.execute("SELECT place, number FROM listings WHERE head = ?1 AND number <> ?1", (number,)).fetchall()


def _status(db: sqlite3.Connection, mine: _ListingRow) -> DuplicateStatus:
    hidden_in = [] if mine.head == mine.number else [""]
    earlier: dict[str, tuple[str, bool]] = {}
    uncontested = WARNED.keys() if mine.rank == NAMED else {URL} if mine.rank == AT_HOME else ()
    for kind, number, id_, _, registration, owner, *_ in db.execute(_FIRSTS, (mine.number,)):
        if kind.startswith(_VIEW):
            hidden_in += [kind.removeprefix(_VIEW)] if number != mine.number else []
        elif registration != mine.registration and kind not in uncontested:
            earlier.setdefault(kind, (id_, bool(mine.owner) and owner == mine.owner))
    (members,) = db.execute("SELECT COUNT(*) FROM listings WHERE head = ?", (mine.number,)).fetchone()
    (head,) = db.execute("SELECT id FROM listings WHERE number = ?", (mine.head,)).fetchone()
    warnings = tuple((kind, *earlier[kind]) for kind in WARNED if kind in earlier)
    group = head if members > 1 or mine.head != mine.number else ""
    return DuplicateStatus(tuple(sorted(hidden_in)), max(0, members - 1), group, warnings)
