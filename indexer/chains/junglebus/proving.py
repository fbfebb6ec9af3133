"""Transactions from a server, each proved by its bytes and a merkle path that leads to one of our own headers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from indexer.chains import Told
from indexer.chains.junglebus.answers import Match
from indexer.chains.junglebus.client import SMALL_BYTES, Client
from indexer.chains.junglebus.lies import LieError, Lies
from indexer.chains.together import together
from indexer.headers import HeaderChain
from parsers import bump, tx
from parsers.errors import ParseError
from parsers.tx import Outpoint, Transaction, sha256d

NODE_BYTES = 64
"""Transactions of this size could be two nodes of a merkle tree (CVE-2017-12842), and are not believed."""

AHEAD = 6
"""Blocks that a server may know before we do; a proof of a later one is none."""

KEPT_BYTES = 64 << 20
"""Proved transactions kept in memory, so that blocks read again need not be asked for again."""


class Proven(NamedTuple):
    """A transaction that is in the block of that height whose merkle root is `root` (internal byte order)."""

    txid: bytes
    height: int
    root: bytes
    told: Told


class Prover:
    """Asks one server for transactions and their proofs, and believes only hashes."""

    def __init__(self, client: Client, headers: HeaderChain, lies: Lies) -> None:
        self._client, self._headers, self._lies = client, headers, lies
        self._kept: OrderedDict[bytes, Proven] = OrderedDict()
        self._size = 0

    async def raw(self, txid: bytes) -> bytes | None:
        """A transaction's bytes, None where the server does not know it. Raises LieError for other bytes."""
        raw = await self._client.fetch(f"/transaction/get/{txid[::-1].hex()}/bin")
        if not raw:
            return None
        self.check_raw(txid, raw)
        return raw

    def is_raw(self, txid: bytes, raw: bytes) -> bool:
        """Whether bytes hash to the txid they were told for; other bytes are a lie, and counted."""
        if sha256d(raw) == txid:
            return True
        self._lies.caught("txid", f"the bytes told of {txid[::-1].hex()} hash to something else")
        return False

    def check_raw(self, txid: bytes, raw: bytes) -> Transaction:
        """The transaction that these bytes are. Raises LieError unless they are that transaction."""
        if sha256d(raw) != txid:
            raise self._lies.caught("txid", f"the bytes told of {txid[::-1].hex()} hash to something else")
        try:
            found = tx.read(raw)
        except ParseError as error:
            raise self._lies.caught("txid", f"{txid[::-1].hex()} is no transaction: {error}") from None
        if found.size != len(raw) or len(raw) == NODE_BYTES:
            raise self._lies.caught("txid", f"{txid[::-1].hex()}, of {len(raw):,} bytes, need not be a transaction")
        return found

    async def raws(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        """The bytes of several transactions; those unknown or lied about are left out."""
        wanted = list(dict.fromkeys(txids))
        found = await together(self._raw_or_none(txid) for txid in wanted)
        return {txid: raw for txid, raw in zip(wanted, found, strict=True) if raw is not None}

    async def _raw_or_none(self, txid: bytes) -> bytes | None:
        try:
            return await self.raw(txid)
        except LieError:
            return None

    async def prove(self, txid: bytes, raw: bytes | None = None) -> Proven | None:
        """A transaction in its block of our best chain, None where the server has no proof (yet).

        `raw` are its bytes where they were told already. Raises LieError for bytes or a proof that do not fit.
        """
        known = self._kept.get(txid)
        if known is not None and self.stands(known):
            self._kept.move_to_end(txid)
            return known
        if raw is None:
            raw = await self.raw(txid)
        if raw is None:
            return None
        self.check_raw(txid, raw)
        path = await self._client.fetch(f"/transaction/proof/{txid[::-1].hex()}/bin", SMALL_BYTES)
        if not path:
            return None
        proven = self.check(txid, raw, path)
        if proven is not None:
            self._keep(proven)
        return proven

    def check(self, txid: bytes, raw: bytes, path: bytes) -> Proven | None:
        """Check a merkle path (BRC-74) of a transaction against our best chain; None where it leads to a block that may
        just have been found, or that is below all headers. Raises LieError."""
        shown = txid[::-1].hex()
        try:
            read = bump.read(path)
            root = read.root(txid)
        except ParseError as error:
            raise self._lies.caught("proof", f"the proof of {shown}: {error}") from None
        tip, ref = self._headers.tip(), self._headers.ref(read.height)
        if tip is not None and tip.height < read.height <= tip.height + AHEAD:
            return None
        if read.height < (self._headers.first or 0):
            return None
        if ref is None or ref.header[36:68] != root:
            where = "which is not known" if ref is None else f"which has the merkle root {ref.header[67:35:-1].hex()}"
            raise self._lies.caught(
                "proof", f"the proof of {shown} leads to {root[::-1].hex()} in block {read.height:,}, {where}"
            )
        index = next(leaf.offset for leaf in read.levels[0] if leaf.hash == txid)
        return Proven(txid, read.height, root, Told(index, raw, path))

    def misplaced(self, match: Match, proven: Proven) -> LieError:
        """A transaction is told of another block than the one that it is proved to be in."""
        return self._lies.caught(
            "block", f"{match.txid[::-1].hex()} is told of block {match.height:,}, and is in {proven.height:,}"
        )

    def stands(self, proven: Proven) -> bool:
        """Whether what was proved is still part of the best chain."""
        ref = self._headers.ref(proven.height)
        return ref is not None and ref.header[36:68] == proven.root

    def _keep(self, proven: Proven) -> None:
        former = self._kept.pop(proven.txid, None)
        self._kept[proven.txid] = proven
        self._size += len(proven.told.raw) - (len(former.told.raw) if former else 0)
        while self._size > KEPT_BYTES:
            _, oldest = self._kept.popitem(last=False)
            self._size -= len(oldest.told.raw)

    async def spender(self, outpoint: Outpoint) -> bytes | None:
        """The txid of what spends an output, as the server says: empty where it says that nothing does, None where it
        does not know the output. Raises LieError."""
        said = await self._client.fetch(f"/txo/spend/{outpoint}", SMALL_BYTES)
        if not said:
            return said
        if len(said) != len(outpoint.txid):
            raise self._lies.caught("spend", f"{outpoint} is spent by {len(said):,} bytes that are no txid")
        return said[::-1]

    def check_spends(self, raw: bytes, outpoint: Outpoint) -> None:
        """Raises LieError unless the transaction of these bytes spends that output."""
        if all(spent.prevout != outpoint for spent in tx.read(raw).inputs):
            raise self._lies.caught(
                "spend", f"{outpoint} is said to be spent by {sha256d(raw)[::-1].hex()}, and is not"
            )
