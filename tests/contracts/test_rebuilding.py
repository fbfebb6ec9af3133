"""An index in PostgreSQL is made anew beside the one that answers, and takes its place in all processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from indexer.store import Store, Writer
from overlay.engines import BusyError, Cursor, Engine, open_engine
from overlay.engines.postgres import PostgresEngine
from overlay.feed import Feed
from tests.contracts.listed import EPOCH, found, listing, put
from tests.databases import Cluster, new_index
from tests.facts import born, says


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, postgresql: Cluster) -> str:
    return new_index("postgres", request, tmp_path_factory.getbasetemp())


@pytest.fixture
def index(url: str) -> Iterator[PostgresEngine]:
    with closing(PostgresEngine(url.partition(":")[2])) as engine:
        put(engine, listing("1", "alpha"), listing("2", "alpha"))
        yield engine


def generations(url: str) -> int:
    with psycopg.connect(url.partition(":")[2].replace("+psycopg", "")) as connection:
        row = connection.execute("SELECT count(*) FROM pg_namespace WHERE nspname ~ '^a2b_index_1_'").fetchone()
        return int(row[0]) if row else 0


def test_the_old_index_answers_until_the_new_one_does(url: str, index: PostgresEngine) -> None:
    with closing(open_engine(url)) as other:
        assert found(other, "alpha") == {"1", "2"}
        with index.renewing() as fresh:
            put(fresh, listing("3", "alpha"), listing("4", "alpah"))
            for each in (index, other):
                assert (found(each, "alpha"), each.cursor()) == ({"1", "2"}, Cursor(EPOCH, 1))
            put(index, listing("5", "alpha"), seq=2)
            assert found(other, "alpha") == {"1", "2", "5"}, "the old one is fed meanwhile"
            assert not index.show(fresh), "the new one has read less"
            put(fresh, listing("5", "alpha"), seq=2)
            assert index.show(fresh)
            for each in (index, other):
                assert (found(each, "alpha"), each.count()) == ({"3", "5"}, 3)
                assert found(each, "alpah") == {"4"}
        put(index, listing("6", "alpha"), seq=3)
        assert found(other, "alpha") == {"3", "5", "6"}
        assert generations(url) == 1


def test_what_is_not_shown_is_removed_and_the_old_index_stays(url: str, index: PostgresEngine) -> None:
    with index.renewing() as fresh:
        put(fresh, listing("3", "alpha"))
        assert generations(url) == 2
    assert generations(url) == 1
    renewing = index.renewing()
    put(renewing.__enter__(), listing("3", "alpha"))
    assert renewing.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None) is False
    assert found(index, "alpha") == {"1", "2"}
    with index.renewing():
        assert generations(url) == 2, "what was left is removed with the next one"
    assert generations(url) == 1


def test_one_process_at_a_time_makes_it_anew(url: str, index: PostgresEngine) -> None:
    with closing(PostgresEngine(url.partition(":")[2])) as other, index.renewing():
        second = other.renewing()
        with pytest.raises(BusyError, match="another process makes the index"):
            second.__enter__()


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_rebuild_shows_every_state_but_an_empty_one(store: Store, writer: Writer, url: str) -> None:
    writer.append("demo", [says("0"), says("1", born("a", height=1))])
    seen: list[int] = []
    with closing(open_engine(url)) as engine, closing(open_engine(url)) as other:
        feed = Feed(store, engine)
        feed.run()
        before = other.count()

        def look(_: int) -> None:
            seen.append(other.count())

        writer.append("demo", [says("2", born("b", height=2))])
        assert feed.rebuild(look) == 2
        assert seen
        assert set(seen) == {before}
        assert states(engine) == states(other) == Cursor(store.epoch, store.newest_seq())
        assert feed.step() == 0


def states(engine: Engine) -> Cursor | None:
    return engine.cursor()
