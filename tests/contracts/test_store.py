"""What the store promises, on every database: SQLite and PostgreSQL pass the same tests."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import func, select

from indexer.facts import BlockRef, Event, EventKind, PointerAnchor, Reading, State, Status
from indexer.statehash import digest, state_hash
from indexer.store import Store, StoreError, Writer, connect
from indexer.store.tables import blocks, events
from parsers.cards import Kind
from parsers.reasons import Reason
from parsers.tx import Outpoint
from tests.fakes import MemoryChain
from tests.indexing import Indexing, Reader
from tests.oracles.wire import frames

CARD = b"\xca" * 32


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    engine = connect(database_url)
    yield Store(engine)
    engine.dispose()


@pytest.fixture
def writer(store: Store) -> Iterator[Writer]:
    writer = Writer(store.engine)
    yield writer
    writer.close()


def name(text: str) -> bytes:
    """32 bytes that can be read: `4a`, `alice`."""
    return text.encode().ljust(32, b"\0")


def ref(label: str, prev: str = "", chain: str = "demo") -> BlockRef:
    """Block `4a`: height 4, of fork a."""
    height = int(label.rstrip("abcdefgh"))
    return BlockRef(chain, height, name(label), name(prev or str(height - 1)), 1_700_000_000 + height, b"h" * 80)


def at(text: str, vout: int = 0) -> Outpoint:
    return Outpoint(name(text), vout)


def state(id_: str, where: str | None, height: int, **more: object) -> State:
    seat = at(where) if where else None
    made = State(
        id=str(at(id_)),
        kind=Kind.AGENT,
        status=Status.LIVE if where else Status.BURNED,
        outpoint=seat,
        offset=0,
        satoshis=1 if where else 0,
        owner="alice" if where else None,
        map={"app": "test", "type": "a2b-agent"},
        card=CARD,
        winner=at(id_),
        updated_height=height,
        created_height=height,
    )
    return replace(made, **more)  # type: ignore[arg-type]


def born(id_: str, position: int = 0, height: int = 2, **more: object) -> Event:
    """A registration by that name appears."""
    return Event(
        kind=EventKind.INSCRIBED,
        position=position,
        tx_index=position + 1,
        txid=name(id_),
        outpoint=at(id_),
        card=CARD,
        owner="alice",
        state=state(id_, id_, height, **more),
    )


def moved(id_: str, source: str, target: str, position: int = 0, height: int = 2) -> Event:
    """It goes from one transaction's output to another's."""
    return Event(
        kind=EventKind.MOVED,
        position=position,
        tx_index=position + 1,
        txid=name(target),
        outpoint=at(target),
        spent=at(source),
        owner="bob",
        state=state(id_, target, height, owner="bob"),
    )


def burned(id_: str, source: str, target: str, position: int = 0, height: int = 2) -> Event:
    return Event(
        kind=EventKind.BURNED,
        position=position,
        tx_index=position + 1,
        txid=name(target),
        outpoint=None,
        spent=at(source),
        reasons=(Reason("burned-fee"),),
        state=state(id_, None, height),
    )


def near_miss(txid: str, position: int = 0) -> Event:
    return Event(
        kind=EventKind.REJECTED,
        position=position,
        tx_index=position + 1,
        txid=name(txid),
        outpoint=at(txid),
        valid=False,
        reasons=(Reason("satoshis", "two satoshis"), Reason("card-json")),
    )


def undecided(id_: str, source: str, target: str) -> Event:
    return replace(
        burned(id_, source, target),
        kind=EventKind.UNDECIDED,
        valid=False,
        reasons=(Reason("values-unknown", str(at("else"))),),
        state=state(id_, None, 2, status=Status.UNDECIDED),
    )


def says(
    label: str, *said: Event, prev: str = "", chain: str = "demo", cards: dict[bytes, bytes] | None = None
) -> Reading:
    return Reading(ref(label, prev, chain), said, cards or {})


# -- blocks -----------------------------------------------------------------------------------------------------------


def test_an_empty_database_knows_nothing(store: Store) -> None:
    assert store.newest("demo") is None
    assert store.block("demo", 0) is None
    assert store.chains() == {}
    assert store.history(str(at("a"))) == []
    assert store.newest_seq() == 0
    assert (list(store.seats("demo")), store.at("demo", [at("a")])) == ([], {})
    assert store.counts("demo") == {"live": 0, "burned": 0, "undecided": 0, "rejected": 0, "pointers": 0}
    assert state_hash(store, "demo", 5) == digest([])


def test_blocks_are_appended_and_found_by_height(store: Store, writer: Writer) -> None:
    writer.append("demo", [says("0"), says("1")])
    writer.append("demo", [])
    writer.append("demo", [says("2")])
    assert store.newest("demo") == ref("2")
    assert [store.block("demo", height) for height in range(4)] == [ref("0"), ref("1"), ref("2"), None]


def test_a_chain_may_begin_at_any_height(store: Store, writer: Writer) -> None:
    writer.append("demo", [says("700")])
    assert store.newest("demo") == ref("700")


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
    store: Store, writer: Writer, readings: list[Reading]
) -> None:
    writer.append("demo", [says("0"), says("1")])
    with pytest.raises(ValueError, match="does not continue the stored chain demo"):
        writer.append("demo", readings)
    assert store.newest("demo") == ref("1")


def test_what_cannot_be_written_whole_is_not_written_at_all(store: Store, writer: Writer) -> None:
    writer.append("demo", [says("0"), says("1", born("a", height=1))])
    before = store.changes(0, 100)
    with pytest.raises(StoreError, match="cannot write to"):
        writer.append("demo", [says("2", born("b"), born("c")), says("3")])  # two events in one place
    assert store.newest("demo") == ref("1")
    assert store.changes(0, 100) == before
    writer.append("demo", [says("2", born("b"))])
    assert [change.seq for change in store.changes(0, 100)] == [1, 2]


def test_a_database_that_refuses_says_so_without_its_password(database_url: str) -> None:
    engine = connect(database_url)
    writer = Writer(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE changes")
    for refused in (lambda: writer.append("demo", [says("0", born("a"))]), lambda: writer.forget("demo", -1)):
        with engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE IF EXISTS events")
        with pytest.raises(StoreError, match=r"cannot write to .*(a2b\.db|test\d+)"):
            refused()
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE outputs")
    with pytest.raises(StoreError, match="cannot write"):
        writer.keep_values({at("x"): 1})
    writer.close()
    engine.dispose()


# -- forgetting -------------------------------------------------------------------------------------------------------


def test_forgetting_blocks_takes_back_all_they_said_and_notes_each_registration(store: Store, writer: Writer) -> None:
    writer.append("demo", [says("0"), says("1", born("a", height=1), born("b", 1, height=1))])
    writer.append("demo", [says("2", moved("a", "a", "a2"), born("c", 1), near_miss("n", 2)), says("3", born("d"))])
    assert writer.forget("demo", 1) == 2
    assert store.newest("demo") == ref("1")
    assert [past.event.kind for past in store.history(str(at("a")))] == ["inscribed"]
    assert store.history(str(at("c"))) == []
    assert store.said_by(name("n")) == []
    assert set(store.seats("demo")) == {at("a"), at("b")}
    news = store.changes(5, 100)
    assert {(change.id, change.op, change.reason, change.height) for change in news} == {
        (str(at(id_)), "revert", "reorg", 1) for id_ in "acd"
    }
    with store.engine.connect() as connection:
        assert connection.execute(select(func.count()).select_from(events)).scalar() == 2


def test_forgetting_nothing_changes_nothing(store: Store, writer: Writer) -> None:
    writer.append("demo", [says("0"), says("1", born("a", height=1))])
    assert writer.forget("demo", 1) == 0
    assert store.newest_seq() == 1


def test_forgetting_everything_leaves_an_empty_chain(store: Store, writer: Writer) -> None:
    writer.append("demo", [says("0"), says("1", born("a", height=1))])
    assert writer.forget("demo", -1) == 2
    assert store.newest("demo") is None
    writer.append("demo", [says("5")])


def test_what_a_fork_said_instead_counts(store: Store, writer: Writer) -> None:
    writer.append("demo", [says("0"), says("1", born("a", height=1)), says("2", moved("a", "a", "left"))])
    writer.forget("demo", 1)
    writer.append(
        "demo", [says("2a", moved("a", "a", "right"), prev="1"), says("3a", burned("a", "right", "end"), prev="2a")]
    )
    assert [past.event.txid for past in store.history(str(at("a")))] == [name("a"), name("right"), name("end")]
    assert list(store.seats("demo")) == []


# -- the outbox -------------------------------------------------------------------------------------------------------


def test_changes_are_numbered_without_gaps_and_say_what_happened(store: Store, writer: Writer) -> None:
    writer.append("demo", [says("0"), says("1", born("a", height=1), moved("a", "a", "a2", 1), born("b", 2))])
    writer.append("demo", [says("2", burned("a", "a2", "end"))])
    writer.forget("demo", 1)
    writer.append("demo", [says("2a", burned("b", "b", "end"), prev="1")])
    news = store.changes(0, 100)
    assert [change.seq for change in news] == list(range(1, 6))
    first, second = str(at("a")), str(at("b"))
    assert [(change.op, change.id, change.height, change.reason) for change in news] == [
        ("upsert", first, 1, "moved"),
        ("upsert", second, 1, "inscribed"),
        ("remove", first, 2, "burned"),
        ("revert", first, 1, "reorg"),
        ("remove", second, 2, "burned"),
    ]
    assert store.newest_seq() == 5
    assert [change.seq for change in store.changes(2, 2)] == [3, 4]
    assert {change.chain for change in news} == {"demo"}


def test_a_failed_write_leaves_no_gap_in_the_numbers(
    store: Store, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.append("demo", [says("0"), says("1", born("a", height=1))])
    insert = Writer._insert

    def fail(self: Writer, connection: object, readings: object) -> None:
        insert(self, connection, readings)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Writer, "_insert", fail)
        with pytest.raises(KeyboardInterrupt):
            writer.append("demo", [says("2", born("b"), born("c", 1))])
    assert store.newest("demo") == ref("1")
    writer.append("demo", [says("2", born("b"))])
    assert [change.seq for change in store.changes(0, 100)] == [1, 2]


def test_the_epoch_stays_with_the_database(database_url: str, store: Store) -> None:
    again = connect(database_url)
    assert Store(again).epoch == store.epoch
    assert len(store.epoch) == 32
    again.dispose()


# -- questions --------------------------------------------------------------------------------------------------------


def test_only_the_newest_seat_of_a_registration_is_taken(store: Store, writer: Writer) -> None:
    writer.append("demo", [says("0"), says("1", born("a", height=1), born("b", 1, 1), born("c", 2, 1))])
    writer.append("demo", [says("2", moved("a", "a", "a2"), burned("b", "b", "end", 1))])
    assert set(store.seats("demo")) == {at("a2"), at("c")}
    found = store.at("demo", [at("a"), at("a2"), at("a2", 1), at("b"), at("c"), at("nowhere")])
    assert {seat: [sitting.id for sitting in states] for seat, states in found.items()} == {
        at("a2"): [str(at("a"))],
        at("c"): [str(at("c"))],
    }
    assert found[at("a2")] == [state("a", "a2", 2, owner="bob")]
    assert store.at("demo", []) == {}


def test_a_registration_that_returns_to_no_seat_is_found_by_those_it_had(store: Store, writer: Writer) -> None:
    writer.append("demo", [says("0"), says("1", born("a", height=1)), says("2", moved("a", "a", "a2"))])
    writer.append("demo", [says("3", burned("a", "a2", "end"))])
    assert [past.event.txid for past in store.spends_of(at("a"))] == [name("a2")]
    assert [past.event.txid for past in store.spends_of(at("a2"))] == [name("end")]
    assert store.spends_of(at("end")) == []
    assert [past.event.txid for past in store.seated(at("a2"))] == [name("a2")]
    assert sorted(store.spent_above("demo", 1)) == sorted([at("a"), at("a2")])
    assert store.spent_above("demo", 2) == [at("a2")]


def test_several_registrations_may_share_a_seat(store: Store, writer: Writer) -> None:
    second = replace(born("b", 1, 1), outpoint=at("a"), state=state("b", "a", 1, offset=7, satoshis=546))
    writer.append("demo", [says("0"), says("1", born("a", height=1), second)])
    assert sorted(sitting.id for sitting in store.at("demo", [at("a")])[at("a")]) == [str(at("a")), str(at("b"))]
    assert store.at("demo", [at("a")])[at("a")][1].offset == 7


def test_more_names_than_a_statement_holds_are_asked_in_batches(store: Store, writer: Writer) -> None:
    many = [f"{number:04}" for number in range(1_201)]
    writer.append("demo", [says("0"), says("1", *(born(each, number, 1) for number, each in enumerate(many)))])
    assert len(list(store.seats("demo"))) == 1_201
    assert len(store.at("demo", [at(each) for each in many])) == 1_201
    assert len(store.histories([str(at(each)) for each in many])) == 1_201
    walked: list[tuple[str, str]] = []
    while batch := store.ids(walked[-1] if walked else None, 500):
        walked += batch
    assert walked == sorted(("demo", str(at(each))) for each in many)


def test_looked_up_values_are_kept_once_and_never_rolled_back(store: Store, writer: Writer) -> None:
    writer.append("demo", [says("0")])
    writer.keep_values({at("x"): 546, at("x", 4_294_967_295): 21 * 10**14, at("y"): 0})
    writer.keep_values({at("x"): 546})
    writer.keep_values({})
    writer.forget("demo", -1)
    wanted = [at("x"), at("x", 1), at("x", 4_294_967_295), at("y"), at("z")]
    assert store.values(wanted) == {at("x"): 546, at("x", 4_294_967_295): 21 * 10**14, at("y"): 0}


def test_card_bodies_are_kept_by_their_hash_and_survive_a_reorg(store: Store, writer: Writer) -> None:
    body = bytes(range(256)) * 40
    writer.append("demo", [says("0", cards={CARD: body})])
    writer.append("demo", [says("1", cards={CARD: body, name("other"): b""})])
    writer.forget("demo", 0)
    assert store.cards([CARD, name("other"), name("unknown")]) == {CARD: body, name("other"): b""}


def test_histories_are_the_histories_of_each(store: Store, writer: Writer) -> None:
    writer.append(
        "demo", [says("0"), says("1", born("a", height=1), born("b", 1, 1)), says("2", moved("b", "b", "b2"))]
    )
    found = store.histories([str(at("a")), str(at("b")), str(at("z"))])
    assert found == {str(at(id_)): store.history(str(at(id_))) for id_ in "ab"}
    newest = store.history(str(at("b")))[-1]
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
    back = [past.event for each in ("a", "n", "fee", "p", "q") for past in store.said_by(name(each))]
    assert back == said
    assert [past.event for past in store.anchors("a.example")] == [said[3]]


def test_states_are_sorted_by_id_as_bytes_and_as_of_a_height(store: Store, writer: Writer) -> None:
    others = [
        replace(born("a", vout, 1), state=replace(state("a", "a", 1), id=str(at("a", vout)))) for vout in (1, 10, 2)
    ]
    writer.append("demo", [says("0"), says("1", born("b", 3, 1), *others), says("2", moved("b", "b", "b2"))])
    order = [str(at("a", vout)) for vout in (1, 10, 2)] + [str(at("b"))]
    assert order == sorted(order)
    assert [(each.id, each.owner) for each in store.states("demo", 1)] == [(id_, "alice") for id_ in order]
    assert [each.owner for each in store.states("demo", 2)] == ["alice", "alice", "alice", "bob"]
    assert list(store.states("demo", 0)) == []


def test_undecided_updates_are_listed_and_leave_no_state_hash(store: Store, writer: Writer) -> None:
    writer.append("demo", [says("0"), says("1", born("a", height=1)), says("2", undecided("a", "a", "u"))])
    assert [past.event.txid for past in store.undecided("demo")] == [name("u")]
    assert (store.undecided("demo", upto=1), store.undecided("other")) == ([], [])
    assert state_hash(store, "demo", 1) is not None
    assert state_hash(store, "demo", 2) is None
    assert store.counts("demo")["undecided"] == 1


def test_counts_are_of_registrations_by_their_newest_status(store: Store, writer: Writer) -> None:
    writer.append(
        "demo", [says("0"), says("1", born("a", height=1), born("b", 1, 1), born("c", 2, 1), near_miss("n", 3))]
    )
    writer.append("demo", [says("2", burned("a", "a", "end"), moved("b", "b", "b2", 1))])
    assert store.counts("demo") == {"live": 2, "burned": 1, "undecided": 0, "rejected": 1, "pointers": 0}


def test_trimming_drops_the_oldest_near_misses_and_nothing_else(store: Store, writer: Writer) -> None:
    for height in range(1, 6):
        said = [near_miss(f"{height}x", 0), near_miss(f"{height}y", 1), born(f"{height}r", 2, height)]
        writer.append("demo", [says(str(height), *said)])
    writer.append("other", [says("1", near_miss("o"), chain="other")])
    writer.trim("demo", keep=3)
    kept = [
        each for each in (f"{height}{which}" for height in range(1, 6) for which in "xy") if store.said_by(name(each))
    ]
    assert kept == ["4y", "5x", "5y"]
    assert store.counts("demo")["live"] == 5
    assert store.counts("other")["rejected"] == 1
    writer.trim("demo", keep=3)
    assert store.counts("demo")["rejected"] == 3
    writer.trim("demo", keep=0)
    assert store.counts("demo")["rejected"] == 0


def test_near_misses_are_trimmed_while_appending(store: Store, writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.store.writes.TRIM_EVERY", 4)
    monkeypatch.setattr("indexer.store.writes.NEAR_MISSES", 5)
    for height in range(1, 9):
        writer.append("demo", [says(str(height), near_miss(f"{height}x"), near_miss(f"{height}y", 1))])
    assert store.counts("demo")["rejected"] == 5


# -- several chains, several processes ---------------------------------------------------------------------------------


def test_two_chains_with_the_same_transaction_do_not_mix(store: Store, writer: Writer) -> None:
    writer.append("demo", [says("0"), says("1", born("a", height=1)), says("2", moved("a", "a", "a2"))])
    writer.append("other", [says(label, chain="other") for label in ("0", "1", "2")])
    writer.append("other", [says("3", born("a", height=3), chain="other")])
    assert list(store.seats("demo")) == [at("a2")]
    assert list(store.seats("other")) == [at("a")]
    assert store.at("demo", [at("a")]) == {}
    assert store.at("other", [at("a")])[at("a")][0].created_height == 3
    assert [(past.chain, past.height) for past in store.history(str(at("a")))] == [
        ("demo", 1),
        ("demo", 2),
        ("other", 3),
    ]
    assert state_hash(store, "demo", 3) != state_hash(store, "other", 3)
    assert [(change.chain, change.height) for change in store.changes(0, 9)] == [("demo", 1), ("demo", 2), ("other", 3)]
    assert store.ids(None, 9) == [("demo", str(at("a"))), ("other", str(at("a")))]
    writer.forget("demo", 0)
    assert (list(store.seats("demo")), list(store.seats("other"))) == ([], [at("a")])
    assert store.newest("other") == ref("3", chain="other")
    assert store.counts("other")["live"] == 1


def test_a_name_belongs_to_one_chain(store: Store, writer: Writer) -> None:
    writer.name_chain("demo", "bsv:regtest")
    writer.name_chain("demo", "bsv:regtest")
    writer.name_chain("other", "ltc:regtest")
    with pytest.raises(StoreError, match=r"holds bsv:regtest under the name 'demo', and the source is bsv:mainnet"):
        writer.name_chain("demo", "bsv:mainnet")
    assert store.chains() == {"demo": "bsv:regtest", "other": "ltc:regtest"}


def test_a_second_writer_is_refused_until_the_first_has_closed(database_url: str) -> None:
    first, second = connect(database_url), connect(database_url)
    writer = Writer(first)
    for _ in range(2):
        with pytest.raises(StoreError, match="another indexer is writing to"):
            Writer(second)
    writer.append("demo", [says("0")])
    writer.close()
    writer.close()
    later = Writer(second)
    later.append("demo", [says("1")])
    later.close()
    first.dispose()
    second.dispose()


def test_readers_see_whole_blocks_while_one_is_written(database_url: str, store: Store, writer: Writer) -> None:
    writer.append("demo", [says("0"), says("1", born("a", height=1))])
    with store.engine.begin() as connection:
        writer._insert(connection, [says("2", moved("a", "a", "a2"))])
        reader = Store(connect(database_url))
        assert reader.newest("demo") == ref("1")
        assert list(reader.seats("demo")) == [at("a")]
        assert reader.newest_seq() == 1
    assert reader.newest("demo") == ref("2")
    assert list(reader.seats("demo")) == [at("a2")]
    assert reader.newest_seq() == 2
    reader.engine.dispose()


def test_a_database_of_another_version_is_refused(database_url: str, store: Store) -> None:
    with store.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE meta SET value = '0' WHERE key = 'schema'")
    with pytest.raises(StoreError, match=r"has schema '0' and this program reads '1'"):
        connect(database_url)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("nonsense", "is no database URL; use sqlite:///PATH or postgresql"),
        ("mysql://host/name", "'mysql' is not a database this program knows"),
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
        indexing.writer.forget("demo", -1)
        reader.read(limit=7)
        assert reader.copy == {}
        indexing.restart()
        await indexing.catch_up()
        assert indexing.facts() == before
        reader.store = indexing.store
        reader.read()
        assert reader.state_hash() == hashes[max(hashes)]


def test_the_tables_hang_together(store: Store, writer: Writer) -> None:
    writer.append("demo", [says("0"), says("1", born("a", height=1))])
    with store.engine.begin() as connection:
        connection.execute(blocks.delete())
        assert connection.execute(select(func.count()).select_from(events)).scalar() == 0


def test_numbers_are_those_of_the_database_not_of_the_process(database_url: str) -> None:
    for label, id_ in itertools.islice(zip("12345", "abcde", strict=True), 5):
        engine = connect(database_url)
        writer = Writer(engine)
        writer.append("demo", [says(label, born(id_, height=int(label)))])
        assert Store(engine).newest_seq() == int(label)
        writer.close()
        engine.dispose()
