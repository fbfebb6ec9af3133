"""`a2b relay`: the withdrawals that wait for the operator's signature."""

from __future__ import annotations

from argparse import Namespace
from contextlib import closing
from typing import TYPE_CHECKING, Any

from overlay.commands.options import UsageError, add_json, command, print_answer, settings_of
from overlay.text.terminal import say

if TYPE_CHECKING:
    from indexer.store.relay_cash import RelayCash
    from overlay.commands.options import Commands


def add(commands: Commands) -> None:
    """Add `a2b relay`."""
    parser = command(
        commands, "relay", relay,
        "List withdrawals that are not mined, with their unsigned transactions, or take a signed one.",
        "data", "database",
        more="Sign and send a transaction with your own wallet, unchanged; it is booked once it has six confirmations.",
    )  # fmt: skip
    parser.add_argument("--signed", metavar="RAWTX", help="the signed transaction of a withdrawal, as hex")
    add_json(parser)


def relay(args: Namespace) -> int:
    """Print the open withdrawals, or store a signed transaction."""
    from indexer.store.relay import RelayStore
    from overlay.app.storage import open_store

    with closing(open_store(settings_of(args), create=False)) as store:
        cash = RelayStore(store.primary).cash
        if args.signed is not None:
            return _store_signed(cash, args.signed)
        rows = [
            {
                "withdrawal_id": one.id, "motebit_id": one.motebit_id, "amount": one.amount, "status": one.state.value,
                "destination": one.destination, "unsigned_tx": one.unsigned.hex(),
            }
            for one in cash.open_withdrawals()
        ]  # fmt: skip
    print_answer(args, rows, _show)
    return 0


def _show(rows: list[dict[str, Any]]) -> None:
    if not rows:
        say("no withdrawal is open")
    for row in rows:
        say("  ".join(map(str, row.values())))


def _store_signed(cash: RelayCash, text: str) -> int:
    """Store the transaction with the withdrawal whose inputs and outputs it has."""
    from overlay.relay.bank import is_signed_form
    from parsers.bitcoin.tx import read_exactly
    from parsers.errors import ParseError

    try:
        raw = bytes.fromhex(text)
        tx = read_exactly(raw, segwit=raw[4:6] == b"\0\1")
    except (ValueError, ParseError) as error:
        raise UsageError(f"--signed is no transaction: {error}") from None
    matching = [one for one in cash.open_withdrawals() if is_signed_form(one, tx)]
    if not matching or not cash.sign(matching[0], raw):
        say("no open withdrawal has these inputs and outputs")
        return 1
    say(f"the withdrawal {matching[0].id} is paid by {tx.hex_id}")
    return 0
