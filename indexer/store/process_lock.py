"""A lock that one process holds at a time, and that its end releases, however it ends."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import IO

from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.exc import DBAPIError

from indexer.store.database import StoreError, StoreUnavailableError
from indexer.store.locks import AdvisoryLock, advisory_lock

_WRITER, _SERVERS = advisory_lock("w"), advisory_lock("d")


class ProcessLock:
    """A lock of one process. With SQLite: a lock file beside the database with this suffix, which holds the number of
    the process. With PostgreSQL: the advisory lock `key` of a connection, None while unlocked."""

    def __init__(self, engine: Engine, suffix: str, key: AdvisoryLock) -> None:
        self._engine, self._suffix, self._key = engine, suffix, key
        self._file: IO[str] | None = None
        self.connection: Connection | None = None
        self.was_unclean = False
        """Whether the last process that held the lock of this SQLite file ended without releasing it. A release leaves
        that so."""
        self._turn = Lock()

    def acquire(self) -> bool:
        """Whether this process holds the lock now; a connection that broke has lost it. Raises StoreError where no file
        can be written, StoreUnavailableError."""
        with self._turn:
            if self._engine.dialect.name == "sqlite":
                return self._file is not None or self._lock_file()
            return self._lock_connection()

    def _lock_connection(self) -> bool:
        try:
            if self.connection is not None:
                self.connection.execute(select(1))
                self.connection.commit()
                return True
            self.connection = self._engine.connect()
            holds: bool = self.connection.execute(select(func.pg_try_advisory_lock(self._key))).scalar_one()
            self.connection.commit()
        except (DBAPIError, StoreUnavailableError):
            self.release()
            raise
        if not holds:
            self.release()
        return holds

    def _lock_file(self) -> bool:
        file: IO[str] | None = None
        try:
            file = Path(f"{self._engine.url.database}.{self._suffix}").open("a+")  # noqa: SIM115 - open while it locks
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.seek(0)
            self.was_unclean = bool(file.read(1))
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            os.fsync(file.fileno())
        except OSError as error:
            if file is not None:
                file.close()
            if isinstance(error, BlockingIOError):
                return False
            raise StoreError(f"cannot write beside {self._engine.url.database}: {error.strerror}") from error
        self._file = file
        return True

    def release(self) -> None:
        """Release the lock for another process."""
        if self._file is not None:
            if not self.was_unclean:
                with suppress(OSError):
                    self._file.truncate(0)
            # a process that this one starts holds a copy of the descriptor until its program begins
            fcntl.flock(self._file, fcntl.LOCK_UN)
            self._file.close()
        if self.connection is not None:
            self._unlock(self.connection)
        self._file = self.connection = None

    def _unlock(self, connection: Connection) -> None:
        """Give PostgreSQL's lock back now: a busy server notices the end of a connection later."""
        if not (connection.closed or connection.invalidated):
            # a connection that broke holds no lock any more
            with suppress(DBAPIError, StoreError):
                connection.execute(select(func.pg_advisory_unlock(self._key)))
                connection.commit()
            connection.invalidate()  # back in the pool it would keep the lock if that failed
        connection.close()


def writer_lock(engine: Engine) -> ProcessLock:
    """The lock of the process that writes facts."""
    return ProcessLock(engine, "lock", _WRITER)


def servers_lock(engine: Engine) -> ProcessLock:
    """The lock of the one serving process that runs the jobs of a single server."""
    return ProcessLock(engine, "servers.lock", _SERVERS)
