"""`a2b diagnose`: why a transaction is listed or not, step by step."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indexer.settings import Settings
from overlay.commands.options import UsageError, add_json, add_url, ask, command, print_answer, settings_of
from overlay.text.safe_text import on_one_line
from overlay.text.terminal import say

if TYPE_CHECKING:
    from overlay.commands.options import Commands

MAX_HEX = 4 << 20
"""Characters of a raw transaction, as over HTTP: one with a card of 1 MiB is a little over 2 MiB of hex."""


_NOW = ("id", "status", "outpoint", "cardOutpoint")


def add(commands: Commands) -> None:
    """Add `a2b diagnose`."""
    parser = command(
        commands, "diagnose", diagnose,
        "Why is my transaction listed, or not? Exit code 1 when it lists nothing (--raw: when it would not).",
        "data", "database",
    )  # fmt: skip
    parser.add_argument("what", metavar="TXID|OUTPOINT", nargs="?", help="64 hex digits, or <txid>_<output number>")
    parser.add_argument("--raw", metavar="HEX|@FILE", help="a raw transaction, or @ and a file that holds its hex")
    add_url(parser)
    add_json(parser)


def diagnose(args: Namespace) -> int:
    """Print the steps from the transaction to the listing."""
    if (args.what is None) == (args.raw is None):
        raise UsageError("give a txid or an outpoint, or --raw")
    transaction = _transaction_id(args.what) if args.what is not None else _raw_bytes(args.raw)
    if args.url:
        answer = ask(args.url, lambda calls: calls.diagnose(transaction))
    else:
        answer = _local(settings_of(args), transaction)
    print_answer(args, answer, _show)
    return 0 if _is_listed(answer) else 1


def _transaction_id(text: str) -> str:
    from parsers.bitcoin.tx import transaction_name

    try:
        return transaction_name(text)
    except ValueError:
        raise UsageError(
            f"{text[:100]!a} is neither a txid (64 hex digits) nor an outpoint (<txid>_<output number>)"
        ) from None


def _raw_bytes(raw: str) -> bytes:
    if raw.startswith("@"):
        with Path(raw[1:]).open("rb") as file:
            raw = file.read(MAX_HEX + 1).decode("ascii", "replace")
    if len(raw) > MAX_HEX:
        raise UsageError(f"the transaction is longer than {MAX_HEX:,} hex digits")
    try:
        return bytes.fromhex(raw)
    except ValueError:
        raise UsageError("the transaction is not hex") from None


def _local(settings: Settings, transaction: str | bytes) -> dict[str, Any]:
    from overlay.app import diagnosis
    from overlay.app.compilation import set_cache_folder
    from overlay.app.storage import open_store
    from parsers.errors import ParseError

    set_cache_folder(settings)
    with closing(open_store(settings, create=False)) as store:
        try:
            return diagnosis.diagnose(settings, store, transaction)
        except ParseError as error:
            raise UsageError(f"these bytes are no transaction: {error}") from None


def _is_listed(answer: Mapping[str, Any]) -> bool:
    if answer["where"] == "raw":
        return any(record["valid"] and record["kind"] != "near-miss" for record in answer["records"])
    return bool(answer["listed"])


def _show(answer: Mapping[str, Any]) -> None:
    for step in answer["steps"]:
        say(f"{'ok ' if step['ok'] else 'NO '} {step['step']:<9} {on_one_line(step['detail'])}")
    for record in answer["records"]:
        say(f"{record['kind']}: {record['outcome']}  {record['outpoint'] or '(in no output)'}")
        for reason in record["reasons"]:
            say(f"    {on_one_line(reason['detail'])}")
    for now in answer.get("now") or ():
        id_, status, place, card = (on_one_line(now[name] or "no outpoint") for name in _NOW)
        say(f"now: {id_} is {status} at {place}, with the card of {card}")
    for id_ in answer["listed"]:
        say(f"listed as {on_one_line(id_)}")
