"""What is counted over all that was found; a facet that is filtered by, over all that its own filter would leave. A
value counts what choosing it finds.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from threading import Lock

import tantivy

from overlay.engines.tantivy.coverage import driven_out
from overlay.engines.tantivy.filters import admitted
from overlay.engines.tantivy.queries import Part, either, every
from overlay.engines.tantivy.run import counted
from overlay.engines.tantivy.view import View
from overlay.query import Query
from overlay.search.facts import EXACT, FACET_FIELDS, MOST_VALUES, is_plain
from overlay.search.matching import plan
from overlay.search.widening import MOST_TRIED, Counts, choosing, commonest, is_joint, merged, without_own

_SEGMENT_VALUES = 65_000


def facets(view: View, counting: Lock, query: Query, found: Part | None) -> dict[str, Counts]:
    """The facets of a query, of which `found` is the answer; None when there is none. Filters of other facets hold, and
    the words as in the answer: all of them or any, as it came to; `counting` is held while the vocabulary is read."""
    widened = {name: without_own(query, name) for name in query.facets}
    wider = any(wide is not query or is_joint(wide, name) for name, wide in widened.items())
    tries = _tries(view, counting, query, found) if wider else []
    counts: dict[str, Counts] = {}
    for name, wide in widened.items():
        if wide is query:
            ways, parts = tries[-1:], [] if found is None else [found]
        else:
            ways, parts = tries, _parts(view, wide, tries)
        if parts and is_joint(wide, name):
            counts[name] = _joint(view, wide, name, ways, parts)
        else:
            most = MOST_VALUES if len(parts) < 2 else MOST_TRIED
            counts[name] = merged(_counted(view, part, name, most).items() for part in parts)
    return counts


def _tries(view: View, counting: Lock, query: Query, found: Part | None) -> list[list[Part]]:
    """What the words ask for, all of them and then any, up to what the answer came to; all ways where there is none."""
    if not query.text.strip():
        return [[]]
    with counting:
        planned = plan(query.text, view.vocabulary)
        plain = is_plain(query)
        words = list(map(view.ask.held, planned.words)) if plain else view.ask.words(planned, view.vocabulary, query)
    ways = [words] if planned.covers and driven_out(view, counting, planned, query) else []
    if words:
        ways.append([either(words)])
    if found is not None and len(ways) > 1 and _count(view, [*ways[0], *admitted(view, query, scored=False)]):
        return ways[:1]
    return ways


def _parts(view: View, query: Query, tries: list[list[Part]]) -> list[Part]:
    """What each way to take the words finds."""
    filters = admitted(view, query, scored=False)
    return [every([*way, *filters]) for way in tries]


def _joint(view: View, query: Query, name: str, tries: list[list[Part]], parts: list[Part]) -> Counts:
    """The commonest values of what is found by each way, each chosen, one after the other, to see what that finds (0.1
    to 1 ms each), until fifty are surely the commonest: one offer must meet all that is asked of offers. A
    listing with some offer that says a value may not be found with it, so that one is never found more often than it
    counts without; that is told where more is found than is counted exactly."""
    if _count(view, parts[-1:]) > EXACT:
        return merged(_counted(view, part, name, MOST_VALUES).items() for part in parts)
    most: Counter[str] = Counter()
    for part in parts:
        most |= Counter(_counted(view, part, name, MOST_TRIED))
    counts: list[tuple[int, str]] = []
    for value, at_most in commonest(most, MOST_TRIED):
        if len(counts) >= MOST_VALUES and counts[MOST_VALUES - 1] < (-at_most, value):
            break
        chosen = admitted(view, choosing(query, name, value), scored=False)
        if number := next(filter(None, (_count(view, [*way, *chosen]) for way in tries)), 0):
            insort(counts, (-number, value))
    return tuple((value, -number) for number, value in counts[:MOST_VALUES])


def _count(view: View, parts: list[Part]) -> int:
    return counted(view.ask.searcher.search(tantivy.Query.const_score_query(every(parts), 1.0), 1))


def _counted(view: View, part: Part, name: str, most: int) -> dict[str, int]:
    """The commonest values of a facet. Asked for one at a time: Tantivy limits the values of one aggregation."""
    terms = {"field": FACET_FIELDS[name], "size": most, "segment_size": _SEGMENT_VALUES}
    found = view.ask.searcher.aggregate(part, {"values": {"terms": terms}})["values"]["buckets"]
    return {str(each["key"]): int(each["doc_count"]) for each in found}
