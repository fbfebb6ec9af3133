"""`a2b search`: from the local index alone, or from a running overlay. A terminal shows the query's words in bold, and
suggestions for a search without results."""

from __future__ import annotations

import json
import os
import re
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from indexer.settings import Settings
from overlay.commands.options import add_json, add_url, ask, command, print_answer, settings_of
from overlay.text.interval_words import per
from overlay.text.rating_words import rating_words
from overlay.text.safe_text import on_one_line, visible
from overlay.text.terminal import say

if TYPE_CHECKING:
    from overlay.commands.options import Commands
    from overlay.pricing.exchange_rates import ExchangeRates
    from overlay.projection.search_index import SearchIndex


Piece = tuple[str, bool]
"""A part of a text, and whether it is marked."""

_SPACES = re.compile(r"\s+")
_BOLD, _PLAIN = "\x1b[1m", "\x1b[22m"
_ELSEWHERE = 3
"""Other texts of a listing that are shown where its summary has none of the words."""
_LONGEST = 80


def can_mark() -> bool:
    """Whether standard output is a terminal with bold text."""
    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def pieces(text: str, ranges: Sequence[Sequence[int]], longest: int | None = None) -> list[Piece]:
    """A stranger's text on one line, cut where marked stretches (in UTF-16 code units) begin and end, and after
    `longest` characters."""
    units = text.encode("utf-16-le", "surrogatepass")
    bounds = [0, *(bound for start, end in ranges for bound in (start, end)), len(units) // 2]
    cut_pieces: list[Piece] = []
    left = len(text) if longest is None else longest
    for number, (start, end) in enumerate(pairwise(bounds)):
        part = _SPACES.sub(" ", units[2 * start : 2 * end].decode("utf-16-le", "replace"))
        if len(part) > left:
            part = f"{part[: max(left - 1, 0)]}…"
        if part and left > 0:
            cut_pieces.append((part, number % 2 == 1))
        left -= len(part)
    return cut_pieces


def inked(line: Sequence[Piece]) -> str:
    """Pieces as a terminal shows them: nothing in them steers it."""
    return "".join(f"{_BOLD}{visible(text)}{_PLAIN}" if marked else visible(text) for text, marked in line)


def marks(item: Mapping[str, Any]) -> dict[str, list[list[int]]]:
    """The ranges of an item by their pointers."""
    return {
        highlight["pointer"]: highlight["ranges"] for highlight in item.get("highlights", ()) if highlight["ranges"]
    }


def elsewhere(item: Mapping[str, Any]) -> Iterator[str]:
    """Lines for other texts that contain the words: their kind, and the text with the words marked."""
    marked = marks(item)
    if "/summary" in marked:
        return
    others = [pointer for pointer in marked if pointer not in ("/name", "/description")]
    for pointer in ["/description"] * ("/description" in marked) + others[:_ELSEWHERE]:
        text, ranges = _text_at(item, pointer), marked[pointer]
        if not text:
            continue
        start = max(0, ranges[0][0] - _LONGEST // 4)
        units = text.encode("utf-16-le", "surrogatepass")
        shown = units[2 * start :].decode("utf-16-le", "replace")
        moved = [[range_[0] - start, range_[1] - start] for range_ in ranges]
        label = pointer.split("/")[1].removesuffix("s")
        yield f"    {label}: {'…' if start else ''}{inked(pieces(shown, moved, _LONGEST))}"


def _text_at(item: Mapping[str, Any], pointer: str) -> str:
    """The text at a pointer, which another server wrote; empty where the pointer does not resolve."""
    from overlay.search.highlighting import text_at

    try:
        return text_at(item, pointer) if pointer.startswith("/") else ""
    except (KeyError, IndexError, TypeError, ValueError):
        return ""


def help_lines(page: Mapping[str, Any]) -> Iterator[str]:
    """Suggested queries, and the filters that emptied the answer."""
    for suggestion in page.get("didYouMean", ()):
        yield f"did you mean: {suggestion['q']} ({suggestion['total']:,})"
    for relaxation in page.get("emptiedBy", ()):
        yield f"leave out {' and '.join(relaxation['parameters'])}: {_count(relaxation['total'])}"
        if detail := relaxation.get("detail"):
            yield f"  {on_one_line(detail)}"
        for name, values in relaxation.get("near", {}).items():
            yield f"or is it {name} {', '.join(on_one_line(value['value'], _LONGEST) for value in values)}?"


def _count(total: int) -> str:
    return f"{total:,} listing{'' if total == 1 else 's'}"


_FILTERS = (
    # the option, the parameter of the API, what it is, and whether it may be repeated
    ("--type", "type", "KIND", "agent, tool or all", True),
    ("--skill", "skillId", "ID", "a skill's id, in any case", True),
    ("--currency", "acceptedCurrency", "CODE", "a currency that an offer takes", True),
    ("--interval", "interval", "INTERVAL", "how it is paid: P1M, month, none (per call)...", True),
    ("--min-price", "minPrice", "AMOUNT", "the least an offer may cost", False),
    ("--max-price", "maxPrice", "AMOUNT", "the most an offer may cost", False),
    (
        "--price-currency",
        "priceCurrency",
        "CODE",
        "the currency of --min-price, --max-price and the order by price",
        False,
    ),
    ("--tag", "tag", "TAG", "a tag of the listing or of a skill", True),
    ("--chain", "chain", "CHAIN", "a chain by its name or CAIP-2 id", True),
    ("--domain", "domain", "HOST", "the host of an agent's URL, or the domain of a pointer", True),
    ("--owner", "owner", "ADDRESS", "the address that holds the listing", True),
    ("--status", "status", "STATUS", "live, pending, burned, undecided or all [live and pending]", True),
    (
        "--verified",
        "verified",
        "true|false",
        "only listings with a domain badge or a met hash, or only those without",
        False,
    ),
    (
        "--flagged",
        "flagged",
        "true|false",
        "only listings with a warning of high severity, or only those without",
        False,
    ),
    (
        "--deprecated",
        "deprecated",
        "true|false",
        "only listings that their owner calls deprecated, or only others",
        False,
    ),
    ("--runnable", "runnable", "true|false", "only listings with a command or a URL that can be reached", False),
    ("--reachable", "reachable", "true|false", "only listings whose URL answered lately, or only others", False),
    ("--health", "health", "STATE", "answers, needs-auth, needs-payment, fails or not-checked", True),
    ("--for-sale", "forSale", "true|false", "only listings whose output offers them for sale, or only others", False),
    ("--access", "access", "HOW", "remote (by a URL) or local (by a command)", True),
    ("--transport", "transport", "NAME", "stdio, streamable-http, sse, jsonrpc, rest or grpc", True),
    ("--auth", "auth", "KIND", "what a client needs, as the card says: none, key, oauth or payment", True),
    ("--protocol", "protocol", "VERSION", "an agent's A2A version: 0.2, 0.3 or 1.0", True),
    ("--launcher", "launcher", "PROGRAM", "what starts a tool: npx, uvx, docker...", True),
    (
        "--streaming",
        "streaming",
        "true|false",
        "only agents whose card says that they stream, or that they do not",
        False,
    ),
    ("--has-price", "hasPrice", "true|false", "only listings with a price, or only those that name none", False),
    (
        "--free",
        "free",
        "true|false",
        "only listings with an offer of amount 0, or with one that costs something",
        False,
    ),
    (
        "--payable",
        "payable",
        "true|false",
        "only listings with an offer that can be paid, or with one that cannot",
        False,
    ),
    ("--min-customers", "minCustomers", "NUMBER", "rated, with at least so many distinct paying customers", False),
    ("--calls", "calls", "N/TIME", "how often it will be called, such as 50/day: for --sort cost", False),
    (
        "--sort",
        "sort",
        "ORDER",
        "relevance, price, price_per_day, cost, updated, created, rating or name; --sort=-name reverses",
        False,
    ),
    ("--limit", "limit", "NUMBER", "listings a page, at most 100 [20]", False),
    ("--offset", "offset", "NUMBER", "listings to skip, at most 10,000", False),
)

_COMPARED = {"per-day": "per day", "cost": "by the cost of a month"}

LONGEST_NAME = 100
"""Characters of a name in a list; `a2b show` prints all of it."""


def add(commands: Commands) -> None:
    """Add `a2b search`."""
    parser = command(
        commands,
        "search",
        search,
        "Find agents and tools. Exit code 1 when there are none.",
        "data",
        "search",
        "meaning",
    )
    parser.add_argument(
        "text",
        metavar="TEXT",
        nargs="*",
        help='words to find; none: everything. Also "a phrase", -word, tag:, owner: and skill:',
    )
    for option, name, metavar, text, is_repeatable in _FILTERS:
        text = f"{text}; repeated: any of them" if is_repeatable else text
        parser.add_argument(option, dest=f"filter_{name}", metavar=metavar, action="append", help=text)
    parser.add_argument("--all", action="store_true", help="all pages, one after the other")
    add_url(parser)
    add_json(parser)


def search(args: Namespace) -> int:
    """Query the local index, or a running overlay."""
    parameters = _parameters(args)
    if args.text and not args.json and can_mark():
        parameters.append(("highlight", "true"))
    if args.all and not args.filter_limit:
        parameters.append(("limit", "100"))
    has_results = False
    for page in _pages(args, parameters):
        is_followed = args.all and page.get("nextCursor")
        print_answer(args, page, _show_items if is_followed else partial(_show, is_one_page=not args.all))
        has_results = has_results or bool(page.get("items"))
    return 0 if has_results else 1


def _pages(args: Namespace, parameters: list[tuple[str, str]]) -> Iterator[Any]:
    """The requested page; with `--all` also those after it."""
    page = _page(args, parameters)
    yield page
    rest = [pair for pair in parameters if pair[0] != "offset"]
    while args.all and (cursor := page.get("nextCursor")):
        page = _page(args, [*rest, ("cursor", cursor)])
        yield page


def _page(args: Namespace, parameters: list[tuple[str, str]]) -> Any:
    if args.url:
        return ask(args.url, lambda calls: calls.search_by(parameters))
    return _local(settings_of(args), parameters)


def _parameters(args: Namespace) -> list[tuple[str, str]]:
    """The question as the URL parameters that mean the same."""
    words = [("q", " ".join(args.text))] if args.text else []
    return words + [(name, value) for _, name, *_ in _FILTERS for value in getattr(args, f"filter_{name}") or ()]


def _local(settings: Settings, parameters: list[tuple[str, str]]) -> Any:
    from overlay.api import search_answer
    from overlay.api.search_answer import page
    from overlay.api.search_request import from_pairs
    from overlay.app.compilation import prepare_search
    from overlay.app.storage import open_index
    from overlay.listings.recent_changes import aged_hits, is_due
    from overlay.pricing.exchange_rates import ExchangeRates

    with closing(open_index(settings, create=False)) as engine:
        prepare_search(engine.position())
        needs_chains = any(name == "chain" for name, _ in parameters)
        exchange = exchange_of(settings) if _needs_rates(parameters) else ExchangeRates()
        question = from_pairs(parameters, _chains(engine, settings) if needs_chains else {}, exchange)
        rates = exchange.table_json(question.rates) if question.rates else None
        hits = engine.search(question.query)
        if is_due(hits):
            hits = aged_hits(hits, _heights(settings), settings.change_blocks)
        position = engine.position()
        search_answer.check_index(hits, position, partial(_unread, engine, settings))
        hits, more = search_answer.extras(engine, question, hits)
        return json.loads(b"".join(page(question, hits, position, {}, rates, more)))


def _unread(engine: SearchIndex, settings: Settings) -> int:
    """How many stored changes an index has not read."""
    from overlay.app.storage import open_store
    from overlay.projection.unread_changes import pending_changes

    with closing(open_store(settings, create=False)) as store:
        return pending_changes(store, engine)


def _needs_rates(parameters: list[tuple[str, str]]) -> bool:
    """Whether the answer may depend on exchange rates: prices are compared or sorted by."""
    return any(name in ("maxPrice", "priceCurrency") or (name == "sort" and ("price" in value or "cost" in value))
               for name, value in parameters)  # fmt: skip


def exchange_of(settings: Settings) -> ExchangeRates:
    """The exchange rates in the database; none where there is no database."""
    from overlay.app.storage import MissingError, open_store
    from overlay.pricing.exchange_rates import ExchangeRates

    try:
        store = open_store(settings, create=False)
    except MissingError:
        return ExchangeRates()
    from indexer.store.rates import Quotes

    with closing(store):
        rates = ExchangeRates(Quotes(store.engine).newest, default_currency=settings.price_currency)
        rates.refresh()
        return rates


def _heights(settings: Settings) -> dict[str, int]:
    """The height that each chain is stored up to; none where there is no database."""
    from overlay.app.storage import MissingError, stored_heights

    try:
        return stored_heights(settings)
    except MissingError:
        return {}


def _chains(engine: SearchIndex, settings: Settings) -> dict[str, str]:
    """The chains of the index, by name: read from it, without a database."""
    from overlay.answers.items import STATUSES
    from overlay.app.storage import in_configured_order
    from overlay.search.query import Query

    counted = engine.search(Query(statuses=STATUSES, facets=("chain",), limit=1)).facets or {}
    caip2_ids = {}
    for name, _ in counted.get("chain", ()):
        hits = engine.search(Query(statuses=STATUSES, chains=(name,), limit=1)).hits
        caip2_ids[name] = str(json.loads(bytes(hits[0].item))["caip2"])
    return in_configured_order(settings, caip2_ids)


def _show_items(page: Mapping[str, Any]) -> None:
    for item in page["items"]:
        if marks(item):
            sys.stdout.write("".join(f"{line}\n" for line in _marked_card(item)))
        else:
            for line in card_lines(item):
                say(line)


def _show(page: Mapping[str, Any], *, is_one_page: bool) -> None:
    _show_items(page)
    for line in help_lines(page):
        say(line)
    if corrected := page.get("corrected"):
        to, words = (", ".join(on_one_line(correction[name]) for correction in corrected) for name in ("to", "word"))
        say(f"showing results for {to}: no listing, or hardly any, contains {words}")
    if page["items"] and not page["total"]:
        say("nothing contains these words; these are near to them in meaning")
    elif page["items"] and not page.get("matched", 1):
        say("no listing has all of these words; these have some of them")
    for note in page.get("notes", ()):
        say(f"note: {note['detail']}")
    if comparison := page.get("priceComparison"):
        say(f"prices are compared {_COMPARED.get(comparison, 'as amounts, whatever their interval')}")
    more = "more than " if page["totalRelation"] == "gte" else ""
    last = page["offset"] + len(page["items"])
    is_part = is_one_page and 0 < len(page["items"]) < page["total"]
    shown = f", {page['offset'] + 1:,} to {last:,} shown" if is_part else ""
    say(f"{more}{_count(page['total'])}{shown}")


def card_lines(item: Mapping[str, Any]) -> list[str]:
    """A listing in a few lines: each of a stranger's texts on a line of ours."""
    lines = [f"{on_one_line(item['name'], LONGEST_NAME)}{_type_and_status(item)}"]
    if item.get("summary"):
        lines.append(f"    {on_one_line(item['summary'])}")
    return [*lines, f"    {item['id']}", ""]


def _marked_card(item: Mapping[str, Any]) -> list[str]:
    """The lines of a card with the query's words in bold, and other texts that contain them."""
    marked = marks(item)
    lines = [f"{inked(pieces(item['name'], marked.get('/name', ()), LONGEST_NAME))}{visible(_type_and_status(item))}"]
    if item.get("summary"):
        lines.append(f"    {inked(pieces(item['summary'], marked.get('/summary', ())))}")
    return [*lines, *elsewhere(item), f"    {visible(item['id'])}", ""]


def _type_and_status(item: Mapping[str, Any]) -> str:
    status = "" if item["status"] == "live" else f" [{item['status']}]"
    meaning = ", near in meaning" if "byMeaning" in item else ""
    rating = f", {on_one_line(rating_words(item['rating']))}" if item.get("rating") else ""
    return f"  ({item['type']}){status}{_price(item.get('cheapest'))}{rating}{meaning}"


def _price(cheapest: Mapping[str, Any] | None) -> str:
    if cheapest is None:
        return ""
    interval = on_one_line(per(cheapest["interval"]))
    worth = cheapest.get("converted")
    about = f" (about {on_one_line(worth['amount'])[:12]} {on_one_line(worth['currency'])})" if worth else ""
    return f"  from {on_one_line(cheapest['amount'])} {on_one_line(cheapest['currency'])} {interval}{about}"
