"""How a short question is taken: see `overlay.search.coverage`."""

from __future__ import annotations

from threading import Lock

import tantivy

from overlay.engines.tantivy.filters import admitted
from overlay.engines.tantivy.queries import Part, either, every
from overlay.engines.tantivy.view import View
from overlay.query import Query
from overlay.search.coverage import COVERED, among, drive_out
from overlay.search.matching import Plan

_MOST_REMEMBERED = 10_000


def driven_out(view: View, counting: Lock, planned: Plan, query: Query) -> bool:
    """Whether only those are found that hold all words; `counting` is held while the vocabulary is read."""
    known, asked = view.ask.driven_out, among(query)
    found = known.get(asked)
    if found is None:
        if len(known) >= _MOST_REMEMBERED:
            known.clear()
        with counting:  # under the filters of `query`, words may be looked for where old and burned ones stand, too
            words = view.ask.words(planned, view.vocabulary, asked)
        filters = admitted(view, asked, scored=True)
        all_of_them, any_of_them = (every([part, *filters]) for part in (every(words), either(words)))
        found = drive_out(_most(view, all_of_them), lambda points: _most(view, any_of_them) > points)
        known[asked] = found
    return found


def _most(view: View, part: Part) -> int:
    """The points of the best of what is found; 0 for nothing."""
    hits = view.ask.searcher.search(part, 1, count=False).hits
    return int(hits[0][0]) if hits else 0


def covering(words: list[Part]) -> Part:
    """Any of some words; to hold all of them makes more points."""
    return either([*words, tantivy.Query.const_score_query(every(words), float(COVERED))])
