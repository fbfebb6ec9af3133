"""Lines drawn as SVG: whatever the points are, the picture is well-formed, inside its box, and shows every extreme."""

from __future__ import annotations

import re
from collections import defaultdict
from fractions import Fraction
from itertools import accumulate
from xml.etree import ElementTree

from hypothesis import example, given
from hypothesis import strategies as st

from overlay.web.line_chart import HEIGHT, MARGIN, WIDTH, Point, line_chart

amounts = st.integers(-9, 9) | st.integers() | st.fractions() | st.sampled_from([10**500, Fraction(1, 10**500)])
points = st.lists(st.builds(Point, st.integers(0, 400) | st.integers(), st.none() | amounts), max_size=60)
words = st.text(st.characters(exclude_characters="\ufffe\uffff"))  # of which XML has no spelling
SVG = "{http://www.w3.org/2000/svg}"


def parsed(markup: str) -> ElementTree.Element:
    return ElementTree.fromstring(str(markup).replace("<svg ", f'<svg xmlns="{SVG[1:-1]}" '))  # noqa: S314 - of our own making


def path_of(series: list[Point], floor: int | None = None) -> str:
    path = parsed(line_chart(series, name="x", title="t", text="d", floor=floor)).find(f"{SVG}path")
    assert path is not None
    return path.attrib["d"]


def drawn(path: str) -> dict[int, set[int]]:
    """The units of each column that a path covers: a slow walk over every unit of it."""
    covered: defaultdict[int, set[int]] = defaultdict(set)
    x = y = 0
    for command, first, second in re.findall(r"([MHV])(\d+)(?: (\d+))?", path):
        ends = {"M": (int(first), int(second or 0)), "H": (int(first), y), "V": (x, int(first))}[command]
        if command == "M":
            assert not covered or ends[0] >= x
            x, y = ends
        assert ends[0] >= x, "a line goes back in time"
        for column in range(x, ends[0] + 1):
            for unit in range(min(y, ends[1]), max(y, ends[1]) + 1):
                covered[column].add(unit)
        x, y = ends
    return covered


def nearest(part: Fraction, length: int) -> int:
    """A part of 1 as a number of units, halves rounded up."""
    return int((part * length + Fraction(1, 2)) // 1)


@given(points, words, words, st.none() | st.integers(-3, 3))
@example([], "", "", None)
@example([Point(0, 10**500), Point(0, Fraction(1, 10**500))], "<&\"'>", "\x00", None)
def test_any_line_is_well_formed_and_inside_its_box(
    series: list[Point], title: str, text: str, floor: int | None
) -> None:
    svg = parsed(line_chart(series, name="line", title=title, text=text, floor=floor))
    assert svg.tag == f"{SVG}svg"
    assert svg.attrib["role"] == "img"
    ids = [child.attrib["id"] for child in svg if child.tag in (f"{SVG}title", f"{SVG}desc")]
    assert svg.attrib["aria-labelledby"].split() == ids == ["line-title", "line-text"]
    path = path_of(series, floor)
    assert re.fullmatch(r"M\d+ \d+(?:[HV]\d+|M\d+ \d+)*", path)
    for column, units in drawn(path).items():
        assert 0 <= column <= WIDTH
        assert path == "M0 0" or (min(units) >= MARGIN and max(units) <= HEIGHT - MARGIN)


@given(points, st.none() | st.integers(-3, 3))
def test_every_value_is_on_the_line_where_its_time_is(series: list[Point], floor: int | None) -> None:
    covered = drawn(path_of(series, floor))
    numbers = [Fraction(point.value) for point in series if point.value is not None]
    times = list(accumulate((point.time for point in series), max))
    for time, point in zip(times, series, strict=True):
        if point.value is None:
            continue
        column = nearest(Fraction(time - times[0], times[-1] - times[0]), WIDTH) if times[-1] > times[0] else 0
        low = min(numbers) if floor is None else min(*numbers, Fraction(floor))
        if max(numbers) > min(numbers):
            below = (max(numbers) - point.value) / (max(numbers) - low)
            assert MARGIN + nearest(below, HEIGHT - 2 * MARGIN) in covered[column]
        else:
            assert covered[column] == {HEIGHT // 2}


def test_a_value_holds_until_the_next_one() -> None:
    assert path_of([Point(0, 0), Point(50, 10), Point(100, 10)]) == "M0 96H80V4H160"


def test_an_unknown_value_leaves_a_gap() -> None:
    assert path_of([Point(0, 0), Point(40, None), Point(80, 10), Point(160, 0)]) == "M0 96H40M80 4H160V96H160"
    assert path_of([Point(0, None), Point(80, 5), Point(160, None)]) == "M80 50H160"
    assert path_of([Point(0, None), Point(160, None)]) == "M0 0"


def test_a_value_that_never_changes_is_a_level_line() -> None:
    assert path_of([Point(7, 5)]) == path_of([Point(7, 5), Point(7, 5), Point(9, 5)]) == "M0 50H160"
    assert path_of([Point(7, 5)], floor=0) == "M0 50H160"


def test_the_bottom_is_the_floor_where_values_are_above_it() -> None:
    assert path_of([Point(0, 5), Point(160, 10)], floor=0) == "M0 50H160V4H160"
    assert path_of([Point(0, 5), Point(160, 10)]) == "M0 96H160V4H160"
    assert path_of([Point(0, -5), Point(160, 10)], floor=0) == "M0 96H160V4H160"


def test_a_line_of_a_day_of_extremes_is_small() -> None:
    series = [Point(60 * minute, minute % 7 * 10**100) for minute in range(1_440)]
    assert len(path_of(series)) <= 2_600
