"""What the store answers, on every database."""

from __future__ import annotations

from dataclasses import replace

import pytest

from indexer.model import Event, EventKind, PointerAnchor
from indexer.state_hash import state_hash
from indexer.store import Store, Writer
from parsers.cards import Kind
from parsers.reasons import Reason
from tests.facts import CARD, at, born, burned, moved, name, near_miss, says, state, undecided
from tests.told import anchors


def test_only_the_newest_seat_of_a_registration_is_taken(store: Store, writer: Writer) -> None:
    writer.append("demo", [says("0"), says("1", born("a", height=1), born("b", 1, 1), born("c", 2, 1))])
    writer.append("demo", [says("2", moved("a", "a", "a2"), burned("b", "b", "end", 1))])
    assert set(store.registrations.outpoints("demo")) == {at("a2"), at("c")}
    found = store.registrations.at_outpoints("demo", [at("a"), at("a2"), at("a2", 1), at("b"), at("c"), at("nowhere")])
    assert {seat: [sitting.id for sitting in states] for seat, states in found.items()} == {
        at("a2"): [str(at("a"))],
        at("c"): [str(at("c"))],
    }
    assert found[at("a2")] == [state("a", "a2", 2, owner="bob")]
    assert store.registrations.at_outpoints("demo", []) == {}


def test_a_registration_that_returns_to_no_seat_is_found_by_those_it_had(store: Store, writer: Writer) -> None:
    writer.append("demo", [says("0"), says("1", born("a", height=1)), says("2", moved("a", "a", "a2"))])
    writer.append("demo", [says("3", burned("a", "a2", "end"))])
    assert [past.event.txid for past in store.history.departures(at("a"))] == [name("a2")]
    assert [past.event.txid for past in store.history.departures(at("a2"))] == [name("end")]
    assert store.history.departures(at("end")) == []
    assert [past.event.txid for past in store.history.arrivals(at("a2"))] == [name("a2")]
    assert sorted(store.registrations.spent_above("demo", 1)) == sorted([at("a"), at("a2")])
    assert store.registrations.spent_above("demo", 2) == [at("a2")]


def test_several_registrations_may_share_a_seat(store: Store, writer: Writer) -> None:
    second = replace(born("b", 1, 1), outpoint=at("a"), state=state("b", "a", 1, offset=7, satoshis=546))
    writer.append("demo", [says("0"), says("1", born("a", height=1), second)])
    assert sorted(sitting.id for sitting in store.registrations.at_outpoints("demo", [at("a")])[at("a")]) == [
        str(at("a")),
        str(at("b")),
    ]
    assert store.registrations.at_outpoints("demo", [at("a")])[at("a")][1].offset == 7


def test_more_names_than_a_statement_holds_are_asked_in_batches(store: Store, writer: Writer) -> None:
    many = [f"{number:04}" for number in range(1_201)]
    writer.append("demo", [says("0"), says("1", *(born(each, number, 1) for number, each in enumerate(many)))])
    assert len(list(store.registrations.outpoints("demo"))) == 1_201
    assert len(store.registrations.at_outpoints("demo", [at(each) for each in many])) == 1_201
    assert len(store.history.of_many([str(at(each)) for each in many])) == 1_201
    walked: list[tuple[str, str]] = []
    while batch := store.registrations.ids(walked[-1] if walked else None, 500):
        walked += batch
    assert walked == sorted(("demo", str(at(each))) for each in many)


def test_looked_up_values_are_kept_once_and_never_rolled_back(store: Store, writer: Writer) -> None:
    writer.append("demo", [says("0")])
    writer.store_output_values({at("x"): 546, at("x", 4_294_967_295): 21 * 10**14, at("y"): 0})
    writer.store_output_values({at("x"): 546})
    writer.store_output_values({})
    writer.forget("demo", -1)
    wanted = [at("x"), at("x", 1), at("x", 4_294_967_295), at("y"), at("z")]
    assert store.content.output_values(wanted) == {at("x"): 546, at("x", 4_294_967_295): 21 * 10**14, at("y"): 0}


def test_card_bodies_are_kept_by_their_hash_and_survive_a_reorg(store: Store, writer: Writer) -> None:
    body = bytes(range(256)) * 40
    writer.append("demo", [says("0", cards={CARD: body})])
    writer.append("demo", [says("1", cards={CARD: body, name("other"): b""})])
    writer.forget("demo", 0)
    assert store.content.cards([CARD, name("other"), name("unknown")]) == {CARD: body, name("other"): b""}


