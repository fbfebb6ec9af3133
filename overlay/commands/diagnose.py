"""`a2b diagnose`: the publisher's question, step by step."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indexer.settings import Settings
from overlay.commands.options import UsageError, add_json, add_url, command, settings
from overlay.commands.search import one
from overlay.terminal import say, say_json

if TYPE_CHECKING:
    from overlay.commands.options import Commands

MAX_HEX = 4 << 20
"""Characters of a raw transaction, as over HTTP: one with a card of 1 MiB is a little over 2 MiB of hex."""


def add(commands: Commands) -> None:
    """The publisher's command."""
    parser = command(
        commands, "diagnose", diagnose,
        "Why is my transaction listed, or not? Exit code 1 when it lists nothing (--raw: when it would not).",
        "data", "database",
    )  # fmt: skip
    parser.add_argument("what", metavar="TXID|OUTPOINT", nargs="?", help="64 hex digits, or <txid>_<output number>")
    parser.add_argument("--raw", metavar="HEX|@FILE", help="a raw transaction, or @ and a file that holds its hex")
    add_url(parser)
    add_json(parser)


def diagnose(asked: Namespace) -> int:
    """Its steps."""
    if (asked.what is None) == (asked.raw is None):
        raise UsageError("give a txid or an outpoint, or --raw")
    what = _named(asked.what) if asked.what is not None else _bytes(asked.raw)
    found = _remote(asked.url, what) if asked.url else _local(settings(asked), what)
    if asked.json:
        say_json(found)
    else:
        _show(found)
    return 0 if _is_good(found) else 1


def _named(text: str) -> str:
    from parsers.tx import Outpoint

    try:
        outpoint = Outpoint.parse(text if len(text) != 64 else f"{text}_0")
    except ValueError:
        raise UsageError(
            f"{text[:100]!a} is neither a txid (64 hex digits) nor an outpoint (<txid>_<output number>)"
        ) from None
    return str(outpoint)[:64] if len(text) == 64 else str(outpoint)


def _bytes(raw: str) -> bytes:
    if raw.startswith("@"):
        with Path(raw[1:]).open("rb") as file:
            raw = file.read(MAX_HEX + 1).decode("ascii", "replace")
    if len(raw) > MAX_HEX:
        raise UsageError(f"the transaction is longer than {MAX_HEX:,} hex digits")
    try:
        return bytes.fromhex(raw)
    except ValueError:
        raise UsageError("the transaction is not hex") from None


def _remote(url: str, asked: str | bytes) -> dict[str, Any]:
    from overlay.remote import Remote

    remote = Remote(url)
    found: dict[str, Any] = remote.diagnose(asked) if isinstance(asked, str) else remote.diagnose_raw(asked)
    return found


def _local(told: Settings, asked: str | bytes) -> dict[str, Any]:
    from overlay.services import cache_loops, open_store
    from overlay.services import diagnose as answer
    from parsers.errors import ParseError

    cache_loops(told)
    store = open_store(told, make=False)
    try:
        return answer(told, store, asked)
    except ParseError as error:
        raise UsageError(f"these bytes are no transaction: {error}") from None
    finally:
        store.engine.dispose()


def _is_good(found: Mapping[str, Any]) -> bool:
    if found["where"] == "raw":
        return any(record["valid"] and record["kind"] != "near-miss" for record in found["records"])
    return bool(found["listed"])


def _show(found: Mapping[str, Any]) -> None:
    for step in found["steps"]:
        say(f"{'ok ' if step['ok'] else 'NO '} {step['step']:<9} {one(step['detail'])}")
    for record in found["records"]:
        say(f"{record['kind']}: {record['outcome']}  {record['outpoint'] or '(in no output)'}")
        for reason in record["reasons"]:
            say(f"    {one(reason['detail'])}")
    for id_ in found["listed"]:
        say(f"listed as {one(id_)}")
