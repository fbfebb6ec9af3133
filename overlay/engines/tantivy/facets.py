"""What is counted over all that was found; a facet that is filtered by, over all that its own filter would leave."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock

import tantivy

from overlay.engines.tantivy.filters import admitted
from overlay.engines.tantivy.queries import Part, either, every
from overlay.engines.tantivy.run import counted
from overlay.engines.tantivy.view import View
from overlay.query import Query
from overlay.search.facts import FACET_FIELDS, MOST_VALUES, is_plain
from overlay.search.matching import plan
from overlay.search.widening import without_own

_SEGMENT_VALUES = 65_000

Counts = tuple[tuple[str, int], ...]


def facets(view: View, counting: Lock, query: Query, found: Part | None) -> dict[str, Counts]:
    """The facets of a query, of which `found` is the answer; None when there is none. Filters of other facets hold, and
    the words as in the answer: all of them or any, as it came to; `counting` is held while the vocabulary is read."""
    widened = {name: without_own(query, name) for name in query.facets}
    tries = list(_tries(view, counting, query, found)) if any(each is not query for each in widened.values()) else []
    counts: dict[str, Counts] = {}
    for name, wide in widened.items():
        part = found if wide is query else _first(view, wide, tries)
        counts[name] = () if part is None else _counted(view, part, name)
    return counts


def _tries(view: View, counting: Lock, query: Query, found: Part | None) -> Iterator[list[Part]]:
    """What the words ask for: as the answer came to, or, where there is none, all of them and then any."""
    if not query.text.strip():
        yield []
        return
    with counting:
        planned = plan(query.text, view.vocabulary)
        plain = is_plain(query)
        words = list(map(view.ask.held, planned.words)) if plain else view.ask.words(planned, view.vocabulary, query)
    ways = [words] if len(words) > 1 and planned.all_first else []
    if words:
        ways.append([either(words)])
    if found is not None:
        ways = [way for way in ways if _is_found(view, [*way, *admitted(view, query, scored=False)])][:1]
    yield from ways


def _first(view: View, wide: Query, tries: list[list[Part]]) -> Part | None:
    """What is found by the first of several ways to take the words that finds anything."""
    filters = admitted(view, wide, scored=False)
    return next((every([*way, *filters]) for way in tries if _is_found(view, [*way, *filters])), None)


def _is_found(view: View, parts: list[Part]) -> bool:
    return counted(view.ask.searcher.search(tantivy.Query.const_score_query(every(parts), 1.0), 1)) > 0


def _counted(view: View, part: Part, name: str) -> Counts:
    """The commonest values of a facet. Asked for one at a time: Tantivy limits the values of one aggregation."""
    terms = {"field": FACET_FIELDS[name], "size": MOST_VALUES, "segment_size": _SEGMENT_VALUES}
    found = view.ask.searcher.aggregate(part, {"values": {"terms": terms}})["values"]["buckets"]
    pairs = [(str(each["key"]), int(each["doc_count"])) for each in found]
    return tuple(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))
