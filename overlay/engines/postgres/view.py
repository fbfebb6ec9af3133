"""The words in use, as of a commit: held in memory, and brought up to date by what each commit changed."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from psycopg import Connection

from overlay.engines.postgres.layout import State
from overlay.search.vocabulary import Change, Vocabulary

KEPT = 1_000
"""Commits whose changes are kept; who is further behind counts anew."""

MOST_ROWS = 20_000
"""Strings that a commit changes and still tells one by one; of more, readers count anew."""


class View(NamedTuple):
    """What questions are planned with; `state` is None while there is no index."""

    state: State | None
    vocabulary: Vocabulary

    def is_of(self, state: State) -> bool:
        """Whether these are the words of a state, or of a moment later."""
        known = self.state
        return known is not None and known.generation == state.generation and known.commit >= state.commit


def moved_on(connection: Connection[Any], state: State, before: View) -> View | None:
    """The view of a later state that was read in the same snapshot, by what each commit since has told; `before` is
    given up. None where that is not told any more."""
    known = before.state
    if known is None or known.generation != state.generation:
        return None
    later = f"SELECT commit, listings, rows FROM {state.schema}.counts WHERE commit >= %s ORDER BY commit"
    first, *changes = connection.execute(later.encode(), [known.commit]).fetchall() or [(None, 0, None)]
    if first[0] != known.commit or any(rows is None for _, _, rows in changes):
        return None
    for _, listings, rows in changes:
        before.vocabulary.apply(listings, json.loads(rows))
    return View(state, before.vocabulary)


def counted(connection: Connection[Any], state: State) -> View:
    """The view of a state, by the counts of all words: a million listings take four seconds, and the server's limit for
    questions does not hold for them."""
    connection.execute(b"SET LOCAL statement_timeout = 0")
    columns, used = "word, surfaces, terms, levels", "surfaces > 0 OR terms > 0"
    # in the order of bytes, which is that of code points
    statement = f"SELECT {columns} FROM {state.schema}.words WHERE {used} ORDER BY word"
    rows = connection.execute(statement.encode(), binary=True).fetchall()
    return View(state, Vocabulary.counted(state.listings, rows))


def keep(connection: Connection[Any], state: State, change: Change) -> None:
    """Write what a commit changes in the counts: `state` is the new one."""
    rows = change.rows()
    told = json.dumps(rows, ensure_ascii=False, separators=(",", ":")) if len(rows) <= MOST_ROWS else None
    kept = f"INSERT INTO {state.schema}.counts VALUES (%s, %s, %s)"
    connection.execute(kept.encode(), [state.commit, change.listings, told])
    if rows:
        _add(connection, state, rows)
    old = f"DELETE FROM {state.schema}.counts WHERE commit < (SELECT min(commit) FROM (SELECT commit FROM {state.schema}.counts ORDER BY commit DESC LIMIT %s) AS kept)"  # noqa: E501
    connection.execute(old.encode(), [KEPT])


def _add(connection: Connection[Any], state: State, rows: list[tuple[str, int, int, int]]) -> None:
    """Sorted, so that equal changes touch the same pages in the same order."""
    words, surfaces, terms, levels = (list(column) for column in zip(*sorted(rows), strict=True))
    added = f"""
        INSERT INTO {state.schema}.words AS w
        SELECT * FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::integer[])
        ON CONFLICT (word) DO UPDATE SET surfaces = w.surfaces + excluded.surfaces,
            terms = w.terms + excluded.terms, levels = w.levels | excluded.levels
    """
    connection.execute(added.encode(), [words, surfaces, terms, levels])
    gone = [word for word, surface, term, _ in rows if surface < 0 or term < 0]
    if gone:
        unused = f"DELETE FROM {state.schema}.words WHERE word = ANY(%s) AND surfaces <= 0 AND terms <= 0"
        connection.execute(unused.encode(), [gone])
