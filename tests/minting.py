"""A chain whose block 2 pays a key that signs, and packages of what the key spends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from parsers.bitcoin import bump
from parsers.bitcoin.beef import write
from parsers.bitcoin.bump import MerklePath, PathLeaf
from parsers.bitcoin.tx import read
from tests.bitcoind import Coin, Key, pay
from tests.chainkit import Block, ChainKit, agent
from tests.chainkit_scripts import body_of, envelope, map_tape
from tests.fakes import MemoryChain

FUND = 100_000
TAPE = {"app": "test", "type": "a2b-agent"}


def mempool_of(raws: Iterable[bytes]) -> dict[bytes, bytes]:
    """Transactions by txid, as `MemoryChain.unconfirmed` has them."""
    return {read(raw).txid: raw for raw in raws}


def path_in(block: Block, txid: bytes) -> MerklePath:
    """The merkle path of a transaction of a block."""
    leaves = tuple(PathLeaf(number, item, item == txid) for number, item in enumerate(block.txids))
    return bump.extract(MerklePath(block.height, (leaves,)), [txid])


class Mint:
    """A chain `live` with coins of `FUND` satoshis for a key, mined in block 2."""

    def __init__(self, coins: int = 8, script: bytes | None = None) -> None:
        self.kit, self.key = ChainKit(), Key(7)
        script = script or self.key.lock
        funding = self.kit.spend([self.kit.fund()], [(FUND, script)] * coins)
        self.block = self.kit.mine(funding.outpoint(0))
        self.funding = self.kit.raw(funding.outpoint(0))
        self.path = path_in(self.block, funding.txid)
        self.coins = [Coin(funding.outpoint(number), FUND, script, self.key) for number in range(coins)]
        self.chain = MemoryChain(*self.kit.blocks, name="live")

    def inscription(self, name: str, **more: str) -> bytes:
        """A locking script with an agent's card, which the key can spend."""
        return self.key.lock + envelope(body_of(agent(name, **more))) + map_tape(TAPE)

    def inscribed(self, name: str, coin: int = 0, *others: Coin, fee: int = 500, **more: str) -> bytes:
        """The raw transaction that spends a coin, and others before it, for an inscription and change."""
        spent = [*others, self.coins[coin]]
        change = sum(item.satoshis for item in spent) - 1 - fee
        return pay(spent, [(1, self.inscription(name, **more)), (change, self.key.lock)])

    def payment(self, coin: int = 0) -> bytes:
        """The raw transaction that spends a coin for change only."""
        return pay([self.coins[coin]], [(FUND - 500, self.key.lock)])

    def package(self, *raws: bytes, **form: Any) -> bytes:
        """The BEEF of these transactions, whose parents are the funding or among them."""
        return write([(self.funding, self.path), *((raw, None) for raw in raws)], **form)

    def coin_of(self, raw: bytes, vout: int) -> Coin:
        """An output of a transaction that this key can spend."""
        tx = read(raw)
        return Coin(tx.outpoint(vout), tx.outputs[vout].satoshis, tx.outputs[vout].script, self.key)

    def broadcast(self, *raws: bytes) -> None:
        """Let the chain's source have transactions in its mempool."""
        self.chain.unconfirmed |= mempool_of(raws)

    def mine(self, *raws: bytes, parent: Block | None = None) -> Block:
        """Mine transactions, and let the chain have the block."""
        block = self.kit.mine(*raws, parent=parent)
        self.chain.arrive(block)
        return block


def forged(path: MerklePath) -> MerklePath:
    """A path of the same shape whose siblings are others: it leads to another root."""
    levels: Sequence[Iterable[PathLeaf]] = path.levels
    return MerklePath(
        path.height,
        tuple(
            tuple(leaf if leaf.txid or leaf.hash is None else leaf._replace(hash=b"\x55" * 32) for leaf in leaves)
            for leaves in levels
        ),
    )
