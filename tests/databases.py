"""Real databases for tests: SQLite files, and a private PostgreSQL server that is stopped when the tests end."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pytest

from indexer.store import Store, Writer, connect
from tests.waiting import PATIENCE

# with hundreds of databases, a process that vacuums one is started ten times a second
_HURRY = (
    "fsync=off", "synchronous_commit=off", "full_page_writes=off", "autovacuum=off", "max_connections=40",
    "listen_addresses=",
)  # fmt: skip


def is_installed() -> bool:
    """Whether PostgreSQL's programs are on this machine."""
    return all(_binary(name) for name in ("initdb", "postgres", "pg_basebackup"))


def binary(name: str) -> str:
    """A program of PostgreSQL, which is installed."""
    result = _binary(name)
    assert result is not None, f"{name} is missing"
    return result


def _binary(name: str) -> str | None:
    """A program of PostgreSQL: on the path, or where Debian keeps it (the newest version)."""
    debian = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    return shutil.which(name) or (str(debian[-1]) if debian else None)


_DATABASES = 24
"""Databases of a server that stay: a test makes a few, each of 10 MB, and a whole run a thousand."""


class Cluster:
    """A PostgreSQL server of our own, on a socket in a temporary folder; `new` makes a database and gives its URL.

    Text is sorted as English people do, so that a test sees where bytes were meant.
    """

    def __init__(self, initdb: str, server: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="a2b-pg-"))
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:
            # the server refuses to run as root; any other user will do
            self._user = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid, "extra_groups": []}
            shutil.chown(self.folder, "nobody")
        version = subprocess.run([server, "--version"], check=True, capture_output=True, text=True).stdout
        english = ["--locale-provider=icu", "--icu-locale=en"] if int(re.findall(r"\d+", version)[0]) >= 15 else []
        self._run(initdb, "-D", f"{self.folder}/data", "-U", "a2b", "-A", "trust", "-E", "UTF8", "--no-sync",
                  "--locale=C.UTF-8", *english)  # fmt: skip
        settings = [word for setting in (*_HURRY, f"unix_socket_directories={self.folder}") for word in ("-c", setting)]
        with (self.folder / "log").open("w") as log:
            self._server = subprocess.Popen(
                [server, "-D", f"{self.folder}/data", *settings], stdout=log, stderr=log, cwd=self.folder, **self._user
            )
        # the files of a database are copied in a quarter of the time that its write-ahead log takes
        self._has_force = int(re.findall(r"\d+", version)[0]) >= 13
        self._strategy = " STRATEGY file_copy" if int(re.findall(r"\d+", version)[0]) >= 15 else ""
        self._databases = 0
        self._template = ""
        self._admin = self._connect()

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, **self._user)
        assert done.returncode == 0, f"{command[0]} failed: {done.stderr}"

    def _connect(self) -> psycopg.Connection[Any]:
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return psycopg.connect(f"host={self.folder} user=a2b dbname=postgres", autocommit=True)
            except psycopg.OperationalError:
                if self._server.poll() is not None or time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def new(self, template: str = "template1") -> str:
        """The URL of a database like `template`, which is empty."""
        self._databases += 1
        name = f"test{self._databases}"
        self._admin.execute(f"CREATE DATABASE {name} TEMPLATE {template}{self._strategy}")
        former = self._databases - _DATABASES
        if former > 0 and f"test{former}" != self._template and self._has_force:
            self._admin.execute(f"DROP DATABASE IF EXISTS test{former} WITH (FORCE)")
        return f"postgresql+psycopg://a2b@/{name}?host={self.folder}"

    def prepared(self) -> str:
        """The URL of a database with the schema and an epoch of its own, and nothing else: a copy, because creating
        the tables takes longer than most tests."""
        if not self._template:
            connect(self.new()).dispose()
            self._template = f"test{self._databases}"
        url = self.new(self._template)
        name = f"test{self._databases}"
        with psycopg.connect(f"host={self.folder} user=a2b dbname={name}", autocommit=True) as connection:
            connection.execute("UPDATE meta SET value = %s WHERE key = 'epoch'", (uuid.uuid4().hex,))
        return url

    def stop(self) -> None:
        """End the server, which need not write what is deleted, and delete its files."""
        self._admin.close()
        self._server.send_signal(signal.SIGQUIT)
        try:
            self._server.wait(20)
        finally:
            self._server.kill()
            self._server.wait()
            # hundreds of thousands of files: shutil.rmtree takes three times as long
            subprocess.run(["rm", "-rf", str(self.folder)], check=False)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Cluster]:
    """A running server; the test is skipped where PostgreSQL is not installed."""
    initdb, server = _binary("initdb"), _binary("postgres")
    if initdb is None or server is None:
        from tests.conftest import missing

        missing("PostgreSQL")
    cluster = Cluster(initdb, server)
    yield cluster
    cluster.stop()


@cache
def _sqlite_template() -> tuple[bytes, bytes]:
    """The file of a database with the schema, and its epoch."""
    with tempfile.TemporaryDirectory() as folder:
        engine = connect(f"sqlite:///{folder}/a2b.db")
        epoch = Store(engine).outbox.epoch
        engine.dispose()
        return Path(folder, "a2b.db").read_bytes(), epoch.encode()


def prepare_sqlite(url: str) -> str:
    """Where a SQLite URL names no file yet, make one with the schema and an epoch of its own."""
    path = Path(url.removeprefix("sqlite:///"))
    if url.startswith("sqlite:///") and path.parent.is_dir() and not path.exists():
        raw, epoch = _sqlite_template()
        path.write_bytes(raw.replace(epoch, uuid.uuid4().hex.encode()))
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with the schema and nothing else, of each kind in turn."""
    if request.param == "sqlite":
        return prepare_sqlite(f"sqlite:///{tmp_path}/a2b.db")
    cluster: Cluster = request.getfixturevalue("postgresql")
    return cluster.prepared()


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database without tables, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/a2b.db"
    cluster: Cluster = request.getfixturevalue("postgresql")
    return cluster.new()


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """The reads of an empty database."""
    engine = connect(database_url)
    yield Store(engine)
    engine.dispose()


@pytest.fixture
def writer(store: Store) -> Iterator[Writer]:
    """The one writer of that database."""
    writer = Writer(store.engine)
    yield writer
    writer.close()
