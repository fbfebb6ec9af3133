"""Many listings in PostgreSQL: counted as far as is told exactly, shown page by page, and planned for beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from psycopg import Connection

from overlay.engines import Engine, open_engine, postgres
from overlay.engines.postgres import PostgresEngine, search
from overlay.engines.postgres.layout import State
from overlay.engines.postgres.view import View
from overlay.query import Hits, Query
from tests.contracts.listed import ask, ids, listing, put
from tests.databases import new_index
from tests.waiting import PATIENCE, until

FEW = 5
LONG = 60.0  # seconds that reading all words took


@pytest.fixture
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    with closing(open_engine(new_index("postgres", request, tmp_path))) as opened:
        put(
            opened,
            *(listing(f"{at}", "alpha", time=1_700_000_000 + at // 2, kind="tool" if at % 3 else "agent",
                      status="burned" if at == 7 else "live") for at in range(24)),
        )  # fmt: skip
        yield opened


def pages(engine: Engine, **query: Any) -> list[Hits]:
    """All pages of three, by cursor and by offset, which agree."""
    found = [ask(engine, limit=3, **query)]
    while found[-1].hits:
        one = ask(engine, limit=3, after=found[-1].hits[-1].sort_key, **query)
        assert ids(one) == ids(ask(engine, limit=3, offset=3 * len(found), **query))
        found.append(one)
    return found


@pytest.mark.parametrize(
    "query",
    [{}, {"kind": "tool"}, {"sort": "updated", "descending": False}, {"statuses": ("live", "burned")}, {"text": "a"}],
    ids=["all", "tools", "oldest-first", "burned-too", "a-word"],
)  # fmt: skip
def test_pages_are_the_same_whether_there_are_more_than_are_counted(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, query: dict[str, Any]
) -> None:
    exact = pages(engine, **query)
    assert {hits.total for hits in exact} == {sum(len(hits.hits) for hits in exact)}
    monkeypatch.setattr(search, "EXACT", FEW)
    many = pages(engine, **query)
    assert [ids(hits) for hits in many] == [ids(hits) for hits in exact]
    assert {(hits.total, hits.at_least) for hits in many} == {(FEW, True)}


def test_what_is_just_few_enough_is_told_exactly(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    agents = ask(engine, kind="agent").total
    monkeypatch.setattr(search, "EXACT", agents)
    hits = ask(engine, kind="agent")
    assert (hits.total, hits.at_least) == (agents, False)
    monkeypatch.setattr(search, "EXACT", agents - 1)
    hits = ask(engine, kind="agent")
    assert (hits.total, hits.at_least) == (agents - 1, True)


def test_words_are_read_before_anybody_asks(engine: Engine) -> None:
    assert isinstance(engine, PostgresEngine)
    with closing(PostgresEngine(engine._url)) as another:
        assert another._view.state is None
        another.warm()
        assert another._view.state is not None
        assert another._view.vocabulary.frequency("alpha") == engine.consult(lambda words: words.frequency("alpha")) > 0


def test_a_question_without_words_does_not_wait_for_the_words_in_use(engine: Engine) -> None:
    assert isinstance(engine, PostgresEngine)
    with closing(PostgresEngine(engine._url)) as another, another._planning:  # as who reads them holds it
        found = another.search(Query(kind="agent", limit=5))
        assert ids(found) == ids(engine.search(Query(kind="agent", limit=5)))
        assert another._view.state is None


def test_words_of_a_moment_later_are_not_counted_anew(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(engine, PostgresEngine)
    with closing(PostgresEngine(engine._url)) as another:
        another.warm()
        monkeypatch.setattr(postgres, "counted", lambda *_: pytest.fail("counted anew"))

        def meanwhile(connection: Connection[Any], before: State | None) -> View:
            put(engine, listing("more", "omega"), seq=2)
            assert before is not None
            assert len(ask(another, "omega").hits) == 1  # another question sees more
            return another._seen(connection, before)

        assert another._ask(meanwhile).vocabulary.frequency("omega") == 1


async def test_where_reading_all_words_takes_long_questions_do_not_wait_for_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(engine, PostgresEngine)
    reading, read = Event(), postgres.counted
    monkeypatch.setattr(search, "EXACT", FEW)

    def slowly(connection: Connection[Any], state: State) -> View:
        assert reading.wait(PATIENCE)
        return read(connection, state)

    with closing(PostgresEngine(engine._url)) as another:
        another.warm()
        another._took = LONG
        monkeypatch.setattr(postgres, "counted", slowly)
        with engine.renewing() as fresh:
            put(fresh, listing("new", "alpha omega", description=300 * "beta "))  # at levels that were not known
            assert engine.show(fresh, back=True)
        for _ in range(2):
            for text in ("alpha", "omega", "beta alpha"):
                hits = ask(another, text)
                assert (ids(hits), hits.total, hits.at_least) == (["new"], 1, False)
            assert another.consult(lambda words: words.frequency("alpha")) == 23
        reading.set()
        await until(lambda: another.consult(lambda words: words.frequency("alpha")) == 1)
        assert [hit.id for hit in ask(another, "omega").hits] == ["new"]


def test_words_of_an_index_that_went_back_are_forgotten_also_those_that_were_being_read(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(engine, PostgresEngine)
    reading, gone_back, read = Event(), Event(), postgres.counted

    def slowly(connection: Connection[Any], state: State) -> View:
        found = read(connection, state)
        reading.set()
        assert gone_back.wait(PATIENCE)
        return found

    with closing(PostgresEngine(engine._url)) as another:
        another.warm()
        before = another._view.state
        with engine.renewing() as fresh:
            put(fresh, listing("new", "omega"))
            assert engine.show(fresh, back=True)
        another._took = LONG
        with monkeypatch.context() as patch:
            patch.setattr(postgres, "counted", slowly)
            ask(another, "omega")
            assert reading.wait(PATIENCE)
        another._view = another._view._replace(state=before._replace(commit=2**40))  # type: ignore[union-attr]
        assert ask(another, kind="agent").total == 1  # of a server that is behind what was shown
        assert another._view.state is None
        gone_back.set()
        another._reading.join(PATIENCE)  # type: ignore[union-attr]
        assert another._view.state is None
        assert ids(ask(another, "omega")) == ["new"]
        assert another._view.vocabulary.frequency("alpha") == 0


def test_a_server_is_not_connected_to_anew_because_it_is_behind(engine: Engine) -> None:
    assert isinstance(engine, PostgresEngine)
    with closing(PostgresEngine(engine._url)) as another:
        another.warm()
        connected = another._home._idle.queue[:]
        another._view = another._view._replace(state=another._view.state._replace(commit=2**40))  # type: ignore[union-attr]
        assert ask(another, kind="agent").total == 8
        assert another._home._idle.queue == connected
