"""Reads of a method do not grow with rows of other subjects: beside twice as many, it takes less than a step of SQLite
more for each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.event import listen

from indexer.check_verdict import HostVerdict
from indexer.fetcher.fetch_loop import FetchLoop
from indexer.store import Store, Writer, block_writer, state_hashes, visits
from indexer.store.badges import BadgeCandidate
from indexer.store.card_signatures import SignatureVerdict, SignedCard
from indexer.store.queries import BATCH
from tests import steps
from tests.databases import prepare_sqlite
from tests.facts import CARD, born, moved, outpoint_of, says
from tests.pointer_facts import card, points

FEW, MANY = 40, 80
OFFERED = card("Offered")


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """SQLite only, of which the steps are counted."""
    return prepare_sqlite(f"sqlite:///{tmp_path}/a2b.db")


def check_growth(store: Store, fill: Callable[[int], object], act: Callable[[], object]) -> None:
    """A method takes hardly longer beside many unrelated rows than beside few; `fill` adds the one with a number."""
    steps.check_growth(store.engine, lambda some: list(map(fill, some)), act, FEW)


def test_a_pointer_of_an_account_is_stored_without_reading_its_earlier_ones(store: Store, writer: Writer) -> None:
    blocks = iter(range(1_000))

    def state_again(id_: str = "a.example") -> None:
        height = next(blocks)
        block_writer.append(writer, "demo", [says(str(height), points(id_, OFFERED, "account"))])

    check_growth(store, lambda number: state_again(f"b{number}.example"), state_again)


def test_a_pointer_is_compared_only_with_the_next_one_of_its_account(store: Store, writer: Writer) -> None:
    def state_another(number: int) -> None:
        newest = points(f"{number}.example", OFFERED, "account")
        block_writer.append(writer, "demo", [says(str(number), newest)])

    state_another(0)
    newest = (f"{number}.example" for number in (0, FEW, MANY))
    check_growth(store, lambda number: state_another(number + 1), lambda: store.pointers.anchors([next(newest)]))


def test_a_transaction_with_many_pointers_is_read_once_for_all_of_them(store: Store, writer: Writer) -> None:
    def of_one_transaction(count: int) -> int:
        chain = f"chain{count}"
        pointers = [points(f"{chain}.example", OFFERED, chain, position, vout=position) for position in range(count)]
        block_writer.append(writer, chain, [says("0", *pointers, chain=chain)])
        return steps.steps_of(store.engine, lambda: store.pointers.anchors([f"{chain}.example"]))

    few, many = of_one_transaction(FEW), of_one_transaction(MANY)
    assert many < 2.1 * few


def test_the_state_hash_and_the_outputs_of_a_topic_pass_over_changes_of_other_chains(
    store: Store, writer: Writer
) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1))])
    heights = iter(range(2, 1_000))

    def change_elsewhere(number: int) -> None:
        other = [born(f"x{number}", height=number)]
        block_writer.append(writer, "other", [says(str(number), *other, prev=f"{number - 1}", chain="other")])

    def hash_again() -> None:
        height = next(heights)
        block_writer.append(writer, "demo", [says(str(height))])
        state_hashes.update(writer, "demo")

    check_growth(store, change_elsewhere, hash_again)
    check_growth(
        store, lambda number: change_elsewhere(MANY + number), lambda: store.topic_outputs.after("demo", 0, 10)
    )


def test_a_signature_is_stored_without_reading_agents_with_other_cards(store: Store, writer: Writer) -> None:
    visits.enlist_signatures(writer, [SignedCard(CARD, "https://keys.example/")], 1)
    verdict = SignatureVerdict(CARD, reason="signature-invalid")

    def enlist(number: int) -> None:
        agent = BadgeCandidate(f"{number}", "a.example", bytes([number]) * 32)
        visits.update_candidates(writer, [agent], [f"{number}"], None, 1)

    check_growth(store, enlist, lambda: visits.record_signatures(writer, [verdict], 2))


def test_a_host_that_does_not_answer_costs_the_same_beside_many_others(store: Store, writer: Writer) -> None:
    def enlist(number: int) -> None:
        agent = BadgeCandidate(f"{number}", f"{number}.example", CARD)
        visits.update_candidates(writer, [agent], [f"{number}"], None, 1)

    silent = HostVerdict("0.example", frozenset(), frozenset(), frozenset(), frozenset({"name"}), "fetch-resolve")
    check_growth(store, enlist, lambda: visits.record_host(writer, silent, 2))


def test_checks_of_a_host_that_has_to_wait_are_looked_through_once(store: Store, writer: Writer) -> None:
    unused: Any = None
    now = 1_000.0
    loop = FetchLoop(store, writer, unused, unused, clock=lambda: now, ticking=lambda: now)

    def enlist(number: int) -> None:
        agent = BadgeCandidate(f"{number}", "a.example", CARD)
        visits.update_candidates(writer, [agent], [f"{number}"], store.outbox.newest_seq(), 1_000 * int(now) + number)

    def look() -> None:
        nonlocal now
        now += 100
        asyncio.run(loop.look())

    check_growth(store, enlist, look)
    assert len(loop.schedule) == 1


def test_a_registration_at_an_output_is_read_without_the_others_of_its_transaction(
    store: Store, writer: Writer
) -> None:
    def mint(number: int) -> None:
        outpoint = outpoint_of("mint", number)
        event = born(f"m{number}", height=number, outpoint=outpoint)
        block_writer.append(writer, "demo", [says(str(number), replace(event, txid=outpoint.txid, outpoint=outpoint))])

    outpoints = [outpoint_of("mint", number) for number in range(3)]
    check_growth(store, mint, lambda: store.registrations.at_outpoints("demo", outpoints))
    assert store.registrations.at_outpoints("demo", outpoints).keys() == set(outpoints)
    assert store.registrations.departed("demo", outpoints) == set()


def test_any_number_of_outpoints_is_read_by_statements_of_few_lengths(store: Store, writer: Writer) -> None:
    """A long statement takes a megabyte of memory, which the engine keeps to run it again."""
    block_writer.append(writer, "demo", [says("0", born("a", height=0))])
    texts: set[str] = set()
    listen(store.engine, "before_cursor_execute", lambda *args: texts.add(args[2]))
    outpoints = [outpoint_of("a", number) for number in range(BATCH)]
    for count in range(1, BATCH + 1, 7):
        assert store.registrations.at_outpoints("demo", outpoints[:count]).keys() == {outpoint_of("a")}
    assert len(texts) <= 10


def test_where_a_registration_is_is_read_without_where_it_was(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0", born("a", height=0))])

    def move(number: int) -> None:
        event = moved("a", f"a{number}" if number else "a", f"a{number + 1}", height=number + 1)
        block_writer.append(writer, "demo", [says(str(number + 1), event)])

    here = (outpoint_of(where) for where in ("a", f"a{FEW}", f"a{MANY}"))
    check_growth(store, move, lambda: store.registrations.at_outpoints("demo", [next(here)]))
    assert store.registrations.departed("demo", [outpoint_of("a"), outpoint_of(f"a{MANY}")]) == {outpoint_of("a")}


def test_a_pointer_is_stored_without_reading_the_others_of_its_transaction(store: Store, writer: Writer) -> None:
    numbers = iter(range(1_000))

    def point(*_: int) -> None:
        number = next(numbers)
        pointer = points(f"{number}.example", OFFERED, "many", vout=number)
        block_writer.append(writer, "demo", [says(str(number), pointer)])

    check_growth(store, point, point)


def test_a_key_set_that_is_not_served_runs_as_many_statements_for_any_number_of_verified_cards(
    store: Store, writer: Writer
) -> None:
    def verify(count: int) -> None:
        cards = [bytes([number]) * 32 for number in range(count)]
        visits.enlist_signatures(writer, [SignedCard(card, "https://keys.example/") for card in cards], 1)
        visits.record_signatures(writer, [SignatureVerdict(card, by="keys.example") for card in cards], 2)

    statements = []
    for count in (FEW, MANY):
        verify(count)
        call = partial(visits.fail_key_set, writer, "https://keys.example/", "fetch-missing", 3)
        statements.append(steps.statements_of(store.engine, call))
    assert statements[0] == statements[1]
