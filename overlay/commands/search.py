"""`a2b search`: from the local index alone, or from a running overlay."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from indexer.settings import Settings
from overlay.commands.marked import can_mark, elsewhere, help_lines, inked, marks, pieces
from overlay.commands.options import add_json, add_url, command, settings
from overlay.periods import per
from overlay.terminal import say, say_json
from overlay.visible import visible

if TYPE_CHECKING:
    from overlay.commands.options import Commands
    from overlay.exchange import Exchange
    from overlay.index import SearchIndex

_FILTERS = (
    # the option, the parameter of the API, what it is, and whether it may be repeated
    ("--type", "type", "KIND", "agent, tool or all", True),
    ("--skill", "skillId", "ID", "a skill's id, exactly", True),
    ("--currency", "acceptedCurrency", "CODE", "a currency that an offer takes", True),
    ("--interval", "interval", "INTERVAL", "how it is paid: P1M, month, none (per call)...", True),
    ("--max-price", "maxPrice", "AMOUNT", "the most an offer may cost", False),
    ("--price-currency", "priceCurrency", "CODE", "the currency of --max-price", False),
    ("--tag", "tag", "TAG", "a tag of the listing or of a skill", True),
    ("--chain", "chain", "CHAIN", "a chain by its name or CAIP-2 id", True),
    ("--sort", "sort", "ORDER", "relevance, price, updated, created or name; --sort=-name reverses", False),
    ("--limit", "limit", "NUMBER", "listings to show, at most 100 [20]", False),
)

LONGEST_NAME = 100
"""Characters of a name in a list; `a2b show` tells all of it."""


def add(commands: Commands) -> None:
    """The command that finds."""
    parser = command(
        commands, "search", search, "Find agents and tools. Exit code 1 when there are none.", "data", "search"
    )
    parser.add_argument(
        "text",
        metavar="TEXT",
        nargs="*",
        help='words to find; none: everything. Also "a phrase", -word, tag:, owner: and skill:',
    )
    for option, name, metavar, told, many in _FILTERS:
        told = f"{told}; repeated: any of them" if many else told
        parser.add_argument(option, dest=f"ask_{name}", metavar=metavar, action="append", help=told)
    add_url(parser)
    add_json(parser)


def search(asked: Namespace) -> int:
    """Ask the local index, or a running overlay."""
    question = _pairs(asked)
    if asked.text and not asked.json and can_mark():
        question.append(("highlight", "true"))
    if asked.url:
        from overlay.remote import Remote

        found = Remote(asked.url).search(question)
    else:
        found = _local(settings(asked), question)
    if asked.json:
        say_json(found)
    else:
        _show(found)
    return 0 if found.get("items") else 1


def _pairs(asked: Namespace) -> list[tuple[str, str]]:
    """The question as the URL parameters that mean the same."""
    words = [("q", " ".join(asked.text))] if asked.text else []
    return words + [(name, value) for _, name, *_ in _FILTERS for value in getattr(asked, f"ask_{name}") or ()]


def _local(told: Settings, asked: list[tuple[str, str]]) -> Any:
    from overlay.aging import aged_hits, is_due
    from overlay.api import extras
    from overlay.api.asked import from_pairs
    from overlay.api.page import page
    from overlay.exchange import Exchange
    from overlay.services import open_index

    engine = open_index(told, make=False)
    try:
        needs_chains = any(name == "chain" for name, _ in asked)
        exchange = _exchange(told) if any("rice" in word for pair in asked for word in pair) else Exchange()
        question = from_pairs(asked, _chains(engine, told) if needs_chains else {}, exchange)
        rates = exchange.told(question.rates) if question.rates else None
        hits = engine.search(question.query)
        if is_due(hits):
            hits = aged_hits(hits, _heights(told), told.change_blocks)
        hits, more = extras.extras(engine, question, hits)
        return json.loads(bytes(page(question, hits, engine.cursor(), {}, rates, more)))
    finally:
        engine.close()


def _exchange(told: Settings) -> Exchange:
    """The exchange rates in the database, for a question about prices; none where there is no database."""
    from overlay.exchange import Exchange
    from overlay.services import MissingError, open_store

    try:
        store = open_store(told, make=False)
    except MissingError:
        return Exchange()
    from indexer.store.rates import Quotes

    try:
        found = Exchange(Quotes(store.engine).newest)
        found.look()
        return found
    finally:
        store.engine.dispose()


def _heights(told: Settings) -> dict[str, int]:
    """The height that each chain is stored up to; none where there is no database."""
    from overlay.services import MissingError, heights

    try:
        return heights(told)
    except MissingError:
        return {}


def _chains(engine: SearchIndex, told: Settings) -> dict[str, str]:
    """The chains that the index itself knows, by name: asked of it, so that no database is needed."""
    from overlay.api.params import STATUSES
    from overlay.query import Query
    from overlay.services import in_configured_order

    counted = engine.search(Query(statuses=STATUSES, facets=("chain",), limit=1)).facets or {}
    found = {}
    for name, _ in counted.get("chain", ()):
        hits = engine.search(Query(statuses=STATUSES, chains=(name,), limit=1)).hits
        found[name] = str(json.loads(hits[0].item)["caip2"])
    return in_configured_order(told, found)


def _show(found: Mapping[str, Any]) -> None:
    for item in found["items"]:
        if marks(item):
            sys.stdout.write("".join(f"{line}\n" for line in _marked_card(item)))
        else:
            for line in card(item):
                say(line)
    for line in help_lines(found):
        say(line)
    for note in found.get("notes", ()):
        say(f"note: {note['detail']}")
    more = "more than " if found["totalRelation"] == "gte" else ""
    shown = f", {len(found['items'])} shown" if len(found["items"]) < found["total"] else ""
    say(f"{more}{found['total']:,} listing{'' if found['total'] == 1 else 's'}{shown}")


def card(item: Mapping[str, Any]) -> list[str]:
    """A listing in a few lines: each of a stranger's texts on a line of ours."""
    lines = [f"{one(item['name'], LONGEST_NAME)}{_standing(item)}"]
    if item.get("summary"):
        lines.append(f"    {one(item['summary'])}")
    return [*lines, f"    {item['id']}", ""]


def _marked_card(item: Mapping[str, Any]) -> list[str]:
    """The same with what was asked for in bold, and other texts that say it."""
    marked = marks(item)
    lines = [f"{inked(pieces(item['name'], marked.get('/name', ()), LONGEST_NAME))}{visible(_standing(item))}"]
    if item.get("summary"):
        lines.append(f"    {inked(pieces(item['summary'], marked.get('/summary', ())))}")
    return [*lines, *elsewhere(item), f"    {visible(item['id'])}", ""]


def _standing(item: Mapping[str, Any]) -> str:
    status = "" if item["status"] == "live" else f" [{item['status']}]"
    return f"  ({item['type']}){status}{_price(item.get('cheapest'))}"


def one(text: object, longest: int | None = None) -> str:
    """A stranger's text on one line: line feeds and tabs count as spaces; cut to `longest` characters."""
    line = " ".join(str(text).split())
    return line if longest is None or len(line) <= longest else f"{line[: longest - 1]}…"


def _price(cheapest: Mapping[str, Any] | None) -> str:
    if cheapest is None:
        return ""
    worth = cheapest.get("converted")
    about = f" (about {one(worth['amount'])[:12]} {one(worth['currency'])})" if worth else ""
    return f"  from {one(cheapest['amount'])} {one(cheapest['currency'])} {one(per(cheapest['interval']))}{about}"
