"""Plain questions, answered from postings in memory where they are held: nearly all that people ask.

The answers are those that Tantivy gives, hit by hit, in two thirds of the time; what postings do not tell (facets,
other orders, later pages, heights, what is no longer listed) is left to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from operator import attrgetter, itemgetter
from threading import Lock
from typing import Any

from overlay.engines.tantivy.near import nearer
from overlay.engines.tantivy.pages import Key, Keyed, answer, hits, whole_ties
from overlay.engines.tantivy.view import View
from overlay.query import Hit, Hits, Query, Written
from overlay.search import choosing
from overlay.search.choosing import ANY
from overlay.search.closeness import MOST
from overlay.search.facts import is_plain, wanted
from overlay.search.kept import KEPT, Kept, Row, ahead, behind
from overlay.search.listed import paid, priced, taken
from overlay.search.matching import WORDLESS, Plan, plan
from overlay.search.postings import Postings
from overlay.search.prices import Showing, amount_key, asks_offer, asks_price, each_currency
from overlay.search.prices import is_plain as is_any_offer
from overlay.search.ranking import BEST
from overlay.search.records import Records
from overlay.search.segment import Counted, Found, Offered, Wanted

_LAST = 1_000  # a page that ends beyond is looked for elsewhere


def held(view: View, counting: Lock, query: Query) -> Hits | None:
    """Answer a query; None when postings do not tell. `counting` is held while the vocabulary is read."""
    if view.postings is None or not _tells(query):
        return None
    listings = _wanted(query, view.postings)
    if listings is None:
        return None
    found, planned = _found(view, view.postings, counting, query, listings)
    if planned.closeness is not None:
        return hits(_near(view, found, query, planned), Showing(query), found.total, scored=True)
    first = ahead(planned)
    return _written(view, view.postings, found, query, listings, first) or _page(view, found, query, first)


_TOLD = frozenset(
    ("text", "kind", "skills", "currencies", "intervals", "min_price", "max_price", "price_currency",
     "priced_by_filter", "rates", "quotes", "tags", "chains", "domains", "owners", "statuses", "verified", "limit",
     "offset")
)  # fmt: skip
_UNTOLD = [name for name in Query._fields if name not in _TOLD]
_untold = attrgetter(*_UNTOLD)
_NONE_OF_THEM = _untold(Query())
"""What must not be asked for, and the values that say so."""


def _tells(query: Query) -> bool:
    """Whether postings hold all that is asked about."""
    if query.offset + query.limit > _LAST or not is_plain(query) or (query.skills and asks_offer(query)):
        return False
    return bool(_untold(query) == _NONE_OF_THEM)


def _wanted(query: Query, postings: Postings) -> Wanted | None:
    """The filters; None where a bound has more digits than the keys of amounts."""
    if not asks_offer(query):
        return Wanted(tuple(wanted(query)))
    offers: list[Offered] = []
    for each in each_currency(query, lambda currency: postings.offers(priced(currency))):
        bounds = [None if bound is None else amount_key(bound) for bound in (each.min_price, each.max_price)]
        if any(bound is not None and bound % 2 for bound in bounds):
            return None
        offers.append(Offered(tuple(_groups(each)), *bounds))
    return Wanted(tuple(group for group in wanted(query) if not group[0].startswith(_OF_OFFERS)), tuple(offers))


_OF_OFFERS = ("currency:", "interval:")
"""How the facts begin that one offer must meet together with the others."""


def _groups(query: Query) -> Iterator[tuple[str, ...]]:
    """What one offer must be, but for its amount."""
    if asks_price(query) and query.price_currency is not None:
        yield (priced(query.price_currency),)
    if query.currencies:
        yield tuple(map(taken, query.currencies))
    if query.intervals:
        yield tuple(map(paid, query.intervals))


def _found(view: View, postings: Postings, counting: Lock, query: Query, listings: Wanted) -> tuple[Counted, Plan]:
    number = query.offset + query.limit
    if not query.text.strip():
        return postings.latest(listings, number, ahead(WORDLESS)), WORDLESS
    with counting:
        planned = plan(query.text, view.vocabulary)
    if planned.closeness is not None:
        number = max(number, MOST)
    return postings.best(planned, listings, number, ahead(planned)), planned


_Read = Callable[[list[Found]], list[Row]]


def _page(view: View, found: Counted, query: Query, first: int) -> Hits:
    """The hits of the page, as `search` makes them; `first` are ahead of kept places."""
    if query.limit < 1 or view.records is None:
        return answer((), found.total, ages=False)
    records, scored, find = view.records, bool(query.text.strip()), Showing(query)

    def read(located: list[Found], *, scored: bool = scored) -> list[Row]:
        shown = records.shown([place for _, _, place in located])
        return [(_key_of(one, each[0], scored=scored), each) for one, each in zip(located, shown, strict=True)]

    rows = natural = partial(_natural, found, read)
    if found.several:
        senior = _senior(found, partial(read, scored=True))
        if not scored:
            senior = [((newest, 0, id_), each) for (newest, _, id_), each in senior]
        rows = partial(Kept.of(natural(0, first), senior).page, natural)
    made: list[Hit] = []
    ages = False
    for key, (id_, usual, offers, item, aging) in rows(query.offset, query.limit):
        made.append(_hit(Hit, (id_, item, -key[0] / BEST if scored else 0.0, find(usual, offers), key)))
        ages |= aging
    return answer(tuple(made), found.total, ages=ages)


def _natural(found: Counted, read: _Read, start: int, limit: int) -> list[Row]:
    """Hits number `start` to `start + limit` as no place is kept."""
    located, first = _located(found, start, start + limit)
    return sorted(read(located), key=itemgetter(0))[start - first : start - first + limit]


def _senior(found: Counted, read: _Read) -> list[Row]:
    """Those that places are kept for, in order."""
    return sorted(read(found.senior), key=lambda row: row[0][1:])[:KEPT]


def _written(view: View, postings: Postings, found: Counted, query: Query, listings: Wanted, first: int) -> Hits | None:
    """The same, unread, in a third of the time; None where ids decide about the order, prices are converted, an offer's
    skills or more digits than keys have decide what is shown, or a warning may be too old to be told."""
    if query.limit < 1 or view.records is None or query.rates or (len(postings.segments) > 1 and _ties(found, query)):
        return None
    asked = ANY
    if not is_any_offer(query):
        if query.skills:
            return None
        asked = choosing.asked(query, listings.offers[0] if listings.offers else Offered(()))
    start, stop = min(query.offset, found.number), min(query.offset + query.limit, found.number)
    written = view.records.written(found.placed, start, stop, asked)
    if written is None:
        return None
    of = view.records, found, first, start, query
    hits = Written(stop - start, written.enclosed, partial(_made, *of), partial(_key, *of))
    return answer(hits, found.total, ages=False)


def _ties(found: Counted, query: Query) -> bool:
    """Whether any of the page ties with its neighbour, there or on the next page; with kept places, any of those
    before, or of the most senior."""
    first = 0 if found.several else max(0, query.offset - 1)
    near = found.first[first : query.offset + query.limit + 1]
    senior = {number for _, number, _ in found.senior}
    return any(one[:2] == other[:2] for one, other in pairwise(near)) or len(senior) < found.several


def _made(records: Records, found: Counted, first: int, start: int, query: Query, at: int) -> Hit:
    points, _, place = found.placed[:3, start + at].tolist()
    ((id_, usual, offers, item, _),) = records.shown((place,))
    key = _key(records, found, first, start, query, at)
    return Hit(id_, item, points / BEST, Showing(query)(usual, offers), key)


def _key(records: Records, found: Counted, first: int, start: int, query: Query, at: int) -> Key:
    number = start + at - first
    if 0 <= number < found.moved:
        return behind(_key(records, found, first, 0, query, first - 1), number)
    points, of_ties, place = found.placed[:3, start + at].tolist()
    key: Key = _key_of((points, of_ties, place), records.id_at(place), scored=bool(query.text.strip()))
    return key


def _key_of(found: Found, id_: str, *, scored: bool) -> Any:
    points, number, _ = found
    return (-points, -number, id_) if scored else (-number, 0, id_)


_hit = tuple.__new__  # a page takes a tenth less time than by calling `Hit`


def _near(view: View, found: Counted, query: Query, planned: Plan) -> list[Keyed]:
    """The same where closeness adds to the points of the best."""
    if query.limit < 1 or view.records is None or planned.closeness is None:
        return []
    records = view.records

    def read(located: list[Found]) -> list[Row]:
        shown = records.unpacked([place for _, _, place in located])
        return [(_key_of(one, each.id, scored=True), each) for one, each in zip(located, shown, strict=True)]

    located, _ = _located(found, 0, max(query.offset + query.limit, MOST))
    rows = sorted(read(located), key=itemgetter(0))
    rows[:MOST] = nearer(planned.closeness, rows[:MOST])

    def natural(start: int, limit: int) -> list[Row]:
        return rows[start : start + limit]

    if not found.several:
        return natural(query.offset, query.limit)
    changed = {key[2]: key for key, _ in rows[:MOST]}

    def read_changed(located: list[Found]) -> list[Row]:
        return [(changed.get(key[2], key), record) for key, record in read(located)]

    kept = Kept.of(natural(0, ahead(planned)), _senior(found, read_changed))
    return kept.page(natural, query.offset, query.limit)


def _located(found: Counted, first: int, stop: int) -> tuple[list[Found], int]:
    """Those of hits number `first` to `stop` and all that tie with them, and the number of the first of these."""
    every = found.first
    start, end = whole_ties([(points, number) for points, number, _ in every], first, stop)
    return every[start:end], start
