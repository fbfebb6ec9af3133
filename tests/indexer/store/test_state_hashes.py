"""The stored state hash equals the one computed from all registrations, whatever was appended and rolled back."""

from __future__ import annotations

import random
from dataclasses import replace
from hashlib import sha256

import pytest
from sqlalchemy import Connection, func, select, update

from indexer.model import Event
from indexer.state_hash import computed_state_hash, stored_state_hash, update_state_hash
from indexer.store import Store, Writer, block_writer, second_readings, state_hashes
from indexer.store.registrations import RegistrationQueries
from indexer.store.schema import outbox_runs, state_lines
from indexer.store.state_hashes import NO_POINTERS, PointersHash, StateHash
from tests.facts import born, burned, moved, name, says, undecided
from tests.pointer_facts import points


def lines(store: Store) -> int:
    with store.engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(state_lines)).scalar_one()


def test_a_hash_is_stored_with_its_block_and_goes_with_it(store: Store, writer: Writer) -> None:
    assert update_state_hash(store, writer, "demo") is None
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1))])
    first = update_state_hash(store, writer, "demo")
    assert first == computed_state_hash(store, "demo", 1)
    block_writer.append(writer, "demo", [says("2", moved("a", "a", "b"))])
    assert stored_state_hash(store, "demo") == first
    second = update_state_hash(store, writer, "demo")
    assert second == computed_state_hash(store, "demo", 2)
    block_writer.forget(writer, "demo", 1)
    assert stored_state_hash(store, "demo") == first
    block_writer.append(writer, "demo", [says("2a", burned("a", "a", "c"), prev="1")])
    assert update_state_hash(store, writer, "demo") == computed_state_hash(store, "demo", 2)
    assert lines(store) == 1


def test_a_registration_that_is_rolled_back_loses_its_line(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1)), says("2", born("b"))])
    update_state_hash(store, writer, "demo")
    block_writer.forget(writer, "demo", 0)
    block_writer.append(writer, "demo", [says("1a", born("c", height=1), prev="0")])
    assert update_state_hash(store, writer, "demo") == computed_state_hash(store, "demo", 1)
    assert lines(store) == 1


def test_no_hash_is_stored_while_an_update_is_undecided(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1))])
    first = update_state_hash(store, writer, "demo")
    block_writer.append(writer, "demo", [says("2", undecided("a", "a", "b"))])
    state_hashes.update(writer, "demo")
    assert store.state_hashes.newest("demo") == first
    assert stored_state_hash(store, "demo") == StateHash(2, None)


def test_the_hash_over_pointers_is_chained_over_the_blocks_with_any(store: Store, writer: Writer) -> None:
    first = points("b.example", b"{}", "y"), points("a.example", None, "x", 1, uri="https://a.example/card.json")
    bad = replace(points("bad.example", None, "w", 2), valid=False)
    block_writer.append(writer, "demo", [says("0"), says("1", *first, bad), says("2")])
    of_uri = sha256(b"https://a.example/card.json").hexdigest()
    lines = [f"{txid('x')}_0\ta.example\turi:{of_uri}\n", f"{txid('y')}_0\tb.example\t{sha256(b'{}').hexdigest()}\n"]
    one = sha256(bytes(32) + "".join(sorted(lines)).encode())
    updated = update_state_hash(store, writer, "demo")
    assert updated is not None
    assert updated.pointers == PointersHash(2, one.hexdigest())

    block_writer.append(writer, "demo", [says("3", points("c.example", None, "z"))])
    two = sha256(one.digest() + f"{txid('z')}_0\tc.example\t-\n".encode())
    updated = update_state_hash(store, writer, "demo")
    assert updated == computed_state_hash(store, "demo", 3)
    assert updated.pointers == PointersHash(3, two.hexdigest())
    block_writer.forget(writer, "demo", 0)
    updated = update_state_hash(store, writer, "demo")
    assert updated is not None
    assert updated.pointers == NO_POINTERS


def txid(of: str) -> str:
    return name(of)[::-1].hex()


