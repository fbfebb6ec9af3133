"""`a2b diagnose`: why a transaction is listed or not, step by step."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from indexer.settings import Settings
from overlay.commands.options import UsageError, add_json, add_url, ask, command, print_answer, settings_of
from overlay.publish import trace as traces
from overlay.text.safe_text import on_one_line
from overlay.text.terminal import say

if TYPE_CHECKING:
    from overlay.commands.options import Commands

MAX_HEX = 4 << 20
"""Characters of a raw transaction, as over HTTP: one with a card of 1 MiB is a little over 2 MiB of hex."""


MAX_FILE_BYTES = 32 << 20
"""Bytes of a file with a raw transaction: as hex, or as `--out` saves it, twice and as JSON."""

PAUSE, LONGEST_PAUSE = 0.25, 5.0
"""Seconds between two looks at a transaction that is followed: each is half as long again as the one before."""

UNSEEN_SECONDS = 3_600
"""Seconds that a transaction is followed which no block or mempool has: as long as an overlay requests one."""

_WORDS = {"good": "ok ", "open": ".. ", "bad": "NO "}
_NOW = ("id", "status", "outpoint", "cardOutpoint")


class NotSeenError(Exception):
    """A transaction that is followed was not seen; the message says for how long."""


def add(commands: Commands) -> None:
    """Add `a2b diagnose`."""
    parser = command(
        commands, "diagnose", diagnose,
        "Why is my transaction listed, or not? Exit code 1 when it lists nothing (--raw: when it would not). "
        "A step is ok, waits (..), or says NO.",
        "data", "database",
    )  # fmt: skip
    parser.add_argument("what", metavar="TXID|OUTPOINT", nargs="?", help="64 hex digits, or <txid>_<output number>")
    parser.add_argument("--raw", metavar="HEX|@FILE", help="a raw transaction, or @ and a file of hex or of --out")
    parser.add_argument(
        "--follow",
        action="store_true",
        help="until it is in a block, a step fails, or it is not seen for an hour (exit code 1)",
    )
    add_url(parser)
    add_json(parser)


def diagnose(args: Namespace) -> int:
    """Print the steps from the transaction to the listing."""
    if (args.what is None) == (args.raw is None):
        raise UsageError("give a txid or an outpoint, or --raw")
    transaction = _transaction_id(args.what) if args.what is not None else raw_bytes(args.raw)
    if args.follow:
        answer = follow(args, transaction, traces.is_settled)
    else:
        answer = _trace(args, transaction)
        print_answer(args, answer, _show)
    return 0 if traces.is_listed(answer) else 1


def follow(
    args: Namespace, transaction: str | bytes, is_over: Callable[[Mapping[str, Any]], bool]
) -> Mapping[str, Any]:
    """Print the trace of a transaction, and its changes until it `is_over`; returns the last trace. The overlay at
    `--url` is requested to fetch one that it has not seen. Raises NotSeenError."""
    shown: set[str] = set()
    pause, is_requested, until = PAUSE, not args.url, monotonic() + UNSEEN_SECONDS
    while True:
        answer = _trace(args, transaction)
        is_unseen = answer["where"] in ("raw", "nowhere") and monotonic() >= until
        if is_unseen or is_over(answer):
            break
        if answer["where"] == "nowhere" and not is_requested:
            is_requested = True
            _request(args.url, answer["txid"])
        if not args.json:
            _say_new(_step_lines(answer), shown)
        sleep(pause)
        pause = min(LONGEST_PAUSE, 1.5 * pause)
    print_answer(args, answer, lambda last: _say_new(_lines(last), shown))
    if is_unseen and not is_over(answer):
        raise NotSeenError(
            f"{answer['txid']} was not seen within {UNSEEN_SECONDS / 60:.0f} minutes: send it (a2b broadcast FILE), or "
            "name an overlay that follows its chain (--url)"
        )
    return answer


def _request(url: str, txid: str) -> None:
    ask(url, lambda calls: calls.ingest(txid))


def _say_new(lines: Iterator[str], shown: set[str]) -> None:
    for line in lines:
        if line not in shown:
            shown.add(line)
            say(line)


def _trace(args: Namespace, transaction: str | bytes) -> dict[str, Any]:
    if args.url:
        answer: dict[str, Any] = ask(args.url, lambda calls: calls.diagnose(transaction))
        return answer
    return _local(settings_of(args), transaction)


def _transaction_id(text: str) -> str:
    from parsers.bitcoin.tx import transaction_name

    try:
        return transaction_name(text)
    except ValueError:
        raise UsageError(
            f"{text[:100]!a} is neither a txid (64 hex digits) nor an outpoint (<txid>_<output number>)"
        ) from None


def raw_bytes(raw: str) -> bytes:
    """A raw transaction: hex, or `@` and a file of hex or of `--out`. Raises UsageError, OSError."""
    if raw.startswith("@"):
        with Path(raw[1:]).open("rb") as file:
            raw = _hex_of(file.read(MAX_FILE_BYTES).decode("ascii", "replace"))
    if len(raw) > MAX_HEX:
        raise UsageError(f"the transaction is longer than {MAX_HEX:,} hex digits")
    try:
        return bytes.fromhex(raw)
    except ValueError:
        raise UsageError("the transaction is not hex") from None


def _hex_of(text: str) -> str:
    """The hex in a file: all of the file, or `rawTx` of a file that `--out` saved."""
    if not text.lstrip().startswith("{"):
        return text.strip()
    try:
        return str(json.loads(text)["rawTx"])
    except (ValueError, KeyError, RecursionError):
        raise UsageError("the file is JSON, and holds no rawTx as --out saves it") from None


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
            raise UsageError(f"these bytes are not a transaction: {error}") from None


def _show(answer: Mapping[str, Any]) -> None:
    for line in _lines(answer):
        say(line)


def _step_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    for step in answer["steps"]:
        yield f"{_WORDS[traces.tone(step)]} {step['step']:<9} {on_one_line(step['detail'])}"


def _lines(answer: Mapping[str, Any]) -> Iterator[str]:
    yield from _step_lines(answer)
    for record in answer["records"]:
        yield f"{record['kind']}: {record['outcome']}  {record['outpoint'] or '(in no output)'}"
        for reason in record["reasons"]:
            yield f"    {on_one_line(reason['detail'])}"
    for now in answer.get("now") or ():
        id_, status, outpoint, card = (on_one_line(now[name] or "no outpoint") for name in _NOW)
        yield f"now: {id_} is {status} at {outpoint}, with the card of {card}"
    for id_ in answer["listed"]:
        yield f"listed as {on_one_line(id_)}"
