"""The copy of a SQLite file that is made beside it before its tables are migrated."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from indexer.durable_files import new_file
from indexer.store.database import StoreError


class CopyPlan(NamedTuple):
    """A copy of a file: a name that was never used, its size at most, and the room for it, in bytes."""

    file: Path
    path: Path
    size: int
    room: int


def planned_copy(file: Path, version: str) -> CopyPlan:
    """The copy of a database of this schema, with its write-ahead log. Raises OSError."""
    parts = (file, file.with_name(f"{file.name}-wal"))
    folder = os.statvfs(file.parent)
    return CopyPlan(
        file,
        file.with_name(f"{file.name}.schema-{version}.{datetime.now(UTC):%Y%m%dT%H%M%SZ}"),
        size=sum(part.stat().st_size for part in parts if part.exists()),
        room=folder.f_bavail * folder.f_frsize,
    )


def make_copy(plan: CopyPlan) -> None:
    """Copy a database to which nobody writes, durably. Raises StoreError where there is no room for that."""
    remedy = "make room, or migrate without a copy (--no-copy)"
    if plan.room < plan.size:
        raise StoreError(
            f"the copy of {plan.file} that is made before a migration takes {plan.size:,} bytes, and {plan.room:,} are "
            f"free beside it: {remedy}"
        )
    part = plan.file.with_name(f"{plan.file.name}.copying")
    try:
        with (
            new_file(plan.path, replace=False, mode=plan.file.stat().st_mode & 0o777, beside=part),
            closing(sqlite3.connect(f"{plan.file.absolute().as_uri()}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(part)) as copy,
        ):
            copy.execute("PRAGMA journal_mode=OFF")
            source.backup(copy)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(
            f"{plan.file} cannot be copied to {plan.path} before its migration ({error}): {remedy}"
        ) from error
