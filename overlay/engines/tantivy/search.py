"""A `Query` in, `Hits` out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any

from overlay.engines.tantivy.coverage import covering, driven_out
from overlay.engines.tantivy.facets import facets
from overlay.engines.tantivy.filters import admitted
from overlay.engines.tantivy.held import held
from overlay.engines.tantivy.near import Near
from overlay.engines.tantivy.pages import Key, Keyed, Order, hits, page, page_after
from overlay.engines.tantivy.prices import ByPrice
from overlay.engines.tantivy.queries import either, every
from overlay.engines.tantivy.run import Run
from overlay.engines.tantivy.tiers import Tier, Tiers, joined
from overlay.engines.tantivy.view import View
from overlay.query import Cheapest, Hits, Query
from overlay.search.coverage import ENOUGH
from overlay.search.facts import is_plain
from overlay.search.kept import Kept, ahead, are_kept, concerns
from overlay.search.matching import WORDLESS, Plan, Word, plan
from overlay.search.prices import Showing
from overlay.search.records import Record
from overlay.search.sorting import LATEST, is_key, is_reversed

FEW = 300  # hits: to score these all takes no longer than to look for them tier by tier (measured)
RARE = 1_500  # listings that hold one of two words: to score those with both costs less than to count them first


def search(view: View, counting: Lock, query: Query) -> Hits:
    """Answer a query; `counting` is held while the vocabulary is read."""
    if (found := held(view, counting, query)) is not None:
        return found
    if view.records is not None:
        for run in _runs(view, counting, query):
            if run.total:
                return _answer(view, counting, run, query)
        if query.facets:
            return Hits((), 0, facets=facets(view, counting, query, None))
    return Hits((), 0, facets=dict.fromkeys(query.facets, ()) or None)


def _runs(view: View, counting: Lock, query: Query) -> Iterator[Run | Tiers]:
    """Searches, each for when the one before found nothing: for all words, then for any of them."""
    searcher = view.ask.searcher
    if not query.text.strip():
        yield Run(searcher, every(admitted(view, query, scored=False)), query, 0, ahead=ahead(WORDLESS))
        return
    with counting:
        planned = plan(query.text, view.vocabulary)
        best = _tiers(view, planned, query)
    filters = admitted(view, query, scored=True)
    part = every([*map(view.ask.held, planned.words), *filters]) if best else None
    tiers = Tiers(searcher, part, best, filters, ahead(planned)) if part else None
    if tiers and (len(planned.words) == 1 or (tiers.total >= FEW and tiers.most >= ENOUGH)):
        yield tiers
        return
    with counting:
        words = view.ask.words(planned, view.vocabulary, query)
    run = partial(Run, searcher, query=query, words=len(words), ahead=ahead(planned))
    if planned.covers and not (tiers and not tiers.total):
        found = run(every([*words, *filters]))
        means = is_plain(query) and found.most >= ENOUGH  # else found may be what is not listed, or behind another
        if found.total and (means or driven_out(view, counting, planned, query)):
            yield found
            return
    if words:
        any_of_them = covering(words) if planned.covers else either(words)
        yield run(every([any_of_them, *filters]), closeness=planned.closeness)


def _tiers(view: View, planned: Plan, query: Query) -> list[Tier]:
    """The tiers of one word or two, where they say all that is asked; else empty."""
    first_page = query.sort == "relevance" and query.limit > 0 and not query.after and not is_reversed(query)
    if not first_page or not is_plain(query) or not 0 < len(planned.words) < 3:
        return []
    if len(planned.words) > 1 and min(_holding(view, word) for word in planned.words) < RARE:
        return []
    return joined([view.ask.tiers(word, view.vocabulary) for word in planned.words])


def _holding(view: View, word: Word) -> int:
    """How many listings hold a word, at most."""
    frequency = view.vocabulary.frequency
    return sum(min(map(frequency, choice.terms)) for choice in word.choices)


def _answer(view: View, counting: Lock, run: Run | Tiers, query: Query) -> Hits:
    find = Showing(query)
    rows = _rows(view, run, query, find) if query.limit > 0 else []
    found = hits(rows, find, run.total, scored=run.sort == "relevance")
    return replace(found, facets=facets(view, counting, query, run.part)) if query.facets else found


def _rows(view: View, run: Run | Tiers, query: Query, find: Showing) -> list[Keyed]:
    after = query.after if query.after is not None and is_key(run.sort, query.after) else None
    if run.sort in ("relevance", LATEST):
        return _relevant(view, run, query, after)
    reverse = is_reversed(query)
    if run.sort == "price":
        lowest = partial(_lowest, find)
        prices = ByPrice(view, query, run.part, run.total, lowest, reverse=reverse)
        return prices.page(query.offset, query.limit) if after is None else prices.after(after, query.limit)
    order = Order(run.top, *_KEYS[run.sort], reverse, None)
    if after is None:
        return page(order, view.read, query.offset, query.limit)
    return page_after(order, view.read, after, query.limit)


def _relevant(view: View, run: Run | Tiers, query: Query, after: Key | None) -> list[Keyed]:
    """The page in the order of points, with places kept where more is found than one page shows."""
    changed: dict[str, Key] = {}
    if isinstance(run, Tiers):
        order = Order(run.top, _first_of_tier, _key_of_tier, False, None)
    else:
        ties = partial(view.ask.numbers, "seniority") if run.sort == "relevance" else None
        order = Order(run.top, *_KEYS[run.sort], is_reversed(query), ties)
    if run.closeness is not None:
        near = Near.of(order, view.read, run.total, run.closeness)
        natural, natural_after = near.page, near.after
        changed = {record.id: key for key, record in near.best}
    else:
        natural, natural_after = partial(page, order, view.read), partial(page_after, order, view.read)
    if are_kept(run.total) and concerns(query, run.ahead):
        senior = [(changed.get(record.id, key), record) for key, record in run.senior(view)]
        kept = Kept.of(natural(0, run.ahead), senior)
        natural, natural_after = partial(kept.page, natural), partial(kept.after, natural_after)
    return natural(query.offset, query.limit) if after is None else natural_after(after, query.limit)


def _lowest(find: Showing, record: Record) -> Cheapest | None:
    return find(record.cheapest, record.offers)


def _first_of_number(value: float) -> int:
    return -int(value)


def _first_of_text(value: str) -> str:
    return value


def _key_of_points(value: float, record: Record) -> Key:
    return -int(value), -record.seniority, record.id


def _first_of_tier(value: tuple[int, int]) -> int:
    return -value[0]


def _key_of_tier(value: tuple[int, int], record: Record) -> Key:
    return -value[0], -value[1], record.id


def _key_of_number(value: int, record: Record) -> Key:
    return -value, record.id


def _key_of_latest(value: int, record: Record) -> Key:
    return -value, 0, record.id


def _key_of_text(value: str, _: Record) -> Key:
    return (value,)


_KEYS: dict[str, tuple[Any, Any]] = {
    "relevance": (_first_of_number, _key_of_points),
    LATEST: (_first_of_number, _key_of_latest),
    "updated": (_first_of_number, _key_of_number),
    "created": (_first_of_number, _key_of_number),
    "name": (_first_of_text, _key_of_text),
}
