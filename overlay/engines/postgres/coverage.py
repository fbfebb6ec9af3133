"""How a short question is taken: see `overlay.search.coverage`."""

from __future__ import annotations

from typing import Any

from psycopg import Connection

from overlay.engines.postgres import lexemes
from overlay.engines.postgres.best import Best
from overlay.engines.postgres.layout import State
from overlay.engines.postgres.question import Ladder, Part, joined
from overlay.engines.postgres.ways import Way
from overlay.query import Query
from overlay.search.coverage import COVERED, ENOUGH, among, drive_out


def taken(connection: Connection[Any], state: State, query: Query, tried: list[Way]) -> list[Way]:
    """Of these ways those to try: of all words and then any, the second alone where it is not to be driven out."""
    if len(tried) < 2:
        return tried
    every, some = tried
    covering, best = (Best(connection, state, among(query), way, 1) for way in tried)
    most = ENOUGH if covering.is_any(ENOUGH) else covering.most()
    if drive_out(most, lambda points: best.is_any(points + 1)):
        return tried
    return [_covering(some, lexemes.every(every.asked))]


def _covering(some: Way, every: str) -> Way:
    """To hold what is asked for by `every` makes more points."""
    more = Part(f"CASE WHEN d.held @@ %s::tsquery THEN {COVERED} ELSE 0 END", (every,))
    ladder = Ladder(((COVERED, every),), exact=True)
    return some._replace(points=joined([some.points, more], " + "), ladders=(*some.ladders, ladder))
