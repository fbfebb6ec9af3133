"""Completions while typing: names of listings, skills and tags that hold the words typed, the last as a beginning."""

from __future__ import annotations

import json
from threading import Lock

from overlay.engines import Suggestion
from overlay.engines.tantivy.queries import every
from overlay.engines.tantivy.view import View
from overlay.text import asked, words

_MOST_WORDS, _MOST_BEGINNINGS, _MOST_HINTS = 8, 12, 60


def suggest(view: View, counting: Lock, text: str, limit: int) -> list[Suggestion]:
    """Tags and skills by how many listings have them, then the newest listings; at most `limit` in all."""
    typed = [part for compound in asked(text)[:_MOST_WORDS] for part in compound.parts]
    if not typed or limit <= 0 or view.records is None:
        return []
    with counting:
        last = [typed[-1], *view.vocabulary.completions(typed[-1], _MOST_BEGINNINGS)]
    hints = _hints(view, typed[:-1], last, limit)
    named = _named(view, typed[:-1], last, limit)
    room = max(limit - len(named), (limit + 1) // 2)
    return (hints[:room] + named)[:limit]


def _hints(view: View, typed: list[str], last: list[str], limit: int) -> list[Suggestion]:
    """Skills and tags that hold a word that was begun, the commonest first; none that no listing has any more."""
    terms = []
    for word in last:
        terms += view.ask.searcher.terms_with_prefix("hint", f"{word}\0", limit=_MOST_HINTS)
    found: dict[tuple[str, str], Suggestion] = {}
    for term, _ in sorted(terms, key=lambda pair: (-pair[1], pair[0])):
        _, kind, shown = term.split("\0")
        folded = list(words(shown))
        if all(any(word.startswith(part) for word in folded) for part in typed) and _exists(view, term):
            found.setdefault((kind, shown.casefold()), Suggestion(shown, kind))
        if len(found) == limit:
            break
    return list(found.values())


def _exists(view: View, term: str) -> bool:
    return bool(view.ask.searcher.search(view.ask.term("hint", term), 1, count=False).hits)


def _named(view: View, typed: list[str], last: list[str], limit: int) -> list[Suggestion]:
    """The newest listings in whose names all words stand."""
    part = every([*(view.ask.term("names", word) for word in typed), view.ask.any_of("names", last)])
    hits = view.ask.searcher.search(part, limit, count=False, order_by_field="newest").hits
    records = view.read([address for _, address in hits])
    return [Suggestion(str(json.loads(each.item).get("name", "")), "listing", each.id) for each in records]
