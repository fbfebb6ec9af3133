"""Where an item says what was asked for: ranges in its texts, to be marked by who shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from overlay.search.meaning import Meaning
from overlay.search.said import fields
from overlay.search.spans import Span, spans
from overlay.search.text import stem

MOST_LETTERS = 16_384
"""Characters of an item that are looked through: the time for a page of a hundred stays under half a second."""
MOST_RANGES = 100
"""Ranges that are told of an item."""

Range = tuple[int, int]


class Marked(NamedTuple):
    """A text of an item by its RFC 6901 pointer, and the stretches that say what was asked for: from, until before, in
    code points; in order, apart from each other."""

    pointer: str
    ranges: tuple[Range, ...]


def highlights(item: Mapping[str, Any], asked: Iterable[Meaning]) -> list[Marked]:
    """The texts in which a question's words stand, the summary among them. What stands for a word only together with
    other terms counts where an item says them all."""
    readings = [reading.terms for meaning in asked for reading in meaning.readings]
    wanted = {term for terms in readings for term in terms}
    found = list(_standing(item, wanted)) if wanted else []
    held = {stem(span.word) for _, here in found for span in here}
    counting = {term for terms in readings if held.issuperset(terms) for term in terms}
    marked: list[Marked] = []
    left = MOST_RANGES
    for pointer, here in found:
        ranges = _merged(span for span in here if stem(span.word) in counting)[:left]
        left -= len(ranges)
        if ranges:
            marked.append(Marked(pointer, tuple(ranges)))
    return marked


def _standing(item: Mapping[str, Any], wanted: set[str]) -> Iterator[tuple[str, list[Span]]]:
    left = MOST_LETTERS
    for pointer, text in _texts(item):
        if left <= 0:
            return
        here = [span for span in spans(text[:left]) if stem(span.word) in wanted]
        left -= len(text)
        if here:
            yield pointer, here


def _texts(item: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    searched = fields(item)
    yield searched[0].pointer, searched[0].text
    if item.get("summary"):
        yield "/summary", item["summary"]
    yield from ((pointer, text) for pointer, _, text in searched[1:])


def _merged(found: Iterable[Span]) -> list[Range]:
    """Stretches in order; those that touch are one."""
    merged: list[Range] = []
    for start, end, _ in sorted(found):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def in_utf16(text: str, ranges: Iterable[Range]) -> list[list[int]]:
    """Ranges in UTF-16 code units, as JavaScript, Java and C# count."""
    if text.isascii() or max(text) <= "\uffff":
        return [list(each) for each in ranges]
    return [[_units(text[:start]), _units(text[:end])] for start, end in ranges]


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def at(item: Mapping[str, Any], pointer: str) -> str:
    """The text that a pointer leads to."""
    value: Any = item
    for step in pointer.split("/")[1:]:
        value = value[int(step)] if isinstance(value, list) else value[step.replace("~1", "/").replace("~0", "~")]
    return str(value)
