"""Stamps of a database: the same while nobody writes, another one after any commit; from SQLite for nothing."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.store import Store, Writer, chain_marks, connect
from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.indexing import Indexing


async def test_every_commit_of_an_indexer_changes_the_stamp(database_url: str) -> None:
    kit = ChainKit()
    chain = MemoryChain(*kit.blocks, name="live")
    with Indexing(database_url, chain) as source:
        await source.catch_up()
        store = Store(connect(database_url))
        for number in range(3):
            before = store.stamp()
            kit.mine(kit.inscribe(agent(f"Router {number}")))
            chain.arrive(*kit.blocks)
            await source.catch_up()
            assert store.stamp() != before
        store.close()


def test_the_stamp_of_an_sqlite_file_stays_while_nobody_writes(tmp_path: Path) -> None:
    engine = connect(f"sqlite:///{tmp_path}/a2b.db")
    store = Store(engine)
    first = store.stamp()
    with engine.connect() as connection:
        connection.exec_driver_sql("SELECT count(*) FROM meta")
    assert store.stamp() == first
    with engine.connect() as connection:
        connection.exec_driver_sql("INSERT INTO meta VALUES ('a', 'b')")
        assert store.stamp() == first
        connection.rollback()
    assert store.stamp() == first
    store.close()


def test_no_stamp_comes_back_after_a_connection_was_lost(tmp_path: Path) -> None:
    """Each connection counts from the beginning."""
    engine = connect(f"sqlite:///{tmp_path}/a2b.db")
    store = Store(engine)
    seen = [store.stamp()]
    lost = store.detector.connection
    assert lost is not None
    lost.close()
    seen.append(store.stamp())
    with engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO meta VALUES ('a', 'b')")
    seen.append(store.stamp())
    assert len(set(seen)) == 3
    assert store.stamp() == seen[-1]
    store.close()


def test_what_seldom_changes_is_read_once_until_somebody_writes(database_url: str) -> None:
    with closing(Store(connect(database_url))) as store, closing(Writer(connect(database_url))) as writer:
        chain_marks.name_chain(writer, "one", "demo:regtest")
        assert [store.chains(), store.is_partial("one")] == [{"one": "demo:regtest"}, False]
        store.chains().clear()
        assert store.chains() == {"one": "demo:regtest"}, "everybody has his own"
        chain_marks.name_chain(writer, "two", "demo:testnet")
        chain_marks.mark_partial(writer, "one")
        assert store.chains() == {"one": "demo:regtest", "two": "demo:testnet"}
        assert [store.is_partial(name) for name in ("one", "two")] == [True, False]


def test_of_postgresql_every_stamp_is_another(request: pytest.FixtureRequest) -> None:
    store = Store(connect(request.getfixturevalue("postgresql").new()))
    assert len({store.stamp() for _ in range(5)}) == 5
    store.close()


def test_without_a_stamp_the_database_may_always_have_changed(tmp_path: Path) -> None:
    file = tmp_path / "a2b.db"
    store = Store(connect(f"sqlite:///{file}"))
    store.engine.dispose()
    file.rename(tmp_path / "elsewhere.db")
    away = [store.stamp() for _ in range(3)]
    assert len(set(away)) == 3
    assert not file.exists()
    (tmp_path / "elsewhere.db").rename(file)
    assert store.stamp() not in away
    assert store.stamp() == store.stamp()
    store.close()


@given(st.lists(st.sampled_from(("write", "roll back", "read", "look")), max_size=12))
@settings(max_examples=25)
def test_a_stamp_changes_exactly_when_something_was_written_since(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    file = tmp_path_factory.mktemp("stamps") / "a2b.db"
    store = Store(connect(f"sqlite:///{file}"))
    other = sqlite3.connect(file, isolation_level=None)
    before, written = store.stamp(), False
    for step in [*steps, "look"]:
        if step == "look":
            now = store.stamp()
            assert (now != before) is written
            before, written = now, False
        elif step == "read":
            other.execute("SELECT count(*) FROM meta").fetchall()
        else:
            other.execute("BEGIN IMMEDIATE")
            other.execute("INSERT INTO meta VALUES (hex(randomblob(8)), '')")
            other.execute("COMMIT" if step == "write" else "ROLLBACK")
            written |= step == "write"
    other.close()
    store.close()


def test_a_writer_in_the_same_process_is_seen_too(store: Store, writer: Writer) -> None:
    before = store.stamp()
    chain_marks.name_chain(writer, "live", "bsv:regtest")
    assert store.stamp() != before
