"""Which documents a query admits, exactly: its filters, and what its text asks beside its words.

Tantivy holds the places of terms, so that a phrase is exact in `total` and facets. It costs at most a walk through the
lists of its terms.
"""

from __future__ import annotations

from collections.abc import Iterator

import tantivy

from overlay.engines.tantivy.queries import Part, Translator, either, every, without
from overlay.engines.tantivy.view import View
from overlay.query import Operators, Query
from overlay.search.facts import is_plain, unwanted
from overlay.search.prices import meets


def admitted(view: View, query: Query, *, scored: bool) -> list[Part]:
    """The filters, exact also where a bound has more digits than the keys of amounts; they add no points."""
    found = view.ask.admitted(query, scored=scored)
    if query.operators is not None:
        found = _narrowed(view.ask, query, query.operators, found, scored=scored)
    doubtful = view.ask.doubtful(query)
    if doubtful is None:
        return found
    searcher = view.ask.searcher
    # without the words, which only listed documents have: what a listing asked earlier must not exclude it
    standing = view.ask.admitted(query, scored=False)
    hits = searcher.search(every([*standing, doubtful]), max(1, searcher.num_docs), count=False).hits
    wrong = [each for each in view.read([address for _, address in hits]) if not meets(each.offers, query)]
    excluded = [view.ask.term("fact", f"id:{each.id}") for each in wrong]
    return [without(every(found), either(excluded))] if excluded else found


def _narrowed(ask: Translator, query: Query, operators: Operators, found: list[Part], *, scored: bool) -> list[Part]:
    """Filters and those of operators. What only excludes stands beside some that finds: all, if need be."""
    found = [*found, *(_unscored(_phrase(ask, each)) for each in operators.phrases)]
    banned = list(_banned(ask, query, operators))
    if not banned:
        return found
    if not found:
        found = ask.admitted(query, scored=False)
    return [_unscored(without(every(found), either(banned))) if scored else without(every(found), either(banned))]


def _banned(ask: Translator, query: Query, operators: Operators) -> Iterator[Part]:
    yield from (_phrase(ask, each) for each in operators.excluded)
    yield from (ask.term("plain" if is_plain(query) else "fact", fact) for fact in unwanted(query))


def _phrase(ask: Translator, sequence: str) -> Part:
    """Documents that say terms one after the other."""
    terms = sequence.split(" ")
    if len(terms) == 1:
        return ask.term("said", sequence)
    return tantivy.Query.phrase_query(ask.schema, "said", list(terms))


def _unscored(part: Part) -> Part:
    return tantivy.Query.const_score_query(part, 0.0)
