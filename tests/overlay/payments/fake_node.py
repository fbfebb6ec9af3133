"""A node of BSV regtest in memory: coins, a mempool, blocks, reorganisations and double spends, all at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from indexer.errors import RefusedTransactionError, SourceUnavailableError
from parsers.bitcoin import signatures
from parsers.bitcoin.address import PREFIXES, address
from parsers.bitcoin.script import p2pkh
from parsers.bitcoin.sighash import sign_p2pkh
from parsers.bitcoin.tx import Outpoint, Transaction, TxInput, TxOutput, read, read_exactly, serialise, sha256d
from parsers.claims.payment import UtxoChain

CHAIN = UtxoChain("bsv", "regtest")
PAYER, SERVER = b"\x01" * 32, b"\x02" * 32
"""Private keys."""


def script_of(key: bytes) -> bytes:
    return p2pkh(signatures.hash160(signatures.public_key(key)))


def address_of(key: bytes) -> str:
    return str(address(script_of(key), PREFIXES[CHAIN.coin][CHAIN.network]))


class FakeNode:
    """`down`: it does not answer; `slow`: nor about these transactions. `sent` holds every raw transaction that it
    accepted by `send`, in order."""

    def __init__(self) -> None:
        self.coins: dict[Outpoint, TxOutput] = {}
        self.mempool: dict[str, Transaction] = {}
        self.blocks: list[list[Transaction]] = [[]]
        self.sent: list[bytes] = []
        self.down = False
        self.slow: list[Transaction] = []
        self._minted = 0

    # -- what a gate asks

    async def chain(self) -> UtxoChain:
        return CHAIN

    async def next_height(self) -> int:
        self._answer()
        return len(self.blocks)

    async def outputs(self, outpoints: Sequence[Outpoint]) -> list[TxOutput | None]:
        self._answer()
        unspent = self.unspent()
        return [unspent.get(outpoint) for outpoint in outpoints]

    async def confirmations(self, tx: Transaction) -> int | None:
        self._answer()
        if tx in self.slow:
            raise SourceUnavailableError("too slow")
        if tx.hex_id in self.mempool:
            return 0
        depths = (len(self.blocks) - number for number, block in enumerate(self.blocks) if tx in block)
        return next(depths, None)

    async def send(self, raw: bytes) -> bool:
        self._answer()
        tx = read_exactly(raw)
        is_known = tx.hex_id in self.mempool or any(tx in block for block in self.blocks)
        if not is_known:
            self.accept(tx)
        self.sent.append(raw)
        return is_known

    async def close(self) -> None:
        return

    def _answer(self) -> None:
        if self.down:
            raise SourceUnavailableError("the node is down")

    # -- its chain

    def unspent(self) -> dict[Outpoint, TxOutput]:
        transactions = [*(tx for block in self.blocks for tx in block), *self.mempool.values()]
        unspent = dict(self.coins)
        for tx in transactions:
            unspent |= {tx.outpoint(vout): output for vout, output in enumerate(tx.outputs)}
        for tx in transactions:
            for tx_input in tx.inputs:
                unspent.pop(tx_input.prevout, None)
        return unspent

    def accept(self, tx: Transaction) -> None:
        """Raises RefusedTransactionError."""
        if any(tx_input.prevout not in self.unspent() for tx_input in tx.inputs):
            raise RefusedTransactionError("the node refuses the transaction: missing or spent inputs")
        self.mempool[tx.hex_id] = tx

    def mint(self, satoshis: int, key: bytes = PAYER) -> Outpoint:
        """A new coin of a key."""
        self._minted += 1
        outpoint = Outpoint(sha256d(b"coin %d" % self._minted), 0)
        self.coins[outpoint] = TxOutput(satoshis, script_of(key))
        return outpoint

    def mine(self) -> None:
        self.blocks.append(list(self.mempool.values()))
        self.mempool.clear()

    def reorganise(self, depth: int) -> None:
        """Take back blocks; their transactions are in the mempool again."""
        for _ in range(min(depth, len(self.blocks) - 1)):
            block = self.blocks.pop()
            self.mempool = {tx.hex_id: tx for tx in block} | self.mempool

    def double_spend(self, outpoint: Outpoint) -> None:
        """Have another transaction spend this coin, in place of one in the mempool, of which nothing is left."""
        gone = {outpoint}
        for txid, tx in list(self.mempool.items()):
            if any(tx_input.prevout in gone for tx_input in tx.inputs):
                gone |= {tx.outpoint(vout) for vout in range(len(tx.outputs))}
                del self.mempool[txid]
        if outpoint in self.unspent():
            self.accept(payment([outpoint], [(1, script_of(PAYER))], self, PAYER))

    def evict(self) -> None:
        """Forget what is unconfirmed."""
        self.mempool.clear()


def payment(
    spent: Sequence[Outpoint], outputs: Sequence[tuple[int, bytes]], node: FakeNode, key: bytes = PAYER
) -> Transaction:
    """A transaction of these coins, signed."""
    inputs = tuple(TxInput(outpoint, b"", 0xFFFFFFFF) for outpoint in spent)
    outs = tuple(TxOutput(*output) for output in outputs)
    tx = read(serialise(inputs, outs))
    values = node.coins | node.unspent()
    signed = tuple(
        tx_input._replace(script=sign_p2pkh(tx, vin, key, values[tx_input.prevout].satoshis))
        for vin, tx_input in enumerate(inputs)
    )
    return read(serialise(signed, outs))


def claim_of(tx: Transaction, **members: Any) -> dict[str, Any]:
    raw = serialise(tx.inputs, tx.outputs, tx.version, tx.locktime)
    return {"configId": "p", "stage": "full", "currency": "BSV", "rawTx": raw.hex()} | members


def price(**members: Any) -> dict[str, Any]:
    """A price of 50,000 satoshis to the server."""
    return {"id": "p", "name": "A call", "currency": "BSV", "amount": "0.0005", "address": address_of(SERVER),
            "acceptedCurrencies": ["BSV"], "skillIds": [], **members}  # fmt: skip
