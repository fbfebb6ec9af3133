"""The outbox: one row per change that readers must look at again, and how far a replica is behind with it."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, Select, case, delete, func, insert, literal, select, text, update

from indexer.store.database import StoreUnavailableError, reading_at_once
from indexer.store.queries import Queries
from indexer.store.schema import changes, meta, outbox_positions

log = logging.getLogger(__name__)

_EPOCH = select(meta.c.value).where(meta.c.key == "epoch").scalar_subquery()


class Change(NamedTuple):
    """A row of the outbox: look at `id` again. `op` is upsert, remove or revert."""

    seq: int
    chain: str
    op: str
    id: str
    height: int | None
    reason: str


class OutboxPosition(NamedTuple):
    """The end of the outbox at one moment: its epoch, and its last sequence number, 0 when it is empty. `is_replica`:
    it was read from a standby, which may be behind."""

    epoch: str
    newest_seq: int
    is_replica: bool


class Lag(NamedTuple):
    """How far a replica is behind its primary: seconds since the last transaction that it replayed, 0 when it waits for
    more, None before the first; and changes, None while the primary does not answer."""

    seconds: float | None
    changes: int | None


class OutboxQueries(Queries):
    """Reads of the outbox."""

    @property
    def epoch(self) -> str:
        """What sequence numbers belong to: changes when another server takes over."""
        return self.position().epoch

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

    def page(self, seq: int, limit: int) -> tuple[OutboxPosition, list[Change]]:
        """The end of the outbox and at most `limit` rows after a sequence number, in order: all of one moment."""
        with reading_at_once(self._engine) as connection:
            position = _position(connection)
            return position, [Change(**row) for row in connection.execute(_after(seq, limit)).mappings()]

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
        except StoreUnavailableError:
            return Lag(seconds, None)
        missing_changes = ahead.newest_seq - (position.newest_seq if ahead.epoch == position.epoch else 0)
        return Lag(seconds, max(0, missing_changes))


def _position(connection: Connection) -> OutboxPosition:
    newest = select(func.max(changes.c.seq)).scalar_subquery()
    is_standby = func.pg_is_in_recovery() if connection.dialect.name == "postgresql" else literal(value=False)
    row = connection.execute(select(_EPOCH, newest, is_standby)).one()
    return OutboxPosition(row[0], row[1] or 0, bool(row[2]))


def _after(seq: int, limit: int) -> Select[Any]:
    return select(changes).where(changes.c.seq > seq).order_by(changes.c.seq).limit(limit)


def append(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append rows, numbered on from the last one: sequences of PostgreSQL skip what is rolled back."""
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
    is_own = (outbox_positions.c.name == name, outbox_positions.c.epoch == _EPOCH)
    return connection.execute(select(outbox_positions.c.seq).where(*is_own)).scalar()


def move_position(connection: Connection, seq: int, name: str) -> None:
    """Store the outbox position of a reader: it has read up to this sequence number."""
    epoch = connection.execute(select(_EPOCH)).scalar_one()
    connection.execute(delete(outbox_positions).where(outbox_positions.c.name == name))
    connection.execute(insert(outbox_positions).values(name=name, epoch=epoch, seq=seq))


def follow_timeline(connection: Connection) -> None:
    """Give the outbox of a PostgreSQL database a new epoch where it is on another timeline than at the last write: on a
    promoted standby, after recovery to a point in time, and where it was copied into another cluster. The last writes
    of the old server may be missing there, and their sequence numbers are used again."""
    timeline = _timeline(connection)
    stored = connection.execute(select(meta.c.value).where(meta.c.key == _TIMELINE)).scalar()
    if stored is None:
        connection.execute(insert(meta).values(key=_TIMELINE, value=timeline))
    elif stored != timeline:
        log.warning("another server took over, or the database was restored: the change feed gets a new epoch")
        connection.execute(update(meta).where(meta.c.key == _TIMELINE).values(value=timeline))
        connection.execute(update(meta).where(meta.c.key == "epoch").values(value=uuid.uuid4().hex))


_TIMELINE = "line"
"""Key in `meta`."""


def _timeline(connection: Connection) -> str:
    """The cluster's identifier and the number of its timeline, which every promotion raises."""
    identifier = "(SELECT system_identifier FROM pg_control_system())"
    number = "substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"
    return str(connection.execute(text(f"SELECT {identifier} || '/' || {number}")).scalar_one())
