"""A `Query` in, `Hits` out: Whoosh finds the words, plain Python filters, counts and orders what it found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from heapq import nsmallest
from operator import itemgetter
from typing import Any, NamedTuple

from overlay.engines.whoosh.row import Row
from overlay.engines.whoosh.saying import narrowed
from overlay.engines.whoosh.view import View
from overlay.query import Hit, Hits, Query
from overlay.search.closeness import MOST, Closeness, brought_near
from overlay.search.coverage import COVERED, among, drive_out
from overlay.search.facts import EXACT, FACET_FIELDS, standing, unwanted, wanted
from overlay.search.kept import KEPT, Kept, ahead, are_kept, concerns, least
from overlay.search.matching import WORDLESS, Choice, Plan, Word, plan
from overlay.search.prices import Showing, asks_offer, meets, price_key, said_together
from overlay.search.ranking import BEST
from overlay.search.sorting import LATEST, is_key, is_reversed, order
from overlay.search.widening import Counts, is_joint, merged, without_own

Key = tuple[Any, ...]
Points = dict[int, int]
"""Documents, and how many points they make."""


class Found(NamedTuple):
    """A document that meets the query."""

    document: int
    row: Row
    points: int


def search(view: View, query: Query) -> Hits:
    """Answer a query."""
    tried: list[Points] = []
    for points, planned in _attempts(view, query):
        tried.append(points)
        found = list(_admitted(view, query, points))
        if found:
            return _answer(view, query, found, tried, planned)
    return Hits((), 0, facets=_facets(view, query, [], tried) or None)


def _attempts(view: View, query: Query) -> Iterator[tuple[Points, Plan]]:
    """The documents to look at until some are admitted, and what gave them points: all words, then any."""
    if not query.text.strip():
        yield dict.fromkeys(view.documents(), 0), WORDLESS
        return
    planned = plan(query.text, view.vocabulary)
    words = [_word(view, word) for word in planned.words]
    together: Points = {}
    for points in words:
        for document, more in points.items():
            together[document] = together.get(document, 0) + more
    if planned.covers:
        covering = {document: together[document] for document in set(words[0]).intersection(*words[1:])}
        if drive_out(_most(view, query, covering), lambda points: _most(view, query, together) > points):
            yield covering, planned
        else:
            together |= {document: points + COVERED for document, points in covering.items()}
    yield together, planned


def _most(view: View, query: Query, points: Points) -> int:
    """The points of the best of all that is listed; 0 where there is none."""
    return max((each.points for each in _admitted(view, among(query), points)), default=0)


def _word(view: View, word: Word) -> Points:
    """The points of the best choice that each document holds."""
    best: Points = {}
    for choice in word.choices:
        for document, points in _choice(view, choice).items():
            if points > best.get(document, 0):
                best[document] = points
    return best


def _choice(view: View, choice: Choice) -> Points:
    """The documents that hold all terms of a choice."""
    (first, *others), at = [view.levels(term) for term in choice.terms], choice.points
    found = {document: at[level - 1] for document, level in first.items()}
    for levels in others:
        found = {
            document: points + at[levels[document] - 1] for document, points in found.items() if document in levels
        }
    return found


def _admitted(view: View, query: Query, points: Points) -> Iterator[Found]:
    """Those that meet all filters."""
    groups = [frozenset(group) for group in (*standing(query), *wanted(query))]
    banned = unwanted(query)
    tests = list(_tests(query))
    for document, made in narrowed(view, query, points).items():
        row = view.row(document)
        if (
            any(map(row.facts.isdisjoint, groups))
            or not row.facts.isdisjoint(banned)
            or not all(test(row) for test in tests)
        ):
            continue
        yield Found(document, row, made)


def _nearer(view: View, closeness: Closeness, keyed: list[tuple[Key, Found]]) -> list[tuple[Key, Found]]:
    """The same with what closeness adds to the points of the best."""
    best = [each for _, each in nsmallest(MOST, keyed, key=itemgetter(0))]
    said = [view.stored(each.document)["order"] for each in best]
    keys = brought_near(closeness, list(map(_relevance, best)), said)
    made = {each.document: key for each, key in zip(best, keys, strict=True)}
    return [(made.get(each.document, key), each) for key, each in keyed]


def _with_kept(keyed: list[tuple[Key, Found]], ahead: int) -> list[tuple[Key, Found]]:
    """The same, in order, with kept places."""
    points = least(max(each.points for _, each in keyed))
    enough = (pair for pair in keyed if pair[1].points >= points)
    senior = nsmallest(KEPT, enough, key=lambda pair: (-pair[1].row.seniority, pair[1].row.id))
    return Kept.of(keyed[:ahead], senior).page(lambda start, limit: keyed[start : start + limit], 0, len(keyed))


def _relevance(each: Found) -> tuple[int, int, str]:
    return -each.points, -each.row.seniority, each.row.id


def _tests(query: Query) -> Iterator[Callable[[Row], bool]]:
    """What numbers and offers must meet."""
    if query.as_of is not None:
        yield lambda row: _stood(row, query)
    if query.from_height is not None or query.to_height is not None:
        yield lambda row: row.height is not None and _between(row.height, query.from_height, query.to_height)
    if query.updated_since is not None:
        yield lambda row: row.time is not None and _between(row.time, query.updated_since, None)
    if asks_offer(query):
        yield lambda row: meets(row.offers, query)


def _stood(row: Row, query: Query) -> bool:
    height = query.as_of
    return row.since is not None and height is not None and row.since <= height < (row.until or height + 1)


def _between(value: int, low: int | None, high: int | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)


def _answer(view: View, query: Query, found: list[Found], tried: list[Points], planned: Plan) -> Hits:
    find = Showing(query)
    page = _page(view, found, query, find, planned) if query.limit > 0 else []
    ranked = order(query) == "relevance"
    return Hits(
        tuple(_hit(view, each, key, find, -key[0] / BEST if ranked else 0.0) for key, each in page),
        min(len(found), EXACT),
        at_least=len(found) > EXACT,
        facets=_facets(view, query, found, tried) or None,
    )


def _facets(view: View, query: Query, found: list[Found], tried: list[Points]) -> dict[str, Counts]:
    """What is counted: of all that was found, or, of a facet that is filtered by, of all that its own filter would
    leave of what was `tried`."""
    counts: dict[str, Counts] = {}
    for name in query.facets:
        wide = without_own(query, name)
        wider = [found] if wide is query else [list(_admitted(view, wide, points)) for points in tried]
        joint = is_joint(wide, name) and len(wider[-1]) <= EXACT
        counts[name] = merged(_facet(each, wide, name, joint=joint).items() for each in wider)
    return counts


def _page(view: View, found: list[Found], query: Query, find: Showing, planned: Plan) -> list[tuple[Key, Found]]:
    sort, reverse = order(query), is_reversed(query)
    keyed = [(_KEYS[sort](each, find), each) for each in found]
    if sort == "relevance" and planned.closeness is not None:
        keyed = _nearer(view, planned.closeness, keyed)
    keyed.sort(key=lambda pair: pair[0], reverse=reverse)
    if are_kept(len(found)) and concerns(query, ahead(planned)):
        keyed = _with_kept(keyed, ahead(planned))
    if sort == "price":
        keyed.sort(key=lambda pair: pair[0][0] == 1)  # without a price: last, in either direction
    after = query.after
    if after is None or not is_key(sort, after):
        return keyed[query.offset : query.offset + query.limit]
    later = (pair for pair in keyed if _is_later(pair[0], after, by_price=sort == "price", reverse=reverse))
    return [pair for pair, _ in zip(later, range(query.limit), strict=False)]


def _is_later(key: Key, after: Key, *, by_price: bool, reverse: bool) -> bool:
    if by_price and key[0] != after[0]:
        return bool(key[0] > after[0])
    return key < after if reverse else key > after


_KEYS: dict[str, Callable[[Found, Showing], Key]] = {
    "relevance": lambda each, _: _relevance(each),
    LATEST: lambda each, _: (-each.row.newest, 0, each.row.id),
    "updated": lambda each, _: (-each.row.newest, each.row.id),
    "created": lambda each, _: (-each.row.made, each.row.id),
    "name": lambda each, _: (each.row.name,),
    "price": lambda each, find: price_key(find(each.row.usual, each.row.offers), each.row.id),
}
"""Keys ascend in the natural order of a sort; each ends in the id, so none are equal."""


def _hit(view: View, each: Found, key: Key, find: Showing, score: float) -> Hit:
    item: bytes = view.stored(each.document)["item"]
    return Hit(each.row.id, item, score, find(each.row.usual, each.row.offers), key)


def _facet(found: list[Found], query: Query, name: str, *, joint: bool) -> Counter[str]:
    """How many listings each value finds: where that is `joint`, by one offer that meets all."""
    if joint:
        return Counter(value for each in found for value in said_together(each.row.offers, query, name))
    return Counter(value for each in found for value in each.row.facets[FACET_FIELDS[name]])
