"""Which line of its history a PostgreSQL database is on: a server that took over for another begins a new one.

Whatever the old server had written last may be missing on the new line, and its sequence numbers are given out again.
So whoever writes there first gives the outbox a new epoch, and readers begin anew.
"""

from __future__ import annotations

import logging
import uuid

from sqlalchemy import Connection, insert, select, text, update

from indexer.store.tables import meta

_KEY = "line"

log = logging.getLogger(__name__)


def follow(connection: Connection) -> None:
    """Give the outbox a new epoch where the database is on another line than when it was written last: on a promoted
    standby, after recovery to a point in time, and where it was copied into another cluster."""
    line = current(connection)
    known = connection.execute(select(meta.c.value).where(meta.c.key == _KEY)).scalar()
    if known is None:
        connection.execute(insert(meta).values(key=_KEY, value=line))
    elif known != line:
        log.warning("another server took over, or the database was restored: the change feed begins anew")
        connection.execute(update(meta).where(meta.c.key == _KEY).values(value=line))
        connection.execute(update(meta).where(meta.c.key == "epoch").values(value=uuid.uuid4().hex))


def current(connection: Connection) -> str:
    """The cluster's identifier and the number of its timeline, which every promotion raises."""
    name = "(SELECT system_identifier FROM pg_control_system())"
    number = "substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"
    return str(connection.execute(text(f"SELECT {name} || '/' || {number}")).scalar_one())
