"""Whether a SQLite file is damaged: its check, the report of the last one in a file beside it, and a guard that reads
the report for each process that uses the database."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
import time
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from indexer import durable_files

log = logging.getLogger(__name__)

CHECK_SECONDS = 60.0
"""A check is interrupted after this: it reads the whole file."""

MOST_FAULTS = 3
"""Faults that a report names, at most."""

LOOK_SECONDS = 1.0
"""Age at which a guard reads the report again, which another process may have written."""

CHECKING, OK, INTERRUPTED, FAILED, DAMAGED = "checking", "ok", "interrupted", "failed", "damaged"
"""States of a report: under way, no fault found, none found in CHECK_SECONDS, not possible, faults found."""

_DAMAGED_CODES = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class IntegrityReport(NamedTuple):
    """The last check of a database: its state, when it was written (Unix seconds), and its result."""

    state: str
    written_at: int
    detail: str = ""


def is_damage(error: BaseException) -> bool:
    """Whether an error of SQLite means that the file is damaged."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(code, int) and code & 0xFF in _DAMAGED_CODES


def advice(file: str, detail: str) -> str:
    """Advice to the operator of a damaged database."""
    name = Path(file).name
    return (
        f"the database {name} is damaged ({detail}), and nothing is answered from it: stop the program, move {name} "
        f"away with {name}-wal and {name}-shm, and put a backup in its place, or what `sqlite3 {name} .recover` "
        "rescues; without both, a new one reads the chains again, but payments, accounts and subscriptions are lost"
    )


def read(file: str) -> IntegrityReport | None:
    """The report on this very file, not one that was in its place before; None without one."""
    try:
        members: dict[str, Any] = json.loads(_report_file(file).read_bytes())
        if members.pop("inode") != Path(file).stat().st_ino:
            return None
        return IntegrityReport(**members)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def write(file: str, report: IntegrityReport) -> None:
    """Replace the report on a file."""
    target = _report_file(file)
    try:
        with durable_files.new_file(target) as opened:
            durable_files.write(opened, json.dumps({"inode": Path(file).stat().st_ino, **report._asdict()}).encode())
    except OSError as error:
        log.warning("cannot write %s: %s", target, error.strerror)


def _report_file(file: str) -> Path:
    return Path(f"{file}.check")


def quick_check(file: str, ended: threading.Event, seconds: float = CHECK_SECONDS) -> IntegrityReport:
    """Check the structure of a file as SQLite's `quick_check` does, for so many seconds, or until `ended` is set."""
    faults: list[str] = []
    state, detail = OK, ""
    finished = threading.Event()
    uri = f"{Path(file).absolute().as_uri()}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)) as connection:
        threading.Thread(target=_interrupt, args=(connection, ended, finished, seconds), daemon=True).start()
        try:
            for (fault,) in connection.execute(f"PRAGMA quick_check({MOST_FAULTS})"):
                faults += [] if fault == "ok" else [" ".join(fault.split())[:200]]
        except sqlite3.Error as error:
            is_interrupted = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT
            state = INTERRUPTED if is_interrupted else FAILED
            detail = f"no fault was found in {seconds:g} s" if is_interrupted else str(error)
            faults += [str(error)] if is_damage(error) else []
        finally:
            finished.set()
    if faults:
        state, detail = DAMAGED, "; ".join(faults[:MOST_FAULTS])
    return IntegrityReport(state, int(time.time()), detail)


def _interrupt(
    connection: sqlite3.Connection, ended: threading.Event, finished: threading.Event, seconds: float
) -> None:
    """Interrupt a check that has not finished in time."""
    deadline = time.monotonic() + seconds
    while not finished.wait(0.05):
        if ended.is_set() or time.monotonic() >= deadline:
            connection.interrupt()


class Guard:
    """The state of one file in a process. `suspected` is set by an error of SQLite that means damage."""

    def __init__(self, file: str) -> None:
        self._file = file
        self.suspected = threading.Event()
        self._looked_at = float("-inf")
        self._damage = ""

    def damage(self) -> str:
        """Advice about the damage that the last check detected, "" where it detected none."""
        now = time.monotonic()
        if now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            report = read(self._file)
            is_damaged = report is not None and report.state == DAMAGED
            self._damage = advice(self._file, report.detail) if report and is_damaged else ""
        return self._damage

    def report(self, report: IntegrityReport) -> None:
        """Write a report, and act on it at once."""
        write(self._file, report)
        self._looked_at = float("-inf")


@cache
def guard_of(file: str) -> Guard:
    """The guard of a file, one in a process."""
    return Guard(file)
