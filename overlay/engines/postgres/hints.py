"""What completions look up in PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import Any

from psycopg import Connection

from overlay.engines.postgres import lexemes
from overlay.engines.postgres.layout import State
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
        """The newest listings with such names."""
        words = [lexemes.quoted(lexemes.name(word)) for word in every]
        words.append(lexemes.either(lexemes.quoted(lexemes.name(word)) for word in either))
        s = self.state.schema
        statement = f"""
            SELECT d.id, i.item FROM (
                SELECT number, id, newest FROM {s}.documents WHERE held @@ %s::tsquery
                ORDER BY newest DESC, id LIMIT %s
            ) AS d JOIN {s}.items i USING (number) ORDER BY d.newest DESC, d.id
        """
        rows = self.connection.execute(statement.encode(), [lexemes.every(words), limit], binary=True)
        return [(id_.decode(), item) for id_, item in rows]
