"""A `Query` in, `Hits` out."""

from __future__ import annotations

from functools import partial
from threading import Lock
from typing import Any

from overlay.engines.tantivy.pages import Key, Keyed, Order, page, page_after
from overlay.engines.tantivy.prices import ByPrice
from overlay.engines.tantivy.queries import Part, either, every, without
from overlay.engines.tantivy.run import Run
from overlay.engines.tantivy.view import View
from overlay.query import Cheapest, Hit, Hits, Query
from overlay.search.facts import EXACT, FACET_FIELDS, MOST_VALUES
from overlay.search.matching import plan
from overlay.search.prices import meets, shown
from overlay.search.ranking import BEST
from overlay.search.records import Record
from overlay.search.sorting import is_descending, is_key

_SEGMENT_VALUES = 65_000


def search(view: View, counting: Lock, query: Query) -> Hits:
    """Answer a query; `counting` is held while the vocabulary is read."""
    if view.records is not None:
        for part, words in _attempts(view, counting, query):
            run = Run(view.ask.searcher, part, query, words)
            if run.total:
                return _answer(view, run, query)
    return Hits((), 0, facets=dict.fromkeys(query.facets, ()) or None)


def _attempts(view: View, counting: Lock, query: Query) -> list[tuple[Part, int]]:
    """What to look for, until something is found, and the number of words in it: all words, then any of them."""
    if not query.text.strip():
        return [(every(_admitted(view, query, scored=False)), 0)]
    with counting:
        planned = plan(query.text, view.vocabulary)
        words = view.ask.words(planned, view.vocabulary, query)
    if not words:
        return []
    admitted = _admitted(view, query, scored=True)
    any_word = (every([either(words), *admitted]), len(words))
    return [(every([*words, *admitted]), len(words)), any_word] if planned.all_first and len(words) > 1 else [any_word]


def _admitted(view: View, query: Query, *, scored: bool) -> list[Part]:
    """The filters, exact also where a bound has more digits than the keys of amounts."""
    admitted = view.ask.admitted(query, scored=scored)
    doubtful = view.ask.doubtful(query)
    if doubtful is None:
        return admitted
    searcher = view.ask.searcher
    hits = searcher.search(every([*admitted, doubtful]), max(1, searcher.num_docs), count=False).hits
    wrong = [each for each in view.read([address for _, address in hits]) if not meets(each.offers, query)]
    excluded = [view.ask.term("fact", f"id:{each.id}") for each in wrong]
    return [without(every(admitted), either(excluded))] if excluded else admitted


def _answer(view: View, run: Run, query: Query) -> Hits:
    rows = _rows(view, run, query) if query.limit > 0 else []
    return Hits(
        tuple(_hit(key, record, query, scored=run.sort == "relevance") for key, record in rows),
        min(run.total, EXACT),
        at_least=run.total > EXACT,
        facets={name: _facet(view, run.part, name) for name in query.facets} or None,
    )


def _rows(view: View, run: Run, query: Query) -> list[Keyed]:
    after = query.after if query.after is not None and is_key(run.sort, query.after) else None
    reverse = is_descending(query) != (run.sort in _DOWNWARD)
    if run.sort == "price":
        prices = ByPrice(
            view.ask, query, run.part, run.total, view.read, partial(_cheapest, query=query), reverse=reverse
        )
        return prices.page(query.offset, query.limit) if after is None else prices.after(after, query.limit)
    ties = partial(view.ask.numbers, "newest") if run.sort == "relevance" else None
    order = Order(run.top, *_KEYS[run.sort], reverse, ties)
    if after is None:
        return page(order, view.read, query.offset, query.limit)
    return page_after(order, view.read, after, query.limit)


_DOWNWARD = {"relevance", "updated", "created"}


def _first_of_number(value: float) -> int:
    return -int(value)


def _first_of_text(value: str) -> str:
    return value


def _key_of_points(value: float, record: Record) -> Key:
    return -int(value), -record.newest, record.id


def _key_of_number(value: int, record: Record) -> Key:
    return -value, record.id


def _key_of_text(value: str, _: Record) -> Key:
    return (value,)


_KEYS: dict[str, tuple[Any, Any]] = {
    "relevance": (_first_of_number, _key_of_points),
    "updated": (_first_of_number, _key_of_number),
    "created": (_first_of_number, _key_of_number),
    "name": (_first_of_text, _key_of_text),
}


def _hit(key: Key, record: Record, query: Query, *, scored: bool) -> Hit:
    return Hit(record.id, record.item, -key[0] / BEST if scored else 0.0, _cheapest(record, query=query), key)


def _cheapest(record: Record, *, query: Query) -> Cheapest | None:
    return shown(record.cheapest, record.offers, query)


def _facet(view: View, part: Part, name: str) -> tuple[tuple[str, int], ...]:
    """The commonest values of a facet. Asked for one at a time: Tantivy limits the values of one aggregation."""
    terms = {"field": FACET_FIELDS[name], "size": MOST_VALUES, "segment_size": _SEGMENT_VALUES}
    found = view.ask.searcher.aggregate(part, {"values": {"terms": terms}})["values"]["buckets"]
    pairs = [(str(each["key"]), int(each["doc_count"])) for each in found]
    return tuple(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))
