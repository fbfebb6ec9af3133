"""`a2b wallet`: the key and coins of a client, and the options of every command that uses them."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from overlay.commands.options import UsageError, add_json, command
from overlay.text.terminal import say, say_json

if TYPE_CHECKING:
    from overlay.client.hire.wallet import Wallet
    from overlay.commands.options import Commands
    from overlay.publish.coins import Coin


def add(commands: Commands) -> None:
    """Add `a2b wallet`."""
    parser = command(
        commands, "wallet", wallet, "Print the address and balance of a wallet, make a new one, or add coins.",
        more="The key is in the folder, and whoever reads it can spend the coins: keep little there.",
    )  # fmt: skip
    parser.add_argument(
        "what", metavar="new|add|coins", nargs="?", choices=("new", "add", "coins"),
        help="new: make a wallet; add: add the coin of an output; coins: add those of its address that --node has, or "
        "a service: A2B_COINS=whatsonchain:URL, which sees your address [none]",
    )  # fmt: skip
    parser.add_argument("output", metavar="TXID_OUTPUT", nargs="?", help="the output to add")
    parser.add_argument("--beef", metavar="FILE", type=Path, help="the BEEF of its transaction, bytes or hex")
    parser.add_argument("--node", metavar="URL", help="a node whose wallet watches the address")
    parser.add_argument("--network", choices=("mainnet", "testnet"), default="mainnet", help="of a new key [mainnet]")
    add_wallet_options(parser)
    add_json(parser)


def add_wallet_options(parser: ArgumentParser) -> None:
    """Add the options that name a wallet."""
    group = parser.add_argument_group("the wallet")
    group.add_argument("--wallet", metavar="FOLDER", type=Path, help="its folder [A2B_WALLET, else ~/.a2b]")
    group.add_argument("--key-file", metavar="FILE", type=Path, help="a key instead of that in the folder")
    group.add_argument("--coins", metavar="FILE", type=Path, help="coins instead of those in the folder")


def wallet(args: Namespace) -> int:
    """Print a wallet, after making it or adding coins to it."""
    from overlay.client.hire.wallet import new_wallet

    held, added = wallet_of(args), None
    if {bool(args.output), bool(args.beef)} != {args.what == "add"}:
        raise UsageError("to add a coin: a2b wallet add TXID_OUTPUT --beef FILE")
    if args.what == "new":
        held = new_wallet(held.folder, args.network)
        if not args.json:
            say(f"made {held.folder}: keep a copy of key.txt, and few coins: whoever reads the folder can spend them")
    elif args.what is not None:
        added = len(held.add_coins([_coin(args, held)] if args.what == "add" else _unspent(args, held)))
    coins = held.coins() if held.coins_path().exists() else []
    answer = {
        "folder": str(held.folder), "address": held.address(), "network": held.key.network,
        "satoshis": sum(coin.satoshis for coin in coins), "coins": len(coins),
        **({} if added is None else {"added": added}),
    }  # fmt: skip
    if args.json:
        say_json(answer)
        return 0
    for title, text in answer.items():
        say(f"{title:<9}{text:,}" if isinstance(text, int) else f"{title:<9}{text}")
    if added is None and sys.stdout.isatty():
        import segno

        segno.make_qr(held.address()).terminal(compact=True, border=2)
    return 0


def _coin(args: Namespace, held: Wallet) -> Coin:
    """The coin of an output in a BEEF."""
    from overlay.client.hire.wallet import MAX_BEEF_BYTES
    from parsers.bitcoin.tx import Outpoint

    try:
        outpoint = Outpoint.parse(args.output)
    except ValueError as error:
        raise UsageError(str(error)) from None
    with args.beef.open("rb") as opened:
        data = opened.read(2 * MAX_BEEF_BYTES + 2)
    with suppress(ValueError):  # no hex: a BEEF in bytes begins with none
        data = bytes.fromhex(data.decode("ascii"))
    if len(data) > MAX_BEEF_BYTES:
        raise UsageError(f"{args.beef} has more than {MAX_BEEF_BYTES:,} bytes of BEEF")
    return held.coin_in(data, outpoint)


def _unspent(args: Namespace, held: Wallet) -> list[Coin]:
    """The coins of the wallet's address that a node has, or the service that `A2B_COINS` names."""
    import asyncio

    from overlay.client.hire.whatsonchain import SERVICE, VARIABLE, WhatsOnChainCoins
    from overlay.publish.coins import from_file, from_node

    if args.node:
        return asyncio.run(from_node(args.node, held.address()))
    url = os.environ.get(VARIABLE, "").removeprefix(SERVICE)
    if not url.startswith(("https://", "http://")) or not os.environ[VARIABLE].startswith(SERVICE):
        raise UsageError(f"name --node URL, or set {VARIABLE}={SERVICE}URL, a service that then sees {held.address()}")
    file = held.coins_path()
    excluded = {coin.outpoint for coin in (from_file(file) if file.exists() else [])} | held.claimed
    return asyncio.run(WhatsOnChainCoins(url).new_coins(held.address(), excluded))


def wallet_of(args: Namespace) -> Wallet:
    """The wallet that the options name."""
    from overlay.client.hire.wallet import wallet_at

    return wallet_at(args.wallet, args.key_file, args.coins)
