"""`a2b search`: from the local index alone, or from a running overlay."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from indexer.settings import Settings
from overlay.commands import options
from overlay.terminal import say, say_json

if TYPE_CHECKING:
    from overlay.engines import Engine

Several = list[str] | None


def search(
    text: Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="Words to find; none: everything.")] = None,
    kind: Annotated[str | None, typer.Option("--type", help="agent, tool or all.")] = None,
    skill: Annotated[Several, typer.Option(help="The id of a skill. Repeated: any of them.")] = None,
    currency: Annotated[Several, typer.Option(help="A currency that an offer takes. Repeated: any.")] = None,
    interval: Annotated[Several, typer.Option(help="P1M, month, none (per call)... Repeated: any.")] = None,
    max_price: Annotated[str | None, typer.Option(help="The most an offer may cost.")] = None,
    price_currency: Annotated[str | None, typer.Option(help="The currency of --max-price.")] = None,
    tag: Annotated[Several, typer.Option(help="A tag. Repeated: any of them.")] = None,
    chain: Annotated[Several, typer.Option(help="A chain by its name or CAIP-2 id. Repeated: any.")] = None,
    sort: Annotated[str | None, typer.Option(help="relevance, price, updated, created or name; - reverses.")] = None,
    limit: Annotated[str | None, typer.Option(help="Listings to show, at most 100. [default: 20]")] = None,
    url: options.Url = None,
    as_json: options.AsJson = False,
    config: options.Config = None,
    data: options.Data = None,
    search_url: options.Search = None,
) -> None:
    """Find agents and tools. Exit code 1 when there are none."""
    asked = _pairs(
        q=[" ".join(text)] if text else None, type=[kind] if kind else None, skillId=skill, acceptedCurrency=currency,
        interval=interval, maxPrice=[max_price] if max_price else None,
        priceCurrency=[price_currency] if price_currency else None, tag=tag, chain=chain,
        sort=[sort] if sort else None, limit=[limit] if limit else None,
    )  # fmt: skip
    if url:
        from overlay.remote import Remote

        found = Remote(url).search(asked)
    else:
        found = _local(options.settings(config, data=data, search=search_url), asked)
    if as_json:
        say_json(found)
    else:
        _show(found)
    raise typer.Exit(0 if found.get("items") else 1)


def _pairs(**given: Several) -> list[tuple[str, str]]:
    return [(name, value) for name, values in given.items() for value in values or ()]


def _local(settings: Settings, asked: list[tuple[str, str]]) -> Any:
    from overlay.asked import from_pairs
    from overlay.page import page
    from overlay.services import open_index

    engine = open_index(settings, make=False)
    try:
        needs_chains = any(name == "chain" for name, _ in asked)
        question = from_pairs(asked, _chains(engine, settings) if needs_chains else {})
        return json.loads(page(question, engine.search(question.query), engine.cursor(), {}))
    finally:
        engine.close()


def _chains(engine: Engine, settings: Settings) -> dict[str, str]:
    """The chains that the index itself knows, by name: asked of it, so that no database is needed."""
    from overlay.params import STATUSES
    from overlay.query import Query
    from overlay.services import in_configured_order

    counted = engine.search(Query(statuses=STATUSES, facets=("chain",), limit=1)).facets or {}
    found = {}
    for name, _ in counted.get("chain", ()):
        hits = engine.search(Query(statuses=STATUSES, chains=(name,), limit=1)).hits
        found[name] = str(json.loads(hits[0].item)["caip2"])
    return in_configured_order(settings, found)


def _show(found: Mapping[str, Any]) -> None:
    for item in found["items"]:
        for line in card(item):
            say(line)
    for note in found.get("notes", ()):
        say(f"note: {note['detail']}")
    more = "more than " if found["totalRelation"] == "gte" else ""
    shown = f", {len(found['items'])} shown" if len(found["items"]) < found["total"] else ""
    say(f"{more}{found['total']:,} listing{'' if found['total'] == 1 else 's'}{shown}")


def card(item: Mapping[str, Any]) -> list[str]:
    """A listing in a few lines: each of a stranger's texts on a line of ours."""
    status = "" if item["status"] == "live" else f" [{item['status']}]"
    lines = [f"{one(item['name'])}  ({item['type']}){status}{_price(item.get('cheapest'))}"]
    if item.get("summary"):
        lines.append(f"    {one(item['summary'])}")
    return [*lines, f"    {item['id']}", ""]


def one(text: object) -> str:
    """A stranger's text on one line: line feeds and tabs count as spaces."""
    return " ".join(str(text).split())


def _price(cheapest: Mapping[str, Any] | None) -> str:
    if cheapest is None:
        return ""
    per = "a call" if cheapest["interval"] == "none" else cheapest["interval"]
    return f"  from {one(cheapest['amount'])} {one(cheapest['currency'])} per {one(per)}"
