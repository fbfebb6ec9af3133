"""A step line as SVG: drawn by the server, described in words for screen readers, of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, groupby
from typing import NamedTuple

from markupsafe import Markup

from overlay.text.safe_text import visible

WIDTH, HEIGHT, MARGIN = 160, 100, 4
"""Units of the box, which the style sheet stretches, and the units above and below the line. Points within one unit of
time are drawn as a vertical line over all their values, so that a path has at most 2,600 bytes."""

_SVG = Markup(
    '<svg class="chart" viewBox="0 0 {width} {height}" preserveAspectRatio="none" role="img"'
    ' aria-labelledby="{name}-title {name}-text"><title id="{name}-title">{title}</title> '
    '<desc id="{name}-text">{text}</desc><path d="{path}"/></svg>'
)


class Drawing(NamedTuple):
    """A line with the labels around it: the values at the top and the bottom ("" where all are `high`), and the times
    at both ends."""

    caption: str
    svg: Markup
    high: str
    low: str
    since: str
    until: str


class Point(NamedTuple):
    """A value from a time on (seconds since 1970), until that of the next point; None where it is not known."""

    time: int
    value: int | Fraction | None


def line_chart(points: Sequence[Point], *, name: str, title: str, text: str, floor: int | None = None) -> Markup:
    """The line of these points in order; a time before that of the last point counts as equal to it. `name` is the
    prefix of ids, unique in a page. The least value is at the bottom, or `floor` where that is less; a value that never
    changes is in the middle."""
    path = "".join(_commands(points, floor))
    return _SVG.format(
        width=WIDTH, height=HEIGHT, name=name, title=visible(title), text=visible(text), path=path or "M0 0"
    )


def _commands(points: Sequence[Point], floor: int | None) -> Iterator[str]:
    """The line as path commands: to the last point, or over the whole width where all times are equal."""
    level: int | None = None
    for x, levels, is_known in _columns(points, floor):
        if level is None and levels:
            level = levels[0]
            yield f"M{x} {level}"
        elif level is not None and ({*levels} != {level} or not is_known):
            yield f"H{x}"
        for y in levels:
            if y != level:
                yield f"V{y}"
            level = y
        if not is_known:
            if levels:
                yield f"H{x}"  # a value that holds for less than a unit is a dot
            level = None
    if level is not None:
        yield f"H{WIDTH}"


def _columns(points: Sequence[Point], floor: int | None) -> Iterator[tuple[int, list[int], bool]]:
    """The y of points for each x: least, greatest and last, and whether the last value is known."""
    values = [point.value for point in points if point.value is not None]
    if not values:
        return
    high, low = max(values), min(values)
    if high == low:
        high, low = high + 1, low - 1
    elif floor is not None:
        low = min(low, floor)
    times = list(accumulate((point.time for point in points), max))
    xs = (_scaled(time - times[0], times[-1] - times[0], WIDTH) for time in times)
    for x, column in groupby(zip(xs, points, strict=True), key=lambda pair: pair[0]):
        shown = [point.value for _, point in column]
        levels = [
            MARGIN + _scaled(high - value, high - low, HEIGHT - 2 * MARGIN) for value in shown if value is not None
        ]
        yield x, [min(levels), max(levels), levels[-1]] if levels else [], shown[-1] is not None


def _scaled(part: int | Fraction, whole: int | Fraction, length: int) -> int:
    """A part of the whole as units of a length, to the nearest one; 0 where the whole is nothing."""
    return int((2 * length * part + whole) // (2 * whole)) if whole else 0
