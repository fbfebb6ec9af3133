"""`a2b check`: what a card, an MCP config or a price list is worth, before paying to publish it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from overlay.commands import options
from overlay.commands.search import card, one
from overlay.commands.show import offer_line
from overlay.terminal import say, say_json

MAX_BYTES = 2 << 20
"""Bytes read of a file; cards end at 1 MiB, and a larger one is told so."""


class What(StrEnum):
    """What a file is taken for."""

    AGENT = "agent"
    TOOL = "tool"
    PRICES = "prices"


def check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A JSON file; - for standard input.")],
    what: Annotated[What | None, typer.Option("--type", help="What it is. [default: told by its shape]")] = None,
    url: options.Url = None,
    as_json: options.AsJson = False,
) -> None:
    """Errors, warnings and a preview of a card, an MCP config or a price list. Exit code 1 when it is invalid."""
    with sys.stdin.buffer if file == "-" else Path(file).open("rb") as opened:
        body = opened.read(MAX_BYTES)
    kind = what.value if what else None
    if url:
        from overlay.remote import Remote

        found = Remote(url).check(body, kind)
    else:
        from overlay.check import check as examine

        found = examine(body, kind)
    if as_json:
        say_json(found)
    else:
        _show(found)
    raise typer.Exit(0 if found["ok"] else 1)


def _show(found: Mapping[str, Any]) -> None:
    for word, reasons in (("error", found["errors"]), ("warning", found["warnings"])):
        for reason in reasons:
            say(f"{word}: {one(reason['pointer'] or '/')}: {one(reason['detail'])}")
    preview = found["preview"] or {}
    for shown in preview.get("servers", [preview] if "name" in preview else []):
        for line in card({"status": "live", "id": "(not published yet)"} | shown):
            say(line)
    if preview.get("type") == "prices":
        for offer in preview["offers"]:
            say(f"offer {offer_line(offer)}")
    say("valid" if found["ok"] else "invalid")
