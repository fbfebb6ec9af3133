"""The one writer of facts: a lock and its transactions, in which the topics write."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from indexer.store import outbox
from indexer.store.database import WRITER_CACHE, StoreError, StoreUnavailableError, write_error
from indexer.store.process_lock import writer_lock


class Writer:
    """The right to write facts into a database: held by one process at a time, released by `close`.

    `clock` gives Unix seconds: pointers are seen at its time. Raises StoreError when another process holds it; every
    method raises it when the database refuses.
    """

    def __init__(self, engine: Engine, clock: Callable[[], float] = time.time) -> None:
        self.engine, self.clock = engine, clock
        self.untrimmed: Counter[str] = Counter()
        """Near misses written since the last trim, by chain."""
        self.run = ""
        """The mark of this run of the writer: another one after each loss of the connection."""
        self._turn, self._is_closed = Lock(), False
        self.lock = writer_lock(engine)
        self.connection = self._connect()

    def _connect(self) -> Connection:
        """The connection that all facts are written through; on PostgreSQL it holds the lock as long as it lives."""
        if not self.lock.acquire():
            where = self.engine.url.database if self.engine.dialect.name == "sqlite" else self._name
            raise StoreError(f"another indexer is writing to {where}; stop it first")
        if self.lock.connection is None:
            connection = self.engine.connect()
            connection.exec_driver_sql(f"PRAGMA cache_size={-WRITER_CACHE}")
            connection.commit()
        else:
            connection = self.lock.connection
        with connection.begin():
            self.run = outbox.begin_run(connection)
        return connection

    @property
    def _name(self) -> str:
        return self.engine.url.render_as_string()

    def close(self) -> None:
        """Release the lock for another process; a transaction under way ends first, and none begins after it."""
        with self._turn:
            self._is_closed = True
            self.lock.release()
            self.connection.close()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """One transaction, and one at a time: the followers of several chains share this writer, and a reader of the
        outbox must not see a number before a smaller one. Raises StoreError when the database refuses, and after
        `close`."""
        with self._turn:
            if self._is_closed:  # of a thread that outlives its loop: it would take the lock again
                raise StoreError(f"the writer of {self._name} is closed")
            try:
                if self.connection.closed or self.connection.invalidated:
                    self.lock.release()
                    self.connection.close()
                    self.connection = self._connect()
                with self.connection.begin():
                    yield self.connection
            except StoreUnavailableError as error:
                raise type(error)(f"cannot write to {self._name}: {error}") from error
            except DBAPIError as error:
                raise write_error(self._name, error) from error
