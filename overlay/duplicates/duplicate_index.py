"""The claims of all indexed listings and the groups of near-identical texts, in a SQLite file beside the index.

It is a projection with its own cursor, rebuilt with the index. In order of rank and seniority, a listing is shown (a
head) unless it shares a cluster key with a more senior head, the most senior of which is its head. Groups therefore do
not depend on the order of reading, every hidden text is near-identical to the shown one, and no two heads share a key.
A change examines the changed listings, and where a head is added or removed, those that share its keys.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
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

FILE = "duplicates-4.db"
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
CREATE TABLE IF NOT EXISTS heads (key INTEGER PRIMARY KEY, number INTEGER);
CREATE TABLE IF NOT EXISTS waiting (registration TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cursors (epoch TEXT, seq INTEGER);
"""
_OF_REGISTRATION = "SELECT number, id, chain, registration, owner, rank, head FROM listings WHERE registration = ?"
_CLAIMS = (
    "SELECT key, claims.place, number, kind, owner FROM claims CROSS JOIN listings USING (number) WHERE number = ?"
)
_PUT = "INSERT OR REPLACE INTO listings VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_FIRST = "SELECT place, number FROM claims WHERE key = ? ORDER BY place, number LIMIT 1"
_FIRSTS = f"""
SELECT mine.kind, listings.* FROM claims AS mine CROSS JOIN claims AS first
ON first.key = mine.key AND (first.place, first.number) = ({_FIRST.replace("?", "mine.key")})
CROSS JOIN listings ON listings.number = first.number WHERE mine.number = ? AND mine.place <> x''
ORDER BY first.place, first.number
"""  # noqa: S608  no values
_WAIT_FOR_HOLDERS = """
INSERT OR IGNORE INTO waiting SELECT registration FROM (
  SELECT number FROM claims WHERE key = ? ORDER BY place, number LIMIT ?) CROSS JOIN listings USING (number)
"""
_WAIT_FOR = "INSERT OR IGNORE INTO waiting SELECT registration FROM listings WHERE number = ?"
_OLDEST_HEAD = """
SELECT listings.number FROM claims CROSS JOIN heads USING (key) CROSS JOIN listings ON listings.number = heads.number
WHERE claims.number = ? AND claims.place = x'' AND (listings.place, listings.number) < (?, ?)
ORDER BY listings.place, listings.number LIMIT 1
"""
_YOUNGER = """
SELECT DISTINCT listings.place, listings.number FROM claims AS mine CROSS JOIN claims AS other USING (key)
CROSS JOIN listings ON listings.number = other.number
WHERE mine.number = ? AND mine.place = x'' AND (listings.place, listings.number) > (?, ?)
"""
_LIST = "INSERT OR REPLACE INTO heads SELECT key, number FROM claims WHERE number = ? AND place = x''"
_UNLIST = "DELETE FROM heads WHERE number = ?1 AND key IN (SELECT key FROM claims WHERE number = ?1 AND place = x'')"


class _ClaimRow(NamedTuple):
    """A claim, its place in the order of seniority (empty for a cluster key), and the number of its listing."""

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
        with self._checked():
            self._db.close()

    @contextmanager
    def _checked(self) -> Iterator[None]:
        try:
            with self._lock:
                yield
        except (sqlite3.Error, OSError) as error:
            kind = BusyError if "locked" in str(error) else EngineError
            raise kind(f"cannot use {self._path}: {error}") from error

    @contextmanager
    def _transaction(self, mode: str = "DEFERRED") -> Iterator[sqlite3.Connection]:
        with self._checked(), self._db as db:  # commits, or rolls back
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
            for table in ("claims", "heads", "listings", "waiting", "cursors"):
                db.execute(f"DELETE FROM {table}")  # noqa: S608  names of our own

    def copy_from(self, other: DuplicateIndex) -> None:
        """Replace the content by that of another one, atomically."""
        with self._checked():
            other._db.backup(self._db)

    def update(self, registrations: Sequence[str], documents: Iterable[Document], cursor: Cursor | None) -> None:
        """Replace the claims of registrations by those of documents. Other registrations whose status changes are
        `queued` until they are dequeued. `cursor` is None while a rebuild is in progress."""
        with self._transaction("IMMEDIATE") as db:
            new = {(document.id, document.chain): document for document in documents if _makes_claims(document)}
            old = _listings(db, registrations)
            listed = {row.number: new.pop((row.id, row.chain), None) for row in old}
            before = {_ClaimRow(*row) for number in listed for row in db.execute(_CLAIMS, (number,))}
            (free,) = db.execute("SELECT COALESCE(MAX(number), 0) + 1 FROM listings").fetchone()
            added = dict(enumerate(new.values(), free))
            listed |= added
            after = {claim for number, document in listed.items() if document for claim in _claims(number, document)}
            differing = {claim[:4] for claim in before} ^ {claim[:4] for claim in after}  # not in the owner alone
            moved = added.keys() | {number for _, _, number, kind in differing if kind not in WARNED}
            heads = {row.number: row.head for row in old if row.number not in moved or row.head != row.number}
            queue = moved.union(*(_unlist(db, row.number) for row in old if row.number not in heads))
            _exchange(db, before - after, after - before)
            seniority = {claim.number: claim.place for claim in after if claim.kind.startswith(_VIEW)}
            for number, document in listed.items():
                if document is None:
                    db.execute("DELETE FROM listings WHERE number = ?", (number,))
                else:
                    fingerprint = document.fingerprint or NOTHING
                    row = document.id, document.chain, document.registration, fingerprint.owner, fingerprint.rank
                    db.execute(_PUT, (number, *row, seniority.get(number, b""), heads.get(number)))
            changed = _regroup(db, queue) | {heads.get(number) for number in listed if listed[number] is None}
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


