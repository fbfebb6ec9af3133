"""The stored state hash equals the one computed from all registrations, whatever was appended and rolled back."""

from __future__ import annotations

import random

import pytest
from sqlalchemy import func, select, update

from indexer.model import Event
from indexer.state_hash import state_hash, stored_state_hash, update_state_hash
from indexer.store import Store, Writer, block_writer, state_hashes
from indexer.store.registrations import RegistrationQueries
from indexer.store.schema import meta, state_lines
from indexer.store.state_hashes import StateHash
from tests.facts import born, burned, moved, name, says, undecided


def lines(store: Store) -> int:
    with store.engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(state_lines)).scalar_one()


def test_a_hash_is_stored_with_its_block_and_goes_with_it(store: Store, writer: Writer) -> None:
    assert update_state_hash(store, writer, "demo") is None
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1))])
    first = update_state_hash(store, writer, "demo")
    assert first == StateHash(1, state_hash(store, "demo", 1))
    block_writer.append(writer, "demo", [says("2", moved("a", "a", "b"))])
    assert stored_state_hash(store, "demo") == first
    second = update_state_hash(store, writer, "demo")
    assert second == StateHash(2, state_hash(store, "demo", 2))
    block_writer.forget(writer, "demo", 1)
    assert stored_state_hash(store, "demo") == first
    block_writer.append(writer, "demo", [says("2a", burned("a", "a", "c"), prev="1")])
    assert update_state_hash(store, writer, "demo") == StateHash(2, state_hash(store, "demo", 2))
    assert lines(store) == 1


def test_a_registration_that_is_rolled_back_loses_its_line(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1)), says("2", born("b"))])
    update_state_hash(store, writer, "demo")
    block_writer.forget(writer, "demo", 0)
    block_writer.append(writer, "demo", [says("1a", born("c", height=1), prev="0")])
    assert update_state_hash(store, writer, "demo") == StateHash(1, state_hash(store, "demo", 1))
    assert lines(store) == 1


def test_no_hash_is_stored_while_an_update_is_undecided(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1))])
    first = update_state_hash(store, writer, "demo")
    block_writer.append(writer, "demo", [says("2", undecided("a", "a", "b"))])
    state_hashes.update(writer, "demo")
    assert store.state_hashes.newest("demo") == first
    assert stored_state_hash(store, "demo") == StateHash(2, None)


def change(rng: random.Random, store: Store, serial: int, height: int) -> list[Event]:
    """A new registration, and, where there is one to change, a transfer or the end of another."""
    live = [state for state in store.registrations.states("demo", height) if state.outpoint]
    events = [born(f"n{serial}", 1, height)]
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
            assert stored == StateHash(height, state_hash(store, "demo", height))


@pytest.mark.parametrize("reason", ["another epoch", "many changes"])
def test_lines_are_read_again_where_the_outbox_cannot_tell(
    store: Store, writer: Writer, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1))])
    update_state_hash(store, writer, "demo")
    with store.engine.begin() as connection:
        connection.execute(update(state_lines).values(line="stale"))
        if reason == "another epoch":
            connection.execute(update(meta).where(meta.c.key == "epoch").values(value="other"))
    if reason == "many changes":
        monkeypatch.setattr(state_hashes, "MAX_CHANGES", 0)
    block_writer.append(writer, "demo", [says("2", born("b"))])
    assert update_state_hash(store, writer, "demo") == StateHash(2, state_hash(store, "demo", 2))


def test_an_update_reads_only_what_changed(store: Store, writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1), born("b", 1, height=1))])
    update_state_hash(store, writer, "demo")
    read: list[list[str] | None] = []
    states = state_hashes.read_states
    monkeypatch.setattr(
        state_hashes, "read_states", lambda c, chain, ids=None: (read.append(ids), states(c, chain, ids))[1]
    )
    monkeypatch.setattr(RegistrationQueries, "states", None)
    block_writer.append(writer, "demo", [says("2", moved("a", "a", "c"))])
    update_state_hash(store, writer, "demo")
    assert read == [[f"{name('a')[::-1].hex()}_0"]]
