"""`a2b check`: what a card, an MCP config or a price list is worth, before paying to publish it."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlay.commands.options import add_json, add_url, command
from overlay.commands.search import card, one
from overlay.commands.show import offer_line
from overlay.terminal import say, say_json

if TYPE_CHECKING:
    from overlay.commands.options import Commands

MAX_BYTES = 2 << 20
"""Bytes read of a file; cards end at 1 MiB, and a larger one is told so."""


def add(commands: Commands) -> None:
    """The command to run before paying."""
    parser = command(
        commands, "check", check,
        "Errors, warnings and a preview of a card, an MCP config or a price list. Exit code 1 when it is invalid.",
    )  # fmt: skip
    parser.add_argument("file", metavar="FILE", help="a JSON file; - for standard input")
    parser.add_argument("--type", choices=("agent", "tool", "prices"), help="what it is [told by its shape]")
    add_url(parser)
    add_json(parser)


def check(asked: Namespace) -> int:
    """Errors, warnings, preview."""
    body = _read(asked.file)
    if asked.url:
        from overlay.remote import Remote

        found = Remote(asked.url).check(body, asked.type)
    else:
        from overlay.check import check as examine

        found = examine(body, asked.type)
    if asked.json:
        say_json(found)
    else:
        _show(found)
    return 0 if found["ok"] else 1


def _read(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read(MAX_BYTES)
    with Path(name).open("rb") as file:
        return file.read(MAX_BYTES)


def _show(found: Mapping[str, Any]) -> None:
    for word, reasons in (("error", found["errors"]), ("warning", found["warnings"])):
        for reason in reasons:
            say(f"{word}: {one(reason['pointer'] or '/')}: {one(reason['detail'])}")
    preview = found["preview"] or {}
    for shown in preview.get("servers", [preview]):
        if "name" not in shown:
            continue
        for line in card({"status": "live", "id": "(not published yet)"} | shown):
            say(line)
    if preview.get("type") == "prices":
        for offer in preview.get("offers", ()):
            say(f"offer {offer_line(offer)}")
    say("valid" if found["ok"] else "invalid")
