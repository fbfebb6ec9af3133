"""The parameters of each coin for the mint: its regtest genesis, addresses, proof of work and serialisation."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import base58

from parsers.bitcoin.tx import COINBASE_TXID, Outpoint, TxInput, TxOutput, serialise, sha256d, varint
from tests.chainkit_scripts import push

MAGIC = bytes.fromhex("fabfb5da")
BITS = 0x207FFFFF
TARGET = 0x7FFFFF << (8 * (0x20 - 3))


def serialise_tx(
    inputs: tuple[TxInput, ...], outputs: tuple[TxOutput, ...], *, version: int = 1, locktime: int = 0
) -> bytes:
    """Raw bytes of a transaction, with marker and witnesses (BIP 144) when an input has one."""
    bare = serialise(inputs, outputs, version, locktime)
    if not any(spent.witness for spent in inputs):
        return bare
    stacks = [varint(len(spent.witness)) + b"".join(varint(len(x)) + x for x in spent.witness) for spent in inputs]
    return b"".join([bare[:4], b"\x00\x01", bare[4:-4], *stacks, bare[-4:]])


def scrypt_pow(header: bytes) -> bytes:
    """The scrypt hash that Litecoin and Dogecoin compare with the target."""
    return hashlib.scrypt(header, salt=header, n=1024, r=1, p=1, dklen=32)


@dataclass(frozen=True, slots=True)
class Coin:
    """A coin's regtest. `subsidy` in satoshis; `pow` hashes a header; `genesis` is the raw block 0."""

    name: str
    segwit: bool
    subsidy: int
    version: int
    pow: Callable[[bytes], bytes]
    genesis: bytes

    def address(self, hash160: bytes) -> str:
        """The base58check address of a public key's hash."""
        return base58.b58encode_check(bytes((self.version,)) + hash160).decode()

    def coinbase(
        self, height: int, label: str, outputs: Sequence[tuple[int, bytes]], raws: Sequence[bytes] | None = None
    ) -> bytes:
        """A coinbase naming its block's label; with `raws` it commits to their witnesses (BIP 141)."""
        created = [TxOutput(*output) for output in outputs]
        stack: tuple[bytes, ...] = ()
        if raws is not None:
            stack = (bytes(32),)
            root = _root([bytes(32), *(sha256d(raw) for raw in raws)])
            created.append(TxOutput(0, b"\x6a" + push(b"\xaa\x21\xa9\xed" + sha256d(root + stack[0]))))
        script = push(height.to_bytes(height.bit_length() // 8 + 1, "little")) + push(f"block {label}")
        entrance = TxInput(Outpoint(COINBASE_TXID, 0xFFFFFFFF), script, 0xFFFFFFFF, stack)
        return serialise_tx((entrance,), tuple(created))


def _root(hashes: list[bytes]) -> bytes:
    while len(hashes) > 1:
        hashes += hashes[-1:] if len(hashes) % 2 else []
        hashes = [sha256d(left + right) for left, right in zip(hashes[::2], hashes[1::2], strict=True)]
    return hashes[0]


def _genesis(headline: str, key: str, subsidy: int, nonce: int) -> bytes:
    script = bytes.fromhex("04ffff001d0104") + push(headline)
    spent = TxInput(Outpoint(COINBASE_TXID, 0xFFFFFFFF), script, 0xFFFFFFFF)
    coinbase = serialise((spent,), (TxOutput(subsidy, push(bytes.fromhex(key)) + b"\xac"),))
    numbers = b"".join(number.to_bytes(4, "little") for number in (1296688602, BITS, nonce))
    return b"\x01\0\0\0" + bytes(32) + sha256d(coinbase) + numbers + b"\x01" + coinbase


_SATOSHI = (
    "04678afdb0fe5548271967f1a67130b7105cd6a828e03909a67962e0ea1f61deb6"
    "49f6bc3f4cef38c4f35504e51ec112de5c384df7ba0b8d578a4c702b6bf11d5f"
)
_LITE = (
    "040184710fa689ad5023690c80f3a49c8f13f8d45b8c857fbcbc8bc4a8e4d3eb4b"
    "10f4d4604fa08dce601aaf0f470216fe1b51850b4acf21b179c45070ac7b03a9"
)
_TIMES = "The Times 03/Jan/2009 Chancellor on brink of second bailout for banks"
_NY = "NY Times 05/Oct/2011 Steve Jobs, Apple’s Visionary, Dies at 56"
_BITCOIN = _genesis(_TIMES, _SATOSHI, 50 * 10**8, 2)

COINS = {
    "bsv": Coin("bsv", False, 50 * 10**8, 0x6F, sha256d, _BITCOIN),
    "bch": Coin("bch", False, 50 * 10**8, 0x6F, sha256d, _BITCOIN),
    "btc": Coin("btc", True, 50 * 10**8, 0x6F, sha256d, _BITCOIN),
    "ltc": Coin("ltc", True, 50 * 10**8, 0x6F, scrypt_pow, _genesis(_NY, _LITE, 50 * 10**8, 0)),
    "doge": Coin("doge", False, 500_000 * 10**8, 0x6F, scrypt_pow, _genesis("Nintondo", _LITE, 88 * 10**8, 2)),
}
