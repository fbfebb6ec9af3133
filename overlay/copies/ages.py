"""How long listings have had their names: told by the blocks of their chains, in days, and so the same for all who
have read as far.

A clock of ours would tell two machines different things. The newest block of a chain says which day it is there; when
that changes, those whose age changes with it are looked up by the day since when they have had their names, and told
anew. Nothing is left to do when a question is asked.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from overlay.copies.claims import UNCONFIRMED

SINCE = (30, 180)
"""Days after which a listing is older by one."""

TABLES = """
CREATE TABLE IF NOT EXISTS days (chain TEXT PRIMARY KEY, day INTEGER) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS listings_by_day ON listings (told_by, day);
"""
_DAY = 86_400  # seconds
_BETWEEN = """
INSERT OR IGNORE INTO waiting SELECT registration FROM listings WHERE told_by = ? AND day > ? AND day <= ?
"""
_NEVER = -1


def day(time: int) -> int | None:
    """The day of a moment (seconds since 1970), counted from 1970; None for what is unconfirmed."""
    return time // _DAY if time != UNCONFIRMED else None


def age(since: int | None, today: int | None) -> int:
    """From 0 up: how old what is so since a day is."""
    if since is None or today is None:
        return 0
    return sum(today - since >= days for days in SINCE)


def known(db: sqlite3.Connection) -> dict[str, int]:
    """The days of chains for which ages are told."""
    return dict(db.execute("SELECT chain, day FROM days"))


def grow(db: sqlite3.Connection, today: Mapping[str, int]) -> None:
    """These are the days of chains from now on; listings whose age changes for it, up or down, wait to be told."""
    before = known(db)
    for chain in before.keys() | today.keys():
        first, last = sorted((before.get(chain, _NEVER), today.get(chain, _NEVER)))
        for days in SINCE:
            db.execute(_BETWEEN, (chain, first - days, last - days))
    db.execute("DELETE FROM days")
    db.executemany("INSERT INTO days VALUES (?, ?)", today.items())
