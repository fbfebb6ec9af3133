"""The outbox: what changed, line by line, and how far a replica is behind with it."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, Select, case, func, literal, select

from indexer.store.database import StoreUnavailableError
from indexer.store.tables import changes, meta


class Change(NamedTuple):
    """A line of the outbox: look at `id` again. `op` is upsert, remove or revert."""

    seq: int
    chain: str
    op: str
    id: str
    height: int | None
    reason: str


class Outbox(NamedTuple):
    """The outbox at one moment: its epoch, and its last sequence number, 0 when it is empty. `is_replica` says that it
    was read from a standby, which may be behind."""

    epoch: str
    newest_seq: int
    is_replica: bool


class Lag(NamedTuple):
    """How far a replica is behind."""

    seconds: float | None
    changes: int | None


def of(engine: Engine) -> Outbox:
    """Where the outbox stands."""
    with engine.connect() as connection:
        return _of(connection)


def _of(connection: Connection) -> Outbox:
    epoch = select(meta.c.value).where(meta.c.key == "epoch").scalar_subquery()
    newest = select(func.max(changes.c.seq)).scalar_subquery()
    standby = func.pg_is_in_recovery() if connection.dialect.name == "postgresql" else literal(value=False)
    found = connection.execute(select(epoch, newest, standby)).one()
    return Outbox(found[0], found[1] or 0, bool(found[2]))


def after(engine: Engine, since: int, limit: int) -> list[Change]:
    """The lines after sequence number `since`, in order, at most `limit`."""
    with engine.connect() as connection:
        return _lines(connection, since, limit)


def _lines(connection: Connection, since: int, limit: int) -> list[Change]:
    statement: Select[Any] = select(changes).where(changes.c.seq > since).order_by(changes.c.seq).limit(limit)
    return [Change(**row) for row in connection.execute(statement).mappings()]


def page(engine: Engine, since: int, limit: int) -> tuple[Outbox, list[Change]]:
    """Where the outbox stands, and its lines after `since`, in order, at most `limit`: all of one moment."""
    with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
        else:
            connection.exec_driver_sql("BEGIN")
        return _of(connection), _lines(connection, since, limit)


def newest_seq(engine: Engine) -> int:
    """The last sequence number, 0 when the outbox is empty."""
    with engine.connect() as connection:
        return connection.execute(select(func.max(changes.c.seq))).scalar() or 0


def lag(replica: Engine, home: Engine) -> Lag:
    """How far a replica of the database `home` is behind: seconds since the last transaction it knows, 0 when it waits
    for more, None where nothing was told yet; and changes, None while the database itself does not answer."""
    waits = func.pg_last_wal_receive_lsn() == func.pg_last_wal_replay_lsn()
    since = func.extract("epoch", func.now() - func.pg_last_xact_replay_timestamp())
    with replica.connect() as connection:
        there = _of(connection)
        told = connection.execute(select(case((waits, 0), else_=since))).scalar() if there.is_replica else 0
    seconds = None if told is None else float(told)
    try:
        here = of(home)
    except StoreUnavailableError:
        return Lag(seconds, None)
    behind = here.newest_seq - (there.newest_seq if here.epoch == there.epoch else 0)
    return Lag(seconds, max(0, behind))
