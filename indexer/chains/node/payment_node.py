"""A node as payments need it: outputs that are unspent, what became of a transaction, and where one is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from decimal import Decimal
from math import ceil
from typing import Any, NamedTuple, Protocol, TypeVar

from indexer import chains
from indexer.chains.node import coin_parameters, parse
from indexer.chains.node.client import NodeClient, RpcError
from indexer.chains.node.mined_payment import MinedPayment, mined_payment
from indexer.errors import SourceRefusalError, SourceUnavailableError
from parsers.bitcoin.tx import Outpoint, Transaction, TxOutput
from parsers.claims.payment import UtxoChain
from parsers.json_records import JsonObject

SECONDS = 10.0
"""How long a node may take to answer."""

_SATOSHIS = 10**8
_UNKNOWN = -5
_INDEXING = "still in the process of being indexed"
"""The error of a node of the Core family with _UNKNOWN for any mined transaction, until its `txindex` is complete."""

_LEAST_FEES = ("relayfee", "mempoolminfee", "minrelaytxfee", "minminingtxfee")
"""Members with the fees below which a node does not relay or mine; the last one is of Bitcoin SV."""

_T = TypeVar("_T")


class _ScriptJson(JsonObject):
    hex: str


class _OutputJson(JsonObject):
    value: Decimal
    script_pub_key: _ScriptJson


class _ConfirmedJson(JsonObject):
    confirmations: int = 0


class _FeesJson(JsonObject):
    base: Decimal


class _MempoolEntryJson(JsonObject):
    size: int = 0
    vsize: int = 0
    fee: Decimal | None = None
    fees: _FeesJson | None = None
    depends: tuple[str, ...] = ()


class UnminedTransaction(NamedTuple):
    """A transaction of a mempool: satoshis for 1,000 bytes that it pays, and the txids (hex) of its unmined parents."""

    rate: int
    parents: tuple[str, ...]


class Broadcaster(Protocol):
    """The node that a gate queries about payments on one chain, and sends them to. Every method raises SourceError
    where there is no answer."""

    async def chain(self) -> UtxoChain:
        """The chain, which does not change."""
        ...

    async def next_height(self) -> int:
        """The height of the next block."""
        ...

    async def outputs(self, outpoints: Sequence[Outpoint], /) -> list[TxOutput | None]:
        """These outputs; None for one that does not exist, or that a block or unconfirmed transaction spends."""
        ...

    async def confirmations(self, tx: Transaction, /) -> int | None:
        """How many blocks a transaction is in or under: 0 while unconfirmed, None where it is in none."""
        ...

    async def send(self, raw: bytes, /) -> bool | None:
        """Send a transaction; sending it again is not an error. True where the node answers that it has it already, as
        not every node does. Raises RefusedTransactionError."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class PaymentNode:
    """A node of BSV, BTC, LTC, BCH or DOGE as a `Broadcaster`, by its URL as in `A2B_CHAINS`. Raises SourceError."""

    def __init__(self, name: str, url: str) -> None:
        address, options = parse(name, url)
        self.coin = coin_parameters.coin(name, options)
        self._client, self._network, self._chain = NodeClient(address), options.get("network"), None

    _chain: UtxoChain | None

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def chain(self) -> UtxoChain:
        """The coin, and the network of the node's genesis block."""
        if self._chain is None:
            network = await self._within(coin_parameters.network(self._client, self.coin, self._network))
            self._chain = UtxoChain(self.coin, network.kind)
        return self._chain

    async def next_height(self) -> int:
        """One above the node's tip."""
        return (await self._within(coin_parameters.node_info(self._client))).height + 1

    async def outputs(self, outpoints: Sequence[Outpoint]) -> list[TxOutput | None]:
        """The outputs by `gettxout`, with the mempool."""
        calls = [("gettxout", (outpoint.txid[::-1].hex(), outpoint.vout, True)) for outpoint in outpoints]
        return [self._output(answer) for answer in await self._within(self._client.batch(calls))]

    def _output(self, answer: Any) -> TxOutput | None:
        """The output in an answer of `gettxout`. Raises SourceError for one of another form."""
        if answer is None:
            return None
        if isinstance(answer, RpcError):
            raise answer
        output = self._client.record(_OutputJson, "gettxout", answer)
        try:
            satoshis = int(output.value * _SATOSHIS)
            if satoshis != output.value * _SATOSHIS:
                raise ValueError("a fraction of a satoshi")
            return TxOutput(satoshis, bytes.fromhex(output.script_pub_key.hex))
        except (ValueError, OverflowError):
            raise SourceRefusalError(f"the node answers gettxout with {str(answer)[:100]!a}, as no node does") from None

    async def confirmations(self, tx: Transaction) -> int | None:
        """The confirmations by the mempool or transaction index, else by the unspent outputs: a node without the index
        does not find a mined transaction with all outputs spent."""
        calls: list[tuple[str, tuple[Any, ...]]] = [("getrawtransaction", (tx.hex_id, 1))]
        calls += [("gettxout", (tx.hex_id, vout, True)) for vout in range(len(tx.outputs))]
        answers = await self._within(self._client.batch(calls))
        for answer in answers:
            if isinstance(answer, RpcError) and answer.code != _UNKNOWN:
                raise answer
            if not isinstance(answer, dict):
                continue
            # after a reorganisation the index of some nodes still has a transaction, with a block and no confirmations
            if "blockhash" not in answer or int(answer.get("confirmations", 0)) >= 1:
                return max(0, self._client.record(_ConfirmedJson, "getrawtransaction", answer).confirmations)
        if _INDEXING in str(answers[0]):
            raise SourceUnavailableError(f"{self._client.name}: {self._client.label} still makes its transaction index")
        return None

    async def send(self, raw: bytes) -> bool:
        """Send a transaction by `sendrawtransaction`."""
        return await self._within(self._client.send_transaction(raw))

    async def mined(self, txid: bytes) -> MinedPayment | None:
        """A transaction (internal byte order) in a block with its merkle path, as `mined_payment`."""
        return await self._within(mined_payment(self._client, txid))

    async def is_there(self, txid: bytes) -> bool:
        """Whether the node has a transaction (internal byte order), in its mempool or its index."""
        [answer] = await self._within(self._client.batch([("getrawtransaction", (txid[::-1].hex(),))]))
        return isinstance(answer, str)

    async def least_fee_rate(self) -> int:
        """Satoshis for 1,000 bytes below which the node does not relay or mine a transaction: the highest of the fees
        that it states, in coins for 1,000 bytes; 0 where it states none."""
        calls = [(method, ()) for method in ("getnetworkinfo", "getmempoolinfo", "getsettings")]
        answers = await self._within(self._client.batch(calls))
        stated = [answer.get(name) for answer in answers if isinstance(answer, dict) for name in _LEAST_FEES]
        return max((ceil(fee * _SATOSHIS) for fee in stated if isinstance(fee, Decimal | int) and fee < 1), default=0)

    async def unmined(self, txid: bytes) -> UnminedTransaction | None:
        """A transaction of the mempool (txid in internal byte order), None for another."""
        [answer] = await self._within(self._client.batch([("getmempoolentry", (txid[::-1].hex(),))]))
        if isinstance(answer, RpcError):
            return None
        entry = self._client.record(_MempoolEntryJson, "getmempoolentry", answer)
        base = entry.fees.base if entry.fees is not None else entry.fee
        size = entry.size or entry.vsize
        if base is None or size <= 0:
            raise SourceRefusalError(f"the node answers getmempoolentry with {str(answer)[:100]!a}, as no node does")
        return UnminedTransaction(int(base * _SATOSHIS) * 1_000 // size, entry.depends)

    async def _within(self, answer: Awaitable[_T]) -> _T:
        try:
            async with asyncio.timeout(SECONDS):
                return await answer
        except TimeoutError:
            message = f"{self._client.name}: {self._client.label} does not answer within {SECONDS:g} s"
            raise SourceUnavailableError(message) from None


def nodes_of(sources: Mapping[str, Sequence[str]]) -> dict[str, PaymentNode]:
    """The nodes among configured sources (URLs by the name of a chain) by ticker; the first of several with one ticker.
    Raises SourceError for a wrong URL."""
    nodes: dict[str, PaymentNode] = {}
    for name, urls in sources.items():
        for url in urls:
            if chains.module(name, url) == "indexer.chains.node":
                node = PaymentNode(name, url)
                nodes.setdefault(node.coin.upper(), node)
    return nodes
