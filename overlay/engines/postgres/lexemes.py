"""The lexemes of a document's `tsvector`, and the `tsquery` that asks for them: exact strings, made here, never parsed.

A term stands with its level (`tpayment/3`); facts and the words of names stand beside terms, so that one look into the
GIN index answers words and filters together.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

_LONGEST = 200  # bytes of a lexeme; PostgreSQL takes 2,046


def term(text: str, level: int) -> str:
    """A term at a level."""
    return f"t{text}/{level}"


def fact(text: str) -> str:
    """A fact of `search.facts`; long ones, and those with a NUL, by their SHA-256."""
    raw = text.encode()
    if len(raw) > _LONGEST or b"\0" in raw:
        return f"h{sha256(raw).hexdigest()}"
    return f"f{text}"


def name(word: str) -> str:
    """A word of a name."""
    return f"n{word}"


def vector(lexemes: Iterable[str]) -> str:
    """The text of a `tsvector`."""
    return " ".join(map(quoted, lexemes))


def quoted(lexeme: str) -> str:
    """A lexeme as a `tsvector` or a `tsquery` writes it."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


def at(levels: Iterable[int], text: str) -> str:
    """Asks for a term at one of these levels. By the beginning that these have in common it would take three times as
    long: a GIN index then says of many documents no more than that they may hold it."""
    return either(quoted(term(text, level)) for level in levels)


def either(parts: Iterable[str]) -> str:
    """Asks for one of these at least."""
    return _joined(parts, " | ")


def every(parts: Iterable[str]) -> str:
    """Asks for all of these."""
    return _joined(parts, " & ")


def none(parts: Iterable[str]) -> str:
    """Asks for none of these."""
    return f"!{either(parts)}"


def _joined(parts: Iterable[str], by: str) -> str:
    given = list(dict.fromkeys(parts))
    return given[0] if len(given) == 1 else f"({by.join(given)})"
