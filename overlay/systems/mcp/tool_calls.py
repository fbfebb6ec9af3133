"""Calls of the tools: arguments are checked, the registry is queried, and a refusal describes a valid call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from overlay.answers.observed_tools import ListedTools
from overlay.api.parameters import SEARCH
from overlay.api.problems import ProblemError
from overlay.api.request_bodies import checked
from overlay.api.search_request import NOT_COMPARED
from overlay.api.values import json_texts
from overlay.listings.lookup import ListingNotFoundError
from overlay.systems.mcp.listing_forms import compact, listing, named_tool, question_words, result
from overlay.systems.mcp.short_cursors import CursorRefusedError, next_page
from overlay.systems.mcp.tools import (
    DEFAULT_LIMIT,
    NOTICE,
    PAGE_MEMBERS,
    REQUIRED,
    SEARCH_ARGUMENTS,
    DiagnoseArguments,
    ListingArguments,
    QuoteArguments,
)

Pairs = Sequence[tuple[str, str]]


class ToolRefusedError(Exception):
    """A call that the registry refuses; the message gives the reason."""


class ToolSource(Protocol):
    """The registry that the tools query. Methods raise ToolRefusedError, ProblemError or ListingNotFoundError for what
    cannot be answered."""

    async def search(self, pairs: Pairs, /) -> Mapping[str, Any]:
        """A page: at least `items`, `total`, `totalRelation` and `nextCursor` of the schema `Page`."""
        ...

    async def get(self, id_: str, /) -> Mapping[str, Any]:
        """The item of a listing, or the ids of a registration's servers."""
        ...

    async def observed_tools(self, id_: str, /) -> ListedTools:
        """The tools that the URL of a listing lists."""
        ...

    async def history(self, id_: str, /) -> Mapping[str, Any]:
        """The history of a registration."""
        ...

    async def diagnose(self, transaction: str, /) -> Mapping[str, Any]:
        """The diagnosis of a txid, an outpoint, or a raw transaction as hex."""
        ...

    async def verify(self, id_: str, /) -> Mapping[str, Any]:
        """The report of checking a listing's proof."""
        ...

    async def quote(self, pairs: Pairs, /) -> Mapping[str, Any]:
        """The answer of `GET /v1/quote`."""
        ...


async def call(source: ToolSource, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of one of the tools. Raises ToolRefusedError where the registry refuses the call."""
    tool = _CALLS[name]
    try:
        answer = await tool(source, arguments)
        required = {member: answer[member] for member in REQUIRED[name] if member in answer}
        first = {member: answer[member] for member in ("testNetwork",) if answer.get(member)}
        return {"notice": NOTICE, **first, **required, **compact(answer)}
    except ProblemError as error:
        details = [fault.detail for fault in error.faults[:8]] or [error.detail]
        raise ToolRefusedError("; ".join(details)) from None
    except ListingNotFoundError as error:
        raise ToolRefusedError(str(error)) from None


async def _search(source: ToolSource, arguments: Mapping[str, Any]) -> dict[str, Any]:
    if unknown := [name for name in arguments if name not in SEARCH_ARGUMENTS]:
        names = ", ".join(SEARCH_ARGUMENTS)
        raise ToolRefusedError(f"there is no argument {unknown[0][:60]!a}; there are {names}")
    pairs = [(name, text) for name, value in arguments.items() for text in json_texts(value)]
    if "limit" not in arguments:
        pairs.append(("limit", str(DEFAULT_LIMIT)))
    cursor = next((text for name, text in pairs if SEARCH.names[name].name == "cursor"), "")
    try:
        page = await next_page(source.search, pairs, cursor)
    except CursorRefusedError as error:
        raise ToolRefusedError(f"cursor: {error}") from None
    bounds = [SEARCH.names[name].name for name in arguments if SEARCH.names[name].name in _BOUNDS]
    if bounds and any(note["code"] == NOT_COMPARED.code for note in page.get("notes", ())):
        raise ToolRefusedError(f"{bounds[0]} needs priceCurrency here: {await _currencies(source, pairs)}")
    members = {name: page[name] for name in ("total", *PAGE_MEMBERS) if name in page}
    words = question_words(" ".join(text for name, text in pairs if SEARCH.names[name].name in _OF_SKILLS))
    return {**members, "items": [result(item, words) for item in page["items"]]}


async def _currencies(source: ToolSource, pairs: Pairs) -> str:
    """The currencies in use among the listings that a search finds without its bounds of prices, in a sentence."""
    wide = [
        (name, text) for name, text in pairs if SEARCH.names[name].name not in _BOUNDS | {"sort", "limit", "cursor"}
    ]
    page = await source.search([*wide, ("limit", "1"), ("facets", "acceptedCurrency")])
    names = [counted["value"] for counted in page.get("facets", {}).get("acceptedCurrency", ())[:MOST_NAMED]]
    in_use = f"in use are {', '.join(names)}" if names else "no listing that is meant has a price"
    return f"there are no exchange rates, so amounts in different currencies are not compared; {in_use}"


MOST_NAMED = 12
"""Currencies in use that a refusal names, the most frequent."""

_BOUNDS = frozenset(("minPrice", "maxPrice"))

_OF_SKILLS = frozenset(("q", "skillId"))
"""The arguments with words of the skills that are shown."""


async def _get(source: ToolSource, arguments: Mapping[str, Any]) -> dict[str, Any]:
    item = await source.get(_id(arguments))
    form = listing(item)
    if item.get("observedTools"):
        with suppress(ToolRefusedError, ProblemError, ListingNotFoundError):  # it lists others, or none, since then
            form["tools"] = list(map(named_tool, (await source.observed_tools(item["id"])).tools[:MOST_TOOLS]))
    return form


MOST_TOOLS = 40
"""Tools of a listing that `get` names."""


def _id(arguments: Mapping[str, Any]) -> str:
    return checked(ListingArguments, arguments).id


async def _verify(source: ToolSource, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return _without("verified", await source.verify(_id(arguments)))


async def _quote(source: ToolSource, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """A quote, without the address where nothing can be paid."""
    quote = await source.quote(list(checked(QuoteArguments, arguments).model_dump(exclude_none=True).items()))
    return quote if quote["ok"] else _without("address", quote)


def _without(name: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    return {member: value for member, value in answer.items() if member != name}


_CALLS: dict[str, Callable[[ToolSource, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]] = {
    "search": _search,
    "get": _get,
    "history": lambda source, arguments: source.history(_id(arguments)),
    "diagnose": lambda source, arguments: source.diagnose(checked(DiagnoseArguments, arguments).what.strip()),
    "verify": _verify,
    "quote": _quote,
}
