"""The search index that the rest of the program uses: an engine, planning, ranking, suggestions and rebuilding.

Results by relevance are ordered in two stages: the engine's own BM25 finds the best candidates, and `search.rerank`
orders these. Beyond the candidates the engine's order holds. Every other order is the engine's, exact to any depth.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import inf, nextafter
from typing import TYPE_CHECKING, Any

from overlay.engines import BusyError, Cursor, Engine, EngineError, Matches, Row, engine_module, is_further
from overlay.index_versions import Progress
from overlay.query import Hit, Hits, Query, Suggestion
from overlay.search import facets, suggesting
from overlay.search.diversity import diversified
from overlay.search.facts import EXACT
from overlay.search.forward import sources
from overlay.search.planner import QueryPlan, plan
from overlay.search.prices import cheapest
from overlay.search.rerank import Scored, factors
from overlay.search.sorting import follows, is_reversed, order

if TYPE_CHECKING:
    from overlay.document import Document
    from overlay.search.term_dictionary import TermDictionary

_WINDOW = 1_000
"""Results that are read first where the place after a cursor of another index is looked for; then ever more."""


class SearchIndex:
    """The index that answers, opened again when another version of it is promoted; or a `version` beside it that is
    being built. Safe from several threads and processes; one process writes."""

    def __init__(self, url: str, version: Any = None) -> None:
        """Open the index that a URL names, making it when there is none. Raises UnknownEngineError, OSError."""
        self._module, place = engine_module(url)
        self.name, self.slow, self._url = url.partition(":")[0], self._module.SLOW, url
        self._versions = self._module.open_versions(place)
        self._is_live = version is None
        self._opening = threading.Lock()
        self._version = version or self._versions.live()
        self._engine = self._open(self._version)

    def _open(self, version: Any) -> Engine:
        try:
            return self._module.open_engine(version, make=True)
        except (OSError, ValueError):
            live = self._versions.live()
            if not self._is_live or live == version:
                raise
            self._version = live  # another version was promoted meanwhile
            return self._module.open_engine(live, make=True)

    def _current(self) -> Engine:
        """The engine of the version that answers."""
        if self._is_live and self._versions.live() != self._version and self._opening.acquire(blocking=False):
            try:
                self._reopen()
            finally:
                self._opening.release()
        return self._engine

    def _reopen(self) -> None:
        live = self._versions.live()
        if live != self._version:
            self._engine, self._version = self._module.open_engine(live, make=False), live

    # -- searching

    def cursor(self) -> Cursor | None:
        """How far the index has read; None when it is new or damaged, and wants a rebuild."""
        return self._current().cursor()

    def terms(self) -> TermDictionary:
        """The words in use."""
        return self._current().terms()

    def plan(self, text: str) -> QueryPlan:
        """How a text is understood."""
        return plan(text, self.terms())

    def get(self, id: str) -> bytes | None:  # noqa: A002
        """The stored item of a current listing, None when there is none."""
        return self._current().get(id)

    def search(self, query: Query) -> Hits:
        """Answer a query."""
        engine = self._current()
        planned = plan(query.text, engine.terms())
        matches = _page(engine, query, planned)
        counts = (
            facets.counts(query, matches, lambda wide: engine.search(wide, planned, 0, 0)) if query.facets else None
        )
        return Hits(
            tuple([_hit(row, query) for row in matches.rows]),
            min(matches.total, EXACT),
            min(matches.matched, EXACT),
            at_least=matches.total > EXACT,
            facets=counts,
            plan=planned,
        )

    def suggest(self, text: str, limit: int) -> list[Suggestion]:
        """Completions of what is being typed, the best first."""
        engine = self._current()

        def find(planned: QueryPlan, stop: int) -> list[Row]:
            return engine.search(Query(), planned, 0, stop).rows

        return suggesting.suggest(text, limit, engine.terms(), find)

    # -- writing

    def replace(self, registrations: Sequence[str], documents: Iterable[Document], cursor: Cursor) -> None:
        """Remove all documents of `registrations`, add `documents`, and store `cursor`: all or nothing, durably. Raises
        BusyError while another process writes."""
        with self._writable() as engine:
            engine.write(registrations, documents, cursor)

    def clear(self) -> None:
        """Remove everything, the cursor too."""
        with self._writable() as engine:
            engine.write(None, (), None)

    @contextmanager
    def _writable(self) -> Iterator[Engine]:
        if not self._is_live:
            yield self._engine
            return
        with self._opening:
            before = self._version
            self._reopen()
            if self._version != before:
                raise BusyError("the index was replaced meanwhile; read its cursor again")
        with self._versions.writing(self._version):
            yield self._engine

    def close(self) -> None:
        """Release files and locks; the object is not used afterwards."""
        self._engine.close()

    # -- rebuilding

    @contextmanager
    def rebuilding(self) -> Iterator[SearchIndex]:
        """An empty version beside this one, which goes on answering and being written: to be filled and promoted, and
        removed where it is not. Raises BusyError while another process builds one."""
        with self._versions.rebuilding() as version:
            fresh = SearchIndex(self._url, version)
            try:
                yield fresh
            finally:
                fresh.close()

    def promote(self, fresh: SearchIndex, *, back: bool = False) -> bool:
        """Let a version that was built beside this one answer in its place, in all processes, at one stroke and
        durably. False, and nothing is done, where this one has read further, unless the new one is to go `back`."""
        if fresh._is_live:
            raise EngineError("only a version that is being rebuilt can be promoted")
        cursor = fresh.cursor()
        with self._versions.promoting():
            if not back and is_further(self.cursor(), cursor):
                return False
            fresh._engine.close()
            self._versions.promote(fresh._version)
        with self._opening:
            self._reopen()
        fresh._engine = self._module.open_engine(fresh._version, make=False)
        return True

    def report_progress(self, done: int, of: int) -> None:
        """Tell all processes how far the version is that is built beside this one; only while `rebuilding`."""
        self._versions.report_progress(done, of)

    def progress(self) -> Progress | None:
        """How far a version is that some process builds beside this one; None where none does."""
        return self._versions.progress()

    def cleanup(self) -> None:
        """Remove what a killed process was building; not what another one is building."""
        self._versions.cleanup()


def _page(engine: Engine, query: Query, planned: QueryPlan) -> Matches:
    """The results on the page that a query asks for."""
    if query.after is None:
        return _between(engine, query, planned, query.offset, query.offset + query.limit)
    if query.offset:  # where the page before ended, if the index is the same
        found = _between(engine, query, planned, query.offset - 1, query.offset + query.limit)
        if found.rows and found.rows[0].key == tuple(query.after):
            return found._replace(rows=found.rows[1:])
    return _after(engine, query, planned, tuple(query.after))


def _after(engine: Engine, query: Query, planned: QueryPlan, key: tuple[Any, ...]) -> Matches:
    """The first results whose keys come after one of an index that has changed."""
    start, window, later = 0, _WINDOW, list[Row]()
    while True:
        found = _between(engine, query, planned, start, start + window)
        later += [row for row in found.rows if follows(query, row.key, key)]
        start, window = start + window, 4 * window
        if len(later) >= query.limit or start >= found.total:
            return found._replace(rows=later[: query.limit])


def _between(engine: Engine, query: Query, planned: QueryPlan, start: int, stop: int) -> Matches:
    if order(query) != "relevance" or not planned.groups or stop <= start:
        return engine.search(query, planned, start, stop)
    if not is_reversed(query):
        return _relevant(engine, query, planned, start, stop)
    total = engine.search(query._replace(facets=()), planned, 0, 0).total
    found = _relevant(engine, query, planned, max(0, total - stop), max(0, total - start))
    return found._replace(rows=found.rows[::-1])


def _relevant(engine: Engine, query: Query, planned: QueryPlan, start: int, stop: int) -> Matches:
    """Results by relevance, re-ranked as far as the candidates go."""
    candidates = planned.candidates
    is_deep = start >= 2 * candidates
    first = engine.search(query, planned, 0, candidates if is_deep else max(candidates, stop))
    head = _reranked(planned, first.rows[:candidates])
    if is_deep:
        beyond = engine.search(query._replace(facets=()), planned, start, stop).rows
    else:
        beyond = first.rows[max(start, candidates) : stop]
    last = first.rows[len(head) - 1].score if head else 1.0
    lowest = min((row.score for row in head), default=0.0)
    tail = [row._replace(score=lowest * (row.score / last)) for row in beyond]  # the share first: equal scores stay so
    return first._replace(rows=[*head[start:stop], *tail])


def _reranked(planned: QueryPlan, rows: Sequence[Row]) -> list[Row]:
    """Candidates in the order of stage two."""
    if not rows:
        return []
    found = factors(planned, [row.record.forward for row in rows])
    scored = [
        Row((0, -score, row.record.id), score, row.record, Scored(found, at))
        for at, (score, row) in enumerate(zip(found.scores.tolist(), rows, strict=True))
    ]
    scored.sort(key=lambda row: row.key)
    return _diverse(scored)


def _diverse(rows: Sequence[Row]) -> list[Row]:
    """Re-ranked candidates with room for others; the keys of those that are moved go up as those of all do."""
    found: list[Row] = []
    for at in diversified([sources(row.record.forward) for row in rows]):
        row = rows[at]
        if found and found[-1].key >= row.key:
            row = row._replace(key=(0, nextafter(found[-1].key[1], inf), row.record.id))
        found.append(row)
    return found


def _hit(row: Row, query: Query) -> Hit:
    record = row.record
    return Hit(record.id, record.item, row.score, cheapest(record.offers, query), row.key, row.scored)


def open_index(url: str) -> SearchIndex:
    """Open the index that a URL names, making it when there is none. Raises UnknownEngineError, OSError."""
    return SearchIndex(url)
