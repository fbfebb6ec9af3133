"""Words that were asked for, marked where a result says them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from markupsafe import Markup, escape

from overlay.search.text import fold, stem, words
from overlay.visible import visible

Span = tuple[int, int]

_COMPOUND = re.compile(r"[^\s<>,;:!?()\[\]{}\"“”«»/|]+")
_EDGES = ".-_·'’"
_PREFIX = 2


@dataclass(frozen=True, slots=True)
class Sought:
    """What was asked for, as the index has it: its words, and how the last one begins, which may be unfinished."""

    words: frozenset[str]
    beginning: str


def sought(text: str) -> Sought:
    """The words of a question; those that have only a sign or letter mark nothing but themselves."""
    last = _plain(text.rsplit(maxsplit=1)[-1]) if text.split() and not text[-1].isspace() else ""
    return Sought(frozenset(map(stem, words(text))), last if len(last) >= _PREFIX else "")


def spans(text: str, asked: Sought) -> Iterator[Span]:
    """Where a text says what was asked for: (start, end) in order, none overlapping."""
    if not asked.words:
        return
    for match in _COMPOUND.finditer(text):
        told = match[0].strip(_EDGES)
        if told and _says(told, asked):
            start = match.start() + match[0].index(told)
            yield start, start + len(told)


def _says(told: str, asked: Sought) -> bool:
    if not asked.words.isdisjoint(map(stem, words(told))):
        return True
    return bool(asked.beginning) and _plain(told).startswith(asked.beginning)


def _plain(text: str) -> str:
    return fold(text).casefold()


def marked(text: str, places: Iterable[Span]) -> Markup:
    """A stranger's text as HTML, escaped, with these places marked."""
    pieces: list[Markup] = []
    at = 0
    for start, end in places:
        pieces += (escape(visible(text[at:start])), Markup("<mark>{}</mark>").format(visible(text[start:end])))
        at = end
    return Markup("").join([*pieces, escape(visible(text[at:]))])
