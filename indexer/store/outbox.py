"""The outbox: one row per change that readers must look at again, and how far a replica is behind with it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    ScalarSelect,
    Select,
    case,
    delete,
    func,
    insert,
    literal,
    select,
)

from indexer.store.database import StoreUnavailableError, reading_at_once
from indexer.store.queries import Queries
from indexer.store.schema import changes, meta, outbox_positions, outbox_runs

_EPOCH = select(meta.c.value).where(meta.c.key == "epoch").scalar_subquery()
_NEWEST = select(func.coalesce(func.max(changes.c.seq), 0)).scalar_subquery()


_LOOKED_AT = 100_000
"""Changes in which a revert of a transaction is looked for: no index has the ids."""


class Change(NamedTuple):
    """A row of the outbox: look at `id` again. `op` is upsert, remove or revert."""

    seq: int
    chain: str
    op: str
    id: str
    height: int | None
    reason: str


class OutboxPosition(NamedTuple):
    """The end of the outbox at one moment: its last sequence number, 0 when it is empty, and the epoch of that, the
    mark of the run that wrote it. `is_replica`: it was read from a standby, which may be behind."""

    epoch: str
    newest_seq: int
    is_replica: bool


class OutboxPage(NamedTuple):
    """Rows of the outbox, each with its epoch, at one moment. `continues`: the position before them is of this
    database (`OutboxQueries.has`)."""

    position: OutboxPosition
    changes: Sequence[tuple[Change, str]]
    continues: bool


class Lag(NamedTuple):
    """How far a replica is behind its primary: seconds since the last transaction that it replayed, 0 when it waits for
    more, None before the first; and changes, None while the primary does not answer."""

    seconds: float | None
    changes: int | None


class OutboxQueries(Queries):
    """Reads of the outbox."""

    @property
    def epoch(self) -> str:
        """The epoch of the last sequence number."""
        return self.position().epoch

    def reverted(self, txid: str) -> tuple[str, int] | None:
        """The chain and height down to which blocks were rolled back, by the last reorganisation, among the newest
        changes, in which a registration of this transaction (hex) left the chain; None where none did."""
        newest = self._scalar(select(_NEWEST))
        same = (changes.c.op == "revert", changes.c.id > f"{txid}_", changes.c.id < f"{txid}`")
        rows = select(changes.c.chain, changes.c.height).where(changes.c.seq > newest - _LOOKED_AT, *same)
        row = next(iter(self._rows(rows.order_by(changes.c.seq.desc()).limit(1))), None)
        return None if row is None else (row["chain"], row["height"])

    def has(self, epoch: str, seq: int) -> bool:
        """Whether a position is of this database: the run of that epoch wrote here at least up to it. One of a later
        state of a database that was put back, or of a server that another took over from, is not."""
        with self._engine.connect() as connection:
            return _has(connection, epoch, seq)

    def position(self) -> OutboxPosition:
        """The end of the outbox."""
        with self._engine.connect() as connection:
            return _position(connection)

    def newest_seq(self) -> int:
        """The last sequence number, 0 when the outbox is empty."""
        return self._scalar(select(func.max(changes.c.seq))) or 0

    def after(self, seq: int, limit: int) -> list[Change]:
        """At most `limit` rows after a sequence number, in order."""
        return [Change(**row) for row in self._rows(_after(seq, limit))]

    def page(self, seq: int, limit: int, epoch: str | None = None) -> OutboxPage:
        """The end of the outbox and at most `limit` rows after a position, in order: all of one moment. Without its
        epoch a position continues unless it is beyond the end."""
        with reading_at_once(self._engine) as connection:
            position = _position(connection)
            continues = seq <= position.newest_seq if epoch is None else _has(connection, epoch, seq)
            rows = [Change(*row) for row in connection.execute(_after(seq, limit)).all()]
            return OutboxPage(position, [*zip(rows, _epochs(connection, rows), strict=True)], continues)

    def lag(self, primary: Engine) -> Lag:
        """How far this database is behind its primary."""
        is_waiting = func.pg_last_wal_receive_lsn() == func.pg_last_wal_replay_lsn()
        since = func.extract("epoch", func.now() - func.pg_last_xact_replay_timestamp())
        with self._engine.connect() as connection:
            position = _position(connection)
            seconds = (
                connection.execute(select(case((is_waiting, 0), else_=since))).scalar() if position.is_replica else 0
            )
        seconds = None if seconds is None else float(seconds)
        try:
            with primary.connect() as connection:
                ahead = _position(connection)
                is_known = _has(connection, position.epoch, position.newest_seq)
        except StoreUnavailableError:
            return Lag(seconds, None)
        return Lag(seconds, max(0, ahead.newest_seq - (position.newest_seq if is_known else 0)))


def _position(connection: Connection) -> OutboxPosition:
    is_standby = func.pg_is_in_recovery() if connection.dialect.name == "postgresql" else literal(value=False)
    row = connection.execute(select(_epoch_of(_NEWEST), _NEWEST, is_standby)).one()
    return OutboxPosition(row[0], row[1], bool(row[2]))


def _epoch_of(seq: int | ScalarSelect[int]) -> ColumnElement[str]:
    """The mark of the run that wrote a sequence number."""
    begun = select(outbox_runs.c.mark).where(outbox_runs.c.first_seq <= seq)
    return func.coalesce(begun.order_by(outbox_runs.c.first_seq.desc()).limit(1).scalar_subquery(), _EPOCH)


def _has(connection: Connection, epoch: str, seq: int) -> bool:
    """Whether the run of an epoch wrote up to a sequence number, or began after it."""
    first = connection.execute(select(outbox_runs.c.first_seq).where(outbox_runs.c.mark == epoch)).scalar()
    if first is None and epoch != connection.execute(select(_EPOCH)).scalar():
        return False
    later = select(func.min(outbox_runs.c.first_seq)).where(outbox_runs.c.first_seq > (first or 0)).scalar_subquery()
    return seq <= int(connection.execute(select(func.coalesce(later - 1, _NEWEST))).scalar_one())


def _epochs(connection: Connection, rows: Sequence[Change]) -> Iterator[str]:
    """The epochs of rows in order."""
    if not rows:
        return
    epoch = connection.execute(select(_epoch_of(rows[0].seq))).scalar_one()
    within = outbox_runs.c.first_seq.between(rows[0].seq + 1, rows[-1].seq)
    begun = connection.execute(select(outbox_runs.c.first_seq, outbox_runs.c.mark).where(within)).all()
    marks = {run.first_seq: run.mark for run in begun}
    for row in rows:
        epoch = marks.get(row.seq, epoch)
        yield epoch


def _after(seq: int, limit: int) -> Select[Any]:
    return select(changes).where(changes.c.seq > seq).order_by(changes.c.seq).limit(limit)


def append(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append rows, numbered on from the last one: sequences of PostgreSQL skip the numbers of rows that are rolled
    back."""
    if rows:
        last = connection.execute(select(func.max(changes.c.seq))).scalar() or 0
        connection.execute(insert(changes), [{**row, "seq": last + number} for number, row in enumerate(rows, 1)])


