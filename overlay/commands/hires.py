"""`a2b hires`: the hires of a wallet, their ratings and complaints."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from overlay.commands.options import UsageError, add_json, command
from overlay.commands.wallets import add_wallet_options, wallet_of
from overlay.text.safe_text import on_one_line
from overlay.text.terminal import say, say_json
from parsers.claims.complaint_codes import CODES, WITHDRAWN

if TYPE_CHECKING:
    from overlay.client.hire.journal import Hire
    from overlay.commands.options import Commands


def add(commands: Commands) -> None:
    """Add `a2b hires`."""
    parser = command(commands, "hires", hires, "Print the hires of a wallet, or one of them.")
    parser.add_argument("hire", metavar="HIRE", nargs="?", help="its id, or the beginning of it")
    parser.add_argument("--rate", action="store_true", help="submit its receipt: publishes who paid whom and when")
    parser.add_argument("--complain", choices=CODES, help="publish a complaint, signed by the key that paid")
    parser.add_argument("--withdraw", action="store_true", help="take that complaint back")
    parser.add_argument("--node", metavar="URL", help="a node that proves the payment [the overlay]")
    add_wallet_options(parser)
    add_json(parser)


def hires(args: Namespace) -> int:
    """Print hires."""
    if args.rate or args.complain or args.withdraw:
        return _report(args)
    journal = wallet_of(args).journal
    listed = [journal.get(args.hire)] if args.hire else journal.all()
    if args.json:
        say_json([hire_json(entry) for entry in listed])
        return 0
    if not listed:
        say("no hires yet")
    for entry in listed:
        paid = f"{entry.satoshis:,} satoshis of {entry.currency}" if entry.claims else "nothing paid"
        say(f"{entry.id}  {entry.state.value:<12}  {on_one_line(entry.agent)}: {paid}")
        if args.hire:
            for title, text in _details(entry):
                say(f"  {title:<8}{on_one_line(text)}")
    return 0


def _report(args: Namespace) -> int:
    """Rate a hire, complain of it, or take the complaint back."""
    import asyncio

    from overlay.answers.record import as_json
    from overlay.client import AsyncOverlayClient
    from overlay.client.hire import outcome

    if args.hire is None or sum((args.rate, bool(args.complain), args.withdraw)) != 1:
        raise UsageError("name a hire, and one of --rate, --complain and --withdraw")
    held = wallet_of(args)
    entry = held.journal.get(args.hire)

    async def report() -> Any:
        async with AsyncOverlayClient(entry.url) as client:
            if args.rate:
                return await outcome.rate(entry, held, client, args.node)
            return await outcome.complain(entry, held, client, args.complain or WITHDRAWN, args.node)

    accepted = asyncio.run(report())
    if args.json:
        say_json(as_json(accepted))
    else:
        say(f"accepted by {entry.url}: {accepted.new or 'nothing'} new")
    return 0


def _details(entry: Hire) -> list[tuple[str, str]]:
    transactions = ", ".join(tx.hex_id for tx in entry.transactions)
    rows = [
        ("need", entry.need), ("listing", entry.listing), ("called", entry.endpoint), ("paid by", transactions),
        ("task", entry.task), ("receipt", receipt_words(entry)), ("detail", entry.detail),
        *(("file", file) for file in entry.files),
    ]  # fmt: skip
    return [(title, text) for title, text in rows if text]


def receipt_words(entry: Hire) -> str:
    """Whether the receipt of a hire holds; "" before its answer."""
    if not entry.receipt:
        return "none" if entry.files else ""
    return f"does not hold: {entry.receipt_fault}" if entry.receipt_fault else "signed by the key of the card"


def hire_json(entry: Hire) -> dict[str, Any]:
    """A hire as JSON, without its input and signed claims."""
    return {
        "id": entry.id, "state": entry.state.value, "need": entry.need, "listing": entry.listing, "agent": entry.agent,
        "endpoint": entry.endpoint, "cardSha256": entry.card_sha256, "currency": entry.currency or None,
        "satoshis": entry.satoshis, "fee": entry.fee, "txids": [tx.hex_id for tx in entry.transactions],
        "task": entry.task,
        "receipt": entry.receipt or None, "receiptFault": entry.receipt_fault or None,
        "agentTask": entry.agent_task or None, "files": list(entry.files), "detail": entry.detail or None,
    }  # fmt: skip
