"""What one card changed of another, value by value: linear in their size, whatever they hold."""

from __future__ import annotations

import json
import re
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
_PLAIN = re.compile(r"[\w$@:/+-]+(?: [\w$@:/+-]+)*")
"""A name that reads like nothing but itself: without dots, brackets, quotes, backslashes and what looks like these."""


class Entry(NamedTuple):
    """A step into a list, by what tells the entry apart there, or by its number from 1 on."""

    name: str | int


Way = tuple[str | Entry, ...]
"""How a value is reached: by names of members and entries of lists. No two values of a card share one."""


class Difference(NamedTuple):
    """A value that is not what it was: `kind` is added, removed or changed, `where` is the way to it as text, in which
    names that could be taken for something else are quoted; `before` and `after` are JSON texts, "" for none."""

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


def _compared(old: dict[Way, str], new: dict[Way, str]) -> Iterator[Difference]:
    for way, value in new.items():
        if way not in old:
            yield Difference("added", _text(way), "", value)
        elif old[way] != value:
            yield Difference("changed", _text(way), old[way], value)
    for way, value in old.items():
        if way not in new:
            yield Difference("removed", _text(way), value, "")


def _values(body: bytes) -> dict[Way, str] | None:
    """Every value that holds no others, as JSON, by the way to it; None for too many, or too deep to be named."""
    try:
        card, _ = strict_json.loads(body)
    except CardError:
        return None
    found: dict[Way, str] = {}
    waiting: list[tuple[Way, int, Any]] = [((), 0, card)]
    while waiting:
        way, length, value = waiting.pop()
        size = len(value) if isinstance(value, (dict, list)) else 0
        if length > LONGEST_WHERE or len(found) + len(waiting) + size > MOST_VALUES:
            return None
        if size:
            inner = [((*way, step), length + len(_step(step)), each) for step, each in _inner(value)]
            waiting.extend(reversed(inner))
        else:
            found[way] = _json(value)
    return found


def _inner(value: dict[str, Any] | list[Any]) -> Iterator[tuple[str | Entry, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    else:
        names = _names(value)
        for number, each in enumerate(value):
            yield Entry(names[number] if names else number + 1), each


def _text(way: Way) -> str:
    return "".join(map(_step, way)).removeprefix(".")


def _step(step: str | Entry) -> str:
    """A step as it is shown. A name in digits is no number of an entry."""
    if isinstance(step, str):
        return f".{_quoted(step)}"
    name = step.name
    return f"[{json.dumps(name) if isinstance(name, str) and name.isdigit() else _quoted(str(name))}]"


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False)


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
