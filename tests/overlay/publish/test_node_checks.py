"""Checks with a node: of coins before they pay, and of a transaction that it does not mine for its fee."""

from __future__ import annotations

from hashlib import sha256

import pytest

from indexer.fetcher.reasons import FetchError
from overlay.publish.coins import Coin
from overlay.publish.keys import PublisherKey
from overlay.publish.node_checks import coin_faults, network_fault, opened, unmined_reason
from overlay.publish.served_difference import served_difference
from parsers.bitcoin.tx import Outpoint
from tests.chainkit import ChainKit
from tests.fakes import MemoryChain
from tests.nodes import Node

KEY = PublisherKey(sha256(b"a key with coins").digest(), "testnet")
OTHER = PublisherKey(sha256(b"another key").digest(), "testnet")


async def test_coins_that_cannot_pay_are_named_with_the_reason() -> None:
    kit = ChainKit()
    funding = kit.spend([kit.fund()], [(900, KEY.script), (900, KEY.script), (900, OTHER.script), (900, KEY.script)])
    kit.mine(funding.outpoint(0))
    chain = MemoryChain(*kit.blocks)
    spending = kit.spend([funding.outpoint(1)], [(800, KEY.script)])
    chain.unconfirmed[spending.txid] = kit.raw(spending.outpoint(0))
    unknown = Outpoint(b"\x01" * 32, 0)
    coins = [Coin(funding.outpoint(vout), 900) for vout in range(3)]
    coins += [Coin(funding.outpoint(3), 901), Coin(unknown, 900)]
    async with Node(chain) as node, opened(node.url) as queried:
        assert await coin_faults(queried, coins, KEY.script) == {
            funding.outpoint(1): "is spent",
            funding.outpoint(2): f"belongs to {OTHER.address}, not to {KEY.address}",
            funding.outpoint(3): "has 900 satoshis, not 901",
            unknown: "is spent or was never there: the node has no such coin",
        }
        assert await network_fault(queried, "testnet") == ""
        assert "the key is for mainnet, and the node is on regtest" in await network_fault(queried, "mainnet")


async def test_a_transaction_that_is_not_mined_for_its_fee_is_named_with_its_unmined_parent() -> None:
    kit = ChainKit()
    funding = kit.spend([kit.fund()], [(90_000, KEY.script)])
    kit.mine(funding.outpoint(0))
    chain = MemoryChain(*kit.blocks)
    parent = kit.spend([funding.outpoint(0)], [(89_999, KEY.script)])
    child = kit.spend([parent.outpoint(0)], [(80_000, KEY.script)])
    chain.unconfirmed |= {waiting.txid: kit.raw(waiting.outpoint(0)) for waiting in (parent, child)}
    async with Node(chain) as node, opened(node.url) as queried:
        assert await queried.least_fee_rate() == 0
        assert await unmined_reason(queried, child.hex_id) == ""
        node.least_fee = 0.000005
        assert await queried.least_fee_rate() == 500
        rate = 1_000 // len(kit.raw(parent.outpoint(0)))
        ending = f"{rate} satoshis for 1,000 bytes, and the node mines from 500"
        assert await unmined_reason(queried, parent.hex_id) == f"it pays {ending}"
        assert await unmined_reason(queried, child.hex_id) == f"its unmined parent {parent.hex_id} pays {ending}"
        assert await unmined_reason(queried, funding.hex_id) == ""


@pytest.mark.parametrize(
    ("served", "difference"),
    [
        ({"/.well-known/agent.json": b"{}"}, ""),
        ({"/.well-known/agent-card.json": b"{}"}, ""),
        ({"/.well-known/agent.json": b"{}\n"}, "the same but at its end"),
        ({"/.well-known/agent.json": b"[]"}, "serves other bytes (2, SHA-256 "),
        ({}, "https://a.example/.well-known/agent-card.json could not be fetched"),
    ],
)
async def test_a_served_card_is_compared_byte_by_byte(served: dict[str, bytes], difference: str) -> None:
    async def fetch(url: str) -> bytes:
        body = served.get(url.removeprefix("https://a.example"))
        if body is None:
            raise FetchError("fetch-missing", "404")
        return body

    text = await served_difference(fetch, "a.example", b"{}")
    assert difference in text
    assert bool(text) == bool(difference)
