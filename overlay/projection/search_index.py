"""The search index that the rest of the program uses: an engine, planning, pages, suggestions and rebuilding."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from overlay.engines import (
    BusyError,
    CompilingError,
    Engine,
    EngineError,
    IndexContent,
    IndexPosition,
    OutdatedIndexError,
    Progress,
    Searchable,
    UnavailableError,
    engine_module,
    is_further,
)
from overlay.projection.index_content import index_content
from overlay.projection.index_pages import page
from overlay.search import facet_counts, suggesting
from overlay.search.candidates import factors_of
from overlay.search.facts import EXACT
from overlay.search.foreign_words import is_known, whole_words
from overlay.search.meaning import is_gibberish, weight
from overlay.search.planner import ALL, QueryPlan, plan
from overlay.search.prices import cheapest_for, cost_for
from overlay.search.query import (
    Hit,
    Hits,
    Lookup,
    Matches,
    Query,
    Suggestion,
    looked_up,
    without_phrases,
)
from overlay.search.related_words import with_related
from overlay.search.rerank import Factors, Scored
from overlay.search.value_lists import resolved

if TYPE_CHECKING:
    from overlay.search.document import Document
    from overlay.search.term_dictionary import Terms

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Seconds between two looks whether the files of the index are still there."""


class SearchIndex:
    """The live version of an index, reopened when another version is promoted; or a `version` that is being built.
    Safe for threads and processes; one process writes."""

    def __init__(
        self,
        url: str,
        version: Any = None,
        *,
        meaning: bool = False,
        for_search: bool = True,
        content: IndexContent | None = None,
    ) -> None:
        """Open the index at a URL, or create it. With `meaning`, text vectors count in its order, where its engine has
        any. One that is not `for_search` only reports its state. Its documents are made by `content`, by default all
        systems. Raises UnknownEngineError, OSError."""
        self._module, location = engine_module(url)
        self.name, self.is_slow_engine, self._url = url.partition(":")[0], self._module.SLOW, url
        self._versions = self._module.open_versions(location)
        self._is_live, self._for_search = version is None, for_search
        self.is_compiling = False
        """Whether searches and writes raise CompilingError, as their kernels are not compiled yet."""
        self.is_interpreted = False
        """Whether kernels that are not compiled yet are interpreted."""
        self._meaning, self._opening = meaning, threading.Lock()
        self._content = content or index_content()
        self._version = version or self._versions.live()
        self._engine = self._open(self._version)
        self._is_there, self._look_at = self._versions.watch(self._version), 0.0

    @property
    def slow(self) -> bool:
        """Whether a search belongs in a thread."""
        return self.is_slow_engine or self.is_interpreted

    def _open(self, version: Any) -> Engine:
        try:
            return self._module.open_engine(version, make=True, for_search=self._for_search)
        except (OSError, ValueError):
            live = self._versions.live()
            if not self._is_live or live == version:
                raise
            self._version = live  # another version was promoted meanwhile
            return self._module.open_engine(live, make=True, for_search=self._for_search)

    def _compiled(self) -> Engine:
        """The engine of the live version, to search in. Raises CompilingError, OutdatedIndexError."""
        if self.is_compiling:
            raise CompilingError
        engine = self._current()
        if self._has_other_items(engine):
            raise OutdatedIndexError
        return engine

    def _has_other_items(self, engine: Engine) -> bool:
        """Whether stored items may have other members than the items of this program."""
        content = engine.content()
        return content is not None and content.items != self._content.items

    def _current(self) -> Engine:
        """The engine of the live version: opened again where another version is live, or where files of this one were
        removed, which is looked at once in a while. Raises UnavailableError."""
        if not self._is_live:
            return self._engine
        is_replaced = self._versions.live() != self._version
        if not is_replaced and (now := monotonic()) >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            is_replaced = not self._is_there()
        if is_replaced and self._opening.acquire(blocking=False):
            try:
                self._reopen()
            finally:
                self._opening.release()
        return self._engine

    def _reopen(self) -> None:
        """Open the live version, unless it is open; where the version was removed, open the new one. Raises
        UnavailableError."""
        live = self._versions.live()
        if live == self._version and self._is_there():
            return
        try:
            engine = self._reopened(live)
            is_there = self._versions.watch(live)
        except (OSError, ValueError) as error:
            raise UnavailableError(f"the index cannot be opened now: {error}") from error
        self._engine, self._is_there, self._version = engine, is_there, live

    def _reopened(self, live: Any) -> Engine:
        try:
            return self._module.open_engine(live, make=False, for_search=self._for_search)
        except (OSError, ValueError) as error:
            log.warning("the index is made again, as it cannot be opened: %s", error)
            return self._module.open_engine(live, make=True, for_search=self._for_search)

    # -- searching

    def position(self) -> IndexPosition | None:
        """How far the index has read; None when it is new, damaged or outdated, and needs a rebuild."""
        engine = self._current()
        return engine.position() if engine.content() == self._content else None

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever written to it."""
        return self._current().content() is None

    @property
    def is_outdated(self) -> bool:
        """Whether its documents were made by another release or other systems. They are searched until it is rebuilt,
        if its items have the members of this release."""
        return self._current().content() not in (None, self._content)

    @property
    def is_refusing(self) -> bool:
        """Whether searches raise OutdatedIndexError."""
        return self._has_other_items(self._current())

    @property
    def version(self) -> Any:
        """The version that was read last."""
        return self._version

    def damage(self) -> str:
        """The damage of the files of the index, until it is rebuilt; "" for none."""
        return self._current().damage()

    def terms(self) -> Terms:
        """The term dictionary."""
        return self._compiled().terms()

    def plan(self, text: str) -> QueryPlan:
        """The plan of a query text."""
        return plan(text, self.terms())

    def get(self, id: str) -> bytes | None:  # noqa: A002
        """The stored item of a current listing, None without one, or while searches are refused or not answered."""
        try:
            engine = self._current()
            return None if self.is_compiling or self._has_other_items(engine) else engine.get(id)
        except UnavailableError:
            return None

    def search(self, query: Query) -> Hits:
        """Run a query; without results for its phrases, by their words. Raises StaleCursorError for a next page by
        relevance after the index has changed, if the query lacks the marks of the listings shown before."""
        engine = self._compiled()
        # an index that is made again may be filled before anybody asks for its position
        return self._hits_of(engine, query, is_new=not self.is_slow_engine and engine.position() is None)

    def with_document(self, document: Document) -> Callable[[Query], Hits] | None:
        """A search of the index with one more document, as if it were of the newest block; None where the engine cannot
        do that."""
        searchable = self._compiled().with_document(document)
        return None if searchable is None else partial(self._hits_of, searchable)

    def _hits_of(self, engine: Searchable, query: Query, *, is_new: bool = False) -> Hits:
        query, lookup = _looked_up(engine, _resolved(engine, query))
        planned = plan(query.text, engine.terms())._replace(all_words=query.all_words)
        if self.has_meaning and not query.all_words:
            planned = planned._replace(meaning=weight(query, planned))
            planned = with_related(planned, engine.terms()) if planned.meaning else planned
        matches = page(engine, query, planned)
        phrases_dropped = False
        if not matches.total and (by_words := without_phrases(query)):
            retried = page(engine, by_words, planned)
            if retried.total:
                query, matches, phrases_dropped = by_words, retried, True
        counts, totals = (
            facet_counts.counts(query, matches, lambda wide: engine.search(wide, planned, 0, 0))
            if query.facets
            else (None, {})
        )
        return Hits(
            _hits(matches, query, planned),
            min(matches.total, EXACT),
            min(matches.matched, EXACT),
            at_least=matches.total > EXACT,
            facets=counts,
            facet_totals=totals,
            plan=planned,
            is_weak=self.has_meaning and not matches.matched and (matches.is_far or is_gibberish(query, planned)),
            phrases_dropped=phrases_dropped,
            lookup=lookup,
            is_of_new_index=is_new,
        )

    @property
    def has_meaning(self) -> bool:
        """Whether text vectors count in the order of results."""
        return self._meaning and self._engine.has_vectors

    def resolved(self, query: Query) -> Query:
        """The query with its lists of tags and skills as values."""
        return _resolved(self._compiled(), query)

    def suggest(self, text: str, limit: int) -> list[Suggestion]:
        """Completions of a text, the best first."""
        engine = self._compiled()
        return suggesting.suggest(text, limit, engine.terms(), engine.complete)

    # -- writing

    def replace(self, registrations: Sequence[str], documents: Iterable[Document], position: IndexPosition) -> None:
        """Remove all documents of `registrations`, add `documents`, and store `position`, in one durable commit. Raises
        BusyError while another process writes, EngineError."""
        with self._writable() as engine:
            if engine.content() not in (None, self._content):
                raise EngineError("the index is of another release or of other systems: it must be rebuilt")
            engine.write(registrations, documents, position, self._content)

    def clear(self) -> None:
        """Remove everything, the position too."""
        with self._writable() as engine:
            engine.write(None, (), None, self._content)

    @contextmanager
    def _writable(self) -> Iterator[Engine]:
        if self.is_compiling:
            raise CompilingError
        if not self._is_live:
            yield self._engine
            return
        with self._opening:
            before = self._engine
            self._reopen()
            if self._engine is not before:
                raise BusyError("the index was replaced meanwhile; read its position again")
        with self._versions.writing(self._version):
            yield self._engine

    def close(self) -> None:
        """Release files and locks; the object is not used afterwards."""
        self._engine.close()

    # -- rebuilding

    @contextmanager
    def rebuilding(self) -> Iterator[SearchIndex]:
        """A new empty version, while this one stays live: to be filled and promoted, otherwise removed at the end.
        Raises BusyError while another process rebuilds."""
        with self._versions.rebuilding() as version:
            fresh = SearchIndex(self._url, version, content=self._content)
            fresh.is_compiling = self.is_compiling
            try:
                yield fresh
            finally:
                fresh.close()

    def promote(self, fresh: SearchIndex, *, back: bool = False) -> bool:
        """Make a new version live in all processes, atomically and durably. Returns False, and changes nothing, if this
        one has read further, unless the database went `back`."""
        if fresh._is_live:
            raise EngineError("only a version that is being rebuilt can be promoted")
        position = fresh.position()
        with self._versions.promoting():
            if not back and is_further(self.position(), position):
                return False
            fresh._engine.close()
            self._versions.promote(fresh._version)
        with self._opening:
            self._reopen()
        fresh._engine = self._module.open_engine(fresh._version, make=False)
        return True

    def report_progress(self, done: int, of: int) -> None:
        """Publish the progress of a rebuild to all processes; only while `rebuilding`."""
        self._versions.report_progress(done, of)

    def progress(self) -> Progress | None:
        """The progress of the process that rebuilds; None without one."""
        return self._versions.progress()

    def cleanup(self) -> None:
        """Remove versions that a killed process left, unless a rebuild is in progress."""
        self._versions.cleanup()


def _looked_up(engine: Searchable, query: Query) -> tuple[Query, Lookup | None]:
    """The query by the first of its lookups that finds anything, and that one."""
    if not query.lookups:
        return query, None
    for lookup in query.lookups:
        narrowed = looked_up(query, lookup)
        planned = plan(narrowed.text, engine.terms())
        if engine.search(narrowed._replace(facets=()), planned, 0, 0).total:
            return query._replace(lookups=(lookup,)) if lookup.leads else narrowed, lookup
    return query._replace(lookups=()), None


def _resolved(engine: Searchable, query: Query) -> Query:
    def is_in_use(name: str, value: str) -> bool:
        chosen: dict[str, Any] = {name: (value,)}
        return engine.search(Query(statuses=(), with_duplicates=True, **chosen), ALL, 0, 0).total > 0

    return resolved(query, is_in_use)


def _hits(matches: Matches, query: Query, planned: QueryPlan) -> tuple[Hit, ...]:
    cheapest, cost = cheapest_for(query), cost_for(query)
    all_words = len(planned.content) if planned.finds_by_meaning(matches.matched) else -1
    named = _namer(query.text, planned)
    return tuple(
        [
            Hit(
                row.record.id, row.record.item, row.score, cheapest(row.record.offers), row.key, row.scored,
                named(lacks), len(lacks) == all_words, cost(row.record.offers),
            )
            for row, lacks in zip(matches.rows, _lacks(matches, planned), strict=True)
        ]
    )  # fmt: skip


def _namer(text: str, planned: QueryPlan) -> Callable[[tuple[str, ...]], tuple[str, ...]]:
    """Names the words that a result lacks, by the table of foreign words where meaning counts."""
    if text.isascii():
        return tuple
    is_word = is_known if planned.meaning else lambda _: False
    return lambda lacks: whole_words(lacks, text, is_word) if lacks else ()


def _lacks(matches: Matches, planned: QueryPlan) -> list[tuple[str, ...]]:
    """The content words that each result lacks; orders other than relevance have no factors to read them from."""
    rows = matches.rows
    is_whole = len(planned.content) == 1 or matches.matched == matches.total <= EXACT  # each result holds all words
    if (is_whole and not planned.finds_by_meaning(matches.matched)) or not rows:
        return [()] * len(rows)
    unscored = [row for row in rows if row.scored is None]
    computed = factors_of(unscored, planned) if unscored else None
    numbers = iter(range(len(unscored)))
    scored = [row.scored or Scored(cast("Factors", computed), next(numbers)) for row in rows]
    content = [(column, group) for column, group in enumerate(planned.groups) if not group.is_stop]
    best = [hit.factors.terms[hit.row].tolist() for hit in scored]
    return [tuple([group.word for column, group in content if not group.is_held_by(row[column])]) for row in best]
