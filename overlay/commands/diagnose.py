"""`a2b diagnose`: the publisher's question, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from indexer.settings import Settings
from overlay.commands import options
from overlay.commands.search import one
from overlay.terminal import say, say_json

MAX_HEX = 4 << 20
"""Characters of a raw transaction, as over HTTP: one with a card of 1 MiB is a little over 2 MiB of hex."""


def diagnose(
    what: Annotated[str | None, typer.Argument(metavar="TXID|OUTPOINT", help="64 hex digits, or <txid>_<n>.")] = None,
    raw: Annotated[
        str | None, typer.Option("--raw", metavar="HEX|@FILE", help="A raw transaction, or @FILE holding its hex.")
    ] = None,
    url: options.Url = None,
    as_json: options.AsJson = False,
    config: options.Config = None,
    data: options.Data = None,
    database: options.Database = None,
) -> None:
    """Why is my transaction listed, or not? Exit code 1 when it lists nothing (--raw: when it would not)."""
    if (what is None) == (raw is None):
        raise typer.BadParameter("give a txid or an outpoint, or --raw")
    asked = _asked(what) if what is not None else _bytes(raw or "")
    local = options.settings(config, data=data, database=database)
    found = _remote(url, asked) if url else _local(local, asked)
    if as_json:
        say_json(found)
    else:
        _show(found)
    raise typer.Exit(0 if _is_good(found) else 1)


def _asked(text: str) -> str:
    from parsers.tx import Outpoint

    try:
        outpoint = Outpoint.parse(text if len(text) != 64 else f"{text}_0")
    except ValueError:
        raise typer.BadParameter(
            f"{text[:100]!a} is neither a txid (64 hex digits) nor an outpoint (<txid>_<output number>)"
        ) from None
    return str(outpoint)[:64] if len(text) == 64 else str(outpoint)


def _bytes(raw: str) -> bytes:
    if raw.startswith("@"):
        with Path(raw[1:]).open("rb") as file:
            raw = file.read(MAX_HEX + 1).decode("ascii", "replace")
    if len(raw) > MAX_HEX:
        raise typer.BadParameter(f"the transaction is longer than {MAX_HEX:,} hex digits")
    try:
        return bytes.fromhex(raw)
    except ValueError:
        raise typer.BadParameter("the transaction is not hex") from None


def _remote(url: str, asked: str | bytes) -> dict[str, Any]:
    from overlay.remote import Remote

    remote = Remote(url)
    found: dict[str, Any] = remote.diagnose(asked) if isinstance(asked, str) else remote.diagnose_raw(asked)
    return found


def _local(settings: Settings, asked: str | bytes) -> dict[str, Any]:
    from overlay.services import cache_loops, open_store
    from overlay.services import diagnose as answer
    from parsers.errors import ParseError

    cache_loops(settings)
    store = open_store(settings, make=False)
    try:
        return answer(settings, store, asked)
    except ParseError as error:
        raise typer.BadParameter(f"these bytes are no transaction: {error}") from None
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
