"""`a2b refunds`: the deposits that the operator of a paid server owes back."""

from __future__ import annotations

from argparse import Namespace
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from overlay.commands.options import add_json, command, print_answer, settings_of
from overlay.text.terminal import say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from overlay.commands.options import Commands
    from overlay.systems.payments.store_records import PaidTask, StoredPayment


def add(commands: Commands) -> None:
    """Add `a2b refunds`."""
    parser = command(
        commands, "refunds", refunds,
        "List the deposits of failed tasks, with the unsigned transactions that pay them back.",
        "data", "database",
        more="Sign and send a transaction with your own wallet (`a2b sign` reads the elements of --json that are on "
        "Bitcoin SV), then remove its task from the list with --done.",
    )  # fmt: skip
    parser.add_argument("--done", metavar="TASK", help="the task whose deposit was paid back")
    add_json(parser)


def refunds(args: Namespace) -> int:
    """Print the refunds that are due, or remove one that was paid."""
    from overlay.app.storage import open_store
    from overlay.systems.payments.store import PaymentStore

    with closing(open_store(settings_of(args), create=False)) as store:
        payment_store = PaymentStore(store.primary)
        if args.done is not None:
            if not payment_store.close_refund(args.done):
                say(f"no refund of a task {args.done[:100]!a} is due")
                return 1
            say(f"the task {args.done} is refunded")
            return 0
        rows = [_row(task, payment_store.payments_of(task.id)) for task in payment_store.refunds()]
    print_answer(args, rows, _show)
    return 0


def _show(rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        say("no refund is due")
    for row in rows:
        say(f"{row['failedAt']}  {row['taskId']}: {row['detail']}")
        say(f"  {row['satoshis']:,} satoshis on {row['chain']} to {row['refundAddress']}: {row['rawTx']}")


def _row(task: PaidTask, paid: Sequence[StoredPayment]) -> dict[str, Any]:
    """A refund with what its transaction spends, as in the file for a wallet."""
    from overlay.publish.wallet_file import draft_json
    from overlay.systems.payments.refunds import refund_due

    chain, draft = refund_due(task, paid)
    return {
        "taskId": task.id, "failedAt": datetime.fromtimestamp(task.updated_at, UTC).isoformat(), "detail": task.detail,
        "chain": chain, "refundAddress": task.refund_address, "satoshis": draft.tx.outputs[0].satoshis,
    } | draft_json(draft)  # fmt: skip
