"""Transactions by txid, with a cache of those announced or requested lately; others are requested in batches."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

from indexer.chains.jsonrpc import METHOD_NOT_FOUND
from indexer.chains.node.client import NodeClient, RpcCall, RpcError, TooLargeError
from indexer.chains.node.coin_parameters import CoinParameters
from parsers.bitcoin import tx
from parsers.bitcoin.tx import Outpoint, sha256d
from parsers.errors import ParseError

CACHE_BYTES = 32 << 20
"""The size of the cache; the least recently used transaction is dropped first."""

LARGEST = 16 << 20
"""A larger transaction is not cached."""

BATCH, ANSWER_BYTES = 64, 64 << 20
"""Transactions per batch, and the limit of its response: beyond it they are requested in halves."""

ALONE_BYTES = 1 << 30
"""The limit of the response for a single transaction."""


class Transactions:
    """The transactions of one node."""

    def __init__(self, client: NodeClient, parameters: CoinParameters) -> None:
        self._client, self._segwit = client, parameters.segwit
        self.cache: OrderedDict[bytes, bytes] = OrderedDict()
        self._cached_bytes = 0

    def announce(self, raw: bytes) -> bytes | None:
        """Cache a transaction that the node published. Returns its txid, None for one that cannot be parsed."""
        txid = self._txid(raw)
        if txid is not None:
            self._add_to_cache(txid, raw)
        return txid

    async def get(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        """Raw transactions by txid, confirmed or not, as far as the node has them. Raises SourceError."""
        requested = list(dict.fromkeys(txids))
        results = {txid: raw for txid in requested if (raw := self.cache.get(txid)) is not None}
        for txid in results:
            self.cache.move_to_end(txid)
        missing = [txid for txid in requested if txid not in results]
        for start in range(0, len(missing), BATCH):
            batch = missing[start : start + BATCH]
            answers = await self._batch([("getrawtransaction", (txid[::-1].hex(),)) for txid in batch])
            for txid, answer in zip(batch, answers, strict=True):
                raw = _bytes(answer) if isinstance(answer, str) else None
                if raw is not None and self._txid(raw) == txid:
                    results[txid] = raw
                    self._add_to_cache(txid, raw)
        return results

    async def blocks(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        """Hashes (internal byte order) of the blocks that hold these transactions, by txid, as far as the node has
        them. Raises SourceError."""
        requested, results = list(txids), {}
        answers = await self._batch([("getrawtransaction", (txid[::-1].hex(), 1)) for txid in requested])
        for txid, answer in zip(requested, answers, strict=True):
            digest = _bytes(str(answer.get("blockhash"))) if isinstance(answer, dict) else None
            if digest is not None and len(digest) == 32:
                results[txid] = digest[::-1]
        return results

    async def unspent(self, outpoints: Iterable[Outpoint]) -> set[Outpoint] | None:
        """The outputs, of those passed in, that are in a block and that no block has spent; None where the node has no
        `gettxout`. Raises SourceError."""
        requested, unspent = list(outpoints), set[Outpoint]()
        for start in range(0, len(requested), BATCH):
            batch = requested[start : start + BATCH]
            answers = await self._batch([("gettxout", (txid[::-1].hex(), vout, False)) for txid, vout in batch])
            # None is an output that is spent, or not in a block; that of a script too large for an answer is there
            refusal = next((answer for answer in answers if isinstance(answer, RpcError)), None)
            if refusal is not None and refusal.code == METHOD_NOT_FOUND:
                return None
            if refusal is not None:
                raise refusal
            unspent.update(outpoint for outpoint, answer in zip(batch, answers, strict=True) if answer is not None)
        return unspent

    async def _batch(self, calls: Sequence[RpcCall]) -> list[Any]:
        """The results of calls, as many in a request as fit in its answer; a TooLargeError for one that does not fit
        alone. Raises SourceError."""
        if len(calls) <= BATCH:
            try:
                return await self._client.batch(calls, ANSWER_BYTES if len(calls) > 1 else ALONE_BYTES)
            except TooLargeError as error:
                if len(calls) == 1:
                    return [error]
        half = len(calls) // 2
        return [*await self._batch(calls[:half]), *await self._batch(calls[half:])]

    def _add_to_cache(self, txid: bytes, raw: bytes) -> None:
        if len(raw) > LARGEST or txid in self.cache:
            return
        self.cache[txid] = raw
        self._cached_bytes += len(raw)
        while self._cached_bytes > CACHE_BYTES:
            self._cached_bytes -= len(self.cache.popitem(last=False)[1])

    def _txid(self, raw: bytes) -> bytes | None:
        """The txid of a raw transaction; None if it cannot be parsed, for example with Litecoin's MWEB parts."""
        if not self._segwit:
            return sha256d(raw)
        try:
            return tx.read_exactly(raw, segwit=True).txid
        except ParseError:
            return None


def _bytes(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None
