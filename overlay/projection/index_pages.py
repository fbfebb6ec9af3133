"""Pages of results: by position, after a sort key, or after the listings shown before; reversed, and after the matches
of a lookup, or with what a question prefers first."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from math import inf, nextafter

from overlay.engines import Searchable
from overlay.search.planner import CANDIDATES, QueryPlan
from overlay.search.query import MARK_BYTES, EngineHit, Matches, Query, StaleCursorError, looked_up, shown_mark
from overlay.search.sorting import LATEST, is_reversed, order


def page(engine: Searchable, query: Query, planned: QueryPlan) -> Matches:
    """The results of the requested page. In orders that continue after a key, the last one's key says whether the next
    result has the same."""
    if not query.limit or not _continues_by_key(query):
        return _read_page(engine, query, planned)
    read = _read_page(engine, query._replace(limit=query.limit + 1), planned)
    rows, following = read.rows[: query.limit], read.rows[query.limit :]
    if rows and following and rows[-1].key == following[0].key:
        *others, last = rows[-1].key
        rows = [*rows[:-1], rows[-1]._replace(key=(*others, f"{last}{_TIE}"))]
    return read._replace(rows=rows)


def _read_page(engine: Searchable, query: Query, planned: QueryPlan) -> Matches:
    after, query = query.after, query._replace(after=None)
    if after is None:
        return _between(engine, query, planned, query.offset, query.offset + query.limit)
    if query.shown:
        return _unshown(engine, query, planned)
    has_keys, is_tie = _continues_by_key(query), str(after[-1]).endswith(_TIE)
    if is_tie:
        after = (*after[:-1], after[-1].removesuffix(_TIE))
    if query.offset and (is_tie or not has_keys):  # the end of the previous page, if the index is unchanged
        page = _between(engine, query, planned, query.offset - 1, query.offset + query.limit)
        if page.rows and page.rows[0].key == tuple(after):
            return page._replace(rows=page.rows[1:])
    if has_keys:
        return engine.search(query._replace(after=after), planned, 0, query.limit)
    raise StaleCursorError  # any change can move any listing


def _continues_by_key(query: Query) -> bool:
    """Whether a page begins after a sort key, also where the index has changed."""
    return order(query) != "relevance" and not _is_by_age(query)


_TIE = "\0"
"""Ends the key of a page's last listing where the next one has the same: one id on two chains that split from each
other. Then the next page begins at its position, if the index is unchanged."""


def _unshown(engine: Searchable, query: Query, planned: QueryPlan) -> Matches:
    """The first results that no previous page has shown, even if the index has changed since. Where chains that split
    from each other list one id, as many of its listings count as shown as it has marks."""
    marks = query.shown
    shown = Counter(marks[start : start + MARK_BYTES] for start in range(0, len(marks), MARK_BYTES))
    candidates = _between(engine, query, planned, 0, shown.total() + query.limit)
    rows = []
    for row in candidates.rows:
        mark = shown_mark(row.record.id)
        if shown[mark] > 0:
            shown[mark] -= 1
        else:
            rows.append(row)
    return candidates._replace(rows=rows[: query.limit])


def _between(engine: Searchable, query: Query, planned: QueryPlan, start: int, stop: int) -> Matches:
    if _is_by_age(query):
        return _verified_first(engine, query, planned, start, stop)
    if order(query) != "relevance" or not planned.groups or stop <= start:
        return engine.search(query, planned, start, stop)
    if not is_reversed(query):
        return _led(engine, query, planned, start, stop)
    total = engine.search(query._replace(facets=()), planned, 0, 0).total
    matches = _led(engine, query, planned, max(0, total - stop), max(0, total - start))
    return matches._replace(rows=matches.rows[::-1])


def _is_by_age(query: Query) -> bool:
    """Whether the results come from a lookup in the order of `_verified_first`."""
    return bool(query.lookups) and order(query) == LATEST and not is_reversed(query)


def _verified_first(engine: Searchable, query: Query, planned: QueryPlan, start: int, stop: int) -> Matches:
    """The matches of a lookup: the verified listings first, then the oldest."""
    matches, rows, before = engine.search(query, planned, 0, 0), list[EngineHit](), 0
    for number, fact in enumerate(("verified", "unverified")):
        part = query._replace(
            more_facts=(*query.more_facts, (fact,)), sort="created", descending=False, facets=(), offset=0
        )
        results = engine.search(part, planned, max(0, start - before), max(0, stop - before))
        rows += [row._replace(key=(number, *row.key[1:])) for row in results.rows]
        before += results.total
    return matches._replace(rows=rows)


def _led(engine: Searchable, query: Query, planned: QueryPlan, start: int, stop: int) -> Matches:
    """Results by relevance, after the listing that a lookup places first."""
    leads = [looked_up(query._replace(facets=()), lookup) for lookup in query.lookups]  # with words, those that lead
    leading = _verified_first(engine, leads[0], planned, 0, 1).rows if leads else []
    if not leading:
        return _preferring(engine, query, planned, start, stop)
    matches = engine.search(query, planned, 0, stop + 1)
    (leader,) = leading
    others = [row for row in matches.rows if row.record.id != leader.record.id]
    same = [row for row in matches.rows if row.record.id == leader.record.id]
    first = min(row.key[1] for row in matches.rows) if matches.rows else 0.0
    row = (same or leading)[0]._replace(key=(0, nextafter(first, -inf), leader.record.id))
    return matches._replace(rows=[row, *others][start:stop])


PREFERRED = 2.0
"""A listing that meets the preferences of a question comes before those with less than so many times its score."""
HINTED = 1.1
"""So many times the score, in the order, of a listing of the kind that a question hints at."""
_HEAD = 4_096
"""Bytes of an item that have its kind."""


def _preferring(engine: Searchable, query: Query, planned: QueryPlan, start: int, stop: int) -> Matches:
    """Results by relevance, of the first `CANDIDATES` those that meet the preferences of the query before others."""
    if not (query.preferred or query.hinted) or start >= CANDIDATES:
        return engine.search(query, planned, start, stop)
    matches = engine.search(query, planned, 0, max(stop, CANDIDATES))
    meeting = frozenset[str]()
    if query.preferred:
        narrowed = query._replace(**dict(query.preferred), preferred=(), facets=())
        meeting = frozenset(row.record.id for row in engine.search(narrowed, planned, 0, CANDIDATES).rows)
    head = matches.rows[:CANDIDATES]
    scores = accumulate([row.score for row in head], min)  # where diversity moves a result, its place counts
    weighed = [
        -score * (PREFERRED if row.record.id in meeting else 1) * (HINTED if _is_hinted(row, query) else 1)
        for row, score in zip(head, scores, strict=True)
    ]
    rows = list[EngineHit]()
    for row in (
        *(head[index] for index in sorted(range(len(head)), key=weighed.__getitem__)),
        *matches.rows[CANDIDATES:],
    ):
        key = row.key
        if rows and rows[-1].key >= key:
            key = (rows[-1].key[0], nextafter(rows[-1].key[1], inf), row.record.id)
        rows.append(row._replace(key=key))
    return matches._replace(rows=rows[start:stop])


def _is_hinted(row: EngineHit, query: Query) -> bool:
    return bool(query.hinted) and f'"type":"{query.hinted}"'.encode() in bytes(row.record.item[:_HEAD])
