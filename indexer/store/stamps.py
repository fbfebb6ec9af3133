"""Whether a database may have been written to, told without asking it for anything: processes that only serve would
else ask ten times a second for what seldom changes, which costs them more than a tenth of their answers."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Lock

from sqlalchemy import Engine

_BITS = 32  # of SQLite's number


class Stamps:
    """Stamps of one database; safe to use from several threads. Only of SQLite's something is known: a number that
    changes with every commit of another connection (https://www.sqlite.org/pragma.html#pragma_data_version), read in
    4 µs without waiting for anybody."""

    def __init__(self, engine: Engine) -> None:
        self._file = engine.url.database if engine.dialect.name == "sqlite" else None
        self._connection: sqlite3.Connection | None = None
        self._connected = 0  # how many connections there were: each counts anew
        self._others, self._lock = count(1), Lock()

    def now(self) -> int:
        """The same number as before if nothing was written since; another one if something was, or may have been."""
        with self._lock:
            try:
                version = self._version()
            except sqlite3.Error:  # whoever looks then finds out what is wrong
                self._give_up()
                version = None
            return -next(self._others) if version is None else (self._connected << _BITS) + version

    def close(self) -> None:
        """Give up the connection."""
        with self._lock:
            self._give_up()

    def _version(self) -> int | None:
        if self._file is None:
            return None
        if self._connection is None:
            target = f"{Path(self._file).absolute().as_uri()}?mode=rw"
            self._connection = sqlite3.connect(
                target, uri=True, timeout=0, isolation_level=None, check_same_thread=False
            )
            self._connected += 1
        found: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        return found

    def _give_up(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
