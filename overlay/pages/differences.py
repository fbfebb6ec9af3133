"""What one card changed of another, value by value: linear in their size, whatever they hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

from parsers import strict_json
from parsers.errors import CardError

MOST_VALUES = 4_000
"""Values of a card that are compared; of a larger one it is only said that it is another."""

LONGEST_WHERE = 500
"""Characters of the way to a value."""

_NAMES = ("id", "name")
_SHORT = 60


class Difference(NamedTuple):
    """A value that is not what it was: `kind` is added, removed or changed, `where` leads to it by names and numbers;
    `before` and `after` are JSON texts, "" for none."""

    kind: str
    where: str
    before: str
    after: str


def differences(before: bytes, after: bytes) -> list[Difference] | None:
    """The differences of two cards in the order of the later one, what is gone last; None where either is no JSON or
    too large to be compared."""
    old, new = _values(before), _values(after)
    if old is None or new is None:
        return None
    return list(_compared(old, new))


def _compared(old: dict[str, str], new: dict[str, str]) -> Iterator[Difference]:
    for where, value in new.items():
        if where not in old:
            yield Difference("added", where, "", value)
        elif old[where] != value:
            yield Difference("changed", where, old[where], value)
    for where, value in old.items():
        if where not in new:
            yield Difference("removed", where, value, "")


def _values(body: bytes) -> dict[str, str] | None:
    """Every value that holds no others, as JSON, by where it stands; None for too many, or too deep to be named."""
    try:
        card, _ = strict_json.loads(body)
    except CardError:
        return None
    found: dict[str, str] = {}
    waiting: list[tuple[str, Any]] = [("", card)]
    while waiting:
        where, value = waiting.pop()
        size = len(value) if isinstance(value, (dict, list)) else 0
        if len(where) > LONGEST_WHERE or len(found) + len(waiting) + size > MOST_VALUES:
            return None
        if size:
            waiting.extend(reversed(list(_inner(where, value))))
        else:
            found[where] = _json(value)
    return found


def _inner(where: str, value: dict[str, Any] | list[Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        dot = f"{where}." if where else ""
        yield from ((f"{dot}{key}", each) for key, each in value.items())
    else:
        names = _names(value)
        for number, each in enumerate(value):
            yield f"{where}[{names[number] if names else number + 1}]", each


def _names(values: list[Any]) -> list[str]:
    """What tells the entries of a list apart wherever they stand: an id or name that each has; or none."""
    if all(isinstance(each, str) and len(each) <= _SHORT for each in values) and len(set(values)) == len(values):
        return values
    for member in _NAMES:
        names = [each.get(member) if isinstance(each, dict) else None for each in values]
        if all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
            return [str(name) for name in names]
    return []


def _json(value: Any) -> str:
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)