def _dequeue(db: sqlite3.Connection, registrations: Iterable[str]) -> None:
    db.executemany("DELETE FROM waiting WHERE registration = ?", [(id_,) for id_ in registrations])


def _makes_claims(document: Document) -> bool:
    return document.fingerprint is not None and document.until_height is None and document.status in LISTED


def _claims(number: int, document: Document) -> Iterator[_ClaimRow]:
    """The claims of a listing; one to a text is one for each view."""
    claims, rank, owner, _ = document.fingerprint or NOTHING
    chains = (document.chain, *document.also_on)
    views = {_VIEW + HERE: (document.domain, str(rank < UNVERIFIED), *sorted(chains))}
    views |= {_VIEW + chain: () for chain in chains}
    for kind, value, since in claims:
        place = b"" if kind == CLUSTER else since.ordering(rank if kind == TEXT else 0, document.id)
        for view, like in (views if kind == TEXT else {kind: ()}).items():
            yield _ClaimRow(digest(view, str(value), *like), place, number, view, owner)


def _exchange(db: sqlite3.Connection, removed: Set[_ClaimRow], added: Set[_ClaimRow]) -> None:
    """Replace claims, and queue the listings whose status changes where the first claim to a key is another one."""

    added_to = Counter(claim.key for claim in added)  # the former first one comes after them at most

    def firsts(claims: Set[_ClaimRow]) -> set[tuple[int, int]]:
        first = {claim for claim in claims if claim.place and db.execute(_FIRST, claim[:1]).fetchone() == claim[1:3]}
        return {(claim.key, NAMING if claim.kind in WARNED else 1 + added_to[claim.key]) for claim in first}

    holders = firsts(removed)
    db.executemany("DELETE FROM claims WHERE key = ? AND place = ? AND number = ?", [claim[:3] for claim in removed])
    db.executemany("INSERT INTO claims VALUES (?, ?, ?, ?)", sorted(claim[:4] for claim in added))
    db.executemany(_WAIT_FOR_HOLDERS, holders | firsts(added))


def _regroup(db: sqlite3.Connection, numbers: Iterable[int]) -> set[int | None]:
    """Examine those of these listings that are stored, and those affected by them, which are of lower seniority; the
    numbers of those whose status has changed."""
    heap = _seniority(db, numbers)
    heapify(heap)
    changed: set[int | None] = set()
    while heap:
        place, number = heappop(heap)
        (former,) = db.execute("SELECT head FROM listings WHERE number = ?", (number,)).fetchone()
        (head,) = db.execute(_OLDEST_HEAD, (number, place, number)).fetchone() or (number,)
        if head == former:
            continue
        changed |= {number, head, former}
        db.execute("UPDATE listings SET head = ? WHERE number = ?", (head, number))
        if head == number:
            db.execute(_LIST, (number,))
            affected = db.execute(_YOUNGER, (number, place, number)).fetchall()
        else:
            affected = _seniority(db, _unlist(db, number)) if former == number else []
        for other in affected:
            heappush(heap, other)
    return changed


def _seniority(db: sqlite3.Connection, numbers: Iterable[int]) -> list[tuple[bytes, int]]:
    query = "SELECT place, number FROM listings WHERE number = ?"
    return [row for number in numbers for row in db.execute(query, (number,))]


def _unlist(db: sqlite3.Connection, number: int) -> set[int]:
    """Stop showing a listing; the numbers of those that it is the head of."""
    db.execute(_UNLIST, (number,))
    return {other for (other,) in db.execute("SELECT number FROM listings WHERE head = ?", (number,))}


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