def test_histories_are_the_histories_of_each(store: Store, writer: Writer) -> None:
    writer.append(
        "demo", [says("0"), says("1", born("a", height=1), born("b", 1, 1)), says("2", moved("b", "b", "b2"))]
    )
    found = store.history.of_many([str(at("a")), str(at("b")), str(at("z"))])
    assert found == {str(at(id_)): store.history.of(str(at(id_))) for id_ in "ab"}
    newest = store.history.of(str(at("b")))[-1]
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
        winner=at("w", 4_294_967_295),
        updated_height=2**31 - 1,
    )
    said = [
        replace(born("a", height=1), state=strange, signer="1Signer", owner=None, card=None),
        near_miss("n", 1),
        burned("a", "a", "fee", 2),
        Event(
            kind=EventKind.POINTED,
            position=3,
            tx_index=4,
            txid=name("p"),
            outpoint=at("p", 3),
            pointer=PointerAnchor(
                id="a.example", domain="a.example", digest=CARD, uri="https://a.example/x", form="map"
            ),
        ),
        Event(
            kind=EventKind.POINTED,
            position=2**26 - 1,
            tx_index=2**26 - 1,
            txid=name("q"),
            outpoint=at("q"),
            valid=False,
            reasons=(Reason("pointer-domain"), Reason("pointer-encoding", "é", "/x")),
            pointer=PointerAnchor(id=None, domain="\0", digest=None, uri=None, form="none"),
        ),
    ]
    writer.append("demo", [says("0"), says("1", *said)])
    back = [past.event for each in ("a", "n", "fee", "p", "q") for past in store.history.of_transaction(name(each))]
    assert back == said
    assert [past.event for past in anchors(store, "a.example")] == [said[3]]


def test_states_are_sorted_by_id_as_bytes_and_as_of_a_height(store: Store, writer: Writer) -> None:
    others = [
        replace(born("a", vout, 1), state=replace(state("a", "a", 1), id=str(at("a", vout)))) for vout in (1, 10, 2)
    ]
    writer.append("demo", [says("0"), says("1", born("b", 3, 1), *others), says("2", moved("b", "b", "b2"))])
    order = [str(at("a", vout)) for vout in (1, 10, 2)] + [str(at("b"))]
    assert order == sorted(order)
    assert [(each.id, each.owner) for each in store.registrations.states("demo", 1)] == [
        (id_, "alice") for id_ in order
    ]
    assert [each.owner for each in store.registrations.states("demo", 2)] == ["alice", "alice", "alice", "bob"]
    assert list(store.registrations.states("demo", 0)) == []


def test_undecided_updates_are_listed_and_leave_no_state_hash(store: Store, writer: Writer) -> None:
    writer.append("demo", [says("0"), says("1", born("a", height=1)), says("2", undecided("a", "a", "u"))])
    assert [past.event.txid for past in store.history.undecided("demo")] == [name("u")]
    assert (store.history.undecided("demo", up_to=1), store.history.undecided("other")) == ([], [])
    assert state_hash(store, "demo", 1) is not None
    assert state_hash(store, "demo", 2) is None
    assert store.registrations.counts("demo")["undecided"] == 1


def test_counts_are_of_registrations_by_their_newest_status(store: Store, writer: Writer) -> None:
    writer.append(
        "demo", [says("0"), says("1", born("a", height=1), born("b", 1, 1), born("c", 2, 1), near_miss("n", 3))]
    )
    writer.append("demo", [says("2", burned("a", "a", "end"), moved("b", "b", "b2", 1))])
    assert store.registrations.counts("demo") == {"live": 2, "burned": 1, "undecided": 0, "rejected": 1, "pointers": 0}


def test_trimming_drops_the_oldest_near_misses_and_nothing_else(store: Store, writer: Writer) -> None:
    for height in range(1, 6):
        said = [near_miss(f"{height}x", 0), near_miss(f"{height}y", 1), born(f"{height}r", 2, height)]
        writer.append("demo", [says(str(height), *said)])
    writer.append("other", [says("1", near_miss("o"), chain="other")])
    writer.trim("demo", keep=3)
    kept = [
        each
        for each in (f"{height}{which}" for height in range(1, 6) for which in "xy")
        if store.history.of_transaction(name(each))
    ]
    assert kept == ["4y", "5x", "5y"]
    assert store.registrations.counts("demo")["live"] == 5
    assert store.registrations.counts("other")["rejected"] == 1
    writer.trim("demo", keep=3)
    assert store.registrations.counts("demo")["rejected"] == 3
    writer.trim("demo", keep=0)
    assert store.registrations.counts("demo")["rejected"] == 0


def test_near_misses_are_trimmed_while_appending(store: Store, writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.store.writer.TRIM_EVERY", 4)
    monkeypatch.setattr("indexer.store.writer.NEAR_MISSES", 5)
    for height in range(1, 9):
        writer.append("demo", [says(str(height), near_miss(f"{height}x"), near_miss(f"{height}y", 1))])
    assert store.registrations.counts("demo")["rejected"] == 5
