"""A lock that one process holds at a time, and that its end releases, however it ends."""

from __future__ import annotations

import fcntl
from pathlib import Path
from threading import Lock
from typing import IO

from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.exc import DBAPIError

from indexer.store.database import StoreUnavailableError


class ProcessLock:
    """Beside a SQLite file a lock file of this name, on PostgreSQL the advisory lock `key` of a connection."""

    def __init__(self, engine: Engine, name: str, key: int) -> None:
        self._engine, self._name, self._key = engine, name, key
        self._file: IO[str] | None = None
        self._connection: Connection | None = None
        self._turn = Lock()

    def acquire(self) -> bool:
        """Whether this process holds the lock now; a connection that broke has lost it. Raises
        StoreUnavailableError, OSError."""
        with self._turn:
            if self._engine.dialect.name == "sqlite":
                return self._file is not None or self._lock_file()
            return self._lock_connection()

    def _lock_connection(self) -> bool:
        try:
            if self._connection is not None:
                self._connection.execute(select(1))
                self._connection.commit()
                return True
            self._connection = self._engine.connect()
            holds: bool = self._connection.execute(select(func.pg_try_advisory_lock(self._key))).scalar_one()
            self._connection.commit()
        except (DBAPIError, StoreUnavailableError):
            self.release()
            raise
        if not holds:
            self.release()
        return holds

    def _lock_file(self) -> bool:
        file = Path(f"{self._engine.url.database}.{self._name}").open("w")  # noqa: SIM115 - open as long as it locks
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        self._file = file
        return True

    def release(self) -> None:
        """Let another process have it."""
        if self._file is not None:
            self._file.close()
        if self._connection is not None:
            self._connection.invalidate()  # back in the pool it would keep the lock
            self._connection.close()
        self._file = self._connection = None
