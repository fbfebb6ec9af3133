"""A real Bitcoin SV node followed, where `BITCOIND` names one; and its inscriptions, which need none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from indexer.chains.node import create
from indexer.chains.node.chain import NodeChain
from parsers.bitcoin.tx import Outpoint, read
from tests.bitcoind import Bitcoind, Coin, Key, installed, pay
from tests.chainkit_scripts import envelope, map_tape
from tests.indexer.chains.test_node_litecoind import card
from tests.indexing import Indexing
from tests.litecoind import hash_of
from tests.oracles.anchors import anchors
from tests.oracles.registry import read_chain

Follow = Callable[..., Awaitable[Indexing]]


def test_what_the_kit_signs_is_valid_by_another_implementation() -> None:
    """bitcoinX' interpreter takes the signatures of an inscription that is spent again, and no other's."""
    pytest.importorskip("bitcoinx", reason="bitcoinX has no wheels for this Python")
    from bitcoinx import InterpreterLimits, MinerPolicy, Tx, TxInputContext, TxOutput
    from bitcoinx.script import Script

    limits = InterpreterLimits(
        MinerPolicy(10**9, 10**6, 10**9, 10**9, 10**9), is_genesis_enabled=True, is_consensus=False
    )
    first, second = Key(7), Key(8)
    inscribed = second.lock + envelope(b'{"name":"x"}') + map_tape({"app": "test", "type": "a2b-agent"})
    coins = [
        Coin(Outpoint(b"\1" * 32, 0), 5_000, first.lock, first),
        Coin(Outpoint(b"\2" * 32, 1), 1, inscribed, second),
    ]
    raw = pay(coins, [(1, inscribed), (4_000, first.lock)])
    assert read(raw).size == len(raw)
    tx = Tx.from_bytes(raw)
    for number, coin in enumerate(coins):
        spent = TxOutput(coin.satoshis, Script(coin.script))
        assert TxInputContext(tx, number, spent).verify_input(limits, True)
        altered = TxOutput(coin.satoshis + 1, Script(coin.script))
        assert not lied_to(TxInputContext(tx, number, altered), limits)


def lied_to(context: Any, limits: Any) -> bool:
    """Whether an input passes although its value is another than was signed."""
    from bitcoinx.errors import InterpreterError

    try:
        return bool(context.verify_input(limits, True))
    except InterpreterError:
        return False


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Bitcoind]:
    installed()
    with Bitcoind(tmp_path / "node") as node:
        node.fund()
        yield node


@pytest.fixture
async def follow(tmp_path: Path) -> AsyncIterator[Follow]:
    """Indexes a node as `bsv`; all is closed at the end."""
    created: list[tuple[Indexing, NodeChain]] = []
    numbers = count()

    async def follow_(url: str) -> Indexing:
        chain = create("bsv", url)
        indexing = Indexing(f"sqlite:///{tmp_path}/{next(numbers)}.db", chain)
        created.append((indexing, chain))
        return await indexing.catch_up()

    yield follow_
    for indexing, chain in created:
        indexing.__exit__()
        await chain.close()


def agree(indexing: Indexing, node: Bitcoind) -> None:
    """Check that the index has the registrations that an independent reader finds in the node's blocks."""
    blocks = node.blocks
    oracle, answer = read_chain(blocks), indexing.records("bsv")
    newest = indexing.store.blocks.newest("bsv")
    assert newest is not None
    assert newest.hash[::-1].hex() == hash_of(blocks[-1])
    assert [registration["id"] for registration in answer["registrations"]] == [
        registration["id"] for registration in oracle.registrations
    ]
    assert answer["pointers"] == oracle.pointers
    assert indexing.live("bsv") == oracle.ids("live")
    assert indexing.hashes(oracle.state_hashes, "bsv") == oracle.state_hashes
    assert indexing.anchors("bsv") == anchors(oracle, blocks)


@pytest.mark.parametrize("rest", [True, False], ids=["rest", "rpc"])
async def test_a_registration_lives_on_a_real_bsv_chain(rest: bool, node: Bitcoind, follow: Follow) -> None:
    if not rest:
        node.flush()
        node.kill()
        node.rest = False
        node.start()
    indexing = await follow(node.cookie_url)
    first, second = node.inscribe(card("one")), node.inscribe(card("two", description="y" * 150_000))
    chain = indexing.chains[0]
    assert {first.txid, second.txid} <= (await chain.mempool() or frozenset())
    assert set(await chain.transactions([first.txid, second.txid])) == {first.txid, second.txid}
    node.mine()
    tx = node.update(first, card("one-again"))
    node.point("agent.example", bytes(range(32)))
    node.mine()
    tx = node.move(tx)
    node.burn(second)
    node.mine()
    node.move_behind_a_coin(tx)
    node.mine()
    await indexing.catch_up()
    agree(indexing, node)
    assert indexing.kinds(first, "bsv") == ["inscribed", "reinscribed", "moved", "moved"]
    assert indexing.kinds(second, "bsv") == ["inscribed", "burned"]


async def test_reorganisations_of_a_real_bsv_chain_are_followed(node: Bitcoind, follow: Follow) -> None:
    indexing = await follow(node.cookie_url)
    (follower,) = indexing.followers
    node.inscribe(card("old"))
    node.mine(25)
    await indexing.catch_up()
    for depth in range(1, 21):
        newcomer = node.inscribe(card(f"new-{depth}"))
        node.mine(depth)
        await indexing.catch_up()
        assert str(newcomer) in indexing.live("bsv")
        node.undo(depth)
        node.mine_empty(depth + 1)
        await indexing.catch_up()
        assert follower.progress.reorgs == depth
    agree(indexing, node)


async def test_a_killed_bsv_node_is_followed_again(node: Bitcoind, follow: Follow) -> None:
    indexing = await follow(node.cookie_url)
    tx = node.inscribe(card("one"))
    node.mine()
    await indexing.catch_up()
    node.flush()
    node.kill()
    node.start()
    node.mine(2)
    await indexing.catch_up()
    agree(indexing, node)
    assert indexing.live("bsv") == {str(tx)}
