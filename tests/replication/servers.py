"""A real primary and a streaming standby, each a PostgreSQL server of its own on a socket in a temporary folder."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

from tests.databases import binary
from tests.waiting import PATIENCE

_SETTINGS = (
    "fsync=off",  # the machine does not crash, servers do
    "full_page_writes=off",
    "max_connections=60",
    "listen_addresses=",
    "wal_level=replica",
    "max_wal_senders=4",
    "hot_standby=on",
    "hot_standby_feedback=on",
    "max_standby_streaming_delay=0",
    "wal_retrieve_retry_interval=100ms",
)


class Server:
    """One server; its data are made by `init` or copied from another server by `copy`."""

    def __init__(self, name: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"a2b-{name}-"))
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:
            # the server refuses to run as root; any other user will do
            self._user = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid, "extra_groups": []}
            shutil.chown(self.folder, "nobody")
        self._process: subprocess.Popen[bytes] | None = None

    def init(self) -> None:
        """An empty cluster."""
        self._run(binary("initdb"), "-D", f"{self.folder}/data", "-U", "a2b", "-A", "trust", "-E", "UTF8", "--no-sync")

    def copy(self, primary: Server) -> None:
        """A standby of that server."""
        self._run(
            binary("pg_basebackup"), "-h", str(primary.folder), "-U", "a2b", "-D", f"{self.folder}/data", "-R",
            "-X", "stream", "-c", "fast", "--no-sync",
        )  # fmt: skip

    def start(self, *settings: str) -> None:
        """Start it, and wait until it answers."""
        words = [
            word
            for setting in (*_SETTINGS, f"unix_socket_directories={self.folder}", *settings)
            for word in ("-c", setting)
        ]
        with (self.folder / "log").open("a") as log:
            command = [binary("postgres"), "-D", f"{self.folder}/data", *words]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, **self._user)
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self.ask("SELECT 1")
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self.folder / "log").read_text()[-2_000:]
                assert time.monotonic() < until, (self.folder / "log").read_text()[-2_000:]
                time.sleep(0.05)
            else:
                return

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """Stop it: as if it crashed (SIGQUIT), or after its clients are cut (SIGINT)."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE)
            self._process = None

    def end(self) -> None:
        """Stop it and delete everything."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def ask(self, statement: str, database: str = "postgres") -> Any:
        """The first value that a statement gives, None for none."""
        with psycopg.connect(f"host={self.folder} user=a2b dbname={database}", autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None

    def cut(self) -> int:
        """Cut the connections of all clients; how many."""
        statement = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"  # noqa: E501
        return int(self.ask(statement))

    def promote(self) -> None:
        """Let a standby take over, and wait until it writes."""
        assert self.ask("SELECT pg_promote(true, 60)")

    def url(self, database: str, *others: Server) -> str:
        """The URL of a database; with `others`, of whichever of the servers can be written to."""
        hosts = ",".join(str(item.folder) for item in (self, *others))
        writable = "&target_session_attrs=read-write" if others else ""
        return f"postgresql+psycopg://a2b@/{database}?host={hosts}{writable}"

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, **self._user)
        assert done.returncode == 0, f"{command[0]} failed: {done.stderr}"


def caught_up(primary: Server, standby: Server) -> None:
    """Wait until the standby has replayed what the primary has written."""
    lsn = primary.ask("SELECT pg_current_wal_lsn()")
    wait(lambda: bool(standby.ask(f"SELECT pg_last_wal_replay_lsn() >= '{lsn}'")), "the standby catches up")


def wait(condition: Any, what: str) -> None:
    """Poll until a condition holds."""
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, f"waited in vain until {what}"
        time.sleep(0.02)
