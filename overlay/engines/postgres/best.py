"""The best of more documents than are counted: looked for from the top, so that few of them are looked at.

Computing the points of each of the 67,000 of a million listings that hold a common word takes 300 ms, those of all that
hold any word of a description five seconds, and nearly all of that is for reading them. The GIN index tells, without
reading any, which of them can have so many points at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from psycopg import Connection

from overlay.engines.postgres import lexemes
from overlay.engines.postgres.layout import State
from overlay.engines.postgres.orders import BY_POINTS, BY_SENIORITY, Order, behind, sorted_by
from overlay.engines.postgres.question import Ladder, Part
from overlay.engines.postgres.ways import Found, Way
from overlay.query import Query
from overlay.search.closeness import Key

Row = tuple[int, bytes, int, int]
Numbered = tuple[Key, int]
"""A document by its key in the order of points, and its number."""

FEW = 2_000
"""Documents that are read (10 ms) to find the most senior or the best among them."""
_PARTS = (0.85, 0.7, 0.55, 0.4, 0.25, 0.1)
"""Parts of the most points that any could have, tried one after the other until enough documents have them."""
_STEPS = {1: 6, 2: 6, 3: 4}  # different points of each of so many words that are told apart (measured); else one
_TOLD_APART = 7  # words of a question that are told apart (measured)
_LONGEST = 50_000  # characters that the index is asked


class Best(NamedTuple):
    """What is looked for in one snapshot: `number` documents of what a way finds, behind a key if one is given."""

    connection: Connection[Any]
    state: State
    query: Query
    way: Way
    number: int
    after: Key | None = None

    def found(self) -> list[Numbered]:
        """Their keys and numbers, in order."""
        one = self.way.ladders[0]
        rows = self._by_rungs(one) if len(self.way.ladders) == 1 and one.exact else self._from_above()
        return keyed(rows)

    def senior(self, number: int, least: int) -> list[Numbered]:
        """So many of the most senior that make so many points at least."""
        return keyed(senior(self.connection, self._making(least), number))

    def most(self) -> int:
        """The points of the first of them; 0 for nothing."""
        return next((-points for (points, *_), _ in self.found()), 0)

    def is_any(self, least: int) -> bool:
        """Whether any makes so many points."""
        found = self._making(least)
        statement = f"SELECT FROM ({found.text}) f LIMIT 1"
        return bool(self.connection.execute(statement.encode(), found.given, binary=True).fetchall())

    def _making(self, least: int) -> Found:
        found = self._reaching(least).found(self.state, self.query)
        text = f"SELECT f.number, f.id, f.seniority, f.points FROM ({found.text}) f WHERE f.points >= %s"
        return Part(text, (*found.given, least))

    def _by_rungs(self, ladder: Ladder) -> list[Row]:
        """Rung by rung: all on one make the same points, so the most senior of them are the best."""
        found: list[Row] = []
        higher: list[str] = []
        for points, asked in ladder.rungs:
            if self._may_be_behind(points):
                texts = (asked, lexemes.none(higher)) if higher else (asked,)
                way = self.way._replace(asked=texts, points=Part(str(points)))
                found += senior(self.connection, self._behind(way), self.number - len(found))
            if len(found) >= self.number:
                break
            higher.append(asked)
        return found

    def _from_above(self) -> list[Row]:
        """Some that can have many points tell how many the best have at least; then all that can have these."""
        most = sum(ladder.most for ladder in self.way.ladders)
        before = None
        for least in (int(part * most) for part in _PARTS if self.number <= FEW):
            way = self._reaching(least)
            if way is self.way:
                break
            if way == before or not self._may_be_behind(least):
                continue
            before = way
            rows = first(self.connection, _few(self._behind(way)), BY_POINTS, self.number, "f.met")
            if rows and len(rows) == self.number:
                *_, reached, met = rows[-1]
                if met <= FEW and reached >= least:
                    return [(number, id_, seniority, points) for number, id_, seniority, points, _ in rows]
                return first(self.connection, self._behind(self._reaching(reached)), BY_POINTS, self.number)
        return first(self.connection, self._behind(self.way), BY_POINTS, self.number)

    def _reaching(self, least: int) -> Way:
        """The same way to those that can have so many points."""
        asked = reaching(self.way.ladders, least, every=self.way.every)
        if asked is None:
            return self.way
        return self.way._replace(asked=(*self.way.asked, asked) if self.way.every else (asked,))

    def _may_be_behind(self, points: int) -> bool:
        """Whether anything that makes so many points at least can stand behind the key."""
        return self.after is None or points <= -self.after[0]

    def _behind(self, way: Way) -> Found:
        """Those of what a way finds that stand behind the key."""
        found, later = way.found(self.state, self.query), behind(BY_POINTS, self.after)
        text = f"SELECT f.number, f.id, f.seniority, f.points FROM ({found.text}) f WHERE {later.text}"
        return Part(text, (*found.given, *later.given))


def reaching(ladders: Sequence[Ladder], least: int, *, every: bool) -> str | None:
    """Asks for the documents whose words can add up to so many points, and some others; None for all. With `every`
    only of those is told that hold every word."""
    number = _STEPS.get(len(ladders), 1)
    words = sorted((each.steps(number) for each in ladders if each.rungs), key=lambda steps: -steps[0][0])
    left = [sum(steps[0][0] for steps in words[at:]) for at in range(len(words) + 1)]

    def asked(at: int, more: int) -> str | None:
        """What those must hold of the words from `at` on who need so many `more` points: "" for whatever it is, None
        where they cannot have so many."""
        if more > left[at]:
            return None
        if more <= 0 or at == _TOLD_APART:
            return ""
        thens = [(held, asked(at + 1, more - points)) for points, held in words[at]]
        without = thens[-1][1] if every else asked(at + 1, more)
        if without == "":
            return ""
        ways = [lexemes.every((held, then)) if then else held for held, then in thens if then is not None]
        return lexemes.either([*ways, without] if without and not every else ways)

    found = asked(0, least)
    return found if found and len(found) <= _LONGEST else None


def senior(connection: Connection[Any], found: Found, number: int) -> list[Row]:
    """The most senior of what is found. Of few all are read; many are met soon among the most senior of all. What the
    database expects of a lexeme that it does not know as common is no help."""
    rows = first(connection, _few(found), BY_SENIORITY, number, "f.met")
    if rows and rows[0][-1] > FEW:
        rows = first(connection, found, BY_SENIORITY, number)
    return [(one, id_, seniority, points) for one, id_, seniority, points, *_ in rows]


def keyed(rows: Sequence[Sequence[Any]]) -> list[Numbered]:
    """Documents in the order of points, from their numbers, ids, seniority and points."""
    return [((-points, -seniority, id_.decode()), number) for number, id_, seniority, points in rows]


def _few(found: Found) -> Found:
    """Some of what is found, with their number, which is `FEW` or less where they are all."""
    return found._replace(text=f"SELECT f.*, count(*) OVER () AS met FROM ({found.text} LIMIT {FEW + 1}) f")


def first(connection: Connection[Any], found: Found, order: Order, number: int, *more: str) -> list[Any]:
    """The first of what is found: numbers, ids, seniority, points, and `more` columns."""
    columns = ", ".join(("f.number", "f.id", "f.seniority", "f.points", *more))
    statement = f"SELECT {columns} FROM ({found.text}) f ORDER BY {sorted_by(order)} LIMIT %s"
    return connection.execute(statement.encode(), [*found.given, number], binary=True).fetchall()
