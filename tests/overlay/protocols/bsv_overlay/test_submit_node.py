"""Submissions to an overlay that follows a real Bitcoin SV node, where `BITCOIND` names one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from parsers.bitcoin import bump
from parsers.bitcoin.beef import write
from parsers.bitcoin.bump import MerklePath, PathLeaf
from parsers.bitcoin.tx import Transaction, read, serialise
from tests.bitcoind import Bitcoind, Coin, Key, installed, pay
from tests.chainkit import agent
from tests.chainkit_scripts import body_of, envelope, map_tape
from tests.serving import built, serving
from tests.waiting import until, until_told

TOPICS = {"X-Topics": "tm_agent_registry"}
TAPE = {"app": "test", "type": "a2b-agent"}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Bitcoind]:
    installed()
    with Bitcoind(tmp_path / "node") as node:
        node.fund()
        yield node


def proved(node: Bitcoind, tx: Transaction) -> tuple[bytes, MerklePath]:
    """A transaction of the node's newest block, with its merkle path."""
    block = node.rpc("getblock", node.rpc("getbestblockhash"))
    txids = [bytes.fromhex(txid)[::-1] for txid in block["tx"]]
    leaves = tuple(PathLeaf(number, txid) for number, txid in enumerate(txids))
    return serialise(tx.inputs, tx.outputs, tx.version, tx.locktime), bump.extract(
        MerklePath(block["height"], (leaves,)), [tx.txid]
    )


async def test_a_submission_is_sent_to_the_node_and_mined(node: Bitcoind, tmp_path: Path) -> None:
    key = Key(1234)
    funding = node.give([(50_000, key.lock), (50_000, key.lock)])
    coins = [Coin(funding.outpoint(vout), 50_000, key.lock, key) for vout in (0, 1)]
    inscribed = key.lock + envelope(body_of(agent("Sent"))) + map_tape(TAPE)
    first = pay([coins[0]], [(1, inscribed), (49_000, key.lock)])
    held = read(first)
    second = pay([Coin(held.outpoint(0), 1, inscribed, key), coins[1]], [(1, key.lock), (49_000, key.lock)])
    package = write([proved(node, funding), (first, None), (second, None)])
    overlay = built(tmp_path, f"bsv={node.cookie_url}", submit_broadcast="on")
    async with serving(overlay) as session:
        async with session.post("/submit", data=package, headers=TOPICS) as answer:
            assert await answer.json() == {"tm_agent_registry": {"outputsToAdmit": [0], "coinsToRetain": [0]}}
        txids = {held.hex_id, read(second).hex_id}
        await until(lambda: set(node.rpc("getrawmempool")) == txids)
        is_pending = lambda page: [item["status"] for item in page["items"]] == ["pending"]  # noqa: E731
        await until_told(session, "/v1/search", is_pending)
        node.mine()
        is_live = lambda page: [item["status"] for item in page["items"]] == ["live"]  # noqa: E731
        [item] = (await until_told(session, "/v1/search", is_live))["items"]
        assert (item["name"], item["outpoint"]) == ("Sent", f"{read(second).hex_id}_0")
        node.undo(1)
        node.mine_empty(2)
        await until_told(session, "/v1/search", is_live)


async def test_a_coin_that_the_node_has_in_no_set_makes_no_listing(node: Bitcoind, tmp_path: Path) -> None:
    key = Key(1234)
    funding = node.give([(50_000, key.lock), (50_000, key.lock)])
    coins = [Coin(funding.outpoint(vout), 50_000, key.lock, key) for vout in (0, 1)]
    proof = proved(node, funding)
    node.rpc("sendrawtransaction", pay([coins[0]], [(49_000, key.lock)]).hex())
    node.mine()
    overlay = built(tmp_path, f"bsv={node.cookie_url}")
    async with serving(overlay) as session:
        for coin, name in zip(coins, ("Free", "Paid"), strict=True):
            inscribed = key.lock + envelope(body_of(agent(name))) + map_tape(TAPE)
            package = write([proof, (pay([coin], [(1, inscribed), (49_000, key.lock)]), None)])
            async with session.post("/submit", data=package, headers=TOPICS) as answer:
                assert answer.status == 200
        page = await until_told(session, "/v1/search?status=all", lambda page: page["items"])
        assert [(item["name"], item["status"]) for item in page["items"]] == [("Paid", "undecided")]
