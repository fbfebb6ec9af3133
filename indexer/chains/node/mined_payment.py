"""A payment as a node proves it: its transaction, the merkle path to its block, and the transaction that it spends."""

from __future__ import annotations

from typing import NamedTuple

from indexer.chains.node.client import NodeClient, RpcError
from indexer.errors import SourceRefusalError
from parsers.bitcoin import beef, bump, partial_merkle_tree, tx
from parsers.bitcoin.tx import Transaction, serialise
from parsers.errors import ParseError
from parsers.json_records import JsonObject

UNKNOWN = -5
MAX_PARENT_BYTES = 100_000
"""Bytes of the spent transaction in a BEEF: receipts take one of 256 kB."""


class _NodeTransactionJson(JsonObject):
    hex: str
    blockhash: str = ""
    confirmations: int = 0


class _BlockHeightJson(JsonObject):
    height: int


class MinedPayment(NamedTuple):
    """A transaction in a block: its bytes without witness, the binary merkle path (BRC-74), the height of its block,
    and the bytes of the transaction that its first input spends, b"" where the node does not have that."""

    tx: Transaction
    bump: bytes
    height: int
    parent: bytes

    @property
    def raw(self) -> bytes:
        """The transaction without witness."""
        return _bare(self.tx)

    def beef(self) -> bytes:
        """The BEEF (BRC-62) of the transaction, with the one that its first input spends where that is small."""
        parents = [(self.parent, None)] if 0 < len(self.parent) <= MAX_PARENT_BYTES else []
        return beef.write([*parents, (self.raw, bump.read(self.bump))])


async def mined_payment(client: NodeClient, txid: bytes) -> MinedPayment | None:
    """The transaction with a txid (internal byte order) in a block of the node's best chain; None where it is in none,
    or the node, without a transaction index, does not find it. Raises SourceError."""
    name = txid[::-1].hex()
    transaction = await _transaction(client, name)
    if transaction is None or not transaction.blockhash or transaction.confirmations < 1:
        return None
    proof = await client.fetch(str, "gettxoutproof", [name], transaction.blockhash)
    height = (await client.fetch(_BlockHeightJson, "getblockheader", transaction.blockhash, True)).height
    try:
        paid = tx.read(bytes.fromhex(transaction.hex), segwit=True)
        leaf = partial_merkle_tree.read(bytes.fromhex(proof), txid)
        path = bump.branch_bytes(height, leaf.number, txid, leaf.siblings)
        if paid.txid != txid:
            raise ParseError("another transaction")
    except ValueError as error:
        raise SourceRefusalError(f"{client.name}: {client.label} does not prove transaction {name}: {error}") from None
    return MinedPayment(paid, path, height, await _parent(client, paid))


async def _parent(client: NodeClient, paid: Transaction) -> bytes:
    spent = paid.inputs[0].prevout.txid
    transaction = await _transaction(client, spent[::-1].hex())
    try:
        parent = tx.read(bytes.fromhex(transaction.hex), segwit=True) if transaction is not None else None
    except ValueError:
        return b""
    return _bare(parent) if parent is not None and parent.txid == spent and parent.inputs else b""


async def _transaction(client: NodeClient, name: str) -> _NodeTransactionJson | None:
    try:
        return await client.fetch(_NodeTransactionJson, "getrawtransaction", name, 1)
    except RpcError as error:
        if error.code != UNKNOWN:
            raise
        return None


def _bare(transaction: Transaction) -> bytes:
    return serialise(transaction.inputs, transaction.outputs, transaction.version, transaction.locktime)
