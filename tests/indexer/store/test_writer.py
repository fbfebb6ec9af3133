"""The contract of the store about writing, on every database: blocks, forgetting, the outbox."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import func, select

from indexer.model import BlockFacts
from indexer.state_hash import digest, state_hash
from indexer.store import Store, StoreError, Writer, block_writer, connect, contents, outbox
from indexer.store.schema import events
from tests.facts import born, burned, moved, name, near_miss, outpoint_of, ref, says
from tests.indexing import live_outpoints

# -- blocks -----------------------------------------------------------------------------------------------------------


def test_an_empty_database_knows_nothing(store: Store) -> None:
    assert store.blocks.newest("demo") is None
    assert store.blocks.get("demo", 0) is None
    assert store.chains() == {}
    assert store.history.of(str(outpoint_of("a"))) == []
    assert store.outbox.newest_seq() == 0
    assert (
        live_outpoints(store),
        store.registrations.at_outpoints("demo", [outpoint_of("a")]),
    ) == (
        [],
        {},
    )
    assert store.registrations.counts("demo") == {"live": 0, "burned": 0, "undecided": 0, "rejected": 0, "pointers": 0}
    assert state_hash(store, "demo", 5) == digest([])


def test_blocks_are_appended_and_found_by_height(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1")])
    block_writer.append(writer, "demo", [])
    block_writer.append(writer, "demo", [says("2")])
    assert store.blocks.newest("demo") == ref("2")
    assert [store.blocks.get("demo", height) for height in range(4)] == [ref("0"), ref("1"), ref("2"), None]


def test_a_chain_may_begin_at_any_height(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("700")])
    assert store.blocks.newest("demo") == ref("700")


@pytest.mark.parametrize(
    "readings",
    [
        [says("2", prev="1a")],
        [says("3")],
        [says("1a")],
        [says("2"), says("4")],
        [says("2"), says("3", prev="2a")],
        [says("2", chain="other")],
    ],
)
def test_blocks_that_do_not_continue_the_chain_are_refused_whole(
    store: Store, writer: Writer, readings: list[BlockFacts]
) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1")])
    with pytest.raises(ValueError, match="does not continue the stored chain demo"):
        block_writer.append(writer, "demo", readings)
    assert store.blocks.newest("demo") == ref("1")


def test_what_cannot_be_written_whole_is_not_written_at_all(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1))])
    before = store.outbox.after(0, 100)
    with pytest.raises(StoreError, match="cannot write to"):
        block_writer.append(writer, "demo", [says("2", born("b"), born("c")), says("3")])  # two events in one place
    assert store.blocks.newest("demo") == ref("1")
    assert store.outbox.after(0, 100) == before
    block_writer.append(writer, "demo", [says("2", born("b"))])
    assert [change.seq for change in store.outbox.after(0, 100)] == [1, 2]


def test_a_database_that_refuses_says_so_without_its_password(database_url: str) -> None:
    engine = connect(database_url)
    writer = Writer(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE changes")
    for refused in (
        lambda: block_writer.append(writer, "demo", [says("0", born("a"))]),
        lambda: block_writer.forget(writer, "demo", -1),
    ):
        with engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE IF EXISTS events")
        with pytest.raises(StoreError, match=r"cannot write to .*(a2b\.db|test\d+)"):
            refused()
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE outputs")
    with pytest.raises(StoreError, match="cannot write"):
        contents.store_output_values(writer, {outpoint_of("x"): 1})
    writer.close()
    engine.dispose()


# -- forgetting -------------------------------------------------------------------------------------------------------


def test_forgetting_blocks_takes_back_all_their_events_and_notes_each_registration(
    store: Store, writer: Writer
) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1), born("b", 1, height=1))])
    block_writer.append(
        writer, "demo", [says("2", moved("a", "a", "a2"), born("c", 1), near_miss("n", 2)), says("3", born("d"))]
    )
    assert block_writer.forget(writer, "demo", 1) == 2
    assert store.blocks.newest("demo") == ref("1")
    assert [past.event.kind for past in store.history.of(str(outpoint_of("a")))] == ["inscribed"]
    assert store.history.of(str(outpoint_of("c"))) == []
    assert store.history.of_transaction(name("n")) == []
    assert set(live_outpoints(store)) == {outpoint_of("a"), outpoint_of("b")}
    news = store.outbox.after(5, 100)
    assert {(change.id, change.op, change.reason, change.height) for change in news} == {
        (str(outpoint_of(id_)), "revert", "reorg", 1) for id_ in "acd"
    }
    with store.engine.connect() as connection:
        assert connection.execute(select(func.count()).select_from(events)).scalar() == 2


def test_forgetting_nothing_changes_nothing(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1))])
    assert block_writer.forget(writer, "demo", 1) == 0
    assert store.outbox.newest_seq() == 1


def test_forgetting_everything_leaves_an_empty_chain(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1))])
    assert block_writer.forget(writer, "demo", -1) == 2
    assert store.blocks.newest("demo") is None
    block_writer.append(writer, "demo", [says("5")])


def test_the_events_of_a_fork_count_instead(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1)), says("2", moved("a", "a", "left"))])
    block_writer.forget(writer, "demo", 1)
    block_writer.append(
        writer,
        "demo",
        [says("2a", moved("a", "a", "right"), prev="1"), says("3a", burned("a", "right", "end"), prev="2a")],
    )
    assert [past.event.txid for past in store.history.of(str(outpoint_of("a")))] == [
        name("a"),
        name("right"),
        name("end"),
    ]
    assert live_outpoints(store) == []


# -- the outbox -------------------------------------------------------------------------------------------------------


def test_changes_are_numbered_without_gaps_and_say_what_happened(store: Store, writer: Writer) -> None:
    block_writer.append(
        writer, "demo", [says("0"), says("1", born("a", height=1), moved("a", "a", "a2", 1), born("b", 2))]
    )
    block_writer.append(writer, "demo", [says("2", burned("a", "a2", "end"))])
    block_writer.forget(writer, "demo", 1)
    block_writer.append(writer, "demo", [says("2a", burned("b", "b", "end"), prev="1")])
    news = store.outbox.after(0, 100)
    assert [change.seq for change in news] == list(range(1, 6))
    first, second = str(outpoint_of("a")), str(outpoint_of("b"))
    assert [(change.op, change.id, change.height, change.reason) for change in news] == [
        ("upsert", first, 1, "moved"),
        ("upsert", second, 1, "inscribed"),
        ("remove", first, 2, "burned"),
        ("revert", first, 1, "reorg"),
        ("remove", second, 2, "burned"),
    ]
    assert store.outbox.newest_seq() == 5
    assert [change.seq for change in store.outbox.after(2, 2)] == [3, 4]
    assert {change.chain for change in news} == {"demo"}


def test_a_failed_write_leaves_no_gap_in_the_numbers(
    store: Store, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1))])
    append = outbox.append

    def fail(*arguments: Any, **options: Any) -> None:
        append(*arguments, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(outbox, "append", fail)
        with pytest.raises(KeyboardInterrupt):
            block_writer.append(writer, "demo", [says("2", born("b"), born("c", 1))])
    assert store.blocks.newest("demo") == ref("1")
    block_writer.append(writer, "demo", [says("2", born("b"))])
    assert [change.seq for change in store.outbox.after(0, 100)] == [1, 2]


def test_the_epoch_stays_with_the_database(database_url: str, store: Store) -> None:
    again = connect(database_url)
    assert Store(again).outbox.epoch == store.outbox.epoch
    assert len(store.outbox.epoch) == 32
    again.dispose()


def test_a_writer_that_is_closed_does_not_take_the_lock_again(store: Store, writer: Writer) -> None:
    writer.close()
    with pytest.raises(StoreError, match="is closed"):
        block_writer.append(writer, "demo", [says("0")])
    Writer(store.engine).close()
