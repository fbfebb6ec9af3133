"""What an index is in PostgreSQL: a schema of tables a generation, and one row that says which of them answers.

A generation is made in full beside the one that answers, and then takes its place by one update. Strings of strangers
are `bytea`: they are compared as bytes, and may hold NUL.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from psycopg import Connection, errors

from overlay.engines import Cursor, EngineError, Renewal, is_further

ROOT = "a2b_index_7"
"""The schema of what all generations share: another layout gets another name, and the old one is left."""

FACETS = ("kind", "skill", "currency", "interval", "tag", "chain", "status")
"""The members of `search.facts.facets`, each a column of its own."""

TABLES = ("documents", "items", "offers", "words", "hints", "counts")

FEEDING, RENEWING = 0x61326266, 0x61326272
"""Advisory locks: of the one process that feeds the index ("a2bf"), and of the one that makes it anew ("a2br")."""

_RENEWER = b"""
SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND classid = 0 AND objid = %s AND objsubid = 1 AND granted
"""
_TOLD = re.compile(r"a2b rebuild: (\d{1,15}) of (\d{1,15})")

_MAKING = 0x6132626D  # held while tables are made, so that two processes do not make them at once ("a2bm")

_SHARED = f"""
CREATE SCHEMA IF NOT EXISTS {ROOT};
CREATE SEQUENCE IF NOT EXISTS {ROOT}.commits;
CREATE SEQUENCE IF NOT EXISTS {ROOT}.generations;
CREATE TABLE IF NOT EXISTS {ROOT}.states (
    generation bigint PRIMARY KEY,
    shown boolean NOT NULL,
    epoch text,
    seq bigint,
    commit bigint NOT NULL,
    listings bigint NOT NULL,
    current bigint NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS states_shown ON {ROOT}.states (shown) WHERE shown;
"""

_TABLES = """
CREATE SCHEMA {s};
CREATE TABLE {s}.documents (
    number bigint PRIMARY KEY,
    id bytea NOT NULL,
    registration bytea NOT NULL,
    newest bigint NOT NULL,
    seniority bigint NOT NULL,
    made bigint NOT NULL,
    height bigint,
    time bigint,
    since bigint,
    until bigint,
    listed boolean NOT NULL,
    held tsvector NOT NULL
) WITH (toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX ON {s}.documents USING hash (id);
CREATE INDEX ON {s}.documents USING hash (registration);
CREATE TABLE {s}.items (
    number bigint PRIMARY KEY,
    name bytea NOT NULL,
    usual bytea NOT NULL,
    offers bytea NOT NULL,
    item bytea NOT NULL,
    words bytea NOT NULL,
    said bytea NOT NULL,
    near bytea NOT NULL,
    own bytea[] NOT NULL,
    {facets}
);
CREATE TABLE {s}.offers (
    number bigint NOT NULL,
    currency bytea NOT NULL,
    accepted bytea[] NOT NULL,
    interval bytea NOT NULL,
    amount numeric NOT NULL,
    skills bytea[]
);
CREATE INDEX ON {s}.offers (number);
CREATE TABLE {s}.words (
    word text COLLATE "C" PRIMARY KEY,
    surfaces bigint NOT NULL,
    terms bigint NOT NULL,
    levels integer NOT NULL
) WITH (fillfactor = 80);
CREATE TABLE {s}.hints (hint bytea PRIMARY KEY, listings bigint NOT NULL) WITH (fillfactor = 80);
CREATE TABLE {s}.counts (commit bigint PRIMARY KEY, listings bigint NOT NULL, rows text);
"""
_FINDING = """
CREATE INDEX IF NOT EXISTS documents_held ON {s}.documents USING gin (held) WITH (gin_pending_list_limit = 256);
CREATE INDEX IF NOT EXISTS documents_newest ON {s}.documents (newest DESC, number) WHERE listed;
CREATE INDEX IF NOT EXISTS documents_seniority ON {s}.documents (seniority DESC, number) WHERE listed;
CREATE INDEX IF NOT EXISTS offers_priced ON {s}.offers (currency, amount) INCLUDE (number);
ANALYZE {s}.documents;
ANALYZE {s}.items;
ANALYZE {s}.offers;
"""


class State(NamedTuple):
    """What an index knows of itself: its generation, how far it has read (None: nothing that counts), the number of its
    last commit, which no other has, and how many listings and current documents it holds."""

    generation: int
    cursor: Cursor | None
    commit: int
    listings: int
    current: int

    @property
    def schema(self) -> str:
        """The schema of its tables."""
        return schema(self.generation)


STATE = f"SELECT generation, epoch, seq, commit, listings, current FROM {ROOT}.states WHERE ".encode()
SHOWN = STATE + b"shown"


def schema(generation: int) -> str:
    """The schema of the tables of a generation."""
    return f"{ROOT}_{generation}"


def state(row: tuple[Any, ...] | None) -> State | None:
    """A row of `STATE`."""
    if row is None:
        return None
    generation, epoch, seq, commit, listings, current = row
    return State(generation, None if epoch is None else Cursor(epoch, seq), commit, listings, current)


def read(connection: Connection[Any], generation: int | None = None) -> State | None:
    """The state of a generation, or of the one that answers; None when it is not there."""
    try:
        if generation is None:
            return state(connection.execute(SHOWN).fetchone())
        return state(connection.execute(STATE + b"generation = %s", [generation]).fetchone())
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return None


def make(connection: Connection[Any]) -> State:
    """The generation that answers, made when there is none. Raises EngineError when the role may not make it."""
    try:
        with connection.transaction():
            connection.execute(b"SELECT pg_advisory_xact_lock(%s)", [_MAKING])
            connection.execute(_SHARED.encode())
            found = read(connection)
            if found is None:
                found = new(connection, shown=True)
                index(connection, found)
            return found
    except (errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction) as error:
        raise EngineError(f"there is no index in the database, and it cannot be made: {error}".strip()) from error


def new(connection: Connection[Any], *, shown: bool) -> State:
    """An empty generation, without the indexes that are made faster at the end."""
    made = f"INSERT INTO {ROOT}.states SELECT nextval('{ROOT}.generations'), %s, NULL, NULL, nextval('{ROOT}.commits'), 0, 0 RETURNING generation, epoch, seq, commit, listings, current"  # noqa: E501
    found = state(connection.execute(made.encode(), [shown]).fetchone())
    if found is None:
        raise EngineError("the database gave no number for a new index")
    facets = ",\n    ".join(f'"{name}" bytea[] NOT NULL' for name in FACETS)
    connection.execute(_TABLES.format(s=found.schema, facets=facets).encode())
    return found


def index(connection: Connection[Any], found: State) -> None:
    """Make a generation ready to be searched."""
    connection.execute(_FINDING.format(s=found.schema).encode())


def show(connection: Connection[Any], found: State, *, back: bool) -> bool:
    """Let a generation answer from now on; False, and nothing is done, where the one that answers has read further,
    unless it is to go `back`."""
    with connection.transaction():
        # whoever feeds it finishes, and sees the new one next
        before = state(connection.execute(SHOWN + b" FOR UPDATE").fetchone())
        if before is not None and not back and is_further(before.cursor, found.cursor):
            return False
        connection.execute(f"UPDATE {ROOT}.states SET shown = false WHERE shown".encode())
        shown = f"UPDATE {ROOT}.states SET shown = true, commit = nextval('{ROOT}.commits') WHERE generation = %s"
        connection.execute(shown.encode(), [found.generation])
    return True


def next_state(connection: Connection[Any], before: State, cursor: Cursor) -> State:
    """The state after the next commit, its counts those of the one before."""
    (commit,) = connection.execute(f"SELECT nextval('{ROOT}.commits')".encode()).fetchone() or (0,)
    return before._replace(cursor=cursor, commit=commit)


def save(connection: Connection[Any], after: State) -> None:
    """Write the state of a generation."""
    epoch, seq = after.cursor or (None, None)
    saved = (
        f"UPDATE {ROOT}.states SET epoch = %s, seq = %s, commit = %s, listings = %s, current = %s WHERE generation = %s"
    )
    given = [epoch, seq, after.commit, after.listings, after.current, after.generation]
    connection.execute(saved.encode(), given)


def empty(connection: Connection[Any], before: State) -> None:
    """Let a generation hold nothing, not even a cursor."""
    for table in TABLES:
        connection.execute(f"DELETE FROM {before.schema}.{table}".encode())
    save(connection, next_state(connection, before, Cursor("", 0))._replace(cursor=None, listings=0, current=0))


def begin(connection: Connection[Any], opening: bytes, generation: int | None) -> State | None:
    """Begin a transaction that reads only, and read the state in it: one round trip for the generation that answers."""
    if generation is not None:
        connection.execute(opening)
        return read(connection, generation)
    cursor = connection.execute(opening + SHOWN)
    cursor.nextset()
    return state(cursor.fetchone())


def tell(connection: Connection[Any], renewal: Renewal) -> None:
    """Let who makes an index anew be called by how far that is: its name is gone with it, whatever ends it."""
    connection.execute(f"SET application_name = 'a2b rebuild: {renewal.done:d} of {renewal.of:d}'".encode())


def told(connection: Connection[Any]) -> Renewal | None:
    """What who makes an index anew is called; None where nobody does, or under a role that may not be looked at."""
    (name,) = connection.execute(_RENEWER, [RENEWING]).fetchone() or (None,)
    found = _TOLD.fullmatch(name or "")
    return Renewal(int(found[1]), int(found[2])) if found else None


def sweep(connection: Connection[Any]) -> None:
    """Remove the generations that do not answer, also those of a process that was killed; waits for who reads them."""
    gone = connection.execute(f"SELECT generation FROM {ROOT}.states WHERE NOT shown".encode()).fetchall()
    for (generation,) in gone:
        with connection.transaction():
            connection.execute(f"DROP SCHEMA IF EXISTS {schema(generation)} CASCADE".encode())
            connection.execute(f"DELETE FROM {ROOT}.states WHERE generation = %s".encode(), [generation])
