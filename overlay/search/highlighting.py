"""Where an item holds the words of a question: ranges in its texts, to be marked by who shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from overlay.search.analysis import stem
from overlay.search.planner import QueryPlan
from overlay.search.spans import Span, spans

MOST_LETTERS = 16_384
"""Characters of an item that are looked through: the time for a page of a hundred stays under half a second."""
MOST_RANGES = 100
"""Ranges of an item."""

Range = tuple[int, int]
_OF_SERVERS = ("keywords", "tools", "prompts", "resources")


class Marked(NamedTuple):
    """A text of an item by its RFC 6901 pointer, and the stretches that hold words of a question: from, until before,
    in code points; in order, apart from each other."""

    pointer: str
    ranges: tuple[Range, ...]


def highlights(item: Mapping[str, Any], plan: QueryPlan) -> list[Marked]:
    """The texts that hold a question's words, the summary among them."""
    wanted = {each.term for group in plan.groups for each in group.alternatives}
    marked: list[Marked] = []
    letters, left = MOST_LETTERS, MOST_RANGES
    for pointer, text in texts(item) if wanted else ():
        if letters <= 0 or left <= 0:
            break
        ranges = _merged(span for span in spans(text[:letters]) if stem(span.word) in wanted)[:left]
        letters -= len(text)
        left -= len(ranges)
        if ranges:
            marked.append(Marked(pointer, tuple(ranges)))
    return marked


def texts(item: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The texts of an item that are searched, by pointer, and its summary."""
    for name in ("name", "summary", "description"):
        if item.get(name):
            yield f"/{name}", item[name]
    yield from _list("/tags", item.get("tags", ()))
    for number, skill in enumerate(item.get("skills", ())):
        here = f"/skills/{number}"
        for name in ("name", "id", "description") if skill.get("name") != skill["id"] else ("name", "description"):
            if skill.get(name):
                yield f"{here}/{name}", skill[name]
        yield from _list(f"{here}/tags", skill.get("tags", ()))
        yield from _list(f"{here}/examples", skill.get("examples", ()))
    if item.get("type") == "tool":
        if "serverName" in item:
            yield "/serverName", item["serverName"]
        for name in _OF_SERVERS:
            yield from _list(f"/{name}", item.get(name, ()))
    for key, text in (item.get("provider") or {}).items():
        yield f"/provider/{key.replace('~', '~0').replace('/', '~1')}", text


def _list(pointer: str, values: Iterable[str]) -> Iterator[tuple[str, str]]:
    return ((f"{pointer}/{at}", text) for at, text in enumerate(values))


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
