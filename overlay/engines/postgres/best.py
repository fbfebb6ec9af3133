"""The best of more documents than are counted: looked for from the top, so that few of them are looked at.

Computing the points of each of the 67,000 of a million listings that hold a common word takes 300 ms, and nearly all of
it is for reading them. A word makes few different points, and few documents make the most.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from psycopg import Connection

from overlay.engines.postgres import lexemes
from overlay.engines.postgres.layout import State
from overlay.engines.postgres.question import Ladder, Part
from overlay.engines.postgres.ways import Found, Way
from overlay.query import Query

Key = tuple[int, int, str]
"""The place of a document by its points: both numbers are turned around, so that it rises."""
Row = tuple[int, bytes, int, int]
_LATEST_FIRST = "f.newest DESC, f.id"
_BEST_FIRST = f"f.points DESC, {_LATEST_FIRST}"

FEW = 2_000
"""Documents that are read (10 ms) to find the latest among them."""


class Best(NamedTuple):
    """What is looked for in one snapshot: `number` documents of what a way finds, behind a key if one is given."""

    connection: Connection[Any]
    state: State
    query: Query
    way: Way
    number: int
    after: Key | None = None

    def found(self) -> list[tuple[Key, int]]:
        """Their keys and numbers, in order."""
        one = self.way.ladders[0]
        rows = self._by_rungs(one) if len(self.way.ladders) == 1 and one.exact else self._from_above()
        return [((-points, -newest, id_.decode()), number) for number, id_, newest, points in rows]

    def _by_rungs(self, ladder: Ladder) -> list[Row]:
        """Rung by rung: all on one make the same points, so the latest of them are the best."""
        found: list[Row] = []
        higher: list[str] = []
        for points, asked in ladder.rungs:
            if self._may_be_behind(points):
                texts = (asked, lexemes.none(higher)) if higher else (asked,)
                way = self.way._replace(asked=texts, points=Part(str(points)))
                found += latest(self.connection, self._behind(way), self.number - len(found))
            if len(found) >= self.number:
                break
            higher.append(asked)
        return found

    def _from_above(self) -> list[Row]:
        """Those that make so many points at least, then so many more of them that these are found soon; at last all."""
        most = sum(ladder.most for ladder in self.way.ladders)
        for less in self._steps():
            if self._may_be_behind(most - less):
                asked = [ladder.adding(ladder.most - less) for ladder in self.way.ladders]
                texts = tuple(one or every for one, every in zip(asked, self.way.asked, strict=True))
                higher = self._behind(self.way._replace(asked=texts))
                enough = higher._replace(text=f"{higher.text} AND f.points >= {most - less}")
                found = _first(self.connection, enough, _BEST_FIRST, self.number)
                if len(found) >= self.number:
                    return found
        return _first(self.connection, self._behind(self.way), _BEST_FIRST, self.number)

    def _steps(self) -> Iterator[int]:
        """How much less than the most is looked for."""
        lacking = sorted({ladder.most - points for ladder in self.way.ladders for points, _ in ladder.rungs})
        at = 0
        while at < len(lacking):
            yield lacking[at]
            at += max(1, at // 2)

    def _may_be_behind(self, points: int) -> bool:
        """Whether anything that makes so many points at least can stand behind the key."""
        return self.after is None or points <= -self.after[0]

    def _behind(self, way: Way) -> Found:
        """Those of what a way finds that stand behind the key."""
        found = way.found(self.state, self.query)
        text = f"SELECT f.number, f.id, f.newest, f.points FROM ({found.text}) f WHERE "
        if self.after is None:
            return Part(f"{text} true", found.given)
        points, newest, id_ = self.after
        later = "ROW(-f.points, -f.newest, f.id) > ROW(%s, %s, %s::bytea)"
        return Part(text + later, (*found.given, points, newest, id_.encode()))


def latest(connection: Connection[Any], found: Found, number: int) -> list[Row]:
    """The latest of what is found. Of few all are read; many are met soon among the latest of all. What the database
    expects of a lexeme that it does not know as common is no help."""
    few = found._replace(text=f"SELECT f.*, count(*) OVER () AS met FROM ({found.text} LIMIT {FEW + 1}) f")
    rows = _first(connection, few, _LATEST_FIRST, number, "f.met")
    if rows and rows[0][-1] > FEW:
        rows = _first(connection, found, _LATEST_FIRST, number)
    return [(one, id_, newest, points) for one, id_, newest, points, *_ in rows]


def _first(connection: Connection[Any], found: Part, order: str, number: int, *more: str) -> list[Any]:
    columns = ", ".join(("f.number", "f.id", "f.newest", "f.points", *more))
    statement = f"SELECT {columns} FROM ({found.text}) f ORDER BY {order} LIMIT %s"
    return connection.execute(statement.encode(), [*found.given, number], binary=True).fetchall()
