"""Checks with a node: of coins that shall pay, and of a transaction that is not mined."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from overlay.publish.coins import Coin
from overlay.publish.scripts import payee
from parsers.bitcoin import address
from parsers.bitcoin.tx import Outpoint

if TYPE_CHECKING:
    from indexer.chains.node.payment_node import PaymentNode

MOST_PARENTS = 8
"""Unmined ancestors that are looked at."""


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PaymentNode]:
    """The node of Bitcoin SV at `http://user:password@host:port`, until the end of the block. Raises SourceError."""
    from indexer.chains.node.payment_node import PaymentNode

    node = PaymentNode("node", url if "?" in url else f"{url}?chain=bsv")
    try:
        yield node
    finally:
        await node.close()


async def coin_faults(node: PaymentNode, coins: Sequence[Coin], owner: bytes) -> dict[Outpoint, str]:
    """Why coins of a P2PKH script `owner` cannot pay: spent, unknown, of another value, or of another key. Raises
    SourceError."""
    network = (await node.chain()).network
    faults: dict[Outpoint, str] = {}
    for coin, output in zip(coins, await node.outputs([coin.outpoint for coin in coins]), strict=True):
        if output is None:
            is_there = await node.is_there(coin.outpoint.txid)
            faults[coin.outpoint] = "is spent" if is_there else "is spent or was never there: the node has no such coin"
        elif output.satoshis != coin.satoshis:
            faults[coin.outpoint] = f"has {output.satoshis:,} satoshis, not {coin.satoshis:,}"
        elif address.lock(output.script) != address.lock(coin.script or owner):
            faults[coin.outpoint] = f"belongs to {payee(output.script, network)}, not to {payee(owner, network)}"
    return faults


async def network_fault(node: PaymentNode, network: str) -> str:
    """Why a key whose addresses are of a network (mainnet, testnet) is of another one than the node; "" where it is
    not."""
    present = (await node.chain()).network
    if (network == "mainnet") == (present == "mainnet"):
        return ""
    return f"the key is for {network}, and the node is on {present}: a key in WIF names its network"


async def unmined_reason(node: PaymentNode, txid: str) -> str:
    """Why a transaction of the mempool (txid in hex) is not mined: its fee is below what the node mines, or that of an
    unmined parent is; "" where neither is known. Raises SourceError."""
    least, todo, seen = await node.least_fee_rate(), [txid], set[str]()
    while todo and len(seen) <= MOST_PARENTS:
        name = todo.pop(0)
        entry = None if name in seen else await node.unmined(bytes.fromhex(name)[::-1])
        seen.add(name)
        if entry is None:
            continue
        if entry.rate < least:
            subject = "it pays" if name == txid else f"its unmined parent {name} pays"
            return f"{subject} {entry.rate:,} satoshis for 1,000 bytes, and the node mines from {least:,}"
        todo += entry.parents
    return ""
