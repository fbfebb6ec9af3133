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
        filters = admitted(view, asked, scored=True)
        all_of_them, any_of_them = (every([part, *filters]) for part in (every(words), either(words)))
        known[asked] = drive_out(_most(view, all_of_them), lambda points: _most(view, any_of_them) > points)
    return known[asked]


def _most(view: View, part: Part) -> int:
    """The points of the best of what is found; 0 for nothing."""
    hits = view.ask.searcher.search(part, 1, count=False).hits
    return int(hits[0][0]) if hits else 0


def covering(words: list[Part]) -> Part:
    """Any of some words; to hold all of them makes more points."""
    return either([*words, tantivy.Query.const_score_query(every(words), float(COVERED))])
