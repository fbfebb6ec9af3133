"""Words that were asked for, marked where a result says them; and what may have been meant where none does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from markupsafe import Markup, escape

from overlay.engines import Engine
from overlay.search.highlighting import Range, highlights
from overlay.search.meaning import Meaning, meanings
from overlay.visible import visible

Places = Mapping[str, tuple[Range, ...]]
"""Where the texts of an item say what was asked for, by RFC 6901 pointer, in code points."""

Finder = Callable[[Mapping[str, Any]], Places]


def finder(engine: Engine, text: str) -> Finder:
    """What finds the places of a question in items, read once as the index understands it."""
    words: tuple[Meaning, ...] = ()
    if text.strip():
        words = engine.consult(lambda vocabulary: meanings(text, vocabulary))
    return lambda item: {each.pointer: each.ranges for each in highlights(item, words)} if words else {}


def marked(text: str, places: Iterable[Range]) -> Markup:
    """A stranger's text as HTML, escaped, with these places marked as far as it reaches."""
    pieces: list[Markup] = []
    at = 0
    for start, end in places:
        if start < len(text):
            pieces += (escape(visible(text[at:start])), Markup("<mark>{}</mark>").format(visible(text[start:end])))
            at = min(end, len(text))
    return Markup("").join([*pieces, escape(visible(text[at:]))])
