"""`a2b check`: find the errors of a card, an MCP config or a price list before paying to publish it."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlay.commands.options import add_json, add_url, ask, command, print_answer
from overlay.commands.search import card_lines
from overlay.commands.show import located, offer_line
from overlay.text.terminal import say

if TYPE_CHECKING:
    from overlay.commands.options import Commands

MAX_BYTES = 2 << 20
"""Bytes read of a file: more than the 1 MiB of the largest card, so a larger one is reported as too large."""


def add(commands: Commands) -> None:
    """Add `a2b check`."""
    parser = command(
        commands, "check", check,
        "Errors, warnings and a preview of a card, an MCP config or a price list. Exit code 1 when it is invalid.",
    )  # fmt: skip
    parser.add_argument("file", metavar="FILE", help="a JSON file; - for standard input")
    parser.add_argument("--type", choices=("agent", "tool", "prices"), help="what it is [by its shape]")
    add_url(parser)
    add_json(parser)


def check(args: Namespace) -> int:
    """Print errors, warnings and a preview."""
    body = _read(args.file)
    if args.url:
        answer = ask(args.url, lambda calls: calls.check(body, args.type))
    else:
        from overlay.listings.card_check import check as examine

        answer = examine(body, args.type)
    print_answer(args, answer, _show)
    return 0 if answer["ok"] else 1


def _read(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read(MAX_BYTES)
    with Path(name).open("rb") as file:
        return file.read(MAX_BYTES)


def _show(answer: Mapping[str, Any]) -> None:
    show_review(answer)
    preview = answer["preview"] or {}
    if preview.get("type") == "prices":
        for offer in preview.get("offers", ()):
            say(f"offer {offer_line(offer)}")
    if answer["ok"] and not answer.get("compared"):
        say("not compared with what is listed: --url URL queries the overlay there")
    say("valid" if answer["ok"] else "invalid")


def show_review(answer: Mapping[str, Any]) -> None:
    """Print the errors and warnings of a card, and the result cards that it would be listed with."""
    for word, reasons in (("error", answer["errors"]), ("warning", answer["warnings"])):
        for reason in reasons:
            say(f"{word}: {located(reason)}")
    preview = answer["preview"] or {}
    for shown in preview.get("servers", [preview]):
        if "name" in shown:
            for line in card_lines({"status": "live", "id": "(not published yet)"} | shown):
                say(line)