def change(rng: random.Random, store: Store, serial: int, height: int) -> list[Event]:
    """A new registration, and, where there is one to change, a transfer or the end of another."""
    live = [state for state in store.registrations.states("demo", height) if state.outpoint]
    events = [born(f"n{serial}", 1, height)]
    if rng.random() < 0.4:
        events.append(points(f"p{serial}.example", b"{}" if rng.random() < 0.5 else None, position=2))
    if live and rng.random() < 0.6:
        state = rng.choice(live)
        assert state.outpoint is not None
        id_, here = (raw.rstrip(b"\0").decode() for raw in (bytes.fromhex(state.id[:64])[::-1], state.outpoint.txid))
        events.insert(0, rng.choice([moved, burned])(id_, here, f"t{serial}", 0, height))
    return events


@pytest.mark.parametrize("seed", range(3))
def test_any_history_gives_the_hash_of_all_registrations(store: Store, writer: Writer, seed: int) -> None:
    rng = random.Random(seed)
    height, previous = -1, {-1: "none"}
    for serial in range(25):
        if height > 1 and rng.random() < 0.25:
            height -= rng.randint(1, 2)
            block_writer.forget(writer, "demo", height)
        height += 1
        previous[height] = f"{height}{rng.choice('abcd')}"
        events = change(rng, store, serial, height)
        block_writer.append(writer, "demo", [says(previous[height], *events, prev=previous[height - 1])])
        if rng.random() < 0.6:
            stored = update_state_hash(store, writer, "demo")
            assert stored == computed_state_hash(store, "demo", height)


@pytest.mark.parametrize("seed", range(6))
def test_of_a_chain_that_is_read_twice_the_hash_is_that_of_the_newest_block_up_to_which_it_was(
    store: Store, writer: Writer, seed: int
) -> None:
    rng = random.Random(seed)
    second_readings.begin(writer, "demo")
    height, twice, previous = -1, -1, {-1: "none"}
    for serial in range(40):
        if height > 1 and rng.random() < 0.2:
            height -= rng.randint(1, 2)
            block_writer.forget(writer, "demo", height)
            twice = min(twice, height)
        height += 1
        previous[height] = f"{height}{rng.choice('abcd')}"
        events = change(rng, store, serial, height)
        block_writer.append(writer, "demo", [says(previous[height], *events, prev=previous[height - 1])])
        if rng.random() < 0.4 and height > twice:
            twice = rng.randint(twice + 1, height)
            second_readings.advance(writer, "demo", twice)
        assert store.read_twice("demo") == twice
        if rng.random() < 0.6:
            expected = computed_state_hash(store, "demo", twice) if twice >= 0 else StateHash(height, None)
            assert update_state_hash(store, writer, "demo") == expected


@pytest.mark.parametrize("reason", ["another epoch", "many changes"])
def test_lines_are_read_again_where_the_outbox_cannot_tell(
    store: Store, writer: Writer, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1))])
    update_state_hash(store, writer, "demo")
    with store.engine.begin() as connection:
        connection.execute(update(state_lines).values(line="stale"))
        if reason == "another epoch":
            connection.execute(update(outbox_runs).values(mark="other"))
    if reason == "many changes":
        monkeypatch.setattr(state_hashes, "MAX_CHANGES", 0)
    block_writer.append(writer, "demo", [says("2", born("b"))])
    assert update_state_hash(store, writer, "demo") == computed_state_hash(store, "demo", 2)


def test_an_update_reads_only_what_changed(store: Store, writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1), born("b", 1, height=1))])
    update_state_hash(store, writer, "demo")
    read: list[list[str] | None] = []
    states = state_hashes.read_states

    def noted(c: Connection, chain: str, ids: list[str] | None = None, *, up_to: int | None = None) -> object:
        read.append(ids)
        return states(c, chain, ids, up_to=up_to)

    monkeypatch.setattr(state_hashes, "read_states", noted)
    monkeypatch.setattr(RegistrationQueries, "states", None)
    block_writer.append(writer, "demo", [says("2", moved("a", "a", "c"))])
    update_state_hash(store, writer, "demo")
    assert read == [[f"{name('a')[::-1].hex()}_0"]]
