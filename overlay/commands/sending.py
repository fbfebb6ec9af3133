"""Steps of the commands that publish, after the transaction is signed: save, send and show it, and follow it until it
is listed."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from overlay.commands.check import show_review
from overlay.commands.diagnose import follow
from overlay.commands.options import UsageError, ask, settings_of
from overlay.publish import trace as traces
from overlay.text.terminal import say, say_json

if TYPE_CHECKING:
    from overlay.publish.keys import PublisherKey
    from overlay.publish.registration_output import TransactionEffect
    from overlay.publish.transactions import Draft
    from overlay.web.amounts import About


class OutgoingTransaction(NamedTuple):
    """A signed transaction as `--out` saves it: serialised, and in extended format."""

    raw: bytes
    extended: bytes

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> OutgoingTransaction:
        """The saved transaction in JSON. Raises ValueError, KeyError, TypeError."""
        return cls(bytes.fromhex(document["rawTx"]), bytes.fromhex(document["extended"]))

    @property
    def txid(self) -> str:
        """The txid in display order."""
        from parsers.bitcoin.tx import sha256d

        return sha256d(self.raw)[::-1].hex()


def finish(
    args: Namespace, key: PublisherKey, draft: Draft, checked: Mapping[str, Any], id_: str, effect: TransactionEffect
) -> int:
    """Sign a transaction, show it, and save and send it as requested. The review of its card is shown before it is
    signed, and a transaction is saved and shown before it is sent; only JSON is printed afterwards. `id_` is the
    listing that it changes, "" for none: then it is the first new one."""
    from overlay.publish import transactions

    if args.broadcast and args.out is None:
        raise UsageError("--broadcast needs --out FILE, where the transaction is saved before it is sent")
    if args.wait and not args.broadcast:
        raise UsageError("--wait needs --broadcast")
    if args.broadcast:
        _check_target(args)  # before the file is there, which another run would not replace
    if checked and not args.json:
        show_review(checked)
    draft = transactions.sign(draft, key)
    listing = id_ or next((str(draft.tx.outpoint(vout)) for vout in effect.outputs), "")
    saved = OutgoingTransaction(draft.raw, draft.extended)
    answer = _answer(args, draft, checked, listing, effect)
    if args.out is not None:
        _save(args.out, saved)
    if not args.json:
        _show(answer)
    if args.broadcast:
        send(args, saved, args.out)
    if not args.json:
        _show_end(answer)
    elif not args.wait:
        say_json(answer)
    return follow_up(args, saved, listing) if args.broadcast else 0


def _save(file: Path, saved: OutgoingTransaction) -> None:
    import json

    from indexer.durable_files import put

    document = {"txid": saved.txid, "rawTx": saved.raw.hex(), "extended": saved.extended.hex()}
    put(file, json.dumps(document).encode(), replace=False)  # an earlier transaction may have been sent


def send(args: Namespace, saved: OutgoingTransaction, file: Path) -> None:
    """Send a transaction that is saved in a file, and replace the coins in `--coins` that it spends by its change.
    Raises RefusedTransactionError, SourceError, and CoinsError where it is sent and the coins cannot be written."""
    import asyncio

    from indexer.errors import RefusedTransactionError
    from overlay.publish.broadcast import to_arc, to_node
    from overlay.publish.coins import CoinsError, record_spent
    from overlay.publish.transactions import change_of
    from parsers.bitcoin.tx import read

    _check_target(args)
    try:
        asyncio.run(to_node(args.node, saved.raw) if args.node else to_arc(args.arc, saved.extended, saved.txid))
    except RefusedTransactionError as error:
        hint = f" (a coin that is spent already: remove it from {args.coins}, or give --node, which finds it)"
        raise RefusedTransactionError(f"{error}{hint if args.coins and not args.node else ''}") from None
    if args.coins is None:
        return
    tx = read(saved.raw)
    try:
        record_spent(args.coins, {tx_input.prevout for tx_input in tx.inputs}, change_of(tx))
    except (OSError, CoinsError) as error:
        again = f"a2b broadcast {file} --coins {args.coins} --{'node' if args.node else 'arc'} URL"
        raise CoinsError(f"sent {saved.txid}, but {args.coins} cannot be changed ({error}): then run {again}") from None


def _check_target(args: Namespace) -> None:
    if bool(args.node) == bool(args.arc):
        raise UsageError("to send, give --node URL or --arc URL")


def follow_up(args: Namespace, saved: OutgoingTransaction, listing: str = "") -> int:
    """Follow a sent transaction: announce it to `--url`, print where its listing will be and the next command, and
    `--wait` until it is listed. Returns the exit code."""
    page = f"{args.url.rstrip('/')}/listings/{quote(listing, safe='')}" if args.url and listing else ""
    if not args.json:
        for title, text in (("listing", listing), ("page", page), ("next", "" if args.wait else _next(args, saved))):
            if text:
                say(f"{title:<8}{text}")
    if args.url:
        ask(args.url, lambda calls: calls.ingest(saved.txid))
    if not args.wait:
        return 0
    trace = follow(args, saved.txid, traces.is_settled)
    return 0 if traces.ends_well(trace) else 1


def _next(args: Namespace, saved: OutgoingTransaction) -> str:
    return f"a2b diagnose {saved.txid} --follow{f' --url {args.url}' if args.url else ''}"


def _answer(
    args: Namespace, draft: Draft, checked: Mapping[str, Any], listing: str, effect: TransactionEffect
) -> dict[str, Any]:
    """The JSON that `--json` prints of a signed transaction."""
    from overlay.publish.transactions import beef_of

    beef, about = beef_of(draft), _about(args, draft.fee)
    outpoint = draft.tx.outpoint(next(iter(effect.outputs), 0))
    return {
        "txid": draft.tx.hex_id, "outpoint": str(outpoint), "bytes": draft.tx.size, "fee": draft.fee,
        "sent": args.broadcast, "listing": listing or None, "purpose": effect.text, "rawTx": draft.raw.hex(),
        "extended": draft.extended.hex(), "beef": beef.hex() if beef else None,
        "warnings": checked.get("warnings", []), "preview": checked.get("preview"),
        "about": about._asdict() if about else None,
    }  # fmt: skip


def _show(answer: Mapping[str, Any]) -> None:
    say(f"transaction {answer['txid']}, {answer['bytes']:,} bytes")
    if answer["purpose"]:
        say(f"it {answer['purpose']}")
    about = ", about {amount} {currency}".format(**answer["about"]) if answer["about"] else ""
    say(f"costs {answer['fee']:,} satoshis of fee{about}")


def _show_end(answer: Mapping[str, Any]) -> None:
    if answer["sent"]:
        say("sent")
        return
    say("not sent (--broadcast sends it); the signed transaction:")
    say(answer["rawTx"])
    if answer["beef"]:
        say("as BEEF:")
        say(answer["beef"])


def _about(args: Namespace, satoshis: int) -> About | None:
    """A cost on Bitcoin SV in the requested currency, None without a usable exchange rate."""
    from decimal import Decimal

    from overlay.commands.search import exchange_of
    from overlay.web.amounts import about

    return about(str(Decimal(satoshis).scaleb(-8)), "BSV", args.currency.upper(), exchange_of(settings_of(args)))
