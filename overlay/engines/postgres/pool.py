"""Connections to PostgreSQL: kept open between questions, and replaced when the server has cut them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, LifoQueue
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import Connection, OperationalError, errors

from indexer.absence import parameters
from indexer.settings import masked
from overlay.engines import EngineError, UnavailableError

QUESTION_SECONDS = 10
"""What one statement of a question may take before the server gives it up."""
_PREPARED = """
SET jit = off; SET statement_timeout = {limit};
SELECT set_config('random_page_cost', '1.1', false) WHERE current_setting('random_page_cost') = '4';
SELECT set_config('max_parallel_workers_per_gather', '0', false)
WHERE current_setting('max_parallel_workers_per_gather') = '2'
"""
"""Planning with the compiler takes longer than any question, and to look into every document three times as long as to
fetch the third of them that an index names: where nobody has said otherwise, such fetches are taken for cheap. To have
other processes help with a question costs more than they do."""
_IDLE = 8  # connections kept by a process: as many threads ask at a time, and more open their own


class TookLongError(UnavailableError):
    """A question was given up by the server: asking it once more would take as long."""


class BehindError(Exception):
    """A snapshot is older than what was shown already."""


class Pool:
    """Connections in autocommit to one database, handed out one question at a time; for several threads."""

    def __init__(self, url: str) -> None:
        """Nothing connects before it is asked for. Raises EngineError for what is no URL of PostgreSQL."""
        self.shown = masked(url)
        self._conninfo = libpq(url)
        self._idle: LifoQueue[Connection[Any]] = LifoQueue(_IDLE)
        self._closed = False

    def connect(self, *, patient: bool = False) -> Connection[Any]:
        """A connection of its own; a `patient` one may take its time over a statement. Raises UnavailableError."""
        try:
            found = psycopg.connect(self._conninfo, autocommit=True)
            limit = 0 if patient else 1000 * QUESTION_SECONDS
            found.execute(_PREPARED.format(limit=limit).encode())
        except OperationalError as error:
            raise UnavailableError(f"cannot reach the index in {self.shown}: {_words(error)}") from error
        found.prepare_threshold = None
        return found

    @contextmanager
    def own(self) -> Iterator[Connection[Any]]:
        """A patient connection that is closed afterwards, with whatever it holds. Raises UnavailableError."""
        connection = self.connect(patient=True)
        try:
            yield connection
        except OperationalError as error:
            raise self.gone(error) from error
        finally:
            connection.close()

    def gone(self, error: Exception) -> UnavailableError:
        """What to raise where the server has gone."""
        return UnavailableError(f"the index in {self.shown} does not answer: {_words(error)}")

    @contextmanager
    def lend(self) -> Iterator[Connection[Any]]:
        """A connection for one question, given back in autocommit and outside a transaction.

        Raises UnavailableError when the server is gone, or cut this connection; TookLongError when it gave up.
        """
        connection = self._take()
        try:
            yield connection
        except errors.QueryCanceled as error:
            connection.close()
            raise TookLongError(f"the index in {self.shown} took too long: {_words(error)}") from error
        except OperationalError as error:
            connection.close()
            self._drop()  # the others are likely to be as dead
            raise self.gone(error) from error
        except BehindError:
            self._give_back(connection)
            raise
        except BaseException:
            connection.close()
            raise
        self._give_back(connection)

    def _give_back(self, connection: Connection[Any]) -> None:
        if self._closed:
            connection.close()
        else:
            self._keep(connection)

    def _take(self) -> Connection[Any]:
        while True:
            try:
                found = self._idle.get_nowait()
            except Empty:
                return self.connect()
            if not found.closed:
                return found

    def _keep(self, connection: Connection[Any]) -> None:
        if connection.closed or self._idle.full():
            connection.close()
        else:
            self._idle.put(connection)

    def _drop(self) -> None:
        while not self._idle.empty():
            try:
                self._idle.get_nowait().close()
            except Empty:
                return

    def close(self) -> None:
        """Give the connections up; one that is lent is closed when it comes back."""
        self._closed = True
        self._drop()


def libpq(url: str) -> str:
    """The URL of a database as libpq reads it, from one that SQLAlchemy reads: a name of the driver is left out, and
    `host=a:1&host=b:2` becomes `host=a,b&port=1,2`. Raises EngineError."""
    parts = urlsplit(url)
    if parts.scheme not in {"postgresql", "postgres", "postgresql+psycopg"}:
        raise EngineError(f"{masked(url)!a} is no database of PostgreSQL; write postgresql+psycopg://user@host/name")
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    hosts = [value for name, value in pairs if name == "host"]
    if len(hosts) > 1:
        split = [host.rpartition(":") if ":" in host else (host, "", "5432") for host in hosts]
        pairs = [(name, value) for name, value in pairs if name not in {"host", "port"}]
        pairs += [("host", ",".join(host for host, _, _ in split)), ("port", ",".join(port for _, _, port in split))]
    pairs += [(name, str(value)) for name, value in parameters({name for name, _ in pairs}).items()]
    # a folder of sockets must not be read as part of the path
    query = urlencode([(name, unquote(value)) for name, value in pairs])
    return urlunsplit(("postgresql", parts.netloc, parts.path, query, ""))


def _words(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
