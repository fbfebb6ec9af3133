"""`a2b check`: find the errors of a card, an MCP config or a price list before paying to publish it."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlay.commands.options import UsageError, add_json, add_url, ask, command, print_answer
from overlay.commands.search import card_lines
from overlay.commands.show import located, offer_line
from overlay.text.safe_text import on_one_line
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
    parser.add_argument("--findability", action="store_true", help="also how people would find it; needs --url")
    parser.add_argument("--update", metavar="ID", default="", help="the listing that the card updates; with --url")
    add_url(parser)
    add_json(parser)


def check(args: Namespace) -> int:
    """Print errors, warnings and a preview."""
    body = _read(args.file)
    if args.url:
        answer = ask(
            args.url, lambda calls: calls.check(body, args.type, id_=args.update, findability=args.findability)
        )
    elif args.findability or args.update:
        raise UsageError("--findability and --update need --url URL: an overlay to search in")
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
    if "findability" in answer:
        _show_findability(answer["findability"])
    if answer["ok"] and not answer.get("compared"):
        say("not compared with what is listed: --url URL queries the overlay there")
    say("valid" if answer["ok"] else "invalid")


def _show_findability(findability: Mapping[str, Any]) -> None:
    """Print the searches with the rank in each, the prices beside those of others, and the hints."""
    for search in findability["searches"]:
        total = f"{search['total']:,}{'+' if search['atLeast'] else ''}"
        rank = f"{search['rank']} of {total}" if search["rank"] else f"not among the first 100 of {total}"
        cheapest, lacks = search["cheapestBefore"], ", ".join(search["lacks"])
        more = f"; lacks {lacks}" if lacks else ""
        if cheapest:
            price = f"{cheapest['amount']} {cheapest['currency']}"
            more += f"; cheapest before it: {on_one_line(cheapest['name'], 60)}, {price}"
        say(f"found {search['source']} {search['q']!r}: {rank}{more}")
    for price in findability["prices"]:
        amounts = f"{price['amount']} {price['currency']}, median of {price['prices']} others {price['median']}"
        say(f"price {price['skillId']}: {amounts}")
    for hint in findability["hints"]:
        say(f"hint {hint['code']}: {hint['detail']}")


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
