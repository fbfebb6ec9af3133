"""Reads the heights of chains from a SQLite database without SQLAlchemy: importing it takes longer than a search."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from indexer import sqlite_integrity as integrity

_NAMES = "SELECT substr(key, 7) FROM meta WHERE key LIKE 'chain:%'"
_HEIGHT = "SELECT max(height) FROM blocks WHERE chain = ?"


def heights(file: Path) -> dict[str, int]:
    """The newest height of each chain by name. Raises OSError when the file is not an index database, or is damaged."""
    if damage := integrity.guard_of(str(file)).damage():
        raise OSError(damage)
    try:
        try:
            by_chain = _heights(file, "mode=ro")
        except sqlite3.OperationalError:
            # its write-ahead log cannot be created: nobody writes
            by_chain = _heights(file, "mode=ro&immutable=1")
    except sqlite3.Error as error:
        if integrity.is_damage(error):
            raise OSError(integrity.advice(str(file), str(error))) from error
        raise OSError(f"cannot read {file}: {error}") from error
    return {name: height for name, height in by_chain.items() if height is not None}


def _heights(file: Path, options: str) -> dict[str, int | None]:
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?{options}", uri=True)) as database:
        return {name: database.execute(_HEIGHT, (name,)).fetchone()[0] for (name,) in database.execute(_NAMES)}
