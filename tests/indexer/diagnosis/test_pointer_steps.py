"""Diagnosis of a pointer once its card was to be fetched: every refusal has its code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer.diagnosis.diagnoser import Diagnoser
from indexer.fetcher.reasons import SENTENCES
from indexer.store import FetchState, Store, Writer, block_writer, chain_marks, connect, visits
from tests.facts import name, says
from tests.pointer_facts import Clock, card, digest, fails, points, serves

ALPHA, BETA = card("Alpha"), card("Beta")


@pytest.fixture
def clock() -> Clock:
    return Clock(1_700_000_000_000)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    engine = connect(f"sqlite:///{tmp_path}/a2b.db")
    yield Store(engine)
    engine.dispose()


@pytest.fixture
def writer(store: Store, clock: Clock) -> Iterator[Writer]:
    writer = Writer(store.engine, clock)
    chain_marks.name_chain(writer, "demo", "bsv:regtest")
    yield writer
    writer.close()


def pointer_steps(store: Store, where: str) -> tuple[list[tuple[str, bool, str | None]], list[str]]:
    diagnosis = Diagnoser(store, {}).by_name(name(where)[::-1].hex())
    steps = [(step["step"], step["ok"], step.get("code")) for step in diagnosis["steps"]]
    return steps[3:], diagnosis["listed"]


def test_a_pointer_waits_is_fetched_and_is_listed(store: Store, writer: Writer, clock: Clock) -> None:
    block_writer.append(writer, "demo", [says("1", points("a.example", ALPHA), points("b.example", position=1))])
    assert pointer_steps(store, "a.example") == ([("fetched", False, None), ("listed", False, None)], [])
    visits.record_fetch(writer, "a.example", serves(clock.tick(), ALPHA))
    assert pointer_steps(store, "a.example") == ([("fetched", True, None), ("hash", True, None), ("listed", True, None)], ["a.example"])  # fmt: skip  # noqa: E501
    visits.record_fetch(writer, "b.example", serves(clock.now, BETA, state=FetchState.UNHASHED))
    assert pointer_steps(store, "b.example")[1] == ["b.example"]


@pytest.mark.parametrize("code", sorted(SENTENCES))
def test_every_refusal_has_its_code(code: str, store: Store, writer: Writer, clock: Clock) -> None:
    block_writer.append(writer, "demo", [says("1", points("a.example", ALPHA))])
    visits.record_fetch(writer, "a.example", fails(clock.tick(), code))
    steps, listed = pointer_steps(store, "a.example")
    assert steps == [("fetched", False, code), ("listed", False, None)]
    assert listed == []


def test_one_that_was_given_up_says_how_to_have_it_fetched_again(store: Store, writer: Writer, clock: Clock) -> None:
    block_writer.append(writer, "demo", [says("1", points("a.example", ALPHA))])
    visits.record_fetch(writer, "a.example", fails(clock.tick(), next_at=None))
    diagnosis = Diagnoser(store, {}).by_name(name("a.example")[::-1].hex())
    assert "/recheck" in next(step["detail"] for step in diagnosis["steps"] if step["step"] == "fetched")


def test_a_mismatch_names_both_hashes_and_that_of_an_older_pointer(store: Store, writer: Writer, clock: Clock) -> None:
    block_writer.append(
        writer, "demo", [says("1", points("a.example", BETA, "old"), points("a.example", ALPHA, "new", 1))]
    )
    served = f"{'00' * 32}, and the newest pointer names {digest(ALPHA).hex()}"
    other = {"state": FetchState.MISMATCH, "reason": "fetch-mismatch", "detail": served}
    visits.record_fetch(writer, "a.example", serves(clock.tick(), b"{}", **other))
    for pointer, hint in (("new", ""), ("old", f"; this one names {digest(BETA).hex()}")):
        diagnosis = Diagnoser(store, {}).by_name(name(pointer)[::-1].hex())
        message = next(step["detail"] for step in diagnosis["steps"] if step["step"] == "fetched")
        assert f"what is served has another SHA-256: {served}{hint}; it is fetched again" in message


def test_a_strangers_pointer_is_diagnosed_with_the_pointer_that_lists_the_card(
    store: Store, writer: Writer, clock: Clock
) -> None:
    block_writer.append(writer, "demo", [says("1", points("a.example", ALPHA))])
    clock.tick()
    visits.record_fetch(writer, "a.example", serves(clock.tick(), ALPHA))
    later = [points("a.example", BETA, "stranger"), points("a.example", ALPHA, "again", 1)]
    block_writer.append(writer, "demo", [says("2", *later)])
    visits.record_fetch(writer, "a.example", serves(clock.tick(), ALPHA))
    wrong, right = pointer_steps(store, "stranger"), pointer_steps(store, "again")
    assert wrong == ([("fetched", True, None), ("hash", False, "fetch-mismatch"), ("listed", False, None)], [])
    diagnosis = Diagnoser(store, {}).by_name(name("stranger")[::-1].hex())
    message = next(step["detail"] for step in diagnosis["steps"] if step["step"] == "hash")
    assert (digest(ALPHA).hex() in message, digest(BETA).hex() in message) == (True, True)
    assert right == ([("fetched", True, None), ("hash", True, None), ("listed", True, None)], ["a.example"])
