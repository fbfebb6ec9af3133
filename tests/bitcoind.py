"""A real Bitcoin SV node on a regtest of its own, with keys of ours that make 1Sat inscriptions.

`BITCOIND` names the program. What it needs to take our scripts was observed on version 1.2.2.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import new, sha256
from pathlib import Path
from typing import Any, NamedTuple

import base58
import pytest

from parsers.bitcoin.tx import Outpoint, Transaction, TxInput, TxOutput, serialise, sha256d, varint
from parsers.bitcoin.tx import read as read_tx
from tests.chainkit_scripts import Json, body_of, envelope, map_tape, pointer_script, push
from tests.litecoind import AGENT_MAP, Litecoind
from tests.taproot import N, multiply

VARIABLE = "BITCOIND"
FEE = 20_000
"""Satoshis left to the miner."""

_FORKID = 0x41


def installed() -> None:
    """Skip the test where no node is named; no registry of packages has one, so nothing can insist on it."""
    if VARIABLE not in os.environ:
        pytest.skip(f"{VARIABLE} does not name a Bitcoin SV node")


class Key(NamedTuple):
    """A private key, as a number; its lock names its owner."""

    secret: int

    @property
    def public(self) -> bytes:
        """The compressed public key."""
        x, y = multiply(self.secret)
        return bytes((2 + y % 2,)) + x.to_bytes(32, "big")

    @property
    def hash160(self) -> bytes:
        """The public key hash in its address."""
        return new("ripemd160", sha256(self.public).digest()).digest()

    @property
    def lock(self) -> bytes:
        """The locking script that pays to it."""
        return b"\x76\xa9" + push(self.hash160) + b"\x88\xac"

    @property
    def address(self) -> str:
        """Its address on test networks."""
        return base58.b58encode_check(b"\x6f" + self.hash160).decode()

    def sign(self, digest: bytes) -> bytes:
        """An ECDSA signature (DER, low S) with a nonce that only key and message decide."""
        number, message = 0, int.from_bytes(digest, "big")
        while True:
            seed = self.secret.to_bytes(32, "big") + digest + bytes((number,))
            nonce = int.from_bytes(sha256(seed).digest(), "big") % N
            r = multiply(nonce)[0] % N
            s = pow(nonce, -1, N) * (message + r * self.secret) % N
            if r and s:
                return _der(r, min(s, N - s))
            number += 1


def _der(r: int, s: int) -> bytes:
    parts = b"".join(b"\x02" + push(item.to_bytes(item.bit_length() // 8 + 1, "big")) for item in (r, s))
    return b"\x30" + push(parts)


class Coin(NamedTuple):
    """An output that a key can spend: where it is, its satoshis and its locking script."""

    outpoint: Outpoint
    satoshis: int
    script: bytes
    key: Key


def pay(coins: Sequence[Coin], outputs: Sequence[tuple[int, bytes]]) -> bytes:
    """The raw transaction that spends these coins, each signed."""
    outs = tuple(TxOutput(*output) for output in outputs)
    bare = tuple(TxInput(coin.outpoint, b"", 0xFFFFFFFF) for coin in coins)
    signed = []
    for number, coin in enumerate(coins):
        signature = coin.key.sign(_digest(bare, outs, number, coin)) + bytes((_FORKID,))
        signed.append(bare[number]._replace(script=push(signature) + push(coin.key.public)))
    return serialise(tuple(signed), outs)


def _digest(inputs: Sequence[TxInput], outs: Sequence[TxOutput], number: int, coin: Coin) -> bytes:
    """The digest that is signed for an input: BIP 143 with SIGHASH_FORKID."""
    prevouts = b"".join(item.prevout.pack() for item in inputs)
    paid = b"".join(item.satoshis.to_bytes(8, "little") + varint(len(item.script)) + item.script for item in outs)
    parts = [
        (1).to_bytes(4, "little"), sha256d(prevouts), sha256d(b"\xff" * 4 * len(inputs)), coin.outpoint.pack(),
        varint(len(coin.script)), coin.script, coin.satoshis.to_bytes(8, "little"),
        inputs[number].sequence.to_bytes(4, "little"), sha256d(paid), bytes(4), _FORKID.to_bytes(4, "little"),
    ]  # fmt: skip
    return sha256d(b"".join(parts))


class Bitcoind(Litecoind):
    """One Bitcoin SV node, used as a litecoind is; it has no wallet, so keys and coins are kept here."""

    switches = (
        "-disablewallet", "-genesisactivationheight=1", "-excessiveblocksize=0", "-maxstackmemoryusageconsensus=0",
        "-minminingtxfee=0.00000001", "-maxstdtxvalidationduration=5000", "-maxnonstdtxvalidationduration=9000",
        "-disablesafemode=1",  # else it refuses to send after a few deep forks
    )  # fmt: skip

    def __init__(self, folder: Path, **switches: Any) -> None:
        super().__init__(folder, **switches)
        self._keys = (Key(number) for number in range(7, 10**9))
        self._miner = next(self._keys)
        self._coins: list[Coin] = []
        self._satpoints: dict[Outpoint, Coin] = {}

    def binary(self) -> str | None:
        """The program that the variable names."""
        return os.environ.get(VARIABLE)

    def fund(self, blocks: int = 110) -> None:
        """Mine coins for our key."""
        self._address = self._miner.address
        self.mine(blocks)
        for height in range(1, blocks - 99):
            raw = self.block(height)
            coinbase = read_tx(raw, 81)
            self._coins.append(Coin(coinbase.outpoint(0), coinbase.outputs[0].satoshis, self._miner.lock, self._miner))

    def give(self, outputs: Sequence[tuple[int, bytes]]) -> Transaction:
        """Pay these outputs, and mine the payment."""
        tx = self._spend([], list(outputs))
        self.mine()
        return tx

    def flush(self) -> None:
        """Have it write its chain to the disk."""
        self.rpc("gettxoutsetinfo")

    def _load(self) -> None:
        """There is no wallet to load."""

    def mine_empty(self, count: int = 1) -> str:
        """Mine blocks; this node mines what its mempool holds."""
        self._address = next(self._keys).address
        return self.mine(count)

    # -- inscribing

    def inscribe(self, card: Json | bytes, *, map_in: str = "tape", chunk: int = 520) -> Outpoint:
        """Register a card in an output of one satoshi."""
        del map_in, chunk
        return self._say([], body_of(card))

    def update(self, outpoint: Outpoint, card: Json | bytes, *, map_in: str = "tape") -> Outpoint:
        """Re-inscribe the satoshi of `outpoint`."""
        del map_in
        return self._say([self._satpoints[outpoint]], body_of(card))

    def move(self, outpoint: Outpoint, script: bytes | None = None) -> Outpoint:
        """Send the satoshi of `outpoint` to another key."""
        key = next(self._keys)
        return self._registered(self._spend([self._satpoints[outpoint]], [(1, script or key.lock)]), key)

    def move_behind_a_coin(self, outpoint: Outpoint) -> None:
        """Send the satoshi of `outpoint` somewhere that only the value of the input before it determines."""
        before, payer = self._coins.pop(0), self._coins.pop(0)
        # the fee comes from a coin behind the satoshi: the node mines nothing that pays none
        outputs = [(before.satoshis, before.script), (1, next(self._keys).lock), (payer.satoshis - FEE, payer.script)]
        tx = self._send(pay([before, self._satpoints[outpoint], payer], outputs))
        self._coins += [Coin(tx.outpoint(vout), *outputs[vout], self._miner) for vout in (0, 2)]

    def burn(self, outpoint: Outpoint) -> None:
        """Merge the satoshi of `outpoint` into the change."""
        self._spend([self._satpoints[outpoint]], [])

    def point(self, domain: str, digest: bytes | None = None) -> Outpoint:
        """Write a pointer."""
        return self._spend([], [(0, pointer_script(domain, digest))]).outpoint(0)

    def _say(self, outpoints: list[Coin], body: bytes) -> Outpoint:
        key = next(self._keys)
        return self._registered(self._spend(outpoints, [(1, key.lock + envelope(body) + map_tape(AGENT_MAP))]), key)

    def _registered(self, tx: Transaction, key: Key) -> Outpoint:
        position = tx.outpoint(0)
        self._satpoints[position] = Coin(position, 1, tx.outputs[0].script, key)
        return position

    def _spend(self, outpoints: list[Coin], outputs: list[tuple[int, bytes]]) -> Transaction:
        """Send a transaction that spends these and a coin, with the change last."""
        coins = [*outpoints, self._coins.pop(0)]
        change = sum(coin.satoshis for coin in coins) - sum(satoshis for satoshis, _ in outputs) - FEE
        tx = self._send(pay(coins, [*outputs, (change, self._miner.lock)]))
        last = len(tx.outputs) - 1
        self._coins.append(Coin(tx.outpoint(last), change, self._miner.lock, self._miner))
        return tx

    def _send(self, raw: bytes) -> Transaction:
        self.rpc("sendrawtransaction", raw.hex(), True)
        return read_tx(raw)
