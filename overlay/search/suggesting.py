"""Completions while typing: names of listings, skills and tags that hold the words typed, the last as a beginning.

The same for every engine, which only looks up exact terms for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from overlay.engines import Suggestion
from overlay.search.facts import tags
from overlay.search.text import asked, stem, words

if TYPE_CHECKING:
    from overlay.document import Document

_MOST_WORDS, _MOST_BEGINNINGS, _MOST_HINTS = 8, 12, 60
_LONGEST = 100  # characters of a text that is shown


class Hinting(Protocol):
    """What an engine looks up, among the listings that a plain search finds."""

    def completions(self, beginning: str, limit: int) -> list[str]:
        """The commonest words that begin so (`Vocabulary.completions`)."""
        ...

    def beginning(self, prefix: str, limit: int) -> list[tuple[str, int]]:
        """The hints that begin so and how many listings have each, the commonest first, then in order. Counts may still
        hold listings that are gone."""
        ...

    def is_given(self, hint: str) -> bool:
        """Whether a listing has a hint."""
        ...

    def named(self, every: list[str], either: list[str], limit: int) -> list[tuple[str, bytes]]:
        """Ids and items of listings in whose names stand all words of the first list and one of the second; the newest
        first (`sorting.newest`), then by id."""
        ...


def hints(document: Document) -> Iterator[str]:
    """Every skill name and tag under each of its words: the word, `skill` or `tag` and the text, joined by NUL. None of
    who is one of a crowd: what is completed is not to be had by saying it often."""
    if document.crowded:
        return
    texts = {("skill", skill.name or skill.id) for skill in document.skills} | {("tag", tag) for tag in tags(document)}
    for kind, text in sorted(texts):
        shown = text[:_LONGEST].replace("\0", "")
        for word in dict.fromkeys(words(shown)):
            yield f"{word}\0{kind}\0{shown}"


def name_words(document: Document) -> list[str]:
    """The words of a name by which it is completed, each once: none of who is one of a crowd, nor those that many names
    had before."""
    if document.crowded:
        return []
    return [word for word in dict.fromkeys(words(document.name)) if stem(word) not in document.quiet]


def suggest(index: Hinting, text: str, limit: int) -> list[Suggestion]:
    """Tags and skills by how many listings have them, then the newest listings, at most `limit` in all; what begins as
    was typed comes before what holds it later, so that a card with many skills pushes no name out of sight."""
    typed = [part for compound in asked(text)[:_MOST_WORDS] for part in compound.parts]
    if not typed or limit <= 0:
        return []
    last = [typed[-1], *index.completions(typed[-1], _MOST_BEGINNINGS)]
    hinted = _hinted(index, typed[:-1], last, limit)
    named = [
        Suggestion(str(json.loads(item).get("name", "")), "listing", id_)
        for id_, item in index.named(typed[:-1], last, limit)
    ]
    room = max(limit - len(named), (limit + 1) // 2)
    begun = " ".join(typed)
    return sorted((hinted[:room] + named)[:limit], key=lambda each: not " ".join(words(each.text)).startswith(begun))


def _hinted(index: Hinting, typed: list[str], last: list[str], limit: int) -> list[Suggestion]:
    """Skills and tags that hold a word that was begun, the commonest first; none that no listing has any more."""
    found: dict[tuple[str, str], Suggestion] = {}
    begun = [each for word in last for each in index.beginning(f"{word}\0", _MOST_HINTS)]
    for hint, _ in sorted(begun, key=lambda pair: (-pair[1], pair[0])):
        _, kind, shown = hint.split("\0")
        folded = list(words(shown))
        if all(any(word.startswith(part) for word in folded) for part in typed) and index.is_given(hint):
            found.setdefault((kind, shown.casefold()), Suggestion(shown, kind))
        if len(found) == limit:
            break
    return list(found.values())
