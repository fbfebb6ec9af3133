"""Completions while typing: names of listings, skills and tags that hold the words typed, the last as a beginning."""

from __future__ import annotations

import json

from overlay.engines import Suggestion
from overlay.engines.tantivy.queries import either, every
from overlay.engines.tantivy.view import View
from overlay.text import asked, words

_MOST_WORDS, _MOST_BEGINNINGS, _MOST_HINTS = 8, 24, 60


def suggest(view: View, text: str, limit: int) -> list[Suggestion]:
    """Tags and skills by how many listings have them, then the newest listings; at most `limit` in all."""
    typed = [part for compound in asked(text)[:_MOST_WORDS] for part in compound.parts]
    if not typed or limit <= 0 or view.records is None:
        return []
    hints = _hints(view, typed, limit)
    named = _named(view, typed, limit)
    room = max(limit - len(named), (limit + 1) // 2)
    return (hints[:room] + named)[:limit]


def _hints(view: View, typed: list[str], limit: int) -> list[Suggestion]:
    """Skills and tags; one that no listing has any more is left out."""
    found: dict[tuple[str, str], Suggestion] = {}
    for term, _ in view.ask.searcher.terms_with_prefix("hint", typed[-1], limit=_MOST_HINTS):
        _, kind, shown = term.split("\0")
        folded = list(words(shown))
        if all(any(word.startswith(part) for word in folded) for part in typed[:-1]) and _exists(view, term):
            found.setdefault((kind, shown.casefold()), Suggestion(shown, kind))
        if len(found) == limit:
            break
    return list(found.values())


def _exists(view: View, term: str) -> bool:
    return bool(view.ask.searcher.search(view.ask.term("hint", term), 1, count=False).hits)


def _named(view: View, typed: list[str], limit: int) -> list[Suggestion]:
    """The newest listings in whose names all words stand."""
    beginnings = view.ask.searcher.terms_with_prefix("names", typed[-1], limit=_MOST_BEGINNINGS)
    if not beginnings:
        return []
    last = either([view.ask.term("names", term) for term, _ in beginnings])
    part = every([*(view.ask.term("names", word) for word in typed[:-1]), last])
    hits = view.ask.searcher.search(part, limit, count=False, order_by_field="newest").hits
    records = view.read([address for _, address in hits])
    return [Suggestion(str(json.loads(each.item).get("name", "")), "listing", each.id) for each in records]
