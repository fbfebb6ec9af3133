"""Query words marked in the texts of a result, and excerpts that contain them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from overlay.search.analysis import stem
from overlay.search.highlighting import Range, highlights, text_at
from overlay.search.planner import QueryPlan
from overlay.search.spans import spans
from overlay.text.safe_text import visible

RangesByPointer = Mapping[str, tuple[Range, ...]]
"""Ranges of query words in the texts of an item, in code points, by RFC 6901 pointer."""


def ranges_in(item: Mapping[str, Any], plan: QueryPlan) -> RangesByPointer:
    """The ranges of a query's words in an item."""
    return {text.pointer: text.ranges for text in highlights(item, plan)} if plan.groups else {}


def marked(text: str, ranges: Iterable[Range]) -> Markup:
    """A stranger's text as HTML, escaped, with these ranges marked as far as the text reaches."""
    pieces: list[Markup] = []
    position = 0
    for start, end in ranges:
        if start < len(text):
            pieces += (
                escape(visible(text[position:start])),
                Markup("<mark>{}</mark>").format(visible(text[start:end])),
            )
            position = min(end, len(text))
    return Markup("").join([*pieces, escape(visible(text[position:]))])


_BEFORE, _LONG = 50, 140
"""Characters of an excerpt before the first query word, and in all."""

_KINDS = {
    "description": "description", "tags": "tag", "skills": "skill", "keywords": "keyword", "tools": "tool",
    "prompts": "prompt", "resources": "resource", "provider": "provider", "serverName": "server",
}  # fmt: skip


class Excerpt(NamedTuple):
    """The kind of a text of a listing, and a marked piece of it."""

    kind: str
    text: Markup


def excerpt(item: Mapping[str, Any], ranges_by_pointer: RangesByPointer, shown: Iterable[str]) -> Excerpt | None:
    """A piece of the first text with a query word that the texts at the pointers `shown` do not contain; None without
    one."""
    seen = set(shown)
    shown_words = {
        word
        for pointer in seen & ranges_by_pointer.keys()
        for word in _words(item, pointer, ranges_by_pointer[pointer])
    }
    for pointer, ranges in ranges_by_pointer.items():
        for number, range_ in enumerate(ranges if pointer not in seen else ()):
            if _words(item, pointer, [range_]) - shown_words:
                kind = pointer.split("/")[1]
                return Excerpt(_KINDS.get(kind, kind), _piece(text_at(item, pointer), ranges[number:]))
    return None


def _words(item: Mapping[str, Any], pointer: str, ranges: Iterable[Range]) -> set[str]:
    """The query words in these ranges of a text, stemmed as in the index."""
    text = text_at(item, pointer)
    return {stem(span.word) for start, end in ranges for span in spans(text[start:end])}


def _piece(text: str, ranges: tuple[Range, ...]) -> Markup:
    """A piece of a text from shortly before its first range on, with all its ranges marked."""
    start = max(0, ranges[0][0] - _BEFORE)
    if start:
        start = text.find(" ", start, ranges[0][0]) + 1 or ranges[0][0]
    end = start + _LONG
    inside = [(max(first - start, 0), last - start) for first, last in ranges if first < end]
    cut = text[start:end]
    return Markup("{}{}{}").format("…" if start else "", marked(cut, inside), "…" if end < len(text) else "")
