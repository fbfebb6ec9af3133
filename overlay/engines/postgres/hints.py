"""What completions look up in PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import Any

from psycopg import Connection

from overlay.engines.postgres import lexemes
from overlay.engines.postgres.best import senior
from overlay.engines.postgres.layout import State
from overlay.engines.postgres.question import Part
from overlay.search.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Hints:
    """See `overlay.search.suggesting.Hinting`. The connection reads one snapshot; `planning` is held while the words in
    use are read."""

    connection: Connection[Any]
    state: State
    vocabulary: Vocabulary
    planning: Lock

    def completions(self, beginning: str, limit: int) -> list[str]:
        """The commonest words that begin so."""
        with self.planning:
            return self.vocabulary.completions(beginning, limit)

    def beginning(self, prefix: str, limit: int) -> list[tuple[str, int]]:
        """The commonest hints that begin so."""
        statement = f"""
            SELECT hint, listings FROM {self.state.schema}.hints WHERE hint >= %s AND hint < %s
            ORDER BY listings DESC, hint LIMIT %s
        """
        raw = prefix.encode()
        rows = self.connection.execute(statement.encode(), [raw, raw + b"\xff", limit], binary=True)
        return [(hint.decode(), listings) for hint, listings in rows]

    def is_given(self, hint: str) -> bool:
        """Whether a listing has a hint: those that none has are not kept."""
        statement = f"SELECT FROM {self.state.schema}.hints WHERE hint = %s AND listings > 0"
        return self.connection.execute(statement.encode(), [hint.encode()]).fetchone() is not None

    def named(self, every: list[str], either: list[str], limit: int) -> list[tuple[str, bytes]]:
        """The most senior listings with such names."""
        words = [lexemes.quoted(lexemes.name(word)) for word in every]
        words.append(lexemes.either(lexemes.quoted(lexemes.name(word)) for word in either))
        s = self.state.schema
        columns = "d.number, d.id, d.seniority, 0 AS points"
        named = f"SELECT {columns} FROM {s}.documents d WHERE d.listed AND d.held @@ %s::tsquery"
        found = senior(self.connection, Part(named, (lexemes.every(words),)), limit)
        items = f"SELECT number, item FROM {s}.items WHERE number = ANY(%s)"
        given = [[number for number, *_ in found]]
        item_of = dict(self.connection.execute(items.encode(), given, binary=True).fetchall())
        return [(id_.decode(), item_of[number]) for number, id_, *_ in found]
