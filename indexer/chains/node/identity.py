"""Which chain a node follows, whether that is the one meant, and what the node keeps of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from indexer.chains import SourceError
from indexer.chains.node.client import Client, RpcError
from indexer.chains.node.habits import Habits
from indexer.networks import COINS, NETWORKS, Network
from parsers import block

OUT_OF_RANGE = -8


class Facts(NamedTuple):
    """What a node tells of itself: the height of its tip, and the first height of which it keeps blocks."""

    height: int
    pruned_below: int


def coin(name: str, options: Mapping[str, str]) -> str:
    """The coin of a configured chain: `?chain=`, or its name. Raises SourceError."""
    found = options.get("chain") or (name if name in COINS else "")
    if not found:
        raise SourceError(f"{name}: which chain does the node follow? add ?chain={'|'.join(COINS)}")
    return found


async def network(client: Client, coin: str, wanted: str | None) -> Network:
    """The network whose genesis block the node has. Raises SourceError when it is not the one wanted, or none known."""
    genesis = str(await client.call("getblockhash", 0))
    found = [known for known in NETWORKS if (known.coin, known.genesis) == (coin, genesis)]
    if not found:
        others = " or ".join(str(known) for known in NETWORKS if known.genesis == genesis)
        raise SourceError(
            f"{client.name}: the node at {client.address.base} does not follow {coin}: its genesis block is "
            f"{genesis[:64]!a} (of {others or 'no known network'}); correct the URL, or ?chain="
        )
    if wanted is not None and found[0].name != wanted:
        raise SourceError(
            f"{client.name}: the node at {client.address.base} follows {found[0]}, not {coin} {wanted}; correct the "
            "URL, or ?network="
        )
    return found[0]


async def facts(client: Client) -> Facts:
    """What the node tells of itself now. Raises SourceError."""
    told: Any = await client.call("getblockchaininfo")
    try:
        below = int(told.get("pruneheight", 0)) if told.get("pruned") else 0
        return Facts(int(told["blocks"]), below)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise SourceError(f"{client.name}: getblockchaininfo answers {str(told)[:100]!a}, as no node does") from error


class Milestones:
    """The blocks at which chains parted, each looked at once, when the node has reached it."""

    def __init__(self, client: Client, network: Network) -> None:
        self._client, self._network = client, network
        self._left = list(network.milestones)

    async def check(self, height: int) -> None:
        """Look at those up to a height. Raises SourceError when the node is on another side of the parting."""
        due = [point for point in self._left if point[0] <= height]
        found = await self._client.batch([("getblockhash", (point[0],)) for point in due])
        for (at, expected), told in zip(due, found, strict=True):
            if isinstance(told, RpcError):
                continue  # the node went back meanwhile
            if told != expected:
                coins = " or ".join(str(other) for other in NETWORKS if (at, told) in other.milestones)
                raise SourceError(
                    f"{self._client.name}: the node at {self._client.address.base} does not follow {self._network}: "
                    f"its block {at:,} is {str(told)[:64]} (of {coins or 'no known network'})"
                )
            self._left.remove((at, expected))


async def keeps_transactions(client: Client, habits: Habits) -> bool | None:
    """Whether the node finds any confirmed transaction by its txid (`txindex`), None while there is none to ask for.

    It is asked for the coinbase of block 1. Raises SourceError.
    """
    try:
        raw = bytes.fromhex(await client.call("getblock", await client.call("getblockhash", 1), habits.raw_block))
        txid = next(block.txids(raw, segwit=habits.segwit), None)
    except RpcError as error:
        return None if error.code == OUT_OF_RANGE else False
    except (TypeError, ValueError) as error:
        raise SourceError(f"{client.name}: getblock answers no block: {error}") from error
    if txid is None:
        raise SourceError(f"{client.name}: getblock answers a block without transactions")
    found: Any = (await client.batch([("getrawtransaction", (txid[::-1].hex(),))]))[0]
    return not isinstance(found, RpcError)
