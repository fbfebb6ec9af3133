"""Edges from stored evidence."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any

import pytest
from sqlalchemy.event import listen

from indexer.store import Store, Writer
from overlay.systems.rating.store import BlockPayment, ReceiptQueries, StoredReceipt, prove_payments
from overlay.systems.rating.store_trust import TrustGraph
from parsers.claims.motebit.trust_graph import ANYBODY, EdgePair, TrustEdge

ALICE, BOB, CAROL = "aa" * 32, "bb" * 32, "cc" * 32


@pytest.fixture
def graph(store: Store) -> TrustGraph:
    return TrustGraph(store.engine)


def record(number: int, observer: str = ALICE, worker: str = BOB, outcome: str = "completed", **more: object) -> (
    StoredReceipt
):  # fmt: skip
    digest = sha256(f"{number}{worker}".encode()).digest()
    values = {"task": str(number), "listing": "listing", "document": digest, "completed_at": number, "received_at": 1}
    return StoredReceipt(digest=digest, counter_signer=observer, worker=worker, outcome=outcome, **values | more)  # type: ignore[arg-type]


def submit(store: Store, records: Sequence[StoredReceipt]) -> int:
    return ReceiptQueries(store.engine).submit([], records)


def trust_edge(graph: TrustGraph, observer: str = ALICE, worker: str = BOB) -> TrustEdge | None:
    return graph.edges([observer], [worker]).get(EdgePair(observer, worker))


def test_an_edge_follows_the_evidence_of_its_pair(store: Store, graph: TrustGraph) -> None:
    assert trust_edge(graph) is None
    submit(store, [record(number) for number in range(5)])
    assert trust_edge(graph) == TrustEdge("verified", 5, 0)
    submit(store, [record(5, outcome="failed"), record(6, CAROL), record(7, worker=CAROL)])
    assert trust_edge(graph) == trust_edge(graph) == TrustEdge("verified", 5, 1)
    assert trust_edge(graph, CAROL) == TrustEdge("first_contact", 1, 0)
    assert trust_edge(graph, BOB, ALICE) is None


def test_the_order_of_arrival_changes_no_edge(store: Store, graph: TrustGraph) -> None:
    late = [record(number, outcome="failed" if number % 3 else "completed") for number in range(30)]
    for one in late[::-1]:
        submit(store, [one])
        trust_edge(graph)
    first = trust_edge(graph)
    submit(store, late)
    submit(store, [record(number, CAROL, outcome="failed") for number in range(3)])
    assert trust_edge(graph) == first
    assert first is not None
    assert (first.successes, first.failures) == (10, 20)


def test_evidence_of_oneself_or_without_a_counter_signer_makes_no_edge(store: Store, graph: TrustGraph) -> None:
    submit(store, [record(1, BOB, BOB), record(2, "", BOB)])
    assert graph.edges([ALICE, BOB, "", CAROL], [BOB]) == {}


def test_this_registry_counts_what_proven_payments_paid_for(store: Store, writer: Writer, graph: TrustGraph) -> None:
    paid = {"payment": "ff" * 32, "chain": "bsv", "pay_height": 7, "pay_root": b"root", "is_proved": True}
    submit(store, [record(number, **paid) for number in range(5)] + [record(9)])
    assert trust_edge(graph, ANYBODY) == TrustEdge("verified", 5, 0)
    prove_payments(writer, "bsv", [BlockPayment(7, b"root", False)])
    assert trust_edge(graph, ANYBODY) == TrustEdge("unknown", 0, 0)
    assert trust_edge(graph) == TrustEdge("verified", 6, 0)


def test_payments_of_several_blocks_mark_edges_in_the_order_in_which_readers_store_them(
    store: Store, writer: Writer, graph: TrustGraph
) -> None:
    """PostgreSQL locks each row that a transaction writes: two orders would be a deadlock."""
    paid = {"payment": "ff" * 32, "chain": "bsv", "pay_root": b"root", "is_proved": True}
    submit(store, [record(1, worker=CAROL, pay_height=7, **paid), record(2, worker=BOB, pay_height=8, **paid)])
    written: list[str] = []

    def note(_c: Any, _cursor: Any, text: str, values: Any, _context: Any, _many: bool) -> None:
        if text.startswith(("INSERT INTO trust_edges", "UPDATE trust_edges")):
            named = values.values() if isinstance(values, dict) else values
            written.extend(value for value in named if value in (BOB, CAROL))

    listen(store.engine, "before_cursor_execute", note)
    listen(writer.engine, "before_cursor_execute", note)
    prove_payments(writer, "bsv", [BlockPayment(height, b"root", False) for height in (7, 8)])
    assert written == [BOB, CAROL]
    written.clear()
    graph.edges([ANYBODY], [CAROL, BOB])
    assert written == [BOB, CAROL]


def test_edges_are_read_by_many_pairs_at_once(store: Store, graph: TrustGraph) -> None:
    keys = [f"{number:064x}" for number in range(500)]
    submit(store, [record(number, keys[number], keys[number + 1]) for number in range(499)])
    edges = graph.edges(keys, keys)
    assert len(edges) == 499
    assert set(edges.values()) == {TrustEdge("first_contact", 1, 0)}


def test_readers_and_writers_at_once_leave_an_edge_that_counts_all(store: Store, graph: TrustGraph) -> None:
    def act(number: int) -> None:
        submit(store, [record(number)])
        trust_edge(graph)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(act, range(40)))
    assert trust_edge(graph) == TrustEdge("trusted", 40, 0)


def test_a_worker_is_blocked_by_hand_and_back(graph: TrustGraph) -> None:
    graph.block(BOB, 5)
    graph.block(BOB, 6)
    assert graph.blocked() == {BOB}
    assert (graph.unblock(BOB), graph.unblock(BOB)) == (True, False)
    assert graph.blocked() == set()
