"""Completions while typing: names of listings, skills and tags that hold the words typed, the last as a beginning."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from overlay.engines import Suggestion
from overlay.engines.whoosh.view import View
from overlay.facts import tags
from overlay.text import asked, words

if TYPE_CHECKING:
    from overlay.document import Document

_MOST_WORDS, _MOST_BEGINNINGS, _MOST_HINTS = 8, 12, 60


def hints(document: Document) -> Iterator[str]:
    """Every skill name and tag under each of its words: the word, `skill` or `tag` and the text, joined by NUL."""
    texts = {("skill", skill.name or skill.id) for skill in document.skills} | {("tag", tag) for tag in tags(document)}
    for kind, text in sorted(texts):
        shown = text[:100].replace("\0", "")
        for word in dict.fromkeys(words(shown)):
            yield f"{word}\0{kind}\0{shown}"


def suggest(view: View, text: str, limit: int) -> list[Suggestion]:
    """Tags and skills by how many listings have them, then the newest listings; at most `limit` in all."""
    typed = [part for compound in asked(text)[:_MOST_WORDS] for part in compound.parts]
    if not typed or limit <= 0:
        return []
    last = [typed[-1], *view.vocabulary.completions(typed[-1], _MOST_BEGINNINGS)]
    hinted = _hinted(view, typed[:-1], last, limit)
    named = _named(view, typed[:-1], last, limit)
    room = max(limit - len(named), (limit + 1) // 2)
    return (hinted[:room] + named)[:limit]


def _hinted(view: View, typed: list[str], last: list[str], limit: int) -> list[Suggestion]:
    """Skills and tags that hold a word that was begun, the commonest first; none that no listing has any more."""
    terms: list[tuple[int, str]] = []
    for word in last:
        found = sorted((-count, term) for term, count in view.beginning("hints", f"{word}\0").items())
        terms += found[:_MOST_HINTS]
    suggestions: dict[tuple[str, str], Suggestion] = {}
    for _, term in sorted(terms):
        _, kind, shown = term.split("\0")
        folded = list(words(shown))
        if all(any(word.startswith(part) for word in folded) for part in typed) and _exists(view, term):
            suggestions.setdefault((kind, shown.casefold()), Suggestion(shown, kind))
        if len(suggestions) == limit:
            break
    return list(suggestions.values())


def _exists(view: View, term: str) -> bool:
    return next(view.postings("hints", term), None) is not None


def _named(view: View, typed: list[str], last: list[str], limit: int) -> list[Suggestion]:
    """The newest listings in whose names all words stand."""
    found = {document for word in last for document, _ in view.postings("names", word)}
    for word in typed:
        found &= {document for document, _ in view.postings("names", word)}
    newest = sorted(found, key=lambda document: (-view.row(document).newest, view.row(document).id))[:limit]
    names = (json.loads(view.stored(document)["item"]).get("name", "") for document in newest)
    return [
        Suggestion(str(name), "listing", view.row(document).id) for name, document in zip(names, newest, strict=True)
    ]
