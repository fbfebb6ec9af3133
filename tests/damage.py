"""Damages a SQLite file as a failing disk does: bytes of a page change."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path


def damage_table(file: Path, table: str) -> None:
    """Flip the bytes of the first page of a table, after what is in the write-ahead log has been written back."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        size = connection.execute("PRAGMA page_size").fetchone()[0]
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    with file.open("r+b") as raw:
        raw.seek((root - 1) * size)
        flipped = bytes(byte ^ 0xFF for byte in raw.read(64))
        raw.seek((root - 1) * size)
        raw.write(flipped)
