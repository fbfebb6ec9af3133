"""The coins that pay for a transaction: from a file, or from the wallet of a node."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from indexer.durable_files import locked, put
from parsers.bitcoin.tx import Outpoint
from parsers.json_records import JsonObject, internal, whole

MAX_BYTES = 4 << 20
MAX_COINS = 10_000
SUPPLY = 21_000_000 * 100_000_000
"""Satoshis that there can be."""

_NO_ADDRESS = -5
"""Error code of a node for an invalid address on its network (RPC_INVALID_ADDRESS_OR_KEY)."""


class CoinsError(Exception):
    """Coins that cannot be used, or that do not suffice; the message names the source and the entry."""


class _UnspentJson(JsonObject):
    txid: str
    vout: Annotated[int, whole(0, (1 << 32) - 1)]
    amount: Decimal


class Coin(NamedTuple):
    """An unspent output of the publisher's key: its value in satoshis, its script (None for plain P2PKH), and the BEEF
    of its transaction, if known."""

    outpoint: Outpoint
    satoshis: int
    script: bytes | None = None
    beef: bytes | None = None


def from_file(file: Path) -> list[Coin]:
    """The coins of a JSON file: a list of `{"txid", "vout", "satoshis"}`, or with `outpoint` for the first two, and
    optionally `beef` (hex). Raises CoinsError."""
    return [_coin(entry, f"coin {number} of {file}") for number, entry in enumerate(_entries(file), 1)]


@contextmanager
def opened(coins: Path | list[Coin]) -> Iterator[list[Coin]]:
    """The coins of a JSON file, which no other process changes meanwhile: the file is written as the block leaves the
    list, other entries and their other members as they are; after an error it is as before. A list is used itself.
    Raises CoinsError, OSError."""
    if isinstance(coins, list):
        yield coins
        return
    file = coins.resolve()  # a link stays one
    with locked(file):
        entries = _entries(file)
        listed = [_coin(entry, f"coin {number} of {file}") for number, entry in enumerate(entries, 1)]
        before, stored = list(listed), dict(zip(listed, entries, strict=True))
        yield listed
        if listed != before:
            text = json.dumps([stored.get(coin) or _entry(coin) for coin in listed], indent=1, ensure_ascii=False)
            document = f"{text}\n".encode("utf-8", "surrogatepass")
            if len(document) > MAX_BYTES or len(listed) > MAX_COINS:
                raise CoinsError(f"{file} would have more than {MAX_COINS:,} coins or {MAX_BYTES:,} bytes")
            put(file, document, replace=True)


def replace_spent(coins: list[Coin], spent: Collection[Outpoint], change: Iterable[Coin]) -> None:
    """Replace spent coins in a list by the change of the transaction that spends them. A list without these coins is
    not changed: repeating it has no effect."""
    left = [coin for coin in coins if coin.outpoint not in spent]
    if len(left) < len(coins):
        coins[:] = [*left, *change]


def record_spent(file: Path, spent: Collection[Outpoint], change: Iterable[Coin]) -> None:
    """Replace spent coins in a JSON file, as `replace_spent` does. Raises CoinsError, OSError; then the file is as
    before."""
    with opened(file) as coins:
        replace_spent(coins, spent, change)


def _entry(coin: Coin) -> dict[str, Any]:
    txid, vout = coin.outpoint.txid[::-1].hex(), coin.outpoint.vout
    beef = {"beef": coin.beef.hex()} if coin.beef else {}
    return {"txid": txid, "vout": vout, "satoshis": coin.satoshis, **beef}


def _entries(file: Path) -> list[Any]:
    try:
        with file.open("rb") as opened:
            body = opened.read(MAX_BYTES + 1)
        entries = json.loads(body) if len(body) <= MAX_BYTES else None
    except OSError as error:
        raise CoinsError(f"the coins in {file} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise CoinsError(f"{file} is not JSON: {str(error)[:200]}") from None
    if not isinstance(entries, list) or len(entries) > MAX_COINS:
        raise CoinsError(f"{file} is not a list of at most {MAX_COINS:,} coins")
    return entries


def read_lines(text: str, most: int) -> list[Coin]:
    """The coins in lines of `<txid>_<output> <satoshis>` (or `<txid>:<output>`). Raises CoinsError."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if len(lines) > most:
        raise CoinsError(f"there are {len(lines):,} coins, and at most {most:,} can be spent at once")
    coins = []
    for number, words in enumerate(lines, 1):
        if len(words) != 2 or not (words[1].isascii() and words[1].isdigit() and len(words[1]) <= 16):
            raise CoinsError(f"coin {number} is not <txid>_<output> and its satoshis: {' '.join(words)[:100]!a}")
        coins.append(_coin({"outpoint": words[0].replace(":", "_"), "satoshis": int(words[1])}, f"coin {number}"))
    if len({coin.outpoint for coin in coins}) < len(coins):
        raise CoinsError("a coin is named twice")
    return coins


