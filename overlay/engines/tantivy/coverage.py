"""How a short question is taken: see `overlay.search.coverage`."""

from __future__ import annotations

import tantivy

from overlay.engines.tantivy.filters import admitted
from overlay.engines.tantivy.queries import Part, either, every
from overlay.engines.tantivy.view import View
from overlay.query import Query
from overlay.search.coverage import COVERED, among, drive_out

_MOST_REMEMBERED = 10_000


def driven_out(view: View, words: list[Part], query: Query) -> bool:
    """Whether only those are found that hold all words, which are given as `Translator.words` makes them."""
    known, asked = view.ask.driven_out, among(query)
    if asked not in known:
        if len(known) >= _MOST_REMEMBERED:
            known.clear()
        part = every([*words, *admitted(view, asked, scored=True)])
        hits = view.ask.searcher.search(part, 1, count=False).hits
        known[asked] = bool(hits) and drive_out(int(hits[0][0]))
    return known[asked]


def covering(words: list[Part]) -> Part:
    """Any of some words; to hold all of them makes more points."""
    return either([*words, tantivy.Query.const_score_query(every(words), float(COVERED))])
