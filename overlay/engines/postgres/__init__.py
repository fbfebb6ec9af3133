"""The PostgreSQL engine: one index in the database, fed by one process and searched by any number, also on replicas.

Words are found through a GIN index over a `tsvector` of exact terms, each with its level, beside the facts that filters
ask for. What a question means, typing errors included, is worked out by `overlay.search`, from the counts of all words
in memory: so trigrams (`pg_trgm`) are not needed, and no extension is.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from psycopg import Connection, OperationalError, errors

from overlay.engines import BusyError, Cursor, Engine, EngineError, Renewal, Suggestion, UnavailableError
from overlay.engines.postgres import layout, writing
from overlay.engines.postgres.hints import Hints
from overlay.engines.postgres.layout import State
from overlay.engines.postgres.pool import BehindError, Pool, TookLongError
from overlay.engines.postgres.search import answer, current_item, nothing
from overlay.engines.postgres.view import View, counted, keep, moved_on
from overlay.engines.postgres.ways import WORDLESS, ways
from overlay.query import Hits, Query
from overlay.search.suggesting import suggest
from overlay.search.vocabulary import Change, Vocabulary

if TYPE_CHECKING:
    from overlay.document import Document

_BEGIN = b"BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; "
_ATTEMPTS = 4
_PATIENCE_SECONDS = 0.3  # what reading all words may take for a question to wait for it
_CLOSING_SECONDS = 1.0
_BUSY_SECONDS = 1.0  # a process that was killed holds its lock until the server has noticed

log = logging.getLogger(__name__)

_T = TypeVar("_T")
Work = Callable[[Connection[Any], State | None], _T]
"""What is done in one snapshot of an index."""


class PostgresEngine:
    """See `overlay.engines.Engine`. One process feeds the index at a time, whichever comes first. Questions are asked
    of a replica, `reading`, where one is given, and of the database itself where that is behind what was shown."""

    name = "postgres"
    slow = True

    def __init__(self, url: str, reading: str = "", generation: int | None = None) -> None:
        """The index in a database, made when there is none; with `generation`, one that does not answer yet.

        Raises EngineError when it cannot be made or read.
        """
        self._url, self._generation = url, generation
        self._home = Pool(url)
        self._away = Pool(reading) if reading else None
        self._feeder: Connection[Any] | None = None
        self._renewer: Connection[Any] | None = None
        self._feeding, self._planning = threading.Lock(), threading.Lock()
        self._view = View(None, Vocabulary())
        self._told: Cursor | None = None
        self._reading: threading.Thread | None = None
        self._took = 0.0  # seconds to read all words, the last time
        self._voided = 0  # how often that became void
        if generation is None:
            self._make()

    def _make(self) -> None:
        """Where the replica answers, the database itself may be away."""
        try:
            with self._home.lend() as connection:
                if layout.read(connection) is None:
                    layout.make(connection)
        except UnavailableError:
            if self._away is None:
                raise
            log.warning("the database of the index does not answer; its replica is asked alone", exc_info=True)

    # -- reading

    def _ask(self, work: Work[_T]) -> _T:
        """Work in one snapshot, of the replica if that is good enough, else of the database."""
        if self._away is not None:
            try:
                return self._ask_of(self._away, work, final=False)
            except TookLongError:
                raise
            except (UnavailableError, BehindError) as error:
                log.info("the database is asked instead of its replica: %s", error or "it is behind what was shown")
        return self._ask_of(self._home, work, final=True)

    def _ask_of(self, pool: Pool, work: Work[_T], *, final: bool) -> _T:
        """Again where the index was exchanged meanwhile. What is `final` is believed even when it went back."""
        for left in reversed(range(_ATTEMPTS)):
            try:
                with pool.lend() as connection:
                    return self._moment(connection, work, back=final and not left)
            except (errors.UndefinedTable, errors.InvalidSchemaName, errors.SerializationFailure) as error:
                if not left and final:
                    raise EngineError(f"the index in {pool.shown} cannot be read, rebuild it: {error}") from error
                if not left:
                    raise BehindError from error
            except TookLongError:
                raise
            except UnavailableError:
                # the server cut what was kept open: the second time, a new connection is asked
                if left < _ATTEMPTS - 1:
                    raise
            except BehindError:
                if not final:
                    raise
        raise AssertionError("the last attempt believes what it reads")

    def _moment(self, connection: Connection[Any], work: Work[_T], *, back: bool) -> _T:
        """Work in a snapshot. Raises BehindError when it is older than what was shown, unless that is allowed."""
        try:
            state = layout.begin(connection, _BEGIN, self._generation)
            shown = self._view.state
            if shown is not None and (state is None or state.commit < shown.commit):
                if not back:
                    raise BehindError
                self._void()
            return work(connection, state)
        finally:
            if not connection.closed:
                connection.execute(b"ROLLBACK")

    def _void(self) -> None:
        """Forget the words of an index that went back: they were counted of what is not there."""
        with self._planning:
            self._view = View(None, Vocabulary())
            self._voided += 1

    def _seen(self, connection: Connection[Any], state: State) -> View:
        """The words in use in a snapshot, for who holds `_planning`, or a moment later; those of before (which
        `View.is_of` denies) while all are read anew, where that takes long."""
        before = self._view
        if before.is_of(state):
            return before
        if before.state is not None and self._reading is not None and self._reading.is_alive():
            return before
        moved = moved_on(connection, state, before)
        if moved is not None:
            self._view = moved
        elif before.state is None or self._took < _PATIENCE_SECONDS:
            self._view = self._counted(connection, state)
        else:
            self._reading = threading.Thread(target=self._read_anew, args=(self._voided,), name="words", daemon=True)
            self._reading.start()
        return self._view

    def _counted(self, connection: Connection[Any], state: State) -> View:
        began = time.monotonic()
        view = counted(connection, state)
        self._took = time.monotonic() - began
        return view

    def _read_anew(self, voided: int) -> None:
        """Read the words in use beside questions."""
        try:
            view = self._ask(lambda connection, state: self._counted(connection, state) if state else None)
        except EngineError as error:  # the next question tries again
            log.warning("the words in use are those of before: %s", error)
            return
        with self._planning:
            if view is not None and voided == self._voided:
                self._view = view

    def cursor(self) -> Cursor | None:
        """Where this index stands: as written, for the process that feeds it, else as it can be searched."""
        if self._feeder is not None:
            self._told = self._ask_of(self._home, _cursor, final=True)
        else:
            self._told = self._ask(_cursor)
        return self._told

    def search(self, query: Query) -> Hits:
        """Answer a query. Raises UnavailableError while the database is away."""

        def work(connection: Connection[Any], state: State | None) -> Hits:
            if state is None:
                return nothing(query)
            tried = WORDLESS
            if query.text.strip():
                with self._planning:
                    tried = ways(self._seen(connection, state), state, query)
            return answer(connection, state, query, tried)

        return self._ask(work)

    def suggest(self, text: str, limit: int) -> list[Suggestion]:
        """Completions of what is being typed, the best first."""

        def work(connection: Connection[Any], state: State | None) -> list[Suggestion]:
            if state is None:
                return []
            with self._planning:
                vocabulary = self._seen(connection, state).vocabulary
            return suggest(Hints(connection, state, vocabulary, self._planning), text, limit)

        return self._ask(work)

    def warm(self) -> None:
        """Read the words in use before anybody asks, however long that takes: a million listings have so many that the
        first question would not wait for them. Raises UnavailableError while the database is away."""
        self.consult(lambda _: None)

    def consult(self, look: Callable[[Vocabulary], _T]) -> _T:
        """What a function finds in the words in use."""

        def work(connection: Connection[Any], state: State | None) -> _T:
            if state is None:
                return look(Vocabulary())
            with self._planning:
                return look(self._seen(connection, state).vocabulary)

        return self._ask(work)

    def get(self, id: str) -> bytes | None:  # noqa: A002
        """The stored item of a current listing."""

        def work(connection: Connection[Any], state: State | None) -> bytes | None:
            return None if state is None else current_item(connection, state, id)

        return self._ask(work)

    def count(self) -> int:
        """Number of current documents."""
        return self._ask(lambda _, state: state.current if state else 0)

    # -- writing

    def replace(self, registrations: Sequence[str], documents: Iterable[Document], cursor: Cursor) -> None:
        """Forget all documents of `registrations`, add `documents`, and remember `cursor`."""
        with self._writing() as (connection, before):
            state = layout.next_state(connection, before, cursor)
            tally = writing.Tally(Change(), Counter())
            current = before.current - writing.forget(connection, state, registrations, tally)
            current += writing.add(connection, state, documents, tally)
            writing.count_hints(connection, state, tally)
            keep(connection, state, tally.words)
            layout.save(connection, state._replace(current=current, listings=before.listings + tally.words.listings))
        self._told = cursor

    def clear(self) -> None:
        """Forget everything."""
        with self._writing() as (connection, before):
            layout.empty(connection, before)
        self._told = None

    @contextmanager
    def _writing(self) -> Iterator[tuple[Connection[Any], State]]:
        """One transaction of the process that feeds the index. Raises BusyError when that is another one."""
        with self._feeding:
            try:
                connection = self._feed()
                with connection.transaction():
                    state = layout.read(connection, self._generation) or layout.make(connection)
                    self._check_told(state)
                    yield connection, state
            except OperationalError as error:
                self._stop_feeding()
                raise self._home.gone(error) from error
            except (errors.UndefinedTable, errors.InvalidSchemaName) as error:
                raise BusyError(f"the index in {self._home.shown} was exchanged meanwhile") from error

    def _feed(self) -> Connection[Any]:
        """The connection that holds the right to feed the index."""
        if self._feeder is None or self._feeder.closed:
            connection = self._home.connect(patient=True)
            taken = False
            try:
                taken = self._generation is not None or _taken(connection, layout.FEEDING)
            finally:
                if not taken:
                    connection.close()
            if not taken:
                raise BusyError(f"another process feeds the index in {self._home.shown}")
            self._feeder = connection
        return self._feeder

    def _check_told(self, state: State) -> None:
        """Who took over reads where the index stands from the database itself, before anything is written."""
        if self._away is not None and self._told != state.cursor:
            raise BusyError(f"the index in {self._home.shown} has moved on; look again")

    def _stop_feeding(self) -> None:
        feeder, self._feeder = self._feeder, None
        if feeder is not None:
            feeder.close()

    # -- making it anew

    @contextmanager
    def renewing(self) -> Iterator[PostgresEngine]:
        """An empty index beside the one that answers, to be filled and then shown; removed where it is not. Raises
        BusyError while another process makes one."""
        with self._home.own() as connection:
            if not _taken(connection, layout.RENEWING):
                raise BusyError(f"another process makes the index in {self._home.shown} anew")
            if layout.read(connection) is None:
                layout.make(connection)
            layout.sweep(connection)
            with connection.transaction():
                made = layout.new(connection, shown=False)
            fresh, self._renewer = PostgresEngine(self._url, generation=made.generation), connection
            try:
                yield fresh
            finally:
                self._renewer = None
                fresh.close()
                layout.sweep(connection)
                # a server may hold the right of a connection that was closed for some milliseconds more
                connection.execute(b"SELECT pg_advisory_unlock(%s)", [layout.RENEWING])

    def show(self, fresh: Engine, *, back: bool = False) -> bool:
        """Let an index that was made beside this one answer in its place."""
        state = fresh.state() if isinstance(fresh, PostgresEngine) and not fresh.is_live else None
        if state is None:
            raise EngineError("only an index that is being made anew can be shown")
        with self._home.own() as connection:
            layout.index(connection, state)
            if not layout.show(connection, state, back=back):
                return False
        # who made it has what others would have to read first; where another one feeds it already, that goes on
        with suppress(BusyError, UnavailableError), self._feeding:
            self._feed()
        return True

    def tell(self, done: int, of: int) -> None:
        """Say how far the index is that is being made beside this one: as the name of who makes it."""
        if self._renewer is not None:
            layout.tell(self._renewer, Renewal(done, of))

    def renewal(self) -> Renewal | None:
        """How far the index is that some process makes beside this one; None while the database is away, too."""
        try:
            with self._home.lend() as connection:
                return layout.told(connection)
        except UnavailableError:
            return None

    @property
    def is_live(self) -> bool:
        """Whether it is the one that answers, whichever that is."""
        return self._generation is None

    def tidy(self) -> None:
        """Remove what was being made when a process was killed."""
        with self._home.own() as connection:
            (taken,) = connection.execute(b"SELECT pg_try_advisory_lock(%s)", [layout.RENEWING]).fetchone() or (False,)
            if taken:
                layout.sweep(connection)

    def state(self) -> State | None:
        """What the index knows of itself, as written."""
        return self._ask_of(self._home, lambda _, state: state, final=True)

    def close(self) -> None:
        """Give up connections, and with them the right to feed the index."""
        with self._feeding:
            self._stop_feeding()
        self._home.close()
        if self._away is not None:
            self._away.close()
        if self._reading is not None:
            self._reading.join(_CLOSING_SECONDS)


def open_engine(url: str) -> PostgresEngine:
    """The index in the database of a URL; a replica to ask stands behind a space."""
    home, _, away = url.partition(" ")
    return PostgresEngine(home, away)


def _cursor(_: Connection[Any], state: State | None) -> Cursor | None:
    return state.cursor if state else None


def _taken(connection: Connection[Any], right: int) -> bool:
    """Whether this connection has got a right, which it holds until it is closed."""
    until = time.monotonic() + _BUSY_SECONDS
    while True:
        (taken,) = connection.execute(b"SELECT pg_try_advisory_lock(%s)", [right]).fetchone() or (False,)
        if taken or time.monotonic() > until:
            return bool(taken)
        time.sleep(0.05)
