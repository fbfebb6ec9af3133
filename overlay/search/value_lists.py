"""Lists of filter values, separated by commas. A comma may be part of a tag or a skill's id: then the index decides."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain
from typing import Any

from overlay.search.query import Query
from parsers.cards.intervals import meant

_BETWEEN_INTERVALS = re.compile("(?<![0-9]),|,(?![0-9])")
LISTED = ("tags", "skills")
"""The members of a query with values that may contain commas."""


def parts(text: str) -> list[str]:
    """The values of a list; the text itself where it has nothing but commas."""
    return [part for part in map(str.strip, text.split(",")) if part] or [text]


def interval_parts(text: str) -> list[str]:
    """The intervals of a list. A comma between digits is a decimal sign, and one in a text that is not understood is
    part of it."""
    listed = [part for part in map(str.strip, _BETWEEN_INTERVALS.split(text)) if part]
    return listed if listed and all(map(meant, listed)) else [text]


def has_lists(query: Query) -> bool:
    """Whether a tag or skill of a query may be a list."""
    return any("," in value for value in (*query.tags, *query.skills))


def resolved(query: Query, is_in_use: Callable[[str, str], bool]) -> Query:
    """The query in which a list is replaced by its values, unless a listing has the whole text as its value:
    `is_in_use` takes a member of `LISTED` and a value."""
    if not has_lists(query):
        return query
    members: dict[str, Any] = {}
    for name in LISTED:
        values = getattr(query, name)
        split = ([value] if "," not in value or is_in_use(name, value) else parts(value) for value in values)
        members[name] = tuple(dict.fromkeys(chain.from_iterable(split)))
    return query._replace(**members)
