"""Blocks of large transactions: a snapshot of them is imported without holding them in memory together."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer import spill
from indexer.model import Proof
from indexer.resolution import block_reader
from indexer.snapshot import importer, proof_file
from indexer.snapshot.exporter import read_lines
from indexer.snapshot.proof_file import ProofFile
from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.snapshots import Empty, empty, exported

pytestmark = pytest.mark.usefixtures("often_collected")

__all__ = ["empty"]

COUNT, LARGE, HELD = 24, 1 << 20, 1 << 18


@pytest.fixture(autouse=True)
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importer, "MAX_BLOCK_BYTES", COUNT * LARGE)  # less than the lines of the proofs
    for module in (spill, proof_file, block_reader):
        monkeypatch.setattr(module, "BYTES_AT_ONCE", HELD)
    monkeypatch.setattr(importer, "BATCH_BYTES", HELD)


def large(count: int) -> ChainKit:
    """A block of agents in transactions of a mebibyte."""
    kit = ChainKit(funds=2 * count + 2)
    data = b"\x00\x6a\x4e" + LARGE.to_bytes(4, "little") + bytes(LARGE)
    mined = []
    for number in range(count):
        card = kit.tx(kit.inscribe(agent(f"Agent {number}")))
        inputs = [spent.prevout for spent in card.inputs]
        outputs = [(output.satoshis, output.script) for output in card.outputs] + [(0, data)]
        mined.append(kit.spend(inputs, outputs))
    kit.mine(*mined)
    return kit


@pytest.mark.parametrize("trust", [False, True])
async def test_a_block_of_large_transactions_is_imported_a_few_at_a_time(
    tmp_path: Path, empty: Empty, trust: bool
) -> None:
    with Indexing(f"sqlite:///{tmp_path}/source.db", MemoryChain(*large(COUNT).blocks)) as source:
        text = exported((await source.catch_up()).store)
    (tmp_path / "large.jsonl").write_bytes(text)
    assert len(text) > COUNT * LARGE
    tracemalloc.start()
    report = empty.take(read_lines(tmp_path / "large.jsonl"), trust=trust)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert report.proofs == COUNT
    assert peak < 12 * LARGE, f"{peak / LARGE:.1f} of {COUNT} MiB are held at a time: a line takes five"
    assert exported(empty.store) == text


@given(st.lists(st.tuples(st.binary(max_size=HELD), st.binary(max_size=9), st.none() | st.binary(max_size=9))))
def test_a_proof_file_gives_what_was_added_in_any_order(parts: list[tuple[bytes, bytes, bytes | None]]) -> None:
    proofs = [Proof(*one) for one in parts]
    stored = ProofFile()
    for number, proof in enumerate(proofs):
        stored.add(number.to_bytes(32, "big"), proof)
    assert len(stored) == len(proofs)
    for number in reversed(range(len(proofs))):
        txid = number.to_bytes(32, "big")
        assert txid in stored
        assert stored.get(txid) == proofs[number]
    assert b"" not in stored
