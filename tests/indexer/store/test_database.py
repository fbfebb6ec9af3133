"""Several chains, several processes and whole chains in one database, on every database."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest
from sqlalchemy import func, inspect, select

from indexer.model import Event
from indexer.state_hash import state_hash
from indexer.store import Store, StoreError, Writer, WriteRefusedError, block_writer, chain_marks, connect
from indexer.store.schema import blocks, events, metadata
from tests.facts import born, moved, name, outpoint_of, ref, says
from tests.fakes import MemoryChain
from tests.indexing import Indexing, Reader, live_outpoints
from tests.oracles.wire import frames

# -- several chains, several processes ---------------------------------------------------------------------------------


def test_two_chains_with_the_same_transaction_do_not_mix(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1)), says("2", moved("a", "a", "a2"))])
    block_writer.append(writer, "other", [says(label, chain="other") for label in ("0", "1", "2")])
    block_writer.append(writer, "other", [says("3", born("a", height=3), chain="other")])
    assert live_outpoints(store) == [outpoint_of("a2")]
    assert live_outpoints(store, "other") == [outpoint_of("a")]
    assert store.registrations.at_outpoints("demo", [outpoint_of("a")]) == {}
    assert store.registrations.at_outpoints("other", [outpoint_of("a")])[outpoint_of("a")][0].created_height == 3
    assert [(past.chain, past.height) for past in store.history.of(str(outpoint_of("a")))] == [
        ("demo", 1),
        ("demo", 2),
        ("other", 3),
    ]
    assert state_hash(store, "demo", 3) != state_hash(store, "other", 3)
    assert [(change.chain, change.height) for change in store.outbox.after(0, 9)] == [
        ("demo", 1),
        ("demo", 2),
        ("other", 3),
    ]
    assert store.registrations.ids(None, 9) == [("demo", str(outpoint_of("a"))), ("other", str(outpoint_of("a")))]
    block_writer.forget(writer, "demo", 0)
    assert (live_outpoints(store), live_outpoints(store, "other")) == (
        [],
        [outpoint_of("a")],
    )
    assert store.blocks.newest("other") == ref("3", chain="other")
    assert store.registrations.counts("other")["live"] == 1


def test_a_name_belongs_to_one_chain(store: Store, writer: Writer) -> None:
    chain_marks.name_chain(writer, "demo", "bsv:regtest")
    chain_marks.name_chain(writer, "demo", "bsv:regtest")
    chain_marks.name_chain(writer, "other", "ltc:regtest")
    with pytest.raises(StoreError, match=r"holds bsv:regtest under the name 'demo', and the source is bsv:mainnet"):
        chain_marks.name_chain(writer, "demo", "bsv:mainnet")
    assert store.chains() == {"demo": "bsv:regtest", "other": "ltc:regtest"}


def test_an_empty_database_gets_the_schema_and_an_epoch(empty_database_url: str) -> None:
    epochs = []
    for _ in range(2):
        engine = connect(empty_database_url)
        assert set(metadata.tables) <= set(inspect(engine).get_table_names())
        epochs.append(Store(engine).outbox.epoch)
        engine.dispose()
    assert epochs[0] == epochs[1]


def test_a_second_writer_is_refused_until_the_first_has_closed(database_url: str) -> None:
    first, second = connect(database_url), connect(database_url)
    writer = Writer(first)
    for _ in range(2):
        with pytest.raises(StoreError, match="another indexer is writing to"):
            Writer(second)
    block_writer.append(writer, "demo", [says("0")])
    writer.close()
    writer.close()
    later = Writer(second)
    block_writer.append(later, "demo", [says("1")])
    later.close()
    first.dispose()
    second.dispose()


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_writer_whose_connection_broke_takes_the_lock_again_or_gives_up(store: Store, writer: Writer) -> None:
    def cut() -> None:
        holders = (
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
        )
        with store.engine.connect() as connection:
            assert connection.exec_driver_sql(holders).all() == [(True,)]

    block_writer.append(writer, "demo", [says("0")])
    cut()
    with pytest.raises(StoreError, match="cannot write to"):
        block_writer.append(writer, "demo", [says("1")])
    block_writer.append(writer, "demo", [says("1")])
    with pytest.raises(StoreError, match="another indexer is writing to"):
        Writer(store.engine)
    cut()
    with pytest.raises(StoreError, match="cannot write to"):
        block_writer.append(writer, "demo", [says("2")])
    rival = Writer(store.engine)
    for _ in range(2):
        with pytest.raises(StoreError, match="another indexer is writing to"):
            block_writer.append(writer, "demo", [says("2")])
    block_writer.append(rival, "demo", [says("2")])
    rival.close()
    assert store.blocks.newest("demo") == ref("2")


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_full_disk_is_reported_and_written_rows_stay(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1))])
    writer.connection.exec_driver_sql("PRAGMA max_page_count = 1")  # no page more than there are
    writer.connection.commit()
    with pytest.raises(WriteRefusedError, match=r"cannot write to sqlite:.*a2b\.db: database or disk is full"):
        block_writer.append(writer, "demo", [says("2", cards={name("large"): bytes(1_000_000)})])
    assert store.blocks.newest("demo") == ref("1")
    writer.connection.exec_driver_sql("PRAGMA max_page_count = 1000000")
    writer.connection.commit()
    block_writer.append(writer, "demo", [says("2", cards={name("large"): bytes(1_000_000)})])


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_folder_in_which_no_lock_can_be_made_is_reported(store: Store, tmp_path: Path) -> None:
    (tmp_path / "a2b.db.lock").mkdir()
    with pytest.raises(StoreError, match=r"cannot write beside .*a2b\.db: Is a directory"):
        Writer(store.engine)


def test_readers_see_whole_blocks_while_one_is_written(database_url: str, store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1))])
    reader = Store(connect(database_url))
    before, after = (ref("1"), [outpoint_of("a")], 1), (ref("2"), [outpoint_of("a2")], 2)
    states = []

    class Events(tuple[Event, ...]):
        """Events whose reader looks at the store meanwhile."""

        def __iter__(self) -> Iterator[Event]:
            states.append((reader.blocks.newest("demo"), live_outpoints(reader), reader.outbox.newest_seq()))
            return super().__iter__()

    block = says("2", moved("a", "a", "a2"))
    block_writer.append(writer, "demo", [replace(block, events=Events(block.events))])
    assert states.count(before) > 1
    assert states == sorted(states, key=lambda state: state == after)
    assert set(map(str, states)) <= {str(before), str(after)}
    assert reader.blocks.newest("demo") == ref("2")
    assert live_outpoints(reader) == [outpoint_of("a2")]
    assert reader.outbox.newest_seq() == 2
    reader.engine.dispose()


def test_a_database_of_another_version_is_refused(database_url: str, store: Store) -> None:
    with store.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE meta SET value = '0' WHERE key = 'schema'")
    with pytest.raises(StoreError, match=r"has schema '0' and this program reads '\d+'"):
        connect(database_url)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("nonsense", "is not a database URL; use sqlite:///PATH or postgresql"),
        ("mysql://host/name", "'mysql' is not a supported database"),
        ("sqlite:////nowhere/at/all/a2b.db", "cannot use the database sqlite:////nowhere/at/all/a2b.db"),
        ("postgres://user:secret@127.0.0.1:1/name", r"cannot use the database postgresql\+psycopg://user:\*\*\*@127"),
        ("sqlite://", "a database in memory"),
    ],
)
def test_a_url_that_leads_nowhere_says_what_to_do(url: str, says: str) -> None:
    with pytest.raises(StoreError, match=says) as caught:
        connect(url)
    assert "secret" not in str(caught.value)


# -- a whole chain -----------------------------------------------------------------------------------------------------


async def test_the_sample_chain_has_its_state_hashes_and_the_same_again_from_nothing(
    database_url: str, sample: Path
) -> None:
    stated = json.loads((sample / "expected.json").read_text())["stateHashes"]
    hashes = {int(height): text for height, text in stated.items()}
    with Indexing(database_url, MemoryChain(*frames((sample / "blk00000.dat").read_bytes()))) as indexing:
        await indexing.catch_up()
        assert indexing.hashes(hashes) == hashes
        before = indexing.facts()
        reader = Reader(indexing.store)
        reader.read(limit=7)
        block_writer.forget(indexing.writer, "demo", -1)
        reader.read(limit=7)
        assert reader.copy == {}
        indexing.restart()
        await indexing.catch_up()
        assert indexing.facts() == before
        reader.store = indexing.store
        reader.read()
        assert reader.state_hash() == hashes[max(hashes)]


def test_the_tables_hang_together(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1))])
    with store.engine.begin() as connection:
        connection.execute(blocks.delete())
        assert connection.execute(select(func.count()).select_from(events)).scalar() == 0


def test_numbers_are_those_of_the_database_not_of_the_process(database_url: str) -> None:
    for label, id_ in itertools.islice(zip("12345", "abcde", strict=True), 5):
        engine = connect(database_url)
        writer = Writer(engine)
        block_writer.append(writer, "demo", [says(label, born(id_, height=int(label)))])
        assert Store(engine).outbox.newest_seq() == int(label)
        writer.close()
        engine.dispose()


def test_many_begin_to_use_a_new_file_at_the_same_time(tmp_path: Path) -> None:
    for number in range(12):
        url, ready = f"sqlite:///{tmp_path / f'{number}.db'}", Barrier(6)

        def use(url: str = url, ready: Barrier = ready) -> str:
            ready.wait()
            engine = connect(url)
            with engine.connect() as connection:
                mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar_one()
            engine.dispose()
            return str(mode)

        with ThreadPoolExecutor(6) as threads:
            assert {item.result() for item in [threads.submit(use) for _ in range(6)]} == {"wal"}
