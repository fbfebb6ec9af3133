"""`a2b relay`: the withdrawals that wait for the operator's signature, and credits by the operator."""

from __future__ import annotations

import time
from argparse import Namespace
from contextlib import closing
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from overlay.commands.options import UsageError, add_json, command, print_answer, settings_of
from overlay.text.terminal import say

if TYPE_CHECKING:
    from overlay.commands.options import Commands
    from overlay.systems.relay.store import RelayStore
    from overlay.systems.relay.store_cash import RelayCash


def add(commands: Commands) -> None:
    """Add `a2b relay`."""
    parser = command(
        commands, "relay", relay,
        "List withdrawals that are not mined, with their unsigned transactions, take a signed one, cancel one, or "
        "credit an account.",
        "data", "database",
        more="Sign a transaction with your own wallet, unchanged, and hand it in: the relay sends it, and books it "
        "once it has six confirmations. Do not send it yourself: the withdrawal may be cancelled by then.",
    )  # fmt: skip
    parser.add_argument("--signed", metavar="RAWTX", help="the signed transaction of a withdrawal, as hex")
    parser.add_argument("--cancel", metavar="ID", help="a withdrawal whose signed transaction was not handed in")
    parser.add_argument(
        "--credit", metavar=("AGENT", "SATOSHIS"), nargs=2,
        help="an amount for which a registered agent paid you in another way than by a deposit",
    )  # fmt: skip
    add_json(parser)


def relay(args: Namespace) -> int:
    """Print the open withdrawals, store a signed transaction, cancel a withdrawal, or credit an account."""
    from overlay.app.storage import open_store
    from overlay.systems.relay.store import RelayStore

    with closing(open_store(settings_of(args), create=False)) as store:
        relay_store = RelayStore(store.primary)
        cash = relay_store.cash
        if args.credit is not None:
            return _credit(relay_store, *args.credit)
        if args.signed is not None:
            return _store_signed(cash, args.signed)
        if args.cancel is not None:
            return _cancel(cash, args.cancel)
        rows = [
            {
                "withdrawal_id": withdrawal.id, "motebit_id": withdrawal.motebit_id, "amount": withdrawal.amount,
                "status": withdrawal.state.value,
                "destination": withdrawal.destination, "unsigned_tx": withdrawal.unsigned.hex(),
            }
            for withdrawal in cash.open_withdrawals()
        ]  # fmt: skip
    print_answer(args, rows, _show)
    return 0


def _show(rows: list[dict[str, Any]]) -> None:
    if not rows:
        say("no withdrawal is open")
    for row in rows:
        say("  ".join(map(str, row.values())))


def _store_signed(cash: RelayCash, text: str) -> int:
    """Store the signed transaction with the withdrawal that has the same inputs and outputs."""
    from overlay.systems.relay.bank import change_of, is_signed_form
    from overlay.systems.relay.store_coins import CashRefusedError, transaction_of
    from parsers.errors import ParseError

    try:
        raw = bytes.fromhex(text)
        tx = transaction_of(raw)
    except (ValueError, ParseError) as error:
        raise UsageError(f"--signed is not a transaction: {error}") from None
    matching = [withdrawal for withdrawal in cash.open_withdrawals() if is_signed_form(withdrawal, tx)]
    try:
        if not matching or not cash.sign(matching[0], raw, change_of(tx), int(time.time())):
            say("no open withdrawal has these inputs and outputs: do not send the transaction")
            return 1
    except CashRefusedError as error:
        say(f"not taken: {error}")
        return 1
    say(f"the withdrawal {matching[0].id} is paid by {tx.hex_id}")
    return 0


def _cancel(cash: RelayCash, id_: str) -> int:
    """Give the amount of an unsigned withdrawal back to its agent."""
    withdrawal = cash.withdrawal(id_)
    if withdrawal is None or not cash.cancel(withdrawal, int(time.time())):
        say("no unsigned withdrawal has this id")
        return 1
    say(f"the withdrawal {id_} is cancelled: {withdrawal.amount:,} satoshis go back to {withdrawal.motebit_id!a}")
    return 0


def _credit(store: RelayStore, motebit_id: str, satoshis: str) -> int:
    """Credit the account of a registered agent."""
    from parsers.claims.motebit.settlement import MAX_PRICE

    amount = int(satoshis) if satoshis.isascii() and satoshis.isdigit() and len(satoshis) <= 20 else 0
    if not 0 < amount <= MAX_PRICE:
        raise UsageError(f"--credit takes an agent and an integer from 1 to {MAX_PRICE:,} satoshis")
    if store.agents.agent(motebit_id) is None:
        say(f"no agent {motebit_id[:200]!a} is registered")
        return 1
    balance = store.cash.credit_by_operator(motebit_id, amount, str(uuid4()), int(time.time()))
    say(f"the account of {motebit_id!a} has {balance:,} satoshis")
    return 0
