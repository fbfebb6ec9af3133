"""Every transaction that says something is proved to be in its block, on every database, through forks and trims."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from indexer.model import Proof
from indexer.resolution import block_proofs as proving
from indexer.store import Store, Writer, block_writer
from tests.chainkit import ChainKit, agent
from tests.databases import database_url, postgresql, store, writer
from tests.facts import near_miss, says
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.oracles.wire import frames
from tests.proved import check_proofs

__all__ = ["database_url", "postgresql", "store", "writer"]


async def test_each_event_of_the_sample_chain_is_proved(database_url: str, sample: Path) -> None:
    blocks = frames((sample / "blk00000.dat").read_bytes())
    with Indexing(database_url, MemoryChain(*blocks)) as indexing:
        await indexing.catch_up()
        assert check_proofs(indexing.store, "demo") > 30


@pytest.mark.parametrize("others", [0, 1, 2, 6, 30])
async def test_a_proof_ends_at_the_root_from_any_position_in_the_block(tmp_path: Path, others: int) -> None:
    kit = ChainKit(funds=100)
    created = [kit.inscribe(agent(str(number))) for number in range(others)]
    kit.mine(*created)
    for number, item in enumerate(created):
        kit.mine(*(kit.inscribe(agent(f"{number} {n}")) for n in range(number % 3)), kit.move(item))
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", MemoryChain(*kit.blocks)) as indexing:
        await indexing.catch_up()
        assert check_proofs(indexing.store, "demo") >= 2 * others


async def test_a_fork_deletes_proofs_and_proves_again(database_url: str) -> None:
    kit = ChainKit()
    first, second = kit.inscribe(agent("One")), kit.inscribe(agent("Two"))
    kit.mine(first)
    kit.mine(second)
    chain = MemoryChain(*kit.blocks)
    with Indexing(database_url, chain) as indexing:
        await indexing.catch_up()
        before = indexing.store.proofs.get("demo", second.txid)
        kit.mine(second, parent=kit["2"])
        chain.arrive(kit["3a"], kit.mine())
        await indexing.catch_up()
        assert check_proofs(indexing.store, "demo") == 2
        after = indexing.store.proofs.get("demo", second.txid)
        assert before is not None
        assert after is not None
        assert (before.ref.hash, after.ref.hash) == (kit["3"].hash, kit["3a"].hash)


async def test_a_large_transaction_is_indexed_without_a_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proving, "MAX_RAW", 1_000)
    kit = ChainKit()
    small, large = kit.inscribe(agent("Small")), kit.inscribe(agent("Large", description="large " * 200))
    kit.mine(small, large)
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", MemoryChain(*kit.blocks)) as indexing:
        await indexing.catch_up()
        assert indexing.live() == {str(small), str(large)}
        assert indexing.store.proofs.get("demo", small.txid) is not None
        assert indexing.store.proofs.get("demo", large.txid) is None


def test_near_misses_that_are_dropped_take_their_proofs_along(store: Store, writer: Writer) -> None:
    reading = says("1", *(near_miss(letter, number) for number, letter in enumerate("abc")))
    txids = [event.txid for event in reading.events]
    block_writer.append(
        writer, "demo", [says("0"), replace(reading, proofs={txid: Proof(b"raw", b"path") for txid in txids})]
    )
    block_writer.trim(writer, "demo", 1)
    assert [store.proofs.get("demo", txid) is not None for txid in txids] == [False, False, True]