def announce(connection: Connection, ids: Iterable[str], reason: str, chain: str = "") -> int:
    """Have readers look at these ids again; return how many they are."""
    change = {"chain": chain, "op": "upsert", "height": None, "reason": reason}
    rows = [{**change, "id": id_} for id_ in ids]
    append(connection, rows)
    return len(rows)


def position_of(connection: Connection, name: str) -> int | None:
    """The outbox position of a reader, None where it must restart."""
    row = connection.execute(select(outbox_positions).where(outbox_positions.c.name == name)).one_or_none()
    return row.seq if row is not None and _has(connection, row.epoch, row.seq) else None


def move_position(connection: Connection, seq: int, name: str) -> None:
    """Store the outbox position of a reader: it has read up to this sequence number."""
    epoch = connection.execute(select(_epoch_of(seq))).scalar_one()
    connection.execute(delete(outbox_positions).where(outbox_positions.c.name == name))
    connection.execute(insert(outbox_positions).values(name=name, epoch=epoch, seq=seq))


def begin_run(connection: Connection) -> str:
    """Begin a run of the writer, which has all sequence numbers from the next one on; its mark. A run that wrote
    nothing is replaced: no position names it."""
    first_seq = connection.execute(select(_NEWEST)).scalar_one() + 1
    mark = uuid.uuid4().hex
    connection.execute(delete(outbox_runs).where(outbox_runs.c.first_seq >= first_seq))
    connection.execute(insert(outbox_runs).values(first_seq=first_seq, mark=mark))
    return mark
