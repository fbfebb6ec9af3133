"""A chain that is forgotten leaves the database of a registry that never followed it; readers see each removal."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import pytest
from sqlalchemy import Engine, insert, select

from indexer.check_verdict import HostVerdict
from indexer.model import PeerRecord
from indexer.store import (
    Store,
    StoreError,
    Writer,
    block_writer,
    chain_marks,
    connect,
    pending,
    second_readings,
    state_hashes,
    visits,
)  # fmt: skip
from indexer.store.badges import BadgeCandidate
from indexer.store.blocks import save_headers
from indexer.store.chain_counts import store_counts
from indexer.store.followers import FollowerReport, followers
from indexer.store.forgetting import OF_CHAIN, forget_chain
from indexer.store.schema import HASH_KEY, changes, meta, metadata, outbox_positions, outbox_runs
from indexer.store.source_store import SourceStore
from overlay.systems.motebit.store import record_identity
from overlay.systems.motebit.store_hosts import IdentityOutcome, PublishedIdentity
from overlay.systems.rating import store as rating
from overlay.systems.rating.store import ReceiptQueries, StoredReceipt, SubmittedDocument
from overlay.systems.rating.store_complaint_rows import StoredComplaint, complaints
from overlay.systems.rating.store_complaints import ComplaintQueries
from tests.facts import CARD, born, moved, near_miss, outpoint_of, says
from tests.pointer_facts import NOW, Clock, card, clock, digest, points, serves, writer

__all__ = ["clock", "writer"]

Write = Callable[[Writer], object]
ACCOUNTS = {"payments", "payment_inputs"}
"""Tables of a chain's money: an operator's books are kept."""


def chain_writes(chain: str, letter: str) -> list[Write]:
    """The writes of an indexer that follows a chain with two registrations and a pointer, in order."""
    host, body = f"{letter}.example", card(f"Agent {letter}")
    id_, pointed = str(outpoint_of(letter)), points(host, body, f"p{letter}", 1)
    verdict = HostVerdict(host, frozenset((id_,)), frozenset(), frozenset((digest(body),)))
    identity = PublishedIdentity("m", "aa", "sovereign", "well-known", f"https://{host}/m", "", "")
    receipt = StoredReceipt(
        digest=letter.encode() * 32, counter_signer="cc", document=letter.encode() * 32, listing=id_,
        worker=f"w{letter}", task="t", outcome="completed", completed_at=1, received_at=1,
    )  # fmt: skip
    document = SubmittedDocument(letter.encode() * 32, "receipt", b"{}", 1)
    complaint = StoredComplaint(
        payment=letter * 64, listing=id_, code="too-late", stated_at=1, received_at=1, key="02", payer="p", paid=1,
        document=f"{letter}c".encode() * 16, proof=f"{letter}p".encode() * 16, price=1, chain=chain, pay_height=1,
        pay_root=b"r" * 32,
    )  # fmt: skip
    statements = [
        SubmittedDocument(digest, kind, b"{}", 1)
        for digest, kind in ((complaint.document, "complaint"), (complaint.proof, "payment"))
    ]
    blocks = [
        says("0", chain=chain),
        says("1", born(letter, height=1), pointed, near_miss(f"n{letter}", 2), chain=chain, cards={CARD: b"shared"}),
        says("2", moved(letter, letter, f"{letter}2"), chain=chain, cards={digest(body): body}),
    ]
    return [
        lambda writer: chain_marks.name_chain(writer, chain, f"{chain}:regtest"),
        lambda writer: chain_marks.mark_partial(writer, chain),
        lambda writer: saved_headers(writer, chain),
        lambda writer: second_readings.begin(writer, chain),
        lambda writer: block_writer.append(writer, chain, blocks),
        lambda writer: pending.replace_pending(writer, chain, [born(f"{letter}3")], {CARD: b"shared"}),
        lambda writer: visits.record_fetch(writer, host, serves(NOW + 5, body)),
        lambda writer: visits.update_candidates(writer, [BadgeCandidate(id_, host, digest(body))], [id_], None, NOW),
        lambda writer: visits.record_host(writer, verdict, NOW + 6),
        lambda writer: record_identity(writer, host, IdentityOutcome(identity), NOW + 7),
        lambda writer: ReceiptQueries(writer.engine).submit([document], [receipt]),
        lambda writer: ComplaintQueries(writer.engine).submit(complaint, statements),
        lambda writer: second_readings.advance(writer, chain, 2),
        lambda writer: state_hashes.update(writer, chain),
        lambda writer: reported(writer, chain),
        lambda writer: store_counts(writer, chain, (b"tip", 1), {"live": 1}),
        lambda writer: SourceStore(writer).save_peers(chain, [PeerRecord("8.8.8.8", 1, NOW, is_good=True)]),
    ]


def saved_headers(writer: Writer, chain: str) -> None:
    with writer.transaction() as connection:
        save_headers(connection, chain, 0, b"h" * 240)


def reported(writer: Writer, chain: str) -> None:
    report = FollowerReport(
        chain=chain, state="following", error="", fault="", height=2, tip=2, mempool=1, reorgs=0, checked="", note="",
        caught=0, disagreement="", peers=8, peer_networks=7, last_block_at=NOW, seen_at=NOW,
    )  # fmt: skip
    with writer.transaction() as connection:
        connection.execute(insert(followers), [asdict(report)])


def contents(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    """All rows but the outbox, which remembers what was forgotten, what is counted by it, and random keys."""
    results = {}
    with engine.connect() as connection:
        for table in metadata.sorted_tables:
            if table not in (changes, outbox_positions, outbox_runs):
                rows = [dict(row) for row in connection.execute(select(table)).mappings()]
                rows = [row for row in rows if row.get("key") not in ("epoch", "line", HASH_KEY)]
                results[table.name] = sorted(rows, key=repr)
    return results


@pytest.fixture
def never(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writer]:
    """The writer of a database that only follows the other chain."""
    with_lock = Writer(connect(f"sqlite:///{tmp_path_factory.mktemp('never')}/a2b.db"), Clock(NOW))
    yield with_lock
    with_lock.close()


@pytest.mark.parametrize("seed", range(4))
def test_a_forgotten_chain_was_never_followed(store: Store, writer: Writer, never: Writer, seed: int) -> None:
    """However the writes of both chains are mixed."""
    left, others = chain_writes("demo", "a"), chain_writes("other", "b")
    chance = random.Random(seed)
    while left or others:
        of_other = not left or (bool(others) and chance.random() < 0.5)
        step = others.pop(0) if of_other else left.pop(0)
        step(writer)
        if of_other:
            step(never)
    before, expected = contents(store.engine), contents(never.engine)
    assert {name for name, rows in expected.items() if before[name] != rows} >= {
        *(
            "badges",
            "blocks",
            "cards",
            "chain_counts",
            "checks",
            "events",
            "fetches",
            "followers",
            "headers",
            "peer_addresses",
        ),
        *("locators", "meta", "motebit_hosts", "pending", "pending_cards", "ratings", "receipts", "sightings"),
        *("signed_documents", "state_lines"),
    }
    gone = forget_chain(writer, "demo", [rating.forget_chain])
    assert gone == (3, 3, 1)
    forgotten = contents(store.engine)
    for name, rows in expected.items():
        assert forgotten[name] == rows, name
    assert (store.chains(), store.is_partial("demo")) == ({"other": "other:regtest"}, False)
    assert list(store.registrations.states("other", 2)) == list(Store(never.engine).registrations.states("other", 2))


def test_readers_of_the_outbox_see_each_removal(store: Store, writer: Writer) -> None:
    for write in chain_writes("demo", "a"):
        write(writer)
    before = store.outbox.newest_seq()
    forget_chain(writer, "demo")
    ids = sorted([str(outpoint_of("a")), str(outpoint_of("a3")), "a.example"])
    news = [(change.op, change.id, change.reason, change.chain) for change in store.outbox.after(before, 99)]
    assert news == [("remove", id_, "chain-forgotten", "demo") for id_ in ids]


def test_what_another_chain_names_too_is_kept(store: Store, writer: Writer) -> None:
    body = card("Both")
    for chain in ("demo", "other"):
        block = says("1", points("a.example", body, f"p {chain}"), born("twice", 1, height=1), chain=chain)
        block_writer.append(writer, chain, [says("0", chain=chain), block])
    visits.record_fetch(writer, "a.example", serves(NOW + 5, body))
    before = store.outbox.newest_seq()
    forget_chain(writer, "demo")
    assert {(change.op, change.id) for change in store.outbox.after(before, 99)} == {
        ("upsert", "a.example"), ("upsert", str(outpoint_of("twice"))),
    }  # fmt: skip
    assert store.pointers.anchors(["a.example"])["a.example"].total == 1
    assert store.content.cards([digest(body)]) == {digest(body): body}
    assert store.fetches.statuses(["a.example"])["a.example"].state == "met"


def test_a_chain_can_be_followed_again_under_its_name(store: Store, writer: Writer) -> None:
    for _ in range(2):
        for write in chain_writes("demo", "a"):
            write(writer)
        assert store.blocks.newest("demo") is not None
        forget_chain(writer, "demo", [rating.forget_chain])
    chain_marks.name_chain(writer, "demo", "bsv:mainnet")
    assert store.blocks.newest("demo") is None


def test_a_payment_in_a_block_of_a_forgotten_chain_is_not_proved(store: Store, writer: Writer) -> None:
    paid = StoredReceipt(
        digest=b"d" * 32, counter_signer="", document=b"d" * 32, listing="x", worker="w", task="t", outcome="completed",
        completed_at=1, received_at=1, payer="p", payment="pp", paid=5, price=5, chain="demo", pay_height=1,
        is_proved=True,
    )  # fmt: skip
    receipts = ReceiptQueries(store.engine)
    receipts.submit([], [paid])
    rating.record_rating(writer, "x", 1, rating.StoredRating(1, 1, 2, 1, 0, 1, 1, 0, 0, NOW, None), 400)
    assert receipts.due(0, 9) == []
    forget_chain(writer, "demo", [rating.forget_chain])
    assert [row.is_proved for row in receipts.page("x", None, 9)] == [False]
    assert receipts.due(0, 9) == [("x", 2)]


def test_while_an_indexer_runs_the_writer_is_refused(store: Store, writer: Writer) -> None:
    with pytest.raises(StoreError, match="another indexer is writing"):
        Writer(store.engine)


def test_every_table_of_a_chain_is_forgotten_or_hangs_from_one_that_is() -> None:
    """A new table with a column `chain` is named here, refers to one that is, or is kept for a reason."""
    cascading = {
        table
        for table in metadata.sorted_tables
        if any(key.ondelete == "CASCADE" for constraint in table.foreign_key_constraints for key in constraint.elements)
    }
    named = {table for table in metadata.sorted_tables if "chain" in table.columns}
    rest = named - cascading - {*OF_CHAIN, changes, rating.receipts, complaints}
    assert {table.name for table in rest} == ACCOUNTS
    assert meta not in named
