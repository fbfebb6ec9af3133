"""Resource patterns of DelegateOS (§10.2): `*` is one segment of a path, `**` zero or more; `*` alone is anything.

`/project/**` covers `/project`, too. Paths with segments `.` and `..` are matched as they are written, and are not part
of another pattern.
"""

from __future__ import annotations

from collections.abc import Iterable

from parsers.claims.canonical_json import DocumentError

MAX_SEGMENTS, MAX_STEPS = 64, 25_000
"""Segments of a pattern, beyond which nothing matches, and steps (about 1 µs) that all comparisons for one token
may take together."""


class GlobBudget:
    """Counts the steps of comparisons."""

    __slots__ = ("_left",)

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self._left = steps

    def take(self, steps: int) -> None:
        """Use up some steps. Raises DocumentError (patterns-too-costly) when none are left."""
        self._left -= steps
        if self._left < 0:
            detail = f"comparing the resource patterns takes more than {MAX_STEPS:,} steps"
            raise DocumentError("patterns-too-costly", detail)


_OTHER = "/"
"""A segment that no pattern names, as no segment has a slash."""


def _segments(pattern: str) -> tuple[str, ...]:
    return ("**",) if pattern == "*" else tuple(pattern.split("/"))


def _start(pattern: tuple[str, ...]) -> frozenset[int]:
    """Where in a pattern one may be before any segment."""
    return _closed(pattern, (0,))


def _step(pattern: tuple[str, ...], positions: frozenset[int], segment: str, budget: GlobBudget) -> frozenset[int]:
    """Where in a pattern one may be after a segment, from where one may be before it."""
    budget.take(2 + len(positions))
    after = set()
    for position in positions:
        if position == len(pattern):
            continue
        if pattern[position] == "**":
            after.add(position)
        elif pattern[position] in ("*", segment):
            after.add(position + 1)
    return _closed(pattern, after)


def _closed(pattern: tuple[str, ...], positions: Iterable[int]) -> frozenset[int]:
    """The positions, and those after a `**` that takes no segment."""
    reached: set[int] = set()
    for start in positions:
        position = start
        while position not in reached:
            reached.add(position)
            position += position < len(pattern) and pattern[position] == "**"
    return frozenset(reached)


_CHARACTERS_A_STEP = 64


def matches(pattern: str, resource: str, budget: GlobBudget | None = None) -> bool:
    """Whether a pattern matches a resource. Raises DocumentError where the budget does not suffice."""
    budget = budget or GlobBudget()
    budget.take(1 + (len(pattern) + len(resource)) // _CHARACTERS_A_STEP)
    parts, segments = _segments(pattern), resource.split("/")
    if pattern == resource or parts == ("**",):
        return True
    if len(parts) > MAX_SEGMENTS or len(segments) > MAX_SEGMENTS:
        return False
    positions = _start(parts)
    for segment in segments:
        positions = _step(parts, positions, segment, budget)
    return len(parts) in positions


def is_part(child: str, parent: str, budget: GlobBudget | None = None) -> bool:
    """Whether everything that a pattern matches is matched by its parent. Raises DocumentError where the budget
    does not suffice."""
    budget = budget or GlobBudget()
    budget.take(4 + (len(child) + len(parent)) // _CHARACTERS_A_STEP)
    inner, outer = _segments(child), _segments(parent)
    if child == parent or outer == ("**",):
        return True
    if max(len(inner), len(outer)) > MAX_SEGMENTS or {".", ".."} & set(inner) or _differ(inner, outer):
        return False
    alphabet = {segment for segment in (*inner, *outer) if segment not in ("*", "**")} | {_OTHER}
    todo = [(_start(inner), _start(outer))]
    seen = set(todo)
    while todo:
        inside, outside = todo.pop()
        for segment in alphabet:
            following = _step(inner, inside, segment, budget), _step(outer, outside, segment, budget)
            if len(inner) in following[0] and len(outer) not in following[1]:
                return False
            if following[0] and following not in seen:
                seen.add(following)
                todo.append(following)
    return True


def _differ(inner: tuple[str, ...], outer: tuple[str, ...]) -> bool:
    """Whether two patterns have different segments where no `**` is ahead, which most pairs do."""
    for inner_part, outer_part in zip(inner, outer, strict=False):
        if "**" in (inner_part, outer_part):
            return False
        if outer_part not in ("*", inner_part):
            return True
    return False
