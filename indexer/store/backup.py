"""A backup: the rows of original tables, which cannot be rebuilt, and this server's keys.

JSON lines: a head, then for each table a line with its name and columns and a line for each row, then the count and the
SHA-256 of all lines before. Bytes are base64. It is read in one transaction and so shows one instant, and restored in
one: a kill leaves all of it or nothing.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import IO, Any, NamedTuple

from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Enum,
    Integer,
    LargeBinary,
    Select,
    String,
    Table,
    func,
    insert,
    or_,
    select,
)
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, StatementError

from indexer.model import SCHEMA
from indexer.store.checks import kinds
from indexer.store.database import StoreError, reading_at_once, writing
from indexer.store.full_scan import BODIES_AT_ONCE, ROWS_AT_ONCE
from indexer.store.migrations import PREVIOUS, PREVIOUS_VERSION, RENAMED, values_of_new_columns
from indexer.store.process_lock import writer_lock
from indexer.store.queries import upsert
from indexer.store.schema import CHAIN, LAST_BACKUP, PROGRAM, checks, fill_rebuilt, meta, metadata, restored_faults

FORMAT = 1

MAX_ROW = 256 << 20
"""Bytes of a line: a card of 16 MiB takes 22.4 MB, a submitted transaction with its proof more."""

Progress = Callable[[int, int], None]
"""Called with rows done, of how many (0 where that is not known)."""


class BackupError(Exception):
    """The file is not a backup that can be restored; the message gives the reason."""


class BackupHead(NamedTuple):
    """The first line: the keys are those of `IdentityKey.as_json`, None where the server has none."""

    version: str
    keys: Mapping[str, str] | None
    schema: str = SCHEMA


class BackupRecord(NamedTuple):
    """The last backup of a database: when it was made (seconds since 1970), and the bytes of its file."""

    time: int
    size: int


def record_backup(engine: Engine, record: BackupRecord) -> None:
    """Store that a backup was made. Raises StoreError."""
    with writing(engine) as connection:
        row = {"key": LAST_BACKUP, "value": json.dumps(record)}
        statement = upsert(connection, meta).values(row)
        connection.execute(statement.on_conflict_do_update(index_elements=["key"], set_=row))


def last_backup(engine: Engine) -> BackupRecord | None:
    """The last backup that was made of a database, None before the first."""
    with engine.connect() as connection:
        value = connection.execute(select(meta.c.value).where(meta.c.key == LAST_BACKUP)).scalar()
    return None if value is None else BackupRecord(*json.loads(value))


def original_tables() -> list[Table]:
    """The tables that only a backup brings back, each after those that it refers to."""
    return [table for table in metadata.sorted_tables if not table.info["rebuilt"]]


def _rows_of(table: Table) -> Select[Any]:
    """The part of a table that a backup holds. Of `meta` only the networks and programs of chains by name: a new
    database has its own epoch and marks."""
    rows = select(table)
    if table is meta:
        return rows.where(or_(*(meta.c.key.startswith(prefix) for prefix in (CHAIN, PROGRAM))))
    if table is checks:
        return rows.where(checks.c.kind.not_in([name for name, is_rebuilt in kinds.items() if is_rebuilt]))
    return rows


def write_backup(engine: Engine, file: IO[bytes], head: BackupHead, progress: Progress = lambda _d, _a: None) -> int:
    """Write the rows of one instant, while others may write to the database; returns how many."""
    digest, done = sha256(), 0

    def put(value: Any) -> None:
        line = _line(value)
        digest.update(line)
        file.write(line)

    put({"backup": FORMAT, "schema": head.schema, "version": head.version, "keys": head.keys})
    with reading_at_once(engine) as connection:
        counts = (select(func.count()).select_from(_rows_of(table).subquery()) for table in original_tables())
        total = sum(int(connection.execute(statement).scalar_one()) for statement in counts)
        for table in original_tables():
            put({"table": table.name, "columns": table.columns.keys()})
            is_binary = [isinstance(column.type, LargeBinary) for column in table.columns]
            is_large = any(isinstance(column.type, LargeBinary) and not column.primary_key for column in table.columns)
            at_once = {"yield_per": BODIES_AT_ONCE if is_large else ROWS_AT_ONCE}
            for row in connection.execute(_rows_of(table), execution_options=at_once):
                values = zip(row, is_binary, strict=True)
                put([b64encode(value).decode() if binary and value is not None else value for value, binary in values])
                done += 1
                progress(done, total)
    end = {"rows": done, "sha256": digest.hexdigest()}
    file.write(_line({"end": end}))
    return done


def _line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def read_head(line: bytes) -> BackupHead:
    """The first line. Raises BackupError for another kind of file, or a backup of a schema that is not restored."""
    head = _parsed(line)
    if not isinstance(head, dict) or head.get("backup") != FORMAT:
        raise BackupError("this is not a backup of this program: its first line is another")
    schema = head.get("schema")
    if schema not in (SCHEMA, PREVIOUS):
        raise BackupError(
            f"the backup is of schema {schema!r}, and this program restores {SCHEMA!r} and {PREVIOUS!r}, of version "
            f"{PREVIOUS_VERSION}: restore it with version {head.get('version')!r}"
        )
    return BackupHead(str(head.get("version")), head.get("keys"), schema)


def restore(
    engine: Engine, lines: Iterable[bytes], progress: Progress = lambda _d, _a: None,
    before_commit: Callable[[], None] = lambda: None,
) -> int:  # fmt: skip
    """Insert the rows of a backup, head included, into a database without rows in these tables; returns their number.
    All or nothing, also where `before_commit`, called after the last row, raises. Raises BackupError for a damaged or
    truncated file, StoreError for a database that is not empty, or that a process writes to."""
    lock = writer_lock(engine)
    if not lock.acquire():
        raise StoreError(f"an indexer writes to {engine.url.render_as_string()}: stop it first")
    try:
        with writing(engine) as connection:
            _check_empty(connection)
            count = _Restore(connection, progress).run(iter(lines))
            if faults := restored_faults(connection):
                raise BackupError(f"the backup is damaged: entries do not make {'; '.join(faults)}")
            fill_rebuilt(connection)
            before_commit()
            return count
    finally:
        lock.release()


def _check_empty(connection: Connection) -> None:
    filled = [table.name for table in original_tables() if connection.execute(_rows_of(table).limit(1)).first()]
    if filled:
        name = connection.engine.url.render_as_string()
        raise StoreError(
            f"the database {name} holds {', '.join(filled)} already: restore into a new database (--data, A2B_DATABASE)"
        )


class _Restore:
    """One restoration: lines in, batches of rows out."""

    def __init__(self, connection: Connection, progress: Progress) -> None:
        self._connection, self._progress = connection, progress
        self._digest, self._done, self._schema = sha256(), 0, SCHEMA
        self._table, self._columns, self._new_values = meta, meta.columns.keys(), dict[str, ColumnElement[Any]]()
        self._tables = {table.name: table for table in original_tables()}
        self._batch: list[dict[str, Any]] = []
        self._bytes = 0

    def run(self, lines: Iterator[bytes]) -> int:
        head = next(lines, b"")
        self._schema = read_head(head).schema
        self._digest.update(head)
        for line in lines:
            value = _parsed(line)
            if isinstance(value, list):
                self._add(value, len(line))
            elif isinstance(value, dict) and "table" in value:
                self._begin(value)
            else:
                self._end(value, lines)
                return self._done
            self._digest.update(line)
        raise BackupError("the backup is cut off: it has no last line")

    def _begin(self, value: Mapping[str, Any]) -> None:
        self._flush()
        name = str(value["table"])
        name = RENAMED.get(name, name) if self._schema == PREVIOUS else name
        table = self._tables.pop(name, None)
        new = values_of_new_columns(name) if self._schema == PREVIOUS else {}
        columns = [] if table is None else [column.name for column in table.columns if column.name not in new]
        if table is None or value.get("columns") != columns:
            raise BackupError(f"the backup holds a table {value['table']!a} that this program's schema does not have")
        self._table, self._columns = table, columns
        self._new_values = {name: new[name] for name in new.keys() - table.info["restored"].keys()}

    def _add(self, values: list[Any], size: int) -> None:
        if len(values) != len(self._columns):
            raise BackupError(f"a row of {self._table.name} has {len(values)} values, not {len(self._columns)}")
        columns = (self._table.columns[name] for name in self._columns)
        row = dict(zip(self._columns, map(_decoded, columns, values), strict=True))
        self._batch.append(row | self._table.info["restored"])
        self._bytes += size
        if len(self._batch) >= ROWS_AT_ONCE or self._bytes >= 16 << 20:
            self._flush()

    def _flush(self) -> None:
        if self._batch:
            try:
                self._connection.execute(insert(self._table).values(self._new_values), self._batch)
            except StatementError as error:
                if isinstance(error, DBAPIError) and not isinstance(error, IntegrityError | DataError):
                    raise
                raise BackupError(f"the backup is damaged: rows of {self._table.name}: {error.orig}") from None
        self._done += len(self._batch)
        self._batch, self._bytes = [], 0
        self._progress(self._done, 0)

    def _end(self, value: Any, lines: Iterator[bytes]) -> None:
        self._flush()
        expected = {"end": {"rows": self._done, "sha256": self._digest.hexdigest()}}
        if value != expected or next(lines, None) is not None:
            raise BackupError("the backup is damaged: its last line does not agree with the others")


def _decoded(column: Column[Any], value: Any) -> Any:
    """A value as its column takes it. Raises BackupError for one of another type: SQLite would store it."""
    if value is None and column.nullable:
        return None
    if isinstance(column.type, LargeBinary):
        try:
            return b64decode(value, validate=True)
        except (ValueError, TypeError):
            raise BackupError(f"the backup is damaged: {str(value)[:60]!a} are not bytes in base64") from None
    kind, title = next(pair for sort, pair in _KINDS.items() if isinstance(column.type, sort))
    is_right = type(value) is kind
    if is_right and kind is int:
        is_right = -_INTEGERS <= value < _INTEGERS
    elif is_right and kind is str:
        words = column.type.enums if isinstance(column.type, Enum) else [value.encode("utf-8", "replace").decode()]
        is_right = value in words
    if not is_right:
        shown = str(value)[:60]
        raise BackupError(f"the backup is damaged: {shown!a} in {column.table.name}.{column.name} is not {title}")
    return value


_INTEGERS = 1 << 63
_KINDS: dict[type, tuple[type, str]] = {
    Boolean: (bool, "true or false"),
    Integer: (int, "a whole number of 64 bits"),
    String: (str, "a text that it takes"),
}


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise BackupError(f"the backup is damaged: a line is not JSON: {line[:60]!a}") from None
