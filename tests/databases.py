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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from indexer.store import Store, Writer, connect

_HURRY = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=40", "listen_addresses=")


def is_installed() -> bool:
    """Whether PostgreSQL's programs are on this machine."""
    return all(_binary(name) for name in ("initdb", "postgres", "pg_basebackup"))


def binary(name: str) -> str:
    """A program of PostgreSQL, which is installed."""
    found = _binary(name)
    assert found is not None, f"{name} is missing"
    return found


def _binary(name: str) -> str | None:
    """A program of PostgreSQL: on the path, or where Debian keeps it (the newest version)."""
    debian = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    return shutil.which(name) or (str(debian[-1]) if debian else None)


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
        self._made = 0
        self._admin = self._connect()

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, **self._user)
        assert done.returncode == 0, f"{command[0]} failed: {done.stderr}"

    def _connect(self) -> psycopg.Connection[Any]:
        until = time.monotonic() + 30
        while True:
            try:
                return psycopg.connect(f"host={self.folder} user=a2b dbname=postgres", autocommit=True)
            except psycopg.OperationalError:
                if self._server.poll() is not None or time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def new(self) -> str:
        """The URL of an empty database."""
        self._made += 1
        self._admin.execute(f"CREATE DATABASE test{self._made}")
        return f"postgresql+psycopg://a2b@/test{self._made}?host={self.folder}"

    def stop(self) -> None:
        """End the server, which need not write what is deleted, and delete its files."""
        self._admin.close()
        self._server.send_signal(signal.SIGQUIT)
        try:
            self._server.wait(20)
        finally:
            self._server.kill()
            self._server.wait()
            shutil.rmtree(self.folder, ignore_errors=True)


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


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database, of each kind in turn."""
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
