"""The contract of the store about the proofs and headers that it serves, on every database."""

from __future__ import annotations

from dataclasses import replace

import pytest

from indexer.model import BlockFacts, Proof
from indexer.store import Store, Writer, block_writer
from indexer.store.queries import BATCH
from indexer.store.source_store import SourceStore
from tests.facts import born, moved, name, says


def header(height: int) -> bytes:
    return height.to_bytes(80, "big")


def with_header(reading: BlockFacts, more: bytes = b"") -> BlockFacts:
    return replace(reading, ref=replace(reading.ref, header=header(reading.ref.height) + more))


def proving(reading: BlockFacts, *txids: str, size: int = 10) -> BlockFacts:
    """A reading of a block with proofs that name their transactions."""
    return replace(
        reading, proofs={name(txid): Proof(txid.encode() * size, b"path of " + txid.encode()) for txid in txids}
    )


@pytest.fixture
def filled(store: Store, writer: Writer) -> Store:
    """Registration a, inscribed in block 2 and moved to b in block 3, each with its proof; block 4 has none."""
    blocks = [
        says("1"),
        proving(says("2", born("a")), "a"),
        proving(says("3", moved("a", "a", "b", height=3)), "b"),
        says("4"),
    ]
    block_writer.append(writer, "demo", [with_header(block) for block in blocks])
    return store


def test_a_proof_is_found_with_its_block(filled: Store) -> None:
    answer = filled.proofs.get("demo", name("b"))
    assert answer is not None
    assert answer.proof == Proof(b"b" * 10, b"path of b")
    assert answer.ref == filled.blocks.get("demo", 3)
    assert filled.proofs.get("demo", name("c")) is None
    assert filled.proofs.get("other", name("b")) is None


def test_transactions_are_measured_before_they_are_read(filled: Store) -> None:
    a, b, c = name("a"), name("b"), name("c")
    assert filled.proofs.sizes("demo", [a, b, a, c]) == {a: 10, b: 10}
    assert filled.proofs.sizes("demo", []) == {}
    stored = filled.proofs.get_many("demo", [a, b, c])
    assert stored == {txid: filled.proofs.get("demo", txid) for txid in (a, b)}
    assert [(item.txid, item.ref.height, item.proof.raw) for item in stored.values()] == [
        (a, 2, b"a" * 10),
        (b, 3, b"b" * 10),
    ]
    assert filled.proofs.get_many("other", [a]) == {}


def test_many_transactions_are_read_in_batches(store: Store, writer: Writer) -> None:
    many = [f"t{number}" for number in range(2 * BATCH + 3)]
    block_writer.append(
        writer, "demo", [proving(says("1", *(born(item, index) for index, item in enumerate(many))), *many)]
    )
    txids = [name(item) for item in many]
    assert len(store.proofs.get_many("demo", txids)) == len(many)
    assert store.proofs.sizes("demo", txids) == {name(item): len(item) * 10 for item in many}


def test_a_proof_goes_with_its_block(filled: Store, writer: Writer) -> None:
    block_writer.forget(writer, "demo", 2)
    assert filled.proofs.get("demo", name("b")) is None
    assert filled.proofs.get("demo", name("a")) is not None
    block_writer.append(writer, "demo", [proving(says("3"), "b"), proving(says("4"))])
    answer = filled.proofs.get("demo", name("b"))
    assert answer is not None
    assert answer.ref.height == 3


def test_headers_are_those_that_the_source_keeps(filled: Store, writer: Writer) -> None:
    stored = [header(1_000_000 + height) for height in range(5_000)]
    SourceStore(writer).save_headers("demo", 0, b"".join(stored))
    assert filled.headers.run("demo", 0, 10_000) == stored
    for first, count in ((0, 1), (2_015, 3), (2_016, 2_016), (1, 4_999), (4_990, 100), (3_000, 0)):
        assert filled.headers.run("demo", first, count) == stored[first : first + count]
    assert filled.headers.run("demo", 5_000, 10) == []


def test_headers_are_else_those_of_the_blocks_that_were_read(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [with_header(says(str(height)), b"more") for height in range(1, 5)])
    assert store.headers.run("demo", 2, 10) == [header(2), header(3), header(4)]
    assert store.headers.run("demo", 2, 2) == [header(2), header(3)]
    assert store.headers.run("demo", 0, 3) == []
    assert store.headers.run("other", 2, 2) == []


def test_headers_end_where_the_kept_ones_begin_later(filled: Store, writer: Writer) -> None:
    SourceStore(writer).save_headers("demo", 700, header(700))
    assert filled.headers.run("demo", 699, 2) == []
    assert filled.headers.run("demo", 700, 2) == [header(700)]
    assert filled.headers.run("demo", 3, 2) == [header(3), header(4)]
