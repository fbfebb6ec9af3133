"""Queries of the store, on every database."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy.event import listen

from indexer.model import Event, EventKind, PointerAnchor
from indexer.state_hash import state_hash
from indexer.store import Store, Writer, block_writer, contents, outbox
from parsers.cards import Kind
from parsers.reasons import Reason
from tests.chain_records import anchors
from tests.facts import CARD, born, burned, moved, name, near_miss, outpoint_of, says, state, undecided
from tests.indexing import live_outpoints


def test_only_the_newest_outpoint_of_a_registration_is_returned(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1), born("b", 1, 1), born("c", 2, 1))])
    block_writer.append(writer, "demo", [says("2", moved("a", "a", "a2"), burned("b", "b", "end", 1))])
    assert set(live_outpoints(store)) == {outpoint_of("a2"), outpoint_of("c")}
    at_outpoints = store.registrations.at_outpoints(
        "demo",
        [
            outpoint_of("a"),
            outpoint_of("a2"),
            outpoint_of("a2", 1),
            outpoint_of("b"),
            outpoint_of("c"),
            outpoint_of("nowhere"),
        ],
    )
    assert {outpoint: [sitting.id for sitting in states] for outpoint, states in at_outpoints.items()} == {
        outpoint_of("a2"): [str(outpoint_of("a"))],
        outpoint_of("c"): [str(outpoint_of("c"))],
    }
    assert at_outpoints[outpoint_of("a2")] == [state("a", "a2", 2, owner="bob")]
    assert store.registrations.at_outpoints("demo", []) == {}


def test_live_outpoints_are_read_by_a_join_or_with_a_list_of_registrations_with_several_events(
    store: Store, writer: Writer
) -> None:
    """On PostgreSQL, a list that is larger than its working memory would be searched for each event."""
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1))])
    ran: list[tuple[str, Any]] = []
    listen(store.engine, "before_cursor_execute", lambda *args: ran.append((args[2], args[3])))
    assert store.spend_checks.due("demo", 1, 10) == [outpoint_of("a")]
    (text, values), is_sqlite = ran[0], store.engine.dialect.name == "sqlite"
    with store.engine.connect() as connection:
        rows = connection.exec_driver_sql(f"EXPLAIN {'QUERY PLAN ' if is_sqlite else ''}{text}", values).all()
    plan = "\n".join(row[-1] for row in rows)
    assert ("LIST SUBQUERY" in plan) == is_sqlite
    assert "SubPlan" not in plan


def test_of_outputs_of_two_transactions_only_the_named_ones_are_looked_at(store: Store, writer: Writer) -> None:
    outputs = [outpoint_of(id_, vout) for id_ in "ab" for vout in (1, 2)]
    events = [
        replace(
            born("a", number, 1),
            txid=output.txid,
            outpoint=output,
            state=state("a", "a", 1, id=str(output), outpoint=output),
        )
        for number, output in enumerate(outputs)
    ]
    block_writer.append(writer, "demo", [says("0"), says("1", *events)])
    named = [outpoint_of("a", 1), outpoint_of("b", 2)]
    there = store.registrations.at_outpoints("demo", named)
    assert {outpoint: [state.id for state in states] for outpoint, states in there.items()} == {
        outpoint: [str(outpoint)] for outpoint in named
    }
    assert store.registrations.departed("demo", outputs) == set()


def test_a_burned_registration_is_found_by_its_earlier_outpoints(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1)), says("2", moved("a", "a", "a2"))])
    block_writer.append(writer, "demo", [says("3", burned("a", "a2", "end"))])
    assert [past.event.txid for past in store.history.departures(outpoint_of("a"))] == [name("a2")]
    assert [past.event.txid for past in store.history.departures(outpoint_of("a2"))] == [name("end")]
    assert store.history.departures(outpoint_of("end")) == []
    assert [past.event.txid for past in store.history.arrivals(outpoint_of("a2"))] == [name("a2")]
    assert sorted(store.registrations.spent_above("demo", 1)) == sorted([outpoint_of("a"), outpoint_of("a2")])
    assert store.registrations.spent_above("demo", 2) == [outpoint_of("a2")]


def test_the_events_of_a_transaction_are_read_up_to_a_limit_those_with_cards_first(
    store: Store, writer: Writer
) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1), born("b", 1, 1))])
    last = [replace(event, txid=name("t")) for event in (moved("a", "a", "t"), burned("b", "b", "t", 1))]
    card = replace(born("t", 2, 2), outpoint=outpoint_of("t", 2), state=state("t", "t", 2))
    block_writer.append(writer, "demo", [says("2", *last, card)])
    kinds = [past.event.kind for past in store.history.of_transaction(name("t"))]
    assert kinds == [EventKind.INSCRIBED, EventKind.MOVED, EventKind.BURNED]
    assert [past.event.kind for past in store.history.of_transaction(name("t"), limit=1)] == [EventKind.INSCRIBED]
    assert store.history.count_of_transaction(name("t")) == 3
    assert store.history.count_of_transaction(name("t"), 2) == 2  # the burn is in no output
    assert store.history.ids_of_transaction(name("t")) == [str(outpoint_of(id_)) for id_ in "abt"]
    assert store.history.ids_of_transaction(name("t"), 2) == [str(outpoint_of("t"))]
    assert store.history.ids_of_transaction(name("t"), limit=2) == [str(outpoint_of(id_)) for id_ in "ab"]


def test_several_registrations_may_share_an_outpoint(store: Store, writer: Writer) -> None:
    second = replace(born("b", 1, 1), outpoint=outpoint_of("a"), state=state("b", "a", 1, offset=7, satoshis=546))
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1), second)])
    assert sorted(
        sitting.id for sitting in store.registrations.at_outpoints("demo", [outpoint_of("a")])[outpoint_of("a")]
    ) == [
        str(outpoint_of("a")),
        str(outpoint_of("b")),
    ]
    assert store.registrations.at_outpoints("demo", [outpoint_of("a")])[outpoint_of("a")][1].offset == 7


def test_more_names_than_a_statement_holds_are_read_in_batches(store: Store, writer: Writer) -> None:
    many = [f"{number:04}" for number in range(1_201)]
    block_writer.append(
        writer, "demo", [says("0"), says("1", *(born(item, number, 1) for number, item in enumerate(many)))]
    )
    assert len(live_outpoints(store)) == 1_201
    assert len(store.registrations.at_outpoints("demo", [outpoint_of(item) for item in many])) == 1_201
    assert len(store.history.with_pending([str(outpoint_of(item)) for item in many])) == 1_201
    walked: list[tuple[str, str]] = []
    while batch := store.registrations.ids(walked[-1] if walked else None, 500):
        walked += batch
    assert walked == sorted(("demo", str(outpoint_of(item))) for item in many)


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_registrations_by_age_are_each_there_once_also_when_on_two_chains(
    store: Store, writer: Writer, limit: int
) -> None:
    for chain in ("demo", "other"):
        first = [born("c", height=1), born("a", 1, 1)] if chain == "demo" else [born("a", height=1), born("d", 1, 1)]
        block_writer.append(writer, chain, [says("0", chain=chain), says("1", *first, chain=chain)])
    later = says("2", moved("c", "c", "c2"), born("b", 1, 2), prev="1")
    block_writer.append(writer, "demo", [later])
    walked: list[tuple[str, int, str]] = []
    while page := store.registrations.by_age(walked[-1][:2] if walked else None, limit):
        assert len(page) <= limit
        walked += page
    oldest_first = [("demo", "c"), ("demo", "a"), ("demo", "b"), ("other", "d")]
    assert [(chain, id_) for chain, _, id_ in walked] == [(chain, str(outpoint_of(id_))) for chain, id_ in oldest_first]


def test_looked_up_values_are_kept_once_and_never_rolled_back(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0")])
    contents.store_output_values(
        writer, {outpoint_of("x"): 546, outpoint_of("x", 4_294_967_295): 21 * 10**14, outpoint_of("y"): 0}
    )
    contents.store_output_values(writer, {outpoint_of("x"): 546})
    contents.store_output_values(writer, {})
    block_writer.forget(writer, "demo", -1)
    expected = [
        outpoint_of("x"),
        outpoint_of("x", 1),
        outpoint_of("x", 4_294_967_295),
        outpoint_of("y"),
        outpoint_of("z"),
    ]
    assert store.content.output_values(expected) == {
        outpoint_of("x"): 546,
        outpoint_of("x", 4_294_967_295): 21 * 10**14,
        outpoint_of("y"): 0,
    }


def test_card_bodies_are_kept_by_their_hash_and_survive_a_reorg(store: Store, writer: Writer) -> None:
    body = bytes(range(256)) * 40
    block_writer.append(writer, "demo", [says("0", cards={CARD: body})])
    block_writer.append(writer, "demo", [says("1", cards={CARD: body, name("other"): b""})])
    block_writer.forget(writer, "demo", 0)
    assert store.content.cards([CARD, name("other"), name("unknown")]) == {CARD: body, name("other"): b""}


def test_histories_are_the_histories_of_each(store: Store, writer: Writer) -> None:
    block_writer.append(
        writer, "demo", [says("0"), says("1", born("a", height=1), born("b", 1, 1)), says("2", moved("b", "b", "b2"))]
    )
    result = store.history.with_pending([str(outpoint_of("a")), str(outpoint_of("b")), str(outpoint_of("z"))])
    confirmed = {id_: history.confirmed for id_, history in result.items()}
    assert confirmed == {str(outpoint_of(id_)): store.history.of(str(outpoint_of(id_))) for id_ in "ab"}
    newest = store.history.of(str(outpoint_of("b")))[-1]
    assert (newest.chain, newest.height, newest.hash, newest.time) == ("demo", 2, name("2"), 1_700_000_002)


def test_an_event_comes_back_as_it_was_written(store: Store, writer: Writer) -> None:
    strange = state(
        "a",
        "a",
        1,
        kind=Kind.TOOL,
        offset=2**40,
        satoshis=2**62,
        owner=None,
        map={"type": "a2b-mcp", "Ключ": "значение \0 \ud800 '\"\\ \x7f", "": ""},
        winner=outpoint_of("w", 4_294_967_295),
        updated_height=2**31 - 1,
    )
    messages = [
        replace(born("a", height=1), state=strange, signer="1Signer", owner=None, card=None),
        near_miss("n", 1),
        burned("a", "a", "fee", 2),
        Event(
            kind=EventKind.POINTED,
            position=3,
            tx_index=4,
            txid=name("p"),
            outpoint=outpoint_of("p", 3),
            pointer=PointerAnchor(
                id="a.example", domain="a.example", digest=CARD, uri="https://a.example/x", form="map"
            ),
        ),
        Event(
            kind=EventKind.POINTED,
            position=2**26 - 1,
            tx_index=2**26 - 1,
            txid=name("q"),
            outpoint=outpoint_of("q"),
            valid=False,
            reasons=(Reason("pointer-domain"), Reason("pointer-encoding", "é", "/x")),
            pointer=PointerAnchor(id=None, domain="\0", digest=None, uri=None, form="none"),
        ),
    ]
    block_writer.append(writer, "demo", [says("0"), says("1", *messages)])
    back = [past.event for word in ("a", "n", "fee", "p", "q") for past in store.history.of_transaction(name(word))]
    assert back == messages
    assert [past.event for past in anchors(store, "a.example")] == [messages[3]]


def test_states_are_sorted_by_id_as_bytes_and_as_of_a_height(store: Store, writer: Writer) -> None:
    others = [
        replace(born("a", vout, 1), state=replace(state("a", "a", 1), id=str(outpoint_of("a", vout))))
        for vout in (1, 10, 2)
    ]
    block_writer.append(
        writer, "demo", [says("0"), says("1", born("b", 3, 1), *others), says("2", moved("b", "b", "b2"))]
    )
    order = [str(outpoint_of("a", vout)) for vout in (1, 10, 2)] + [str(outpoint_of("b"))]
    assert order == sorted(order)
    assert [(item.id, item.owner) for item in store.registrations.states("demo", 1)] == [
        (id_, "alice") for id_ in order
    ]
    assert [item.owner for item in store.registrations.states("demo", 2)] == ["alice", "alice", "alice", "bob"]
    assert list(store.registrations.states("demo", 0)) == []


def test_undecided_updates_are_listed_and_leave_no_state_hash(store: Store, writer: Writer) -> None:
    block_writer.append(
        writer, "demo", [says("0"), says("1", born("a", height=1)), says("2", undecided("a", "a", "u"))]
    )
    assert [past.event.txid for past in store.history.undecided("demo")] == [name("u")]
    assert (store.history.undecided("demo", up_to=1), store.history.undecided("other")) == ([], [])
    assert state_hash(store, "demo", 1) is not None
    assert state_hash(store, "demo", 2) is None
    assert store.registrations.counts("demo")["undecided"] == 1


def test_what_every_tip_asks_reads_indexes_of_what_it_counts(store: Store, writer: Writer) -> None:
    if store.engine.dialect.name != "sqlite":
        return  # the plans of PostgreSQL depend on its statistics
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1), born("b", 1, 1))])
    sent: list[tuple[str, Any]] = []
    listen(store.engine, "before_cursor_execute", lambda *call: sent.append((call[2], call[3])))
    store.registrations.counts("demo")
    store.history.undecided("demo", up_to=1, limit=1)
    with store.engine.connect() as connection:
        plans = [
            row[3]
            for text, values in tuple(sent)
            for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values)
        ]
    for index in ("COVERING INDEX events_by_registration", "events_not_live", "events_undecided", "events_loose"):
        assert any(index in plan for plan in plans), plans
    assert not any("events_by_block" in plan or "SCAN events" in plan for plan in plans), plans


def test_counts_are_of_registrations_by_their_newest_status(store: Store, writer: Writer) -> None:
    block_writer.append(
        writer, "demo", [says("0"), says("1", born("a", height=1), born("b", 1, 1), born("c", 2, 1), near_miss("n", 3))]
    )
    block_writer.append(writer, "demo", [says("2", burned("a", "a", "end"), moved("b", "b", "b2", 1))])
    assert store.registrations.counts("demo") == {"live": 2, "burned": 1, "undecided": 0, "rejected": 1, "pointers": 0}


def test_blocks_are_selected_by_the_number_of_their_source(store: Store, writer: Writer) -> None:
    by_second = [replace(says(label, *events), source=2) for label, events in (("1", [born("a", height=1)]), ("2", []))]
    block_writer.append(writer, "demo", [says("0"), *by_second, says("3"), says("4", born("b", height=4))])
    newest = [store.blocks.newest("demo", up_to) for up_to in (None, 2, 1)]
    assert [block and block.height for block in newest] == [4, 4, 4]
    block_writer.forget(writer, "demo", 2)
    newest = [store.blocks.newest("demo", up_to) for up_to in (None, 2, 1, 0)]
    assert [block and block.height for block in newest] == [2, 2, 0, None]
    assert [store.blocks.lowest_height("demo", 0, up_to) for up_to in (None, 2, 1)] == [1, 1, None]
    assert [store.history.has_events("demo", 0, 2, up_to) for up_to in (None, 2, 1)] == [True, True, False]
    assert not store.history.has_events("demo", 1, 2, 2)


def test_trimming_drops_the_oldest_near_misses_and_nothing_else(store: Store, writer: Writer) -> None:
    for height in range(1, 6):
        messages = [near_miss(f"{height}x", 0), near_miss(f"{height}y", 1), born(f"{height}r", 2, height)]
        block_writer.append(writer, "demo", [says(str(height), *messages)])
    block_writer.append(writer, "other", [says("1", near_miss("o"), chain="other")])
    block_writer.trim(writer, "demo", keep=3)
    stored = [
        item
        for item in (f"{height}{which}" for height in range(1, 6) for which in "xy")
        if store.history.of_transaction(name(item))
    ]
    assert stored == ["4y", "5x", "5y"]
    assert store.registrations.counts("demo")["live"] == 5
    assert store.registrations.counts("other")["rejected"] == 1
    block_writer.trim(writer, "demo", keep=3)
    assert store.registrations.counts("demo")["rejected"] == 3
    block_writer.trim(writer, "demo", keep=0)
    assert store.registrations.counts("demo")["rejected"] == 0


def test_near_misses_are_trimmed_while_appending(store: Store, writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.store.block_writer.TRIM_EVERY", 4)
    monkeypatch.setattr("indexer.store.block_writer.NEAR_MISSES", 5)
    for height in range(1, 9):
        block_writer.append(writer, "demo", [says(str(height), near_miss(f"{height}x"), near_miss(f"{height}y", 1))])
    assert store.registrations.counts("demo")["rejected"] == 5


@pytest.mark.parametrize("since", [0, 4_321, 9_900, 12_000])
def test_changes_after_any_sequence_number_are_one_range_of_an_index(store: Store, writer: Writer, since: int) -> None:
    """However many there are: no row before the number is read, and no more than the page has after it."""
    row = {"chain": "demo", "op": "upsert", "height": 1, "reason": "born"}
    with store.engine.begin() as connection:
        outbox.append(connection, [row | {"id": f"a{number}"} for number in range(10_000)])
        connection.exec_driver_sql("ANALYZE")
    statements: list[tuple[str, Any]] = []
    listen(store.engine, "before_cursor_execute", lambda _c, _u, text, values, *_: statements.append((text, values)))
    page = store.outbox.page(since, 100)
    assert [change.seq for change, _ in page.changes] == list(range(since + 1, min(since + 101, 10_001)))
    selects = [one for one in statements if "ORDER BY changes.seq" in one[0]]
    assert len(selects) == 1
    explain = "EXPLAIN " if store.engine.dialect.name == "postgresql" else "EXPLAIN QUERY PLAN "
    with store.engine.connect() as connection:
        plan = [str(row[-1]).strip() for row in connection.exec_driver_sql(explain + selects[0][0], selects[0][1])]
    steps = [step for step in plan if not step.startswith("Index Cond")]
    if store.engine.dialect.name == "postgresql":
        assert steps[0].startswith("Limit")
        assert "Index Scan using" in steps[1]
        assert len(steps) == 2, plan
        assert any("seq >" in step for step in plan)
    else:
        assert steps == ["SEARCH changes USING INDEX sqlite_autoindex_changes_1 (seq>?)"]


def test_outpoints_to_watch_are_those_where_registrations_of_the_chain_are_or_were(
    store: Store, writer: Writer
) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", 0, 1), born("b", 1, 1))])
    block_writer.append(writer, "demo", [says("2", moved("a", "a", "a2", position=0), burned("b", "b", "end", 1))])
    block_writer.append(writer, "other", [says("0", chain="other"), says("1", born("c", height=1), chain="other")])
    packed = b"".join(store.registrations.outpoints("demo"))
    watched = {packed[start : start + 36] for start in range(0, len(packed), 36)}
    assert watched == {outpoint_of(item).pack() for item in ("a", "b", "a2")}
    assert watched >= {outpoint.pack() for outpoint in live_outpoints(store)}
