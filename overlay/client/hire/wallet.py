"""The wallet of a client: a folder with a key, coins, the policy and the journal. It is a hot wallet: whoever reads the
folder can spend its coins."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from indexer.durable_files import put
from overlay.client.hire.journal import Journal
from overlay.client.hire.policy import Policy, read_policy
from overlay.publish import coins, keys
from overlay.publish.coins import Coin, CoinsError, largest_first, opened, replace_spent
from overlay.publish.keys import PrivateKeyError, PublisherKey
from overlay.publish.transactions import change_of
from parsers.bitcoin import base58, beef
from parsers.bitcoin.address import PREFIXES, address
from parsers.bitcoin.tx import Outpoint, Transaction
from parsers.errors import ParseError

VARIABLE = "A2B_WALLET"
"""The variable that names the folder."""

MAX_BEEF_BYTES, MAX_BEEF_ITEMS = 1 << 20, 100_000
"""Bytes of a BEEF, and its merkle paths, their nodes, transactions, inputs and outputs: it is stored with its coin."""

USUAL = Path("~/.a2b")
_WIF = {"mainnet": 0x80, "testnet": 0xEF}


class WalletError(Exception):
    """A wallet that is not there, or cannot be made; the message names the folder."""


@dataclass(frozen=True)
class Wallet:
    """A wallet in a folder; `key_file` and `coins_file` replace those in it."""

    folder: Path
    key_file: Path | None = None
    coins_file: Path | None = None

    @cached_property
    def key(self) -> PublisherKey:
        """The key that spends its coins. Raises PrivateKeyError."""
        if self.key_file is None and not (self.folder / "key.txt").exists():
            raise PrivateKeyError(f"{self.folder} has no key: run `a2b wallet new`, or name a key with --key-file FILE")
        return keys.read(self.key_file or self.folder / "key.txt")

    @property
    def signing_key(self) -> bytes:
        """The Ed25519 key (32 bytes) that signs receipts. Raises PrivateKeyError."""
        text = keys.read_key_file(self.folder / "ed25519.key", 1_024).decode(errors="replace").strip()
        try:
            key = bytes.fromhex(text)
        except ValueError:
            key = b""
        if len(key) != 32:
            raise PrivateKeyError(f"{self.folder / 'ed25519.key'} is not a key of 64 hex digits")
        return key

    def coins_path(self, currency: str = "BSV") -> Path:
        """The file of its coins of a currency, a ticker."""
        name = "coins.json" if currency == "BSV" else f"coins-{currency.lower()}.json"
        return self.coins_file or self.folder / name

    @cached_property
    def journal(self) -> Journal:
        """Its hires. Raises JournalError, WalletError."""
        _make(self.folder)
        return Journal(self.folder / "hires.db")

    @property
    def policy(self) -> Policy:
        """Its policy. Raises PolicyError."""
        return read_policy(self.folder / "policy.toml")

    def coins(self, currency: str = "BSV") -> list[Coin]:
        """The coins of a currency that no hire reserves. Raises CoinsError."""
        reserved = self.journal.reserved()
        return [coin for coin in coins.from_file(self.coins_path(currency)) if coin.outpoint not in reserved]

    @property
    def claimed(self) -> set[Outpoint]:
        """The coins that a claim of any hire spends: where it was cancelled, they are spent by its cancellation."""
        return {outpoint for hire in self.journal.all() for outpoint in hire.spent}

    def add_coins(self, coins: Iterable[Coin]) -> list[Coin]:
        """Add coins of BSV to the file, and return those that are new: of more than one satoshi, not in it, and spent
        by no claim. Raises CoinsError, OSError; then the file is as before."""
        file = self.coins_path()
        _make(self.folder)
        with suppress(FileExistsError):
            put(file, b"[]\n", replace=False, mode=0o600)
        with opened(file) as listed:
            excluded = self.claimed.union(coin.outpoint for coin in listed)
            added = [coin for coin in largest_first(coins) if coin.outpoint not in excluded]
            listed += added
        return added

    def credit(self, currency: str, sent: Sequence[Transaction]) -> None:
        """Add the change of sent transactions to the coins of a currency, each once, unless a hire reserves it, and
        drop the coins that they spent. Raises CoinsError, OSError."""
        with opened(self.coins_path(currency)) as listed:
            replace_spent(listed, {tx_input.prevout for tx in sent for tx_input in tx.inputs}, ())
            excluded = self.journal.reserved().union(coin.outpoint for coin in listed)
            listed += [coin for tx in sent for coin in change_of(tx) if coin.outpoint not in excluded]

    def coin_in(self, data: bytes, outpoint: Outpoint) -> Coin:
        """The coin of its key that a BEEF proves, with the BEEF. Raises CoinsError."""
        try:
            member = beef.read(data, MAX_BEEF_ITEMS).member(outpoint.txid)
        except ParseError as error:
            raise CoinsError(f"the BEEF cannot be read: {error}") from None
        if member is None or member.tx is None or outpoint.vout >= len(member.tx.outputs):
            raise CoinsError(f"the BEEF has no output {outpoint}")
        output = member.tx.outputs[outpoint.vout]
        if output.script != self.key.script:
            raise CoinsError(f"output {outpoint} is not a plain payment to {self.key.address}")
        if output.satoshis < 2:
            raise CoinsError(f"output {outpoint} has {output.satoshis} satoshis, and may carry an inscription")
        return Coin(outpoint, output.satoshis, None, data)

    def address(self, coin: str = "bsv", network: str | None = None) -> str:
        """The address of its key on the chain of a coin."""
        return address(self.key.script, PREFIXES[coin][network or self.key.network]) or ""


def wallet_at(folder: Path | None = None, key_file: Path | None = None, coins_file: Path | None = None) -> Wallet:
    """The wallet in a folder, by default the one that `A2B_WALLET` names, else `~/.a2b`."""
    named = folder or Path(os.environ.get(VARIABLE) or USUAL)
    return Wallet(named.expanduser(), key_file, coins_file)


def new_wallet(folder: Path, network: str) -> Wallet:
    """A wallet with new keys: one of secp256k1 for coins, one of Ed25519 for receipts. Raises WalletError where the
    folder has a key already."""
    _make(folder)
    wif = bytes((_WIF[network],)) + _new_private_key() + b"\x01"
    texts = {
        "key.txt": base58.encode(wif, checksum=True),
        "ed25519.key": secrets.token_hex(32),
        "coins.json": json.dumps([]),
    }
    for name, text in texts.items():
        try:
            file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise WalletError(f"{folder} has {name} already, and a wallet is never overwritten") from None
        except OSError as error:
            raise WalletError(f"{folder / name} cannot be written: {error.strerror}") from None
        with os.fdopen(file, "w") as opened:
            opened.write(f"{text}\n")
    return Wallet(folder)


def _new_private_key() -> bytes:
    """32 random bytes that are a private key: all but one in 2**127 are."""
    from parsers.bitcoin.signatures import public_key

    while True:
        private = secrets.token_bytes(32)
        try:
            public_key(private)
        except ValueError:
            continue
        return private


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise WalletError(f"{folder} cannot be made: {error.strerror}") from None
