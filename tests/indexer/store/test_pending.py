"""The contract of the store about unconfirmed events, on every database: the same as if all of them were written
again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from sqlalchemy import event, select

from indexer.model import UNCONFIRMED, Event
from indexer.store import Store, Writer, block_writer, pending
from indexer.store.schema import pending as table
from indexer.store.schema import pending_cards
from tests.facts import born, moved, name, outpoint_of, says


def pending_events(*ids: str) -> list[Event]:
    """Newcomers in this order."""
    newcomers = [born(id_, height=UNCONFIRMED, card=name(f"card {id_}")) for id_ in ids]
    return [
        replace(newcomer, position=number, tx_index=0, card=name(f"card {ids[number]}"))
        for number, newcomer in enumerate(newcomers)
    ]


def bodies(events: Sequence[Event]) -> Mapping[bytes, bytes]:
    return {item.card: item.card + b" body" for item in events if item.card}


def positions(store: Store) -> dict[bytes, int]:
    with store.engine.connect() as connection:
        return {row[0]: row[1] for row in connection.execute(select(table.c.txid, table.c.place))}


def cards(store: Store) -> dict[bytes, bytes]:
    with store.engine.connect() as connection:
        return {row[0]: row[1] for row in connection.execute(select(pending_cards.c.sha256, pending_cards.c.body))}


def test_transactions_that_come_and_go_leave_the_others_in_order(store: Store, writer: Writer) -> None:
    pending.replace_pending(writer, "demo", pending_events("a", "c", "e"), bodies(pending_events("a", "c", "e")))
    before = positions(store)
    for ids in (("a", "b", "c", "e"), ("c", "e", "f"), ("0", "c", "d", "e"), ("c", "e")):
        pending.replace_pending(writer, "demo", pending_events(*ids), bodies(pending_events(*ids)))
        assert store.pending.events("demo") == pending_events(*ids)
        assert cards(store) == bodies(pending_events(*ids))
        now = positions(store)
        assert {key: now[key] for key in (name("c"), name("e"))} == {key: before[key] for key in (name("c"), name("e"))}


def test_only_what_differs_is_written(store: Store, writer: Writer) -> None:
    many = [f"n{number:03}" for number in range(200)]
    pending.replace_pending(writer, "demo", pending_events(*many), bodies(pending_events(*many)))
    rows = 0

    def count(_c: object, _cursor: object, statement: str, supplied: list[object], _x: object, many_rows: bool) -> None:
        nonlocal rows
        if statement.startswith(("INSERT", "DELETE", "UPDATE")):
            rows += len(supplied) if many_rows else 1

    event.listen(store.engine, "before_cursor_execute", count)
    try:
        changed = pending.replace_pending(
            writer, "demo", pending_events(*many[1:], "x"), bodies(pending_events(*many[1:], "x"))
        )
    finally:
        event.remove(store.engine, "before_cursor_execute", count)
    assert changed == 2
    assert rows == 4 + 2  # an event and a card go, an event and a card come, and two lines of the outbox
    assert store.pending.events("demo") == pending_events(*many[1:], "x")


def test_events_in_another_order_stand_in_that_order(store: Store, writer: Writer) -> None:
    pending.replace_pending(writer, "demo", pending_events("a", "b", "c", "d"), {})
    for ids in (("d", "a", "b", "c"), ("c", "b", "a", "d"), ("a", "b", "c", "d")):
        assert (
            pending.replace_pending(writer, "demo", pending_events(*ids), {}) == 0
        )  # of each registration the same is said
        assert store.pending.events("demo") == pending_events(*ids)


def test_equal_events_are_stored_twice(store: Store, writer: Writer) -> None:
    (one,) = pending_events("a")
    twice = [one, replace(one, position=1)]
    pending.replace_pending(writer, "demo", twice, {})
    assert store.pending.events("demo") == twice
    pending.replace_pending(writer, "demo", [one], {})
    assert store.pending.events("demo") == [one]


def test_all_positions_are_renumbered_where_no_number_is_free_between(
    store: Store, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = range(pending._PENDING_PLACES.start, pending._PENDING_PLACES.start + 7)
    monkeypatch.setattr(pending, "_PENDING_PLACES", narrow)
    for ids in (("d",), ("d", "e"), ("d", "de", "e"), ("d", "db", "de", "e"), ("d", "da", "db", "de", "e")):
        assert pending.replace_pending(writer, "demo", pending_events(*ids), bodies(pending_events(*ids))) == 1
        assert store.pending.events("demo") == pending_events(*ids)
        assert cards(store) == bodies(pending_events(*ids))
    assert set(positions(store).values()) <= set(narrow)


def test_chains_do_not_see_one_another(store: Store, writer: Writer) -> None:
    pending.replace_pending(writer, "demo", pending_events("a"), bodies(pending_events("a")))
    pending.replace_pending(writer, "other", pending_events("a", "b"), bodies(pending_events("a", "b")))
    pending.replace_pending(writer, "demo", [], {})
    assert (store.pending.events("demo"), store.pending.events("other")) == ([], pending_events("a", "b"))
    assert cards(store) == bodies(pending_events("a", "b"))


def test_a_mined_transaction_without_an_event_is_announced_as_gone(store: Store, writer: Writer) -> None:
    """Unconfirmed it looked like a newcomer that moved on; in the block, behind its parent, it is something else."""
    newcomer, other = pending_events("b", "c")
    block_writer.append(writer, "demo", [says("1"), says("2", born("a"))])
    goes_on = replace(moved("b", "b", "d"), position=2)
    pending.replace_pending(writer, "demo", [newcomer, other, goes_on], bodies([newcomer, other]))
    seen = store.outbox.newest_seq()
    block_writer.append(writer, "demo", [says("3", moved("a", "a", "b", height=3))])
    assert [item.txid for item in store.pending.events("demo")] == [other.txid]
    news = [(change.id, change.op, change.reason) for change in store.outbox.after(seen, 100)]
    assert news == [(str(outpoint_of("a")), "upsert", "moved"), (str(outpoint_of("b")), "remove", "evicted")]


def test_what_goes_on_from_a_block_that_holds_what_came_before_stays(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("1"), says("2", born("a"))])
    first, second = (replace(item, tx_index=0) for item in (moved("a", "a", "b"), moved("a", "b", "c", position=1)))
    pending.replace_pending(writer, "demo", [first, second], {})
    seen = store.outbox.newest_seq()
    block_writer.append(writer, "demo", [says("3", moved("a", "a", "b", height=3))])
    assert [item.txid for item in store.pending.events("demo")] == [name("c")]
    assert [change.id for change in store.outbox.after(seen, 100)] == [str(outpoint_of("a"))]
