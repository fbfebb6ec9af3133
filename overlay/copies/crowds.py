"""Crowds: listings that say the same as many others, of whom only the first few are heard.

What a listing says with a crowd is a number (`voices`). All who say it stand in one line, in the order in which
they came to say it; who has as many before him as are heard (`kept`) is beyond. That depends only on who stands there,
not on the order in which they were read, so an index that is made anew says the same. Who comes or goes moves one other
over the boundary at most: a look into an ordered table, however long the line.
"""

from __future__ import annotations

import json
import sqlite3
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from operator import itemgetter
from typing import NamedTuple

from overlay.compact import encode
from overlay.copies.nearness import SHARED
from overlay.copies.voices import NAME, REST, SAMPLE, WORD, Voice

ALIKE = 3
"""Listings that say nearly the same, and are heard."""
NAMED = 10
"""Listings of one owner or domain that have a word in their names, or of all that have the same name, or the same text
but for the name, and say it as loudly as all others."""

TABLES = """
CREATE TABLE IF NOT EXISTS crowds (
  value INTEGER, time INTEGER, chain TEXT, place INTEGER, number INTEGER,
  PRIMARY KEY (value, time, chain, place, number)) WITHOUT ROWID;
"""
_AT_ONCE = 20_000  # values of one statement
_LONG = """
SELECT value FROM json_each(?) said WHERE EXISTS (SELECT 1 FROM crowds c WHERE c.value = said.value)
"""
_SAID = f"""
SELECT said.value, json_extract(moment.value, '$[0]'), json_extract(moment.value, '$[1]'),
  json_extract(moment.value, '$[2]'), number
FROM json_each(?) wanted CROSS JOIN listings CROSS JOIN json_each(voices) moment
  CROSS JOIN json_each(moment.value, '$[3]') said
WHERE number = wanted.value AND {min(ALIKE, NAMED)} < (
  SELECT COUNT(*) FROM (SELECT 1 FROM crowds c WHERE c.value = said.value LIMIT {min(ALIKE, NAMED) + 1}))
"""  # noqa: S608  numbers of our own
_FIRST = "SELECT time, chain, place, number FROM crowds WHERE value = ? ORDER BY time, chain, place, number LIMIT ?"
_LEAVE = "DELETE FROM crowds WHERE value = ? AND time = ? AND chain = ? AND place = ? AND number = ?"
_COME = "INSERT INTO crowds VALUES (?, ?, ?, ?, ?)"
_TELL = "INSERT OR IGNORE INTO waiting SELECT registration FROM listings WHERE number = ?"

Stand = tuple[int, int, str, int, int]
"""Where a listing stands in a line: the value, since when (time, chain, place), and its number."""


class Beyond(NamedTuple):
    """How a listing is not heard: not at all, as several before it say nearly the same; not its name, as many before it
    have the same; or not those words of its name, by their values, that many before it have in theirs."""

    crowded: bool = False
    named: bool = False
    words: frozenset[int] = frozenset()


def kept(value: int) -> int:
    """How many in a line are heard."""
    return ALIKE if value & 3 == SAMPLE else NAMED


def pack(voices: Sequence[Voice]) -> str:
    """What a listing says, as its row keeps it: of each moment the values."""
    return encode([[*since, values] for since, values in voices]).decode()


def stands(number: int, packed: str) -> Iterator[Stand]:
    """Where a listing of this number stands."""
    for time, chain, place, values in json.loads(packed):
        for value in values:
            yield value, time, chain, place, number


def move(db: sqlite3.Connection, leaving: list[Stand], coming: list[Stand]) -> list[Stand]:
    """Let some leave their lines and others come; those who are to be told something else for it wait from now on. Who
    comes need not be told: where they stand in lines with others, nearly nowhere, is returned."""
    db.executemany(_LEAVE, leaving)
    values = {stand[0] for stand in leaving}
    values.update([stand[0] for stand in coming])
    others = set(_said_by_others(db, values))
    left, come = _lines(leaving, others), _lines(coming, others)
    for value in others:
        for number in _moved(db, value, left.get(value, []), come.get(value, [])):
            db.execute(_TELL, (number,))
    coming.sort(key=itemgetter(0))  # as the table has them
    db.executemany(_COME, coming)
    repeated = {one[0] for one, next_ in pairwise(coming) if one[0] == next_[0]}
    return [stand for stand in coming if stand[0] in others or stand[0] in repeated]


def _said_by_others(db: sqlite3.Connection, values: Iterable[int]) -> Iterator[int]:
    several = iter(values)
    while batch := list(islice(several, _AT_ONCE)):
        yield from [value for (value,) in db.execute(_LONG, (json.dumps(batch),)).fetchall()]


def _lines(stands: Iterable[Stand], values: Container[int]) -> dict[int, list[Stand]]:
    """Of some values those who say them, in order."""
    found: dict[int, list[Stand]] = {}
    for stand in stands:
        if stand[0] in values:
            found.setdefault(stand[0], []).append(stand)
    for line in found.values():
        line.sort()
    return found


def _moved(db: sqlite3.Connection, value: int, left: Sequence[Stand], come: Sequence[Stand]) -> Iterator[int]:
    """Those of the others in a line, by number, whom coming and going moves over the boundary."""
    most = kept(value)
    for at, other in enumerate(db.execute(_FIRST, (value, most)).fetchall()):
        was, now = (at + bisect_left(line, (value, *other)) for line in (left, come))
        if (was < most) != (now < most):
            yield other[-1]


def lined(db: sqlite3.Connection, numbers: Sequence[int]) -> list[Stand]:
    """Where the listings of these numbers stand in long lines."""
    return db.execute(_SAID, (json.dumps(numbers),)).fetchall()


def beyond(db: sqlite3.Connection, stands: Iterable[Stand]) -> dict[int, Beyond]:
    """Who is beyond in these places, by number; of those who are heard in full, nothing."""
    values: dict[int, list[int]] = {}
    last: dict[int, Stand] = {}
    for stand in stands:
        value = stand[0]
        if value not in last:
            first = db.execute(_FIRST, (value, kept(value))).fetchall()
            last[value] = (value, *first[-1])
        if stand > last[value]:
            values.setdefault(stand[-1], []).append(value)
    return {number: _beyond(found) for number, found in values.items()}


def _beyond(values: Sequence[int]) -> Beyond:
    kinds = [value & 3 for value in values]
    words = frozenset(value for value in values if value & 3 == WORD)
    return Beyond(kinds.count(SAMPLE) >= SHARED or REST in kinds, NAME in kinds, words)
