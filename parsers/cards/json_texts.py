"""The texts of a JSON value, each with its name and its place, without recursion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from parsers.cards.strict_json import step

_PUBLIC = frozenset(("signature", "signatures", "proof"))
"""Members that are made to be public: not searched."""

_SETTINGS = frozenset(("env", "environment", "headers"))
_COMMANDS = frozenset(("args", "command"))

_Steps = tuple[Any, ...]
"""Nested pairs of the steps to a holder and the step from it: pointers are written only where they are needed."""


class JsonText(NamedTuple):
    """A text, or the list of a command's arguments. `name` is that of the member that holds it; `is_setting`: it
    configures a program."""

    value: str | list[Any]
    name: str
    is_setting: bool
    base: str
    steps_to: _Steps

    @property
    def pointer(self) -> str:
        """The JSON pointer of the text (RFC 6901)."""
        steps, steps_to = [], self.steps_to
        while steps_to:
            steps_to, last = steps_to
            steps.append(last)
        pointer = self.base
        for name in reversed(steps):
            pointer = step(pointer, name)
        return pointer


def texts_of(value: Any, pointer: str = "") -> Iterator[JsonText]:
    """The texts of a JSON value at a pointer, in its order, without signatures."""
    todo: list[tuple[_Steps, Any, str, bool]] = [((), value, "", False)]
    while todo:
        steps_to, item, name, is_setting = todo.pop()
        if item.__class__ is str or (item.__class__ is list and name in _COMMANDS):
            yield JsonText(item, name, is_setting, pointer, steps_to)
        elif item.__class__ is dict:
            todo += (
                ((steps_to, key), item[key], key, is_setting or key in _SETTINGS)
                for key in reversed(item)
                if key not in _PUBLIC and item[key]
            )
        elif item.__class__ is list:
            todo += (((steps_to, number), item[number], name, is_setting) for number in range(len(item) - 1, -1, -1))
