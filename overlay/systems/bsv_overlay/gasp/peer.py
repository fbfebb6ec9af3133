"""A client of another overlay by GASP: the outputs that its topic admits, and their transactions one by one."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any, NamedTuple

from indexer.admission.admission import MAX_BEEF_BYTES, MAX_ITEMS, MAX_TRANSACTIONS
from indexer.admission.topic_graph import GraphNode
from indexer.chains.http_client import SMALL_BYTES, HttpClient, SlowError, TooLargeError, UnreadableError, parse_json
from indexer.errors import SourceUnavailableError
from indexer.masking import masked
from parsers.bitcoin import beef, bump
from parsers.bitcoin.bump import MerklePath
from parsers.bitcoin.tx import COINBASE_TXID, Outpoint, Transaction, read_exactly
from parsers.errors import ParseError
from parsers.json_records import JsonObject, convert

TOPIC = "tm_agent_registry"
NODE_BYTES, LARGE_NODE_BYTES = 8 << 20, 2 * MAX_BEEF_BYTES + SMALL_BYTES
"""Bytes of an answer with one transaction and its merkle path in hex, at most: of several at once, and of one that is
read alone, which can be as large as the largest transaction that a peer admits."""

OUTPUT_BYTES = 256
"""Bytes of an output in a list, at most."""

_VERSION = 1
_MAX_SCORE = 1 << 62


class PeerOutput(NamedTuple):
    """An output that a peer admits. Scores are the peer's own; several outputs may have the same."""

    outpoint: Outpoint
    score: int


class _GaspOutputJson(JsonObject):
    txid: str
    output_index: int
    score: int | float | None = None


class _OutputListJson(JsonObject, rename={"outputs": "UTXOList"}):
    outputs: list[Any]


class _GaspNodeJson(JsonObject):
    raw_tx: str
    proof: str | None = None


class RefusedNodeError(Exception):
    """A peer has no readable answer for one transaction, though it may have others."""


class GaspPeer(HttpClient):
    """An overlay at a base URL. Its answers are not trusted: transactions from it are verified as a submission is."""

    def __init__(self, url: str) -> None:
        super().__init__("GASP", masked(url), headers={"Content-Type": "application/json", "X-BSV-Topic": TOPIC})
        self._url, self._large = url.rstrip("/"), asyncio.Lock()

    async def outputs(self, since: int, limit: int) -> list[PeerOutput]:
        """At most about `limit` outputs with scores of `since` or more, as far as the peer keeps to that. Raises
        SourceError."""
        question = {"version": _VERSION, "since": since, "limit": limit}
        room = SMALL_BYTES + limit * OUTPUT_BYTES
        try:
            status, answer = await self.retry(lambda: self._ask("requestSyncResponse", question, room))
            if status == 200:
                return list(map(_output, convert(answer, _OutputListJson).outputs[: limit + 1]))
        except ValueError as error:
            raise SourceUnavailableError(f"{self.name}: {self.label} lists no outputs: {str(error)[:200]}") from None
        raise SourceUnavailableError(f"{self.name}: {self.label} answers with status {status}")

    async def package(self, output: Outpoint) -> bytes:
        """The BEEF that proves the transaction of an output, from the nodes of its graph.

        Raises RefusedNodeError, also for one wrong node, as the next answer may be right; SourceError; and ParseError
        for an endless graph.
        """
        nodes: dict[bytes, tuple[bytes, MerklePath | None]] = {}
        todo, room = [output], MAX_BEEF_BYTES
        while todo:
            outpoint = todo.pop()
            if outpoint.txid in nodes:
                continue
            try:
                node = await self._node(output, outpoint)
            except RefusedNodeError:
                if outpoint == output:
                    raise
                # the reference finds some ancestors only as the tips of graphs of their own
                node = await self._node(outpoint, outpoint)
            try:
                tx = read_exactly(node.raw, max_items=MAX_ITEMS)
                path = bump.read(node.path) if node.path else None
                parents = _parents(tx) if path is None else []
            except ParseError as error:
                raise RefusedNodeError(f"transaction {outpoint.txid[::-1].hex()}: {error}") from None
            if tx.txid != outpoint.txid:
                raise RefusedNodeError(f"transaction {outpoint.txid[::-1].hex()} is answered with {tx.hex_id}")
            nodes[tx.txid] = node.raw, path
            room -= len(node.raw) + len(node.path or b"")
            if room < 0 or len(nodes) > MAX_TRANSACTIONS:
                raise ParseError(f"the graph of {output} is too large")
            todo += parents
        return beef.write(reversed(nodes.values()), version=2, subject=output.txid)

    async def _node(self, root: Outpoint, outpoint: Outpoint) -> GraphNode:
        txid = outpoint.txid[::-1].hex()
        question = {"graphID": _shown(root), "txid": txid, "outputIndex": outpoint.vout, "metadata": False}
        try:
            status, answer = await self._ask_node(question)
        except (UnreadableError, SlowError) as error:
            raise RefusedNodeError(str(error)) from None
        if status != 200:
            raise RefusedNodeError(f"status {status} for transaction {txid}")
        try:
            node = convert(answer, _GaspNodeJson)
            return GraphNode(bytes.fromhex(node.raw_tx), bytes.fromhex(node.proof or "") or None)
        except ValueError:
            raise RefusedNodeError(f"transaction {txid} is answered without a raw transaction") from None

    async def _ask_node(self, question: dict[str, Any]) -> tuple[int, Any]:
        route = "requestForeignGASPNode"
        try:
            return await self.retry(lambda: self._ask(route, question, NODE_BYTES))
        except TooLargeError:
            async with self._large:
                return await self.retry(lambda: self._ask(route, question, LARGE_NODE_BYTES))

    async def _ask(self, route: str, question: dict[str, Any], limit: int) -> tuple[int, Any]:
        """The status, and the JSON of an answer of status 200. Raises CutError, SourceError, ParseError."""
        body = json.dumps(question).encode()
        response = await self.request("POST", f"{self._url}/{route}", limit, body, route)
        return response.status, await parse_json(response.body) if response.status == 200 else None


def _parents(tx: Transaction) -> list[Outpoint]:
    """One output for each parent. Raises ParseError for a coinbase, which only a merkle path can prove."""
    parents = {spent.prevout.txid: spent.prevout for spent in tx.inputs}
    if COINBASE_TXID in parents:
        raise ParseError(f"transaction {tx.hex_id} is a coinbase without a merkle path")
    return list(parents.values())


def _output(entry: Any) -> PeerOutput:
    """An entry of a list of outputs. Raises ValueError."""
    output = convert(entry, _GaspOutputJson)
    score = output.score or 0
    if not 0 <= score <= _MAX_SCORE:
        raise ValueError(f"score {score!r}"[:100])
    return PeerOutput(Outpoint.parse(f"{output.txid}.{output.output_index}"), math.floor(score))


def _shown(outpoint: Outpoint) -> str:
    """An outpoint as GASP writes it."""
    return f"{outpoint.txid[::-1].hex()}.{outpoint.vout}"
