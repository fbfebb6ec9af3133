"""Words that were asked for, marked where a result says them; and what may have been meant where none does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from overlay.search.analysis import stem
from overlay.search.highlighting import Range, at, highlights
from overlay.search.planner import QueryPlan
from overlay.search.spans import spans
from overlay.visible import visible

Places = Mapping[str, tuple[Range, ...]]
"""Where the texts of an item say what was asked for, by RFC 6901 pointer, in code points."""

Finder = Callable[[Mapping[str, Any]], Places]


def finder(plan: QueryPlan) -> Finder:
    """What finds the places of a question's words in items."""
    return lambda item: {each.pointer: each.ranges for each in highlights(item, plan)} if plan.groups else {}


def marked(text: str, places: Iterable[Range]) -> Markup:
    """A stranger's text as HTML, escaped, with these places marked as far as it reaches."""
    pieces: list[Markup] = []
    at = 0
    for start, end in places:
        if start < len(text):
            pieces += (escape(visible(text[at:start])), Markup("<mark>{}</mark>").format(visible(text[start:end])))
            at = min(end, len(text))
    return Markup("").join([*pieces, escape(visible(text[at:]))])


_BEFORE, _LONG = 50, 140
"""Characters of an excerpt before the first word that was asked for, and in all."""

_KINDS = {
    "description": "description", "tags": "tag", "skills": "skill", "keywords": "keyword", "tools": "tool",
    "prompts": "prompt", "resources": "resource", "provider": "provider", "serverName": "server",
}  # fmt: skip


class Excerpt(NamedTuple):
    """What a result says that its card does not show otherwise: of what kind the text is, and a piece of it."""

    kind: str
    text: Markup


def excerpt(item: Mapping[str, Any], places: Places, shown: Iterable[str]) -> Excerpt | None:
    """The first text of an item that says a word which the texts that are `shown` (by pointer) do not say; None where
    these say all that the item says of what was asked for."""
    seen = set(shown)
    said = {word for pointer in seen & places.keys() for word in _words(item, pointer, places[pointer])}
    for pointer, ranges in places.items():
        for number, each in enumerate(ranges if pointer not in seen else ()):
            if _words(item, pointer, [each]) - said:
                kind = pointer.split("/")[1]
                return Excerpt(_KINDS.get(kind, kind), _piece(at(item, pointer), ranges[number:]))
    return None


def _words(item: Mapping[str, Any], pointer: str, ranges: Iterable[Range]) -> set[str]:
    """The words of a text that were asked for, as the index knows them."""
    text = at(item, pointer)
    return {stem(span.word) for start, end in ranges for span in spans(text[start:end])}


def _piece(text: str, ranges: tuple[Range, ...]) -> Markup:
    """Some of a text from shortly before its first range on, with all ranges in it marked."""
    start = max(0, ranges[0][0] - _BEFORE)
    if start:
        start = text.find(" ", start, ranges[0][0]) + 1 or ranges[0][0]
    end = start + _LONG
    inside = [(max(one - start, 0), other - start) for one, other in ranges if one < end]
    cut = text[start:end]
    return Markup("{}{}{}").format("…" if start else "", marked(cut, inside), "…" if end < len(text) else "")
