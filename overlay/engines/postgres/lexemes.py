"""The lexemes of a document's `tsvector`, and the `tsquery` that asks for them: exact strings, made here, never parsed.

A term stands with its level (`tpayment/3`), so that one prefix asks for it at any level; facts and the words of names
stand beside terms, so that one look into the GIN index answers words and filters together.
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


def at_any_level(text: str) -> str:
    """Asks for a term."""
    return quoted(f"t{text}/") + ":*"


def either(parts: Iterable[str]) -> str:
    """Asks for one of these at least."""
    return _joined(parts, " | ")


def every(parts: Iterable[str]) -> str:
    """Asks for all of these."""
    return _joined(parts, " & ")


def _joined(parts: Iterable[str], by: str) -> str:
    given = list(dict.fromkeys(parts))
    return given[0] if len(given) == 1 else f"({by.join(given)})"
