"""Transactions by txid: those announced or asked for lately are kept; the node is asked for others, many at once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from indexer.chains.node.client import Client, RpcError, TooLargeError
from indexer.chains.node.habits import Habits
from parsers import tx
from parsers.errors import ParseError
from parsers.tx import Outpoint, Transaction, sha256d

KEPT_BYTES = 32 << 20
"""What is kept of transactions; the one used longest ago goes first."""

LARGEST = 16 << 20
"""A larger transaction is not kept."""

BATCH, ANSWER_BYTES = 64, 64 << 20
"""Transactions asked for at once, and what the answer may hold: beyond it they are asked for in halves."""

ALONE_BYTES = 1 << 30
"""What the answer about a single transaction may hold."""


class Transactions:
    """The transactions that one node knows of."""

    def __init__(self, client: Client, habits: Habits) -> None:
        self._client, self._segwit = client, habits.segwit
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()
        self._size = 0

    def announce(self, raw: bytes) -> bytes | None:
        """Keep a transaction that the node published; its txid, None for what cannot be read, which is left."""
        txid = self._txid(raw)
        if txid is not None:
            self._keep(txid, raw)
        return txid

    async def get(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        """Raw transactions by txid, unconfirmed ones too, of those that the node has. Raises SourceError."""
        wanted = list(dict.fromkeys(txids))
        found = {txid: raw for txid in wanted if (raw := self._kept.get(txid)) is not None}
        for txid in found:
            self._kept.move_to_end(txid)
        missing = [txid for txid in wanted if txid not in found]
        for start in range(0, len(missing), BATCH):
            found |= await self._ask(missing[start : start + BATCH])
        return found

    async def values(self, outpoints: Iterable[Outpoint]) -> dict[Outpoint, int]:
        """Satoshis of outputs, of those whose transaction the node finds; the txid proves them. Raises SourceError."""
        wanted: dict[bytes, list[Outpoint]] = {}
        for outpoint in outpoints:
            wanted.setdefault(outpoint.txid, []).append(outpoint)
        found: dict[Outpoint, int] = {}
        for txid, raw in (await self.get(wanted)).items():
            try:
                made = self._read(raw).outputs
            except ParseError:
                continue  # bytes of that hash, and no transaction: what nobody can spend from
            found |= {each: made[each.vout].satoshis for each in wanted[txid] if each.vout < len(made)}
        return found

    async def blocks(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        """Hashes (internal byte order) of the blocks that hold these transactions, by txid, as far as the node says so.

        Raises SourceError.
        """
        wanted = list(txids)
        calls = [("getrawtransaction", (txid[::-1].hex(), 1)) for txid in wanted]
        found = {}
        for txid, answer in zip(wanted, await self._client.batch(calls, ALONE_BYTES), strict=True):
            digest = _bytes(str(answer.get("blockhash"))) if isinstance(answer, dict) else None
            if digest is not None and len(digest) == 32:
                found[txid] = digest[::-1]
        return found

    async def _ask(self, txids: list[bytes]) -> dict[bytes, bytes]:
        calls = [("getrawtransaction", (txid[::-1].hex(),)) for txid in txids]
        try:
            told = await self._client.batch(calls, ANSWER_BYTES if len(txids) > 1 else ALONE_BYTES)
        except TooLargeError:
            if len(txids) == 1:
                return {}
            half = len(txids) // 2
            return await self._ask(txids[:half]) | await self._ask(txids[half:])
        found = {}
        for txid, answer in zip(txids, told, strict=True):
            if isinstance(answer, RpcError) or not isinstance(answer, str):
                continue
            raw = _bytes(answer)
            if raw is not None and self._txid(raw) == txid:
                found[txid] = raw
                self._keep(txid, raw)
        return found

    def _keep(self, txid: bytes, raw: bytes) -> None:
        if len(raw) > LARGEST or txid in self._kept:
            return
        self._kept[txid] = raw
        self._size += len(raw)
        while self._size > KEPT_BYTES:
            self._size -= len(self._kept.popitem(last=False)[1])

    def _txid(self, raw: bytes) -> bytes | None:
        """The txid of a raw transaction; None for what is none, as one whose parts only Litecoin's MWEB can read."""
        if not self._segwit:
            return sha256d(raw)
        try:
            return self._read(raw).txid
        except ParseError:
            return None

    def _read(self, raw: bytes) -> Transaction:
        return tx.read_exactly(raw, segwit=self._segwit)


def _bytes(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None
