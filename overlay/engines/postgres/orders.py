"""The orders of what is found (`ways.Found`, called `f`), as SQL: to sort by, and to say what stands behind a key."""

from __future__ import annotations

from typing import Any

from overlay.engines.postgres.question import Part
from overlay.search.sorting import LATEST

Key = tuple[Any, ...]
Order = tuple[tuple[str, bool], ...]
"""Columns, the last of them text, and whether the highest stand first; together unique."""

BY_TIME: Order = (("f.newest", True), ("f.id", False))
BY_SENIORITY: Order = (("f.seniority", True), ("f.id", False))
BY_POINTS: Order = (("f.points", True), *BY_SENIORITY)
BY_TIME_ALONE: Order = (("f.newest", True), ("f.points", True), ("f.id", False))
"""Without words, when no points are made: keys are of the same kind as by points."""
ORDERS: dict[str, Order] = {
    "relevance": BY_POINTS,
    LATEST: BY_TIME_ALONE,
    "updated": BY_TIME,
    "created": (("f.made", True), ("f.id", False)),
    "name": (("i.name", False),),
}
"""By the sorts of a query."""


def sorted_by(order: Order, *, reverse: bool = False) -> str:
    """What stands behind ORDER BY."""
    return ", ".join(f"{name} {'DESC' if down != reverse else 'ASC'}" for name, down in order)


def behind(order: Order, after: Key | None, *, reverse: bool = False) -> Part:
    """What stands behind a key, whose numbers are turned around so that they rise; all without one."""
    if after is None:
        return Part("true")
    names = ", ".join(f"-{name}" if down else name for name, down in order)
    marks = ", ".join("%s::numeric" if down else "%s::bytea" for _, down in order)
    given = tuple(value if down else value.encode() for value, (_, down) in zip(after, order, strict=True))
    return Part(f"ROW({names}) {'<' if reverse else '>'} ROW({marks})", given)
