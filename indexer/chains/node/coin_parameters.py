"""How nodes differ from coin to coin, and which network a node follows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from indexer.chains.node.client import NodeClient, RpcError
from indexer.errors import OtherNetworkError, SourceError, SourceRefusalError
from indexer.headers.networks import COINS, NETWORKS, Network
from parsers.bitcoin import block
from parsers.json_records import JsonObject


class CoinParameters(NamedTuple):
    """`raw_block` is the verbosity of `getblock` for hex: 0, or False where it is a boolean (Dogecoin, based on
    Bitcoin 0.14). `auxpow`: headers are followed by merge-mined work. `segwit`: transactions may carry witnesses."""

    raw_block: int | bool
    auxpow: bool
    segwit: bool


COIN_PARAMETERS = {
    "bsv": CoinParameters(0, auxpow=False, segwit=False),
    "btc": CoinParameters(0, auxpow=False, segwit=True),
    "ltc": CoinParameters(0, auxpow=False, segwit=True),
    "bch": CoinParameters(0, auxpow=False, segwit=False),
    "doge": CoinParameters(raw_block=False, auxpow=True, segwit=False),
}


OUT_OF_RANGE = -8


class _ChainInfoJson(JsonObject):
    blocks: int
    pruned: bool = False
    pruneheight: int = 0


class NodeInfo(NamedTuple):
    """The height of a node's tip, and the first height of the blocks that it stores."""

    height: int
    pruned_below: int


def coin(name: str, options: Mapping[str, str]) -> str:
    """The coin of a configured chain: `?chain=`, or its name. Raises SourceError."""
    selected = options.get("chain") or (name if name in COINS else "")
    if not selected:
        raise SourceError(f"{name}: which chain does the node follow? add ?chain={'|'.join(COINS)}")
    return selected


async def network(client: NodeClient, coin: str, requested: str | None) -> Network:
    """The network of the node's genesis block. Raises SourceError when it is unknown or not the `requested` one."""
    genesis = str(await client.call("getblockhash", 0))
    matching = [candidate for candidate in NETWORKS if (candidate.coin, candidate.genesis) == (coin, genesis)]
    if not matching:
        others = " or ".join(str(candidate) for candidate in NETWORKS if candidate.genesis == genesis)
        raise OtherNetworkError(
            f"{client.name}: the node at {client.address.base} does not follow {coin}: its genesis block is "
            f"{genesis[:64]!a} (of {others or 'no known network'}); correct the URL, or ?chain="
        )
    if requested is not None and matching[0].name != requested:
        raise OtherNetworkError(
            f"{client.name}: the node at {client.address.base} follows {matching[0]}, not {coin} {requested}; correct "
            "the URL, or ?network="
        )
    return matching[0]


async def node_info(client: NodeClient) -> NodeInfo:
    """The node's `getblockchaininfo`. Raises SourceError."""
    answer = await client.fetch(_ChainInfoJson, "getblockchaininfo")
    return NodeInfo(answer.blocks, answer.pruneheight if answer.pruned else 0)


class SplitBlocks:
    """Checks the blocks at which coins split, each once, when the node has reached it."""

    def __init__(self, client: NodeClient, network: Network) -> None:
        self._client, self.network = client, network
        self._pending = list(network.split_blocks)

    async def check(self, height: int) -> None:
        """Check those up to a height. Raises SourceError when the node follows another coin after a split."""
        due = [point for point in self._pending if point[0] <= height]
        answers = await self._client.batch([("getblockhash", (point[0],)) for point in due])
        for (split_height, expected), answer in zip(due, answers, strict=True):
            if isinstance(answer, RpcError):
                continue  # the node went back meanwhile
            if answer != expected:
                coins = " or ".join(str(other) for other in NETWORKS if (split_height, answer) in other.split_blocks)
                raise OtherNetworkError(
                    f"{self._client.name}: the node at {self._client.address.base} does not follow {self.network}: "
                    f"its block {split_height:,} is {str(answer)[:64]} (of {coins or 'no known network'})"
                )
            self._pending.remove((split_height, expected))


async def has_tx_index(client: NodeClient, parameters: CoinParameters) -> bool | None:
    """Whether the node finds confirmed transactions by txid (`txindex`), None while it has no block 1: its coinbase
    is requested. Raises SourceError."""
    try:
        raw = bytes.fromhex(await client.call("getblock", await client.call("getblockhash", 1), parameters.raw_block))
        txid = next(block.txids(raw, segwit=parameters.segwit), None)
    except RpcError as error:
        return None if error.code == OUT_OF_RANGE else False
    except (TypeError, ValueError) as error:
        raise SourceRefusalError(f"{client.name}: getblock answers no block: {error}") from error
    if txid is None:
        raise SourceRefusalError(f"{client.name}: getblock answers a block without transactions")
    result: Any = (await client.batch([("getrawtransaction", (txid[::-1].hex(),))]))[0]
    return not isinstance(result, RpcError)
