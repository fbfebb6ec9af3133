"""Law 16 for witnesses (BTC, LTC): a txid does not cover a tapscript, so a block's witnesses are held to what its
coinbase commits to (BIP 141) before anything in them is indexed, and the proof of that is stored."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from indexer.chains import Chain, PartialBlock, files, node
from indexer.model import BlockRef, Proof
from indexer.resolution.block_reader import PartialBlockReader
from indexer.store import Store, Writer, block_writer
from indexer.store.schema import coinbases, witness_paths
from parsers.bitcoin import block
from parsers.bitcoin.merkle_tree import MerkleTree
from parsers.bitcoin.tx import Outpoint
from parsers.bitcoin.witness_commitment import CoinbaseProof
from parsers.errors import BlockError
from tests.chainkit import ChainKit, agent
from tests.chainkit_blocks import Block
from tests.chainkit_coins import serialise_tx
from tests.chainkit_scripts import p2pkh
from tests.databases import database_url, postgresql, store, writer
from tests.facts import near_miss, says
from tests.fakes import RULES, MemoryChain
from tests.indexing import Indexing
from tests.nodes import Node
from tests.oracles.witness_commitments import is_honest
from tests.proved import check_proofs

__all__ = ["database_url", "postgresql", "store", "writer"]

Follow = Callable[[Chain], Awaitable[Indexing]]


@pytest.fixture(params=["ltc", "btc"])
def kit(request: pytest.FixtureRequest) -> ChainKit:
    return ChainKit(request.param)


@pytest.fixture
async def follow(tmp_path: Path) -> AsyncIterator[Follow]:
    """Indexes a chain into a new database; all is closed at the end."""
    created: list[Indexing] = []

    async def follow_(chain: Chain) -> Indexing:
        indexing = Indexing(f"sqlite:///{tmp_path}/{len(created)}.db", chain)
        created.append(indexing)
        return await indexing.catch_up()

    yield follow_
    for indexing in created:
        indexing.__exit__()
        await indexing.chains[0].close()


def swapped(mined: Block, old: bytes = b"Echo", new: bytes = b"Evil") -> Block:
    """A block with other bytes in a witness; header, txids and merkle root are the same."""
    assert old in mined.raw
    return replace(mined, raw=mined.raw.replace(old, new))


def stripped(kit: ChainKit, mined: Block, *txids: bytes) -> Block:
    """A block with the witnesses of these transactions left out."""
    raw = mined.raw
    for txid in txids:
        result = kit.tx(Outpoint(txid, 0))
        bare = tuple(spent._replace(witness=()) for spent in result.inputs)
        raw = raw.replace(
            kit.raw(Outpoint(txid, 0)),
            serialise_tx(bare, result.outputs, version=result.version, locktime=result.locktime),
        )
    return replace(mined, raw=raw)


# -- what used to be indexed


async def test_a_swapped_tapscript_in_a_folder_is_refused_until_an_honest_copy_is_there(
    kit: ChainKit, follow: Follow, tmp_path: Path
) -> None:
    first = kit.reveal(agent("Echo"))
    honest = kit.mine(first)
    paths = kit.write(tmp_path, [*kit.blocks[:-1], swapped(honest)])
    indexing = await follow(files.create("demo", f"files:{tmp_path}?chain={kit.chain}&network=regtest"))
    assert indexing.live() == set()
    assert indexing.followers[0].progress.refused == 1
    newest = indexing.store.blocks.newest("demo")
    assert newest is not None
    assert newest.height == 1
    kit.append(paths[0], honest)
    await indexing.catch_up()
    assert indexing.registration(first)["card"] == agent("Echo")


async def test_a_node_that_swaps_a_tapscript_is_refused(kit: ChainKit, follow: Follow) -> None:
    first = kit.reveal(agent("Echo"))
    kit.mine(first)
    async with Node(MemoryChain(*kit.blocks[:-1], swapped(kit.tip), coin=kit.chain)) as forged:
        indexing = await follow(node.create("demo", f"{forged.url}?chain={kit.chain}&network=regtest"))
        assert indexing.live() == set()
        assert indexing.followers[0].progress.refused == 1
        await indexing.chains[0].close()


async def test_a_witness_left_out_hides_no_revision(kit: ChainKit, follow: Follow) -> None:
    """Without its witness a re-inscription would read as a move, and the old card would stay."""
    first = kit.reveal(agent("One"))
    kit.mine(first)
    second = kit.reveal(agent("Two"), source=first)
    honest = kit.mine(second, kit.reveal(agent("Other")))
    chain = MemoryChain(*kit.blocks[:-1], stripped(kit, honest, second.txid), coin=kit.chain)
    indexing = await follow(chain)
    assert indexing.kinds(first) == ["inscribed"]
    assert "not those that its coinbase commits to" in chain.refused[0][1]
    bare = MemoryChain(
        *kit.blocks[:-1], stripped(kit, honest, *honest.txids), coin=kit.chain
    )  # as a node with -rpcserialversion=0 tells it
    assert (await follow(bare)).kinds(first) == ["inscribed"]
    assert "no reserved value" in bare.refused[0][1]


async def test_a_witness_in_a_block_that_commits_to_none_is_refused(follow: Follow) -> None:
    kit = ChainKit("btc")
    kit.mine(kit.pay())
    first = kit.tip.txids[1]
    reveal = kit.reveal(agent("Echo"))
    stack = kit.tx(reveal).inputs[0].witness
    moved = kit.spend([Outpoint(first, 0)], [(4_000, p2pkh("bob"))])
    honest = kit.mine(moved.outpoint(0))
    shown = serialise_tx((moved.inputs[0]._replace(witness=stack),), moved.outputs)
    forged = replace(honest, raw=honest.raw.replace(kit.raw(moved.outpoint(0)), shown))
    chain = MemoryChain(*kit.blocks[:-1], forged, coin="btc")
    indexing = await follow(chain)
    assert (indexing.live(), indexing.rejections()) == (set(), [])
    assert [why.partition("): ")[2] for _, why in chain.refused] == [
        "it holds witnesses, and its coinbase commits to none (BIP 141)"
    ]


async def test_a_silent_block_costs_no_hashing_of_witnesses(
    kit: ChainKit, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit.mine(kit.spend([kit.fund()], [(5_000, p2pkh("bob"))], witnesses=[[b"key"]]).outpoint(0))
    kit.mine(kit.reveal(agent()))
    hashed: list[int] = []
    honest = block.witness_tree

    def counted(data: block.Buffer, *rest: Any) -> MerkleTree:
        hashed.append(len(data))
        return honest(data, *rest)

    monkeypatch.setattr(block, "witness_tree", counted)
    assert len((await follow(MemoryChain(*kit.blocks, coin=kit.chain))).live()) == 1
    assert hashed == [len(kit.tip.raw)]


# -- what is proved


async def test_every_witness_of_a_story_is_proved(kit: ChainKit, follow: Follow) -> None:
    first = kit.reveal(agent("One"))
    kit.mine(first, *(kit.reveal(agent(str(number))) for number in range(7)), kit.point("agents.example"))
    second = kit.reveal(agent("Two"), source=first)
    kit.mine(kit.pay(), second)
    kit.mine(kit.spend([second], [(9_000, p2pkh("bob"))]).outpoint(0))  # no witness anywhere, and no commitment
    assert all(is_honest(block_.raw) for block_ in kit.blocks)
    indexing = await follow(MemoryChain(*kit.blocks, coin=kit.chain))
    assert indexing.kinds(first) == ["inscribed", "reinscribed", "moved"]
    assert check_proofs(indexing.store, "demo", segwit=True) == 11


async def test_a_fork_takes_the_proofs_of_witnesses_back(kit: ChainKit, follow: Follow) -> None:
    first = kit.reveal(agent("One"))
    kit.mine(first)
    chain = MemoryChain(*kit.blocks, coin=kit.chain)
    indexing = await follow(chain)
    assert check_proofs(indexing.store, "demo", segwit=True) == 1
    kit.mine(parent=kit["1"])
    kit.mine(kit.pay(), first)
    chain.arrive(*kit.blocks[-2:])
    await indexing.catch_up()
    assert check_proofs(indexing.store, "demo", segwit=True) == 1
    with indexing.store.engine.connect() as connection:
        assert connection.execute(select(coinbases.c.height)).scalars().all() == [3]
        assert connection.execute(select(witness_paths.c.height)).scalars().all() == [3]


def test_a_near_miss_that_is_dropped_takes_the_proof_of_its_witness_along(store: Store, writer: Writer) -> None:
    reading = says("1", *(near_miss(letter, number) for number, letter in enumerate("abc")))
    txids = [event.txid for event in reading.events]
    proved = {txid: Proof(b"raw", b"path", b"w") for txid in txids}
    block_writer.append(
        writer, "demo", [says("0"), replace(reading, proofs=proved, coinbase=CoinbaseProof(b"first", b"", b"path"))]
    )
    block_writer.trim(writer, "demo", 1)
    stored = [store.proofs.get("demo", txid) for txid in txids]
    assert [item and item.proof.witness for item in stored] == [None, None, b"w"]


async def test_a_database_of_before_keeps_its_listings_without_that_proof(tmp_path: Path) -> None:
    kit = ChainKit("btc")
    first = kit.reveal(agent("One"))
    kit.mine(first)
    url = f"sqlite:///{tmp_path}/old.db"
    with Indexing(url, MemoryChain(*kit.blocks, coin="btc")) as indexing:
        await indexing.catch_up()
        with indexing.store.engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE witness_paths")
            connection.exec_driver_sql("DROP TABLE coinbases")
    kit.mine(kit.reveal(agent("Two")))
    with Indexing(url, MemoryChain(*kit.blocks, coin="btc")) as indexing:
        await indexing.catch_up()
        assert len(indexing.live()) == 2
        before, after = (indexing.store.proofs.get("demo", txid) for txid in (first.txid, kit.tip.txids[1]))
        assert before is not None
        assert (before.proof.witness, before.coinbase) == (None, None)
        assert after is not None
        assert after.proof.witness is not None
        assert after.coinbase is not None


def test_a_partial_block_of_a_chain_with_witness_envelopes_is_refused() -> None:
    """A merkle path proves a txid; only all of a block's bytes prove what stands in a witness."""
    ref = BlockRef("demo", 5, bytes(32), bytes(32), 0, bytes(80))
    with pytest.raises(BlockError, match="only a whole block of btc proves the witnesses in it"):
        PartialBlockReader(ref, PartialBlock(()), RULES["btc"], "regtest")
