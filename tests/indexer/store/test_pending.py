"""What the store promises about the unconfirmed, on every database: the same as if all of it were written anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from sqlalchemy import event, select

from indexer.model import UNCONFIRMED, Event
from indexer.store import Store, Writer, pending
from indexer.store.schema import pending as table
from indexer.store.schema import pending_cards
from tests.facts import at, born, moved, name, says


def said(*ids: str) -> list[Event]:
    """Newcomers in this order."""
    newcomers = [born(id_, height=UNCONFIRMED, card=name(f"card {id_}")) for id_ in ids]
    return [
        replace(each, position=number, tx_index=0, card=name(f"card {ids[number]}"))
        for number, each in enumerate(newcomers)
    ]


def bodies(events: Sequence[Event]) -> Mapping[bytes, bytes]:
    return {each.card: each.card + b" body" for each in events if each.card}


def places(store: Store) -> dict[bytes, int]:
    with store.engine.connect() as connection:
        return {row[0]: row[1] for row in connection.execute(select(table.c.txid, table.c.place))}


def cards(store: Store) -> dict[bytes, bytes]:
    with store.engine.connect() as connection:
        return {row[0]: row[1] for row in connection.execute(select(pending_cards.c.sha256, pending_cards.c.body))}


def test_who_comes_and_goes_leaves_the_others_where_they_are(store: Store, writer: Writer) -> None:
    writer.replace_pending("demo", said("a", "c", "e"), bodies(said("a", "c", "e")))
    before = places(store)
    for ids in (("a", "b", "c", "e"), ("c", "e", "f"), ("0", "c", "d", "e"), ("c", "e")):
        writer.replace_pending("demo", said(*ids), bodies(said(*ids)))
        assert store.pending.events("demo") == said(*ids)
        assert cards(store) == bodies(said(*ids))
        now = places(store)
        assert {key: now[key] for key in (name("c"), name("e"))} == {key: before[key] for key in (name("c"), name("e"))}


def test_only_what_differs_is_written(store: Store, writer: Writer) -> None:
    many = [f"n{number:03}" for number in range(200)]
    writer.replace_pending("demo", said(*many), bodies(said(*many)))
    rows = 0

    def count(_c: object, _cursor: object, statement: str, given: list[object], _x: object, many_rows: bool) -> None:
        nonlocal rows
        if statement.startswith(("INSERT", "DELETE", "UPDATE")):
            rows += len(given) if many_rows else 1

    event.listen(store.engine, "before_cursor_execute", count)
    try:
        changed = writer.replace_pending("demo", said(*many[1:], "x"), bodies(said(*many[1:], "x")))
    finally:
        event.remove(store.engine, "before_cursor_execute", count)
    assert changed == 2
    assert rows == 4 + 2  # an event and a card go, an event and a card come, and two lines of the outbox
    assert store.pending.events("demo") == said(*many[1:], "x")


def test_events_in_another_order_stand_in_that_order(store: Store, writer: Writer) -> None:
    writer.replace_pending("demo", said("a", "b", "c", "d"), {})
    for ids in (("d", "a", "b", "c"), ("c", "b", "a", "d"), ("a", "b", "c", "d")):
        assert writer.replace_pending("demo", said(*ids), {}) == 0  # of each registration the same is said
        assert store.pending.events("demo") == said(*ids)


def test_what_says_the_same_twice_stands_twice(store: Store, writer: Writer) -> None:
    (one,) = said("a")
    twice = [one, replace(one, position=1)]
    writer.replace_pending("demo", twice, {})
    assert store.pending.events("demo") == twice
    writer.replace_pending("demo", [one], {})
    assert store.pending.events("demo") == [one]


def test_all_places_are_given_anew_where_there_is_no_room_between(
    store: Store, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = range(pending._PENDING_PLACES.start, pending._PENDING_PLACES.start + 7)
    monkeypatch.setattr(pending, "_PENDING_PLACES", narrow)
    for ids in (("d",), ("d", "e"), ("d", "de", "e"), ("d", "db", "de", "e"), ("d", "da", "db", "de", "e")):
        assert writer.replace_pending("demo", said(*ids), bodies(said(*ids))) == 1
        assert store.pending.events("demo") == said(*ids)
        assert cards(store) == bodies(said(*ids))
    assert set(places(store).values()) <= set(narrow)


def test_chains_do_not_see_one_another(store: Store, writer: Writer) -> None:
    writer.replace_pending("demo", said("a"), bodies(said("a")))
    writer.replace_pending("other", said("a", "b"), bodies(said("a", "b")))
    writer.replace_pending("demo", [], {})
    assert (store.pending.events("demo"), store.pending.events("other")) == ([], said("a", "b"))
    assert cards(store) == bodies(said("a", "b"))


def test_what_a_block_holds_and_does_not_say_is_told_to_have_left(store: Store, writer: Writer) -> None:
    """Unconfirmed it looked like a newcomer that moved on; in the block, behind its parent, it is something else."""
    newcomer, other = said("b", "c")
    writer.append("demo", [says("1"), says("2", born("a"))])
    goes_on = replace(moved("b", "b", "d"), position=2)
    writer.replace_pending("demo", [newcomer, other, goes_on], bodies([newcomer, other]))
    seen = store.outbox.newest_seq()
    writer.append("demo", [says("3", moved("a", "a", "b", height=3))])
    assert [each.txid for each in store.pending.events("demo")] == [other.txid]
    news = [(change.id, change.op, change.reason) for change in store.outbox.after(seen, 100)]
    assert news == [(str(at("a")), "upsert", "moved"), (str(at("b")), "remove", "evicted")]


def test_what_goes_on_from_a_block_that_holds_what_came_before_stays(store: Store, writer: Writer) -> None:
    writer.append("demo", [says("1"), says("2", born("a"))])
    first, second = (replace(each, tx_index=0) for each in (moved("a", "a", "b"), moved("a", "b", "c", position=1)))
    writer.replace_pending("demo", [first, second], {})
    seen = store.outbox.newest_seq()
    writer.append("demo", [says("3", moved("a", "a", "b", height=3))])
    assert [each.txid for each in store.pending.events("demo")] == [name("c")]
    assert [change.id for change in store.outbox.after(seen, 100)] == [str(at("a"))]
