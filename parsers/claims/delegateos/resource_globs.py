"""Resource patterns of DelegateOS (§10.2): `*` is one segment of a path, `**` any number; `*` alone is anything.

A trailing `**` takes at least one segment: `/project/**` is not `/project`. Paths with segments `.` and `..` are
matched as they are written, and are no part of another pattern.
"""

from __future__ import annotations

from collections.abc import Iterable

MAX_SEGMENTS, MAX_STATES = 64, 4_096
"""Segments of a pattern, and states that a comparison of two may take; beyond, nothing matches."""

_OTHER = "\0"
"""A segment that no pattern names."""


def _segments(pattern: str) -> tuple[str, ...]:
    return ("**",) if pattern == "*" else tuple(pattern.split("/"))


def _step(pattern: tuple[str, ...], positions: frozenset[int], segment: str) -> frozenset[int]:
    """Where in a pattern one may be after a segment, from where one may be before it."""
    after = set()
    for position in _closed(pattern, positions):
        if position == len(pattern):
            continue
        if pattern[position] == "**":
            after |= {position, position + 1}
        elif pattern[position] in ("*", segment):
            after.add(position + 1)
    return frozenset(after)


def _closed(pattern: tuple[str, ...], positions: Iterable[int]) -> set[int]:
    """The positions, and those after a `**` that takes no segment, which the last one does not."""
    reached = set()
    for position in positions:
        reached.add(position)
        while position < len(pattern) - 1 and pattern[position] == "**":
            position += 1
            reached.add(position)
    return reached


_START = frozenset((0,))


def matches(pattern: str, resource: str) -> bool:
    """Whether a pattern matches a resource."""
    parts, segments = _segments(pattern), resource.split("/")
    if pattern == resource or parts == ("**",):
        return True
    if len(parts) > MAX_SEGMENTS or len(segments) > MAX_SEGMENTS:
        return False
    positions = _START
    for segment in segments:
        positions = _step(parts, positions, segment)
    return len(parts) in positions


def is_part(child: str, parent: str) -> bool:
    """Whether everything that a pattern matches is matched by its parent."""
    inner, outer = _segments(child), _segments(parent)
    if child == parent or outer == ("**",):
        return True
    if max(len(inner), len(outer)) > MAX_SEGMENTS or {".", ".."} & set(inner):
        return False
    alphabet = {segment for segment in (*inner, *outer) if segment not in ("*", "**")} | {_OTHER}
    todo = [(_START, _START)]
    seen = set(todo)
    while todo:
        inside, outside = todo.pop()
        if len(inner) in inside and len(outer) not in outside:
            return False
        for segment in alphabet:
            following = _step(inner, inside, segment), _step(outer, outside, segment)
            if following[0] and following not in seen:
                if len(seen) >= MAX_STATES:
                    return False
                seen.add(following)
                todo.append(following)
    return True
