"""Highlights: the ranges of an item's texts that contain words of the query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from overlay.search.analysis import stem
from overlay.search.planner import QueryPlan
from overlay.search.spans import Span, spans
from parsers.cards.command_packages import installed

MOST_LETTERS = 16_384
"""Characters of an item that are searched: a page of a hundred items takes less than half a second."""
MOST_RANGES = 100
"""Ranges of an item."""

Range = tuple[int, int]
_OF_SERVERS = ("keywords", "tools", "prompts", "resources")


class Marked(NamedTuple):
    """A text of an item by its JSON pointer (RFC 6901), and the ranges in it that contain words of the query: (start,
    end), end exclusive, in code points, in order, disjoint."""

    pointer: str
    ranges: tuple[Range, ...]


def highlights(item: Mapping[str, Any], plan: QueryPlan) -> list[Marked]:
    """The texts of an item, the summary among them, that contain words of the query."""
    terms = {alternative.term for group in plan.groups for alternative in group.alternatives}
    marked: list[Marked] = []
    letters, left = MOST_LETTERS, MOST_RANGES
    for pointer, text in texts(item) if terms else ():
        if letters <= 0 or left <= 0:
            break
        ranges = _merged(span for span in spans(text[:letters]) if stem(span.word) in terms)[:left]
        letters -= len(text)
        left -= len(ranges)
        if ranges:
            marked.append(Marked(pointer, tuple(ranges)))
    return marked


def texts(item: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The summary and the indexed texts of an item, with their pointers."""
    for name in ("name", "summary", "description"):
        if item.get(name):
            yield f"/{name}", item[name]
    yield from _entries("/tags", item.get("tags", ()))
    for number, skill in enumerate(item.get("skills", ())):
        here = f"/skills/{number}"
        for name in ("name", "id", "description") if skill.get("name") != skill["id"] else ("name", "description"):
            if skill.get(name):
                yield f"{here}/{name}", skill[name]
        yield from _entries(f"{here}/tags", skill.get("tags", ()))
        yield from _entries(f"{here}/examples", skill.get("examples", ()))
    if item.get("type") == "tool":
        if "serverName" in item:
            yield "/serverName", item["serverName"]
        for name in _OF_SERVERS:
            yield from _entries(f"/{name}", item.get(name, ()))
        yield from _package(item)
    for key, text in (item.get("provider") or {}).items():
        yield f"/provider/{key.replace('~', '~0').replace('/', '~1')}", text


def _package(item: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The argument that names the package which a tool's command installs."""
    args = item.get("args") or ()
    run = installed(item.get("command") or "", args)
    return (pair for pair in _entries("/args", args) if run and pair[1] == run.argument)


def _entries(pointer: str, values: Iterable[str]) -> Iterator[tuple[str, str]]:
    return ((f"{pointer}/{index}", text) for index, text in enumerate(values))


def _merged(matches: Iterable[Span]) -> list[Range]:
    """Ranges in order; adjacent and overlapping ones are merged."""
    merged: list[Range] = []
    for start, end, _ in sorted(matches):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def in_utf16(text: str, ranges: Iterable[Range]) -> list[list[int]]:
    """Ranges in UTF-16 code units, the string offsets of JavaScript, Java and C#."""
    if text.isascii() or max(text) <= "\uffff":
        return [list(stretch) for stretch in ranges]
    return [[_units(text[:start]), _units(text[:end])] for start, end in ranges]


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def text_at(item: Mapping[str, Any], pointer: str) -> str:
    """The text at a pointer."""
    value: Any = item
    for step in pointer.split("/")[1:]:
        value = value[int(step)] if isinstance(value, list) else value[step.replace("~1", "/").replace("~0", "~")]
    return str(value)
