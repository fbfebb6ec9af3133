"""Plain questions, answered from postings in memory where they are held: nearly all that people ask.

The answers are those that Tantivy gives, hit by hit, in two thirds of the time; what postings do not tell (facets,
other orders, later pages, heights, what is no longer listed) is left to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from operator import attrgetter, itemgetter
from threading import Lock

from overlay.engines.tantivy.near import nearer
from overlay.engines.tantivy.pages import Keyed, answer, hits, whole_ties
from overlay.engines.tantivy.view import View
from overlay.query import Hit, Hits, Query, Written
from overlay.search import choosing
from overlay.search.choosing import ANY
from overlay.search.closeness import MOST, Closeness
from overlay.search.facts import is_plain, wanted
from overlay.search.listed import U64, paid, priced, taken
from overlay.search.matching import plan
from overlay.search.postings import Counted, Found, Postings
from overlay.search.prices import Showing, amount_key, asks_offer, asks_price, each_currency
from overlay.search.prices import is_plain as is_any_offer
from overlay.search.ranking import BEST
from overlay.search.records import Records
from overlay.search.segment import Offered, Wanted

_LAST = 1_000  # a page that ends beyond is looked for elsewhere


def held(view: View, counting: Lock, query: Query) -> Hits | None:
    """Answer a query; None when postings do not tell. `counting` is held while the vocabulary is read."""
    if view.postings is None or not _tells(query):
        return None
    listings = _wanted(query, view.postings)
    if listings is None:
        return None
    found, closeness = _found(view, view.postings, counting, query, listings)
    if closeness is None:
        return _written(view, view.postings, found, query, listings) or _page(view, found, query)
    return hits(_near(view, found, query, closeness), Showing(query), found.total, scored=True)


_TOLD = frozenset(
    ("text", "kind", "skills", "currencies", "intervals", "min_price", "max_price", "price_currency", "rates", "tags",
     "chains", "domains", "owners", "statuses", "verified", "limit", "offset")
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


def _found(
    view: View, postings: Postings, counting: Lock, query: Query, listings: Wanted
) -> tuple[Counted, Closeness | None]:
    number = query.offset + query.limit
    if not query.text.strip():
        return postings.latest(listings, number), None
    with counting:
        planned = plan(query.text, view.vocabulary)
    if planned.closeness is not None:
        number = max(number, MOST)
    return postings.best(planned, listings, number), planned.closeness


def _page(view: View, found: Counted, query: Query) -> Hits:
    """The hits of the page, as `search` makes them."""
    if query.limit < 1 or view.records is None:
        return answer((), found.total, ages=False)
    stop, scored = query.offset + query.limit, bool(query.text.strip())
    located, first = _located(found, query.offset, stop)
    shown, find = view.records.shown([place for _, _, place in located]), Showing(query)
    made: list[Hit] = []
    ages = False
    for one, (id_, usual, offers, item, aging) in zip(located, shown, strict=True):
        made.append(_hit(Hit, (id_, item, one[0] / BEST, find(usual, offers), _key_of(one, id_, scored=scored))))
        ages |= aging
    made.sort(key=_SORT_KEY)
    return answer(tuple(made[query.offset - first : stop - first]), found.total, ages=ages)


def _written(view: View, postings: Postings, found: Counted, query: Query, listings: Wanted) -> Hits | None:
    """The same, unread, in a third of the time; None where ids decide about the order, prices are converted, an offer's
    skills or more digits than keys have decide what is shown, or a warning may be too old to be told."""
    if query.limit < 1 or view.records is None or query.rates or (len(postings.segments) > 1 and _ties(found, query)):
        return None
    asked = ANY
    if not is_any_offer(query):
        if query.skills:
            return None
        asked = choosing.asked(query, listings.offers[0] if listings.offers else Offered(()))
    first, stop = min(query.offset, found.number), min(query.offset + query.limit, found.number)
    written = view.records.written(found.columns, first, stop, asked)
    if written is None:
        return None
    of = view.records, found.columns, first, query
    hits = Written(stop - first, written.enclosed, partial(_made, *of), partial(_key, *of))
    return answer(hits, found.total, ages=False)


def _ties(found: Counted, query: Query) -> bool:
    """Whether any of the page ties with its neighbour, there or on the next page."""
    near = found.first[max(0, query.offset - 1) : query.offset + query.limit + 1]
    return any(one[:2] == other[:2] for one, other in pairwise(near))


def _made(records: Records, found: U64, first: int, query: Query, at: int) -> Hit:
    points, _, place = found[:3, first + at].tolist()
    ((id_, usual, offers, item, _),) = records.shown((place,))
    return Hit(id_, item, points / BEST, Showing(query)(usual, offers), _key(records, found, first, query, at))


def _key(records: Records, found: U64, first: int, query: Query, at: int) -> tuple[int | str, ...]:
    points, newest, place = found[:3, first + at].tolist()
    return _key_of((points, newest, place), records.id_at(place), scored=bool(query.text.strip()))


def _key_of(found: Found, id_: str, *, scored: bool) -> tuple[int | str, ...]:
    points, newest, _ = found
    return (-points, -newest, id_) if scored else (-newest, id_)


_hit = tuple.__new__  # a page takes a tenth less time than by calling `Hit`
_SORT_KEY = attrgetter("sort_key")


def _near(view: View, found: Counted, query: Query, closeness: Closeness) -> list[Keyed]:
    """The same where closeness adds to the points of the best."""
    if query.limit < 1 or view.records is None:
        return []
    stop = query.offset + query.limit
    located, _ = _located(found, 0, max(stop, MOST))
    records = view.records.unpacked([place for _, _, place in located])
    rows: list[Keyed] = [((-points, -newest, r.id), r) for (points, newest, _), r in zip(located, records, strict=True)]
    rows.sort(key=itemgetter(0))
    rows[:MOST] = nearer(closeness, rows[:MOST])
    return rows[query.offset : stop]


def _located(found: Counted, first: int, stop: int) -> tuple[list[Found], int]:
    """Those of hits number `first` to `stop` and all that tie with them, and the number of the first of these."""
    every = found.first
    start, end = whole_ties([(points, newest) for points, newest, _ in every], first, stop)
    return every[start:end], start
