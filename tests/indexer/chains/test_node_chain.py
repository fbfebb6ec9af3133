"""A node followed as a chain: its blocks, headers, mempool and news, through a stand-in that a test can steer."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest

from indexer import chains
from indexer.chains.node import create
from indexer.chains.node.chain import NodeChain
from indexer.errors import SourceError, SourceUnavailableError
from indexer.retries import Backoff
from parsers.bitcoin.tx import Outpoint, sha256d
from tests.chainkit import ChainKit
from tests.fakes import MemoryChain
from tests.indexer.chains.following import Open, hashes, opened
from tests.indexing import Indexing
from tests.merging import merge_mined
from tests.nodes import Node, Publisher
from tests.oracles.wire import frames
from tests.waiting import PATIENCE, until

__all__ = ["opened"]


@pytest.fixture
def kit() -> ChainKit:
    """Blocks 0 to 6, and a fork 4a, 5a, 6a, 7a on block 3."""
    mint = ChainKit(funds=8)
    mint.mine_empty(5)
    mint.mine_empty(4, parent=mint["3"])
    return mint


# --- the sample chain


@pytest.mark.parametrize("rest", [True, False], ids=["rest", "rpc"])
async def test_the_sample_chain_read_from_a_node_has_all_that_its_oracle_states(
    rest: bool, sample: Path, tmp_path: Path
) -> None:
    expected = json.loads((sample / "expected.json").read_text())
    memory = MemoryChain(*frames((sample / "blk00000.dat").read_bytes()))
    async with Node(memory) as node:
        node.rest = rest
        chain = create("demo", f"{node.url}?chain=bsv")
        with Indexing(f"sqlite:///{tmp_path}/a2b.db", chain) as indexing:
            await indexing.catch_up()
            result = indexing.records()
            assert result["registrations"] == expected["registrations"]
            assert result["pointers"] == [
                {name: value for name, value in pointer.items() if name != "served"} for pointer in expected["pointers"]
            ]
            assert result["rejected"] == expected["rejected"]
            stated = {int(height): text for height, text in expected["stateHashes"].items()}
            assert indexing.hashes(stated) == stated
        await chain.close()
        assert (node.requests["/rest/block"] > 0, node.requests["getblock"] > 1) == (rest, not rest)


async def test_the_mempool_of_the_sample_chain_is_listed_and_read(sample: Path, opened: Open) -> None:
    memory = MemoryChain(*frames((sample / "blk00000.dat").read_bytes()))
    stated = json.loads((sample / "mempool.json").read_text())
    memory.unconfirmed = {bytes.fromhex(item["txid"])[::-1]: bytes.fromhex(item["hex"]) for item in stated}
    async with Node(memory) as node:
        chain = await opened(node)
        assert await chain.mempool() == frozenset(memory.unconfirmed)
        assert await chain.transactions(memory.unconfirmed) == memory.unconfirmed
        assert await chain.transactions([bytes(32)]) == {}


# --- blocks, branches, headers


async def test_a_node_is_known_by_its_genesis_and_read_from_there(kit: ChainKit, opened: Open) -> None:
    async with Node(MemoryChain(*kit.blocks)) as node:
        chain = await opened(node)
        assert (chain.caip2, chain.network, chain.finality, chain.first) == ("bsv:regtest", "regtest", None, 0)
        assert (chain.rules.envelope, chain.complete, chain.warning) == ("output", True, "")
        assert "proof of work" in chain.checked
        tip = await chain.tip()
        assert tip is not None
        assert (tip.height, tip.hash, tip.prev) == (7, kit["7a"].hash, kit["6a"].hash)
        assert await hashes(chain) == [block.hash for block in kit.branch(kit["7a"])]
        assert await hashes(chain, 3, 5) == [kit[label].hash for label in ("3", "4a", "5a")]
        assert (await chain.ref(5)).hash == kit["5a"].hash  # type: ignore[union-attr]
        assert await chain.ref(8) is None
        assert await chain.ref(-1) is None
        assert await hashes(chain, 8, 20) == []


async def test_options_choose_network_start_and_finality(kit: ChainKit, opened: Open) -> None:
    async with Node(MemoryChain(*kit.blocks)) as node:
        chain = await opened(node, "?chain=bch&network=regtest&from=5&finality=3", "cash")
        assert (chain.caip2, chain.first, chain.finality, chain.name) == ("bch:regtest", 5, 3, "cash")
        assert chain.rules.envelope is None


@pytest.mark.parametrize("rest", [True, False], ids=["rest", "rpc"])
async def test_the_branch_that_ends_in_the_nodes_tip_is_followed_whatever_its_work(
    rest: bool, kit: ChainKit, opened: Open
) -> None:
    memory = MemoryChain(*kit.blocks)
    async with Node(memory) as node:
        node.rest = rest
        chain = await opened(node)
        assert (await chain.tip()).hash == kit["7a"].hash  # type: ignore[union-attr]
        memory.prefer(kit["6"])
        assert (await chain.tip()).hash == kit["6"].hash  # type: ignore[union-attr]
        assert await hashes(chain) == [block.hash for block in kit.branch(kit["6"])]
        memory.prefer(kit["2"])
        assert (await chain.tip()).hash == kit["2"].hash  # type: ignore[union-attr]
        assert await chain.ref(3) is None
        assert await hashes(chain) == [block.hash for block in kit.branch(kit["2"])]
        memory.arrive(kit.mine_empty(3, parent=kit["7a"]))
        memory.arrive(*kit.blocks)
        assert (await chain.tip()).height == 10  # type: ignore[union-attr]
        assert await hashes(chain, 8) == [block.hash for block in kit.branch(kit["10a"])[8:]]


async def test_thousands_of_headers_come_in_several_answers_and_are_kept(opened: Open, tmp_path: Path) -> None:
    mint = ChainKit(funds=1)
    mint.mine_empty(4_100)
    memory = MemoryChain(*mint.blocks)
    async with Node(memory) as node:
        with Indexing(f"sqlite:///{tmp_path}/a2b.db") as indexing:
            for rest in (True, False):
                node.rest = rest
                chain = create("bsv" if rest else "again", f"{node.url}?chain=bsv", indexing.source_store)
                await chain.open()
                assert (await chain.tip()).hash == mint.tip.hash  # type: ignore[union-attr]
                assert (await chain.ref(3_000)).hash == mint["3000"].hash  # type: ignore[union-attr]
                await chain.close()
            assert node.requests["/rest/headers"] <= 6
            node.requests.clear()
            chain = create("bsv", f"{node.url}?chain=bsv", indexing.source_store)
            await chain.open()
            assert (await chain.tip()).hash == mint.tip.hash  # type: ignore[union-attr]
            assert node.requests["/rest/headers"] == node.requests["getblockheader"] == 0
            await chain.close()


async def test_an_empty_regtest_has_its_genesis_only(opened: Open) -> None:
    mint = ChainKit(funds=1)
    memory = MemoryChain(mint["0"])
    async with Node(memory) as node:
        chain = await opened(node)
        assert (await chain.tip()).height == 0  # type: ignore[union-attr]
        assert chain.warning == ""
        node.txindex = False
        memory.arrive(mint["1"])
        assert (await chain.tip()).height == 1  # type: ignore[union-attr]
        assert "-txindex=1" in chain.warning


async def test_blocks_of_other_coins_are_read_by_their_rules(opened: Open) -> None:
    for coin in ("btc", "ltc", "bch", "doge"):
        mint = ChainKit(coin, funds=8)
        mint.mine(mint.reveal({"name": "x"}) if mint.coin.segwit else mint.pay("bob", 4321))
        mint.mine_empty(2)
        async with Node(MemoryChain(*mint.blocks, coin=coin)) as node:
            chain = await opened(node, "", coin)
            await chain.tip()
            assert await hashes(chain) == [block.hash for block in mint.branch()]
            assert chain.caip2 == f"{coin}:regtest"
            position = await chain.tip()
            assert position is not None
            assert await chain.values([mint.funds(3)], position) == {mint.funds(3): mint.satoshis(mint.funds(3))}


@pytest.mark.parametrize("rest", [True, False], ids=["rest", "rpc"])
async def test_dogecoin_blocks_with_the_work_of_another_chain_are_read_without_it(rest: bool, opened: Open) -> None:
    """Plain blocks stand beside merge-mined ones, so that headers of both lengths come in one answer."""
    mint = ChainKit("doge", funds=1)
    mint.mine_empty(2)
    raw = merge_mined(mint["3"])
    memory = MemoryChain(mint["0"], mint["1"], mint["2"], raw, coin="doge")
    async with Node(memory, auxpow=True) as node:
        node.rest = rest
        chain = await opened(node, "", "doge")
        tip = await chain.tip()
        assert tip is not None
        assert (tip.hash, tip.height) == (sha256d(raw[:80]), 3)
        results = [bytes(data) async for _, data in chain.blocks(0, 5)]
        assert results == [mint["0"].raw, mint["1"].raw, mint["2"].raw, raw[:80] + mint["3"].raw[80:]]
        assert await chain.values([mint.funds(0)], tip) == {mint.funds(0): mint.satoshis(mint.funds(0))}


async def test_a_refused_block_is_left_out_until_it_is_requested_again(
    kit: ChainKit, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = MemoryChain(*kit.blocks)
    async with Node(memory) as node:
        chain = await opened(node)
        await chain.tip()
        fifth = await chain.ref(5)
        assert fifth is not None
        await chain.refuse(fifth, "bad bytes")
        assert (await chain.tip()).hash == kit["4a"].hash  # type: ignore[union-attr]
        assert await chain.ref(5) is None
        assert await hashes(chain) == [block.hash for block in kit.branch(kit["4a"])]
        memory.prefer(kit["6"])
        assert (await chain.tip()).hash == kit["6"].hash, "the other branch is not touched"  # type: ignore[union-attr]
        memory.prefer(kit["7a"])
        monkeypatch.setattr("indexer.chains.refused_blocks.REFUSED_SECONDS", -1.0)
        await chain.refuse(fifth, "bad bytes")
        assert (await chain.tip()).hash == kit["7a"].hash  # type: ignore[union-attr]


# --- values


async def test_values_are_found_by_txid_and_proved_by_it(kit: ChainKit, opened: Open) -> None:
    memory = MemoryChain(*kit.blocks)
    loose = kit.pay("bob", 777)
    memory.unconfirmed[loose.txid] = kit.raw(loose)
    async with Node(memory) as node:
        chain = await opened(node)
        tip = await chain.tip()
        assert tip is not None
        outpoints = [kit.funds(0), kit.funds(3), loose, Outpoint(loose.txid, 9), Outpoint(b"\7" * 32, 0)]
        values = await chain.values(outpoints, tip)
        assert values == {kit.funds(0): 1_000_000, kit.funds(3): 1_000_000, loose: 777}
        getrawtransaction = node.requests["getrawtransaction"]
        assert await chain.values(outpoints[:3], tip) == values
        assert node.requests["getrawtransaction"] == getrawtransaction, "what was asked for lately is kept"


async def test_outputs_that_no_block_has_spent_are_requested(
    kit: ChainKit, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent, unspent = kit.funds(0), kit.funds(3)
    kit.mine(kit.spend([spent], [(900_000, b"")]))
    memory = MemoryChain(*kit.blocks)
    unconfirmed = kit.pay("bob", 777)
    memory.unconfirmed[unconfirmed.txid] = kit.raw(unconfirmed)
    async with Node(memory) as node:
        chain = await opened(node)
        coins = [spent, unspent, unconfirmed, Outpoint(b"\7" * 32, 0)]
        assert await chain.unspent(coins) == {unspent}
        monkeypatch.setattr("indexer.chains.node.transactions.ANSWER_BYTES", 40)
        assert await chain.unspent(coins) == {unspent}, "in halves"
        monkeypatch.delattr(Node, "_do_gettxout")
        assert await chain.unspent(coins) is None, "a node that answers no such question"


async def test_heights_of_many_transactions_are_requested_in_answers_that_fit(
    kit: ChainKit, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    txids = [kit.funds(number).txid for number in range(4)]
    async with Node(MemoryChain(*kit.blocks)) as node:
        chain = await opened(node)
        tip = await chain.tip()
        assert tip is not None
        heights = await chain.heights(txids, tip)
        assert heights.keys() == set(txids)
        for name, value in (("ALONE_BYTES", 2_000), ("ANSWER_BYTES", 40), ("BATCH", 3)):
            monkeypatch.setattr(f"indexer.chains.node.transactions.{name}", value)
            assert await chain.heights(txids, tip) == heights


async def test_a_node_that_tells_another_transaction_is_not_believed(kit: ChainKit, opened: Open) -> None:
    memory = MemoryChain(*kit.blocks)
    memory.unconfirmed[b"\7" * 32] = kit.raw(kit.funds(0))
    async with Node(memory) as node:
        chain = await opened(node)
        assert await chain.transactions([b"\7" * 32]) == {}


async def test_without_an_index_of_transactions_a_warning_says_what_to_do(
    kit: ChainKit, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    async with Node(MemoryChain(*kit.blocks)) as node:
        node.txindex = False
        with caplog.at_level(logging.WARNING):
            chain = await opened(node)
        assert "start it with -txindex=1" in chain.warning
        assert "start it with -txindex=1" in caplog.text
        tip = await chain.tip()
        assert tip is not None
        assert await chain.values([kit.funds(0)], tip) == {}
        assert (await opened(node, "?chain=bch", "bch")).warning == "", "pointers need no values"


# --- news


async def test_without_a_publisher_the_node_is_polled(kit: ChainKit, opened: Open) -> None:
    memory = MemoryChain(*kit.branch(kit["6"]))
    async with Node(memory) as node:
        chain = await opened(node)
        await chain.wait(PATIENCE)  # what was there at first is news
        waiting = asyncio.create_task(chain.wait(PATIENCE))
        seen = node.requests["getbestblockhash"]
        await until(lambda: node.requests["getbestblockhash"] > seen)
        assert not waiting.done()
        memory.arrive(*kit.blocks)
        await asyncio.wait_for(waiting, PATIENCE)
        waiting = asyncio.create_task(chain.wait(PATIENCE))
        memory.unconfirmed[b"\1" * 32] = b"x"
        await asyncio.wait_for(waiting, PATIENCE)
        await asyncio.wait_for(chain.wait(0.01), PATIENCE)


async def test_a_publisher_tells_blocks_and_transactions_at_once(
    kit: ChainKit, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.chains.node.chain.SILENT_SECONDS", PATIENCE)
    memory, publisher = MemoryChain(*kit.blocks), Publisher()
    loose = kit.pay("bob", 777)
    try:
        async with Node(memory) as node:
            chain = await opened(node, f"?zmq={publisher.address}")
            news = chain.zmq
            assert news is not None
            async with asyncio.timeout(PATIENCE):
                while not news.transactions:  # a subscription takes a moment to be known to the publisher
                    publisher.publish("rawtx", kit.raw(loose))
                    await asyncio.sleep(0.01)
            await chain.wait(PATIENCE)
            getrawtransaction = node.requests["getrawtransaction"]
            assert await chain.transactions([loose.txid]) == {loose.txid: kit.raw(loose)}
            assert node.requests["getrawtransaction"] == getrawtransaction, "it was announced with all its bytes"
            await until(lambda: not news.event.is_set())
            waiting = asyncio.create_task(chain.wait(PATIENCE))
            publisher.publish("hashblock2", bytes(32))
            publisher.publish("hashblock", kit["6"].hash[::-1])
            await asyncio.wait_for(waiting, PATIENCE)
            assert news.blocks == 1
    finally:
        publisher.close()


async def test_what_is_announced_counts_though_the_mempool_takes_long_to_list(
    kit: ChainKit, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.chains.node.chain.LISTING_FACTOR", 1e9)
    monkeypatch.setattr("indexer.chains.node.chain.LISTING_LONGEST", PATIENCE)
    memory, publisher = MemoryChain(*kit.blocks), Publisher()
    loose = kit.pay("bob", 777)
    try:
        async with Node(memory) as node:
            chain = await opened(node, f"?zmq={publisher.address}")
            assert await chain.mempool() == frozenset()
            async with asyncio.timeout(PATIENCE):
                while await chain.mempool() != {loose.txid}:
                    publisher.publish("rawtx", kit.raw(loose))
                    await asyncio.sleep(0.01)
            assert node.requests["getrawmempool"] == 1
            publisher.publish("hashblock", kit["6"].hash[::-1])
            async with asyncio.timeout(PATIENCE):
                while await chain.mempool():  # noqa: ASYNC110 - it may be in that block
                    await asyncio.sleep(0.01)
            assert node.requests["getrawmempool"] == 1
    finally:
        publisher.close()


async def test_a_silent_publisher_loses_nothing_but_time(
    kit: ChainKit, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.chains.node.chain.SILENT_SECONDS", 0.05)
    memory, publisher = MemoryChain(*kit.branch(kit["6"])), Publisher()
    publisher.close()
    async with Node(memory) as node:
        chain = await opened(node, f"?zmq={publisher.address},{publisher.address}")
        await chain.wait(PATIENCE)
        waiting = asyncio.create_task(chain.wait(PATIENCE))
        memory.arrive(*kit.blocks)
        await asyncio.wait_for(waiting, PATIENCE)
        assert (await chain.tip()).hash == kit["7a"].hash  # type: ignore[union-attr]


async def test_a_follower_sees_blocks_as_they_come_and_goes(kit: ChainKit, tmp_path: Path) -> None:
    """The whole loop, and nothing is left of it when it is cancelled."""
    memory = MemoryChain(*kit.branch(kit["6"]))
    async with Node(memory) as node:
        node.txindex = False
        chain = create("demo", f"{node.url}?chain=bsv")
        with Indexing(f"sqlite:///{tmp_path}/a2b.db", chain) as indexing:
            (follower,) = await indexing.open()
            running = asyncio.create_task(follower.run())
            await until(lambda: follower.progress.height == 6)
            memory.arrive(*kit.blocks)
            await until(lambda: follower.progress.hash == kit["7a"].hash)
            await until(lambda: "-txindex=1" in follower.progress.note)
            assert follower.progress.reorgs == 1
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        await chain.close()
        await until(lambda: not node.open_now)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_node_that_is_gone_is_waited_for_and_followed_again(
    kit: ChainKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.sync.follower.BACKOFF", Backoff(0.01, 60))
    monkeypatch.setattr("indexer.chains.node.client.PAUSES", (0.01,))
    memory = MemoryChain(*kit.branch(kit["3"]))
    node = Node(memory)
    await node.start()
    chain = create("demo", f"{node.url}?chain=bsv")
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", chain) as indexing:
        (follower,) = await indexing.open()
        running = asyncio.create_task(follower.run())
        await until(lambda: follower.progress.height == 3)
        await node.stop()
        await until(lambda: follower.progress.state == "unreachable")
        assert "does not answer" in follower.progress.error
        memory.arrive(*kit.branch(kit["6"]))
        node.warming_up = "Verifying blocks..."
        await node.start()
        await until(lambda: "is starting: Verifying blocks..." in follower.progress.error)
        node.warming_up = ""
        await until(lambda: (follower.progress.height, follower.progress.state) == (6, "following"))
        memory.prefer(kit["5"])  # the node went back: what is stored is merely ahead of it
        await until(lambda: follower.progress.tip == 5)
        assert follower.progress.height == 6
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    await chain.close()
    await node.stop()


def test_the_kind_of_source_is_looked_up_by_its_scheme() -> None:
    for scheme in ("http", "https"):
        assert isinstance(chains.create("bsv", f"{scheme}://u:p@localhost:1"), NodeChain)


async def test_a_chain_that_is_not_open_says_so(kit: ChainKit) -> None:
    chain = create("bsv", "http://127.0.0.1:1")
    with pytest.raises(SourceError, match=r"^bsv: the node at http://127\.0\.0\.1:1 is not open"):
        await chain.tip()
    with pytest.raises(SourceUnavailableError, match="does not answer"):
        await chain.open()
    await chain.close()