def _coin(entry: Any, name: str) -> Coin:
    if not isinstance(entry, dict):
        raise CoinsError(f"{name} is not an object with txid, vout and satoshis")
    text = str(entry["outpoint"]) if "outpoint" in entry else f"{entry.get('txid')}_{entry.get('vout')}"
    satoshis = entry.get("satoshis")
    try:
        outpoint = Outpoint.parse(text)
    except ValueError as error:
        raise CoinsError(f"{name}: {error}") from None
    if type(satoshis) is not int or not 0 <= satoshis <= SUPPLY:
        raise CoinsError(f"{name}: satoshis is {str(satoshis)[:40]!a}, and must be a whole number")
    try:
        beef = bytes.fromhex(str(entry["beef"])) if "beef" in entry else None
    except ValueError:
        raise CoinsError(f"{name}: beef is not hex") from None
    return Coin(outpoint, satoshis, None, beef)


async def from_node(url: str, address: str) -> list[Coin]:
    """The confirmed and unconfirmed coins of an address in the wallet of the node at `http://user:password@host:port`.

    Raises SourceError, RpcError where the node has no wallet, CoinsError where it takes the address for one of another
    network.
    """
    from indexer.chains.jsonrpc import RpcError
    from indexer.chains.node import address as node_address
    from indexer.chains.node.client import NodeClient

    client = NodeClient(node_address.read("node", url))
    try:
        async with client.for_command():
            unspent = await client.fetch(list[_UnspentJson], "listunspent", 0, 9_999_999, [address])
    except RpcError as error:
        if error.code != _NO_ADDRESS:
            raise
        hint = "the key may be for another network: WIF names it, 64 hex digits are for mainnet"
        raise CoinsError(f"the node does not take {address} for an address ({hint})") from None
    finally:
        await client.close()
    return [
        Coin(Outpoint(internal(entry.txid, "txid"), entry.vout), int(entry.amount.scaleb(8)))
        for entry in unspent[:MAX_COINS]
    ]


async def unspent(url: str, coins: Sequence[Coin]) -> list[Coin]:
    """The coins that are unspent by the node at a URL, its mempool included. Raises SourceError, RpcError."""
    from indexer.chains.node import address as node_address
    from indexer.chains.node.client import NodeClient

    client = NodeClient(node_address.read("node", url))
    try:
        async with client.for_command():
            answers = await client.batch(
                [("gettxout", (coin.outpoint.txid[::-1].hex(), coin.outpoint.vout, True)) for coin in coins]
            )
    finally:
        await client.close()
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return [coin for coin, answer in zip(coins, answers, strict=True) if answer is not None]


def largest_first(coins: Iterable[Coin]) -> list[Coin]:
    """Coins that may pay, the largest first. One of a single satoshi may carry an inscription and is never used."""
    usable = {coin.outpoint: coin for coin in coins if coin.satoshis > 1}
    return sorted(usable.values(), key=lambda coin: (-coin.satoshis, str(coin.outpoint)))
