"""Pages in the order of relevance: the best first, those near each other brought forward, or the latest; and places
kept for the most senior.

Only keys and numbers are looked for; what is shown of a page is read after that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from psycopg import Connection

from overlay.engines.postgres.best import Best, Numbered, first, keyed
from overlay.engines.postgres.layout import State
from overlay.engines.postgres.orders import BY_POINTS, BY_SENIORITY, BY_TIME_ALONE, Order, behind, sorted_by
from overlay.engines.postgres.question import Part
from overlay.engines.postgres.ways import Found, Way
from overlay.query import Query
from overlay.search.closeness import MOST, Closeness, Key, brought_near
from overlay.search.facts import EXACT
from overlay.search.kept import KEPT, PART, Kept, are_kept, concerns, least
from overlay.search.sorting import is_key


class Ranked(NamedTuple):
    """The first documents by their words alone, so many as are needed; how to find `later` ones, behind a key, and the
    most `senior` ones that make so many points at least."""

    total: int
    first: list[Numbered]
    later: Callable[[Key, int], list[Numbered]]
    senior: Callable[[int], list[Numbered]]


def page_of(
    connection: Connection[Any], state: State, query: Query, way: Way, ranked: Callable[[int], Ranked]
) -> tuple[int, list[Numbered]]:
    """How many are found, and the page of them. `ranked` is given how many of the first are needed."""
    after = query.after if query.after is not None and is_key("relevance", query.after) else None
    stop = 0 if after else query.offset + query.limit
    known = ranked(max(way.ahead, stop, MOST if way.closeness else 0))
    if not known.first:
        return known.total, []
    first, later, changed = known.first, known.later, dict[int, Key]()
    if way.closeness is not None:
        near = _brought_near(connection, state, first[:MOST], way.closeness)
        changed = {number: key for key, number in near}
        first, later = near + first[MOST:], partial(_behind_near, near, changed, known.later)

    def natural(start: int, limit: int) -> list[Numbered]:
        return first[start : start + limit]

    page, page_after = natural, later
    if are_kept(known.total) and concerns(query, way.ahead):
        senior = [(changed.get(number, key), number) for key, number in known.senior(least(-known.first[0][0][0]))]
        kept = Kept.of(natural(0, way.ahead), senior)
        page, page_after = partial(kept.page, natural), partial(kept.after, later)
    return known.total, page_after(after, query.limit) if after else page(query.offset, query.limit)


def _behind_near(
    near: list[Numbered], known: dict[int, Key], later: Callable[[Key, int], list[Numbered]], key: Key, limit: int
) -> list[Numbered]:
    """Those behind a key, where those that are `near` have other keys than `later` finds, before all others."""
    rows = [row for row in near if row[0] > key]
    if len(rows) < limit:
        rows += [row for row in later(key, limit + len(near)) if row[1] not in known]
    return rows[:limit]


def _brought_near(
    connection: Connection[Any], state: State, found: list[Numbered], closeness: Closeness
) -> list[Numbered]:
    """The best in the order that closeness puts them in."""
    statement = f"SELECT number, near FROM {state.schema}.items WHERE number = ANY(%s)"
    numbers = [number for _, number in found]
    near_of = dict(connection.execute(statement.encode(), [numbers], binary=True).fetchall())
    keys = brought_near(closeness, [key for key, _ in found], [near_of[number] for number in numbers])
    return sorted(zip(keys, numbers, strict=True), key=itemgetter(0))


def nearer(connection: Connection[Any], state: State, found: Found, closeness: Closeness) -> Found:
    """What is found, with what closeness adds to the points of the best."""
    best = of_few(connection, found, MOST).first
    made = {number: -points for (points, *_), number in best}
    near = _brought_near(connection, state, best, closeness)
    changed = [(number, -points) for (points, *_), number in near if -points != made[number]]
    if not changed:
        return found
    more = "unnest(%s::bigint[], %s::bigint[]) AS m(number, points)"
    columns = "f.number, f.id, f.newest, f.seniority, f.made, coalesce(m.points, f.points) AS points"
    text = f"SELECT {columns} FROM ({found.text}) f LEFT JOIN {more} USING (number)"
    return Part(text, (*found.given, [number for number, _ in changed], [made for _, made in changed]))


def of_many(connection: Connection[Any], state: State, query: Query, way: Way, total: int, number: int) -> Ranked:
    """Of more than are counted: the first of them are found without looking through all."""
    best = Best(connection, state, query, way, number)

    def later(key: Key, limit: int) -> list[Numbered]:
        return best._replace(number=limit, after=key).found()

    return Ranked(total, best.found(), later, partial(best.senior, KEPT))


def latest(connection: Connection[Any], found: Found, number: int, *, has_index: bool) -> Ranked:
    """Of what is found without words. What is ordered by an index, and too much to be told exactly, is not looked
    through."""
    if not has_index:
        return of_few(connection, found, number, BY_TIME_ALONE)
    some = of_few(connection, found._replace(text=f"{found.text} LIMIT {EXACT + 1}"), number, BY_TIME_ALONE)
    if some.total <= EXACT:
        return some

    def senior(_: int) -> list[Numbered]:
        rows = first(connection, found, BY_SENIORITY, KEPT, "f.newest")
        return keyed([(one, id_, points, newest) for one, id_, _, points, newest in rows])

    later = partial(_behind, connection, found, BY_TIME_ALONE)
    return Ranked(some.total, later(None, number), later, senior)


_KEYED = {BY_POINTS: "f.number, f.id, f.seniority, f.points", BY_TIME_ALONE: "f.number, f.id, f.points, f.newest"}
"""What keys are made of."""


def of_few(connection: Connection[Any], found: Found, number: int, order: Order = BY_POINTS) -> Ranked:
    """Of documents all of which are looked through."""
    columns, most = _KEYED[order], f"(SELECT {PART[0]} * max(points) / {PART[1]} FROM found)"
    statement = f"""
        WITH found AS MATERIALIZED ({found.text}), total AS (SELECT count(*) AS total FROM found),
        first AS (SELECT {columns}, NULL::bigint FROM found f ORDER BY {sorted_by(order)} LIMIT %s),
        senior AS (
            SELECT {columns}, row_number() OVER (ORDER BY {sorted_by(BY_SENIORITY)}) AS turn
            FROM found f WHERE f.points >= {most} ORDER BY turn LIMIT {KEPT}
        )
        SELECT total, first.* FROM total, first UNION ALL SELECT total, senior.* FROM total, senior
    """
    rows = connection.execute(statement.encode(), [*found.given, number], binary=True).fetchall()
    best = keyed([row for _, *row, turn in rows if turn is None])
    senior = sorted((row for row in rows if row[-1] is not None), key=itemgetter(-1))
    later = partial(_behind, connection, found, order)
    return Ranked(rows[0][0] if rows else 0, sorted(best), later, lambda _: keyed([row for _, *row, _ in senior]))


def _behind(connection: Connection[Any], found: Found, order: Order, key: Key | None, limit: int) -> list[Numbered]:
    """The first behind a key, or of all."""
    those = behind(order, key)
    statement = f"SELECT {_KEYED[order]} FROM ({found.text}) f WHERE {those.text} ORDER BY {sorted_by(order)} LIMIT %s"
    given = [*found.given, *those.given, limit]
    return keyed(connection.execute(statement.encode(), given, binary=True).fetchall())
