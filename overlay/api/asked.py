"""A search as it was asked: the query an engine can answer, and what the answer has to say about the question."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

from overlay.api import cursors, values
from overlay.api.params import MAX_OFFSET, SEARCH, STATUSES, read
from overlay.api.problems import BadRequestError, Fault
from overlay.api.values import shown
from overlay.engines import Cursor
from overlay.exchange import CONTRADICTED, Exchange, timestamp, version
from overlay.query import Operators, Query
from overlay.search import query_syntax
from overlay.search.query_syntax import ParsedText
from overlay.search.sorting import is_key
from parsers.rates import Rates

NEWEST_OR_BEST_FIRST = frozenset({"relevance", "updated", "created"})
_BOUNDS = frozenset({"minPrice", "maxPrice"})
_HEIGHTS = {"fromBlock": "from_height", "toBlock": "to_height", "asOfHeight": "as_of"}
_AS_GIVEN = {
    "skillId": "skills", "acceptedCurrency": "currencies", "interval": "intervals", "minPrice": "min_price",
    "maxPrice": "max_price", "tag": "tags", "domain": "domains", "owner": "owners", "duplicatesOf": "group",
    "verified": "verified", "updatedSince": "updated_since", "limit": "limit",
}  # fmt: skip
"""Where a query keeps the values of parameters that it takes as they are given."""


class Asked(NamedTuple):
    """A validated question. `kind` is agent, tool or all; `sort` as in the URL; `position` counts the listings before
    this page; `beyond` marks an offset past the largest one served, whose page is empty. `unapplied` names what could
    not be applied and `notes` says why. `text` is `q` as it was given. `rates` is the table that prices are converted
    by, None where none is. `after`: as of when the page before was read, where a cursor leads on from it."""

    query: Query
    kind: str
    sort: str
    position: int
    beyond: bool
    explain: bool
    notes: tuple[Fault, ...] = ()
    text: str = ""
    highlight: bool = False
    rates: Rates | None = None
    after: Cursor | None = None

    @property
    def unapplied(self) -> list[str]:
        """The parameters that could not be applied, in full."""
        return [note.parameter for note in self.notes if note.parameter]


NO_EXCHANGE = Exchange()
NO_HEIGHTS: Mapping[str, int] = {}


def from_pairs(
    given: Iterable[tuple[str, str]],
    chains: Mapping[str, str],
    exchange: Exchange = NO_EXCHANGE,
    heights: Mapping[str, int] = NO_HEIGHTS,
) -> Asked:
    """Read a search from its URL parameters; `chains` maps configured names to CAIP-2 ids, in configured order,
    `exchange` converts prices, and `heights` are those that chains are indexed up to, by name, where they are known.

    Raises BadRequestError naming each fault.
    """
    found, faults = read(given, SEARCH)
    names = _chains(found["chain"], chains, faults) if "chain" in found else ()
    sort = found.get("sort", "relevance")
    place = _place(found, sort, faults) if "cursor" in found else None
    price_currency = _price_currency(found, faults)
    height_chain = next(iter(names or chains), None)
    _check_height(found.get("asOfHeight"), height_chain, heights, faults)
    if faults:
        raise BadRequestError(faults)
    query = _query(found, names, sort)
    table: Rates | None = None
    notes: tuple[Fault, ...] = ()
    if price_currency is not None:
        table = _table(exchange, price_currency, place)
        rates = exchange.crosses(table, price_currency) if table else {}
        by_filter = "priceCurrency" not in found
        query = query._replace(price_currency=price_currency, priced_by_filter=by_filter, rates=rates)
        notes += tuple(_on_prices(found, price_currency, table, exchange))
    if "priceCurrency" not in found and not _BOUNDS.isdisjoint(found):
        query = query._replace(quotes=exchange.quotes())
    if not _HEIGHTS.keys().isdisjoint(found):
        query = _at_heights(query, found, height_chain)
        notes += tuple(_on_heights(found, names, height_chain))
    if place is not None:
        query = query._replace(after=place.key, offset=min(place.position, MAX_OFFSET))
    return Asked(
        query=query,
        kind=query.kind or "all",
        sort=sort,
        position=place.position if place else query.offset,
        beyond=not place and found.get("offset", 0) > MAX_OFFSET,
        explain=found.get("explain", False),
        notes=notes,
        text=found.get("q", ""),
        highlight=found.get("highlight", False),
        rates=table,
        after=Cursor(place.epoch, place.seq) if place else None,
    )


def _table(exchange: Exchange, price_currency: str, place: cursors.Place | None) -> Rates | None:
    """The exchange rates to convert by: the newest; on the later pages of an order by price those that it began with.
    Raises BadRequestError where these are not kept any more."""
    newest = exchange.quoting(price_currency)
    if place is None or place.sort.removeprefix("-") != "price":
        return newest
    if place.rates == (version(newest) if newest else ""):
        return newest
    found = exchange.of_version(place.rates, price_currency)
    if found is None:
        detail = "the exchange rates have changed since this order by price began: ask again without the cursor"
        raise BadRequestError((Fault("rates-changed", detail, "cursor"),))
    return found


def _query(found: Mapping[str, Any], chains: tuple[str, ...], sort: str) -> Query:
    """What an engine is asked, but for other currencies, heights and where a page begins after a cursor. What was not
    given is left as it is in every query: most have words and nothing else."""
    given: dict[str, Any] = {_AS_GIVEN[each]: value for each, value in found.items() if each in _AS_GIVEN}
    words = query_syntax.read(found.get("q", ""))
    given["text"] = words.text
    if any(words[1:]):
        given |= _typed(given, words)
    if "type" in found:
        given["kind"] = _kind(found["type"])
    if chains:
        given["chains"] = chains
    if "status" in found:
        given["statuses"] = STATUSES if "all" in found["status"] else found["status"]
    if "sort" in found:
        name = given["sort"] = sort.removeprefix("-")
        given["descending"] = name not in NEWEST_OR_BEST_FIRST if sort.startswith("-") else None
    if "offset" in found:
        given["offset"] = min(found["offset"], MAX_OFFSET)
    if "facets" in found:
        given["facets"] = tuple(dict.fromkeys(chain.from_iterable(found["facets"])))
    return Query(**given)


def _at_heights(query: Query, found: Mapping[str, Any], height_chain: str | None) -> Query:
    """The query with the heights that it asks for, where these are of a chain."""
    if height_chain is None:
        return query
    heights = {_HEIGHTS[each]: value for each, value in found.items() if each in _HEIGHTS}
    return query._replace(height_chain=height_chain, **heights)


def _typed(given: Mapping[str, Any], words: ParsedText) -> Iterator[tuple[str, Any]]:
    """What was typed among the words: the operators, and values of filters beside those given, any of them."""
    yield "operators", _operators(words)
    of = (
        ("skills", words.skills, values.text),
        ("tags", words.tags, values.tag),
        ("owners", words.owners, values.owner),
    )
    for name, typed, read_one in of:
        if typed:
            yield name, tuple(dict.fromkeys((*given.get(name, ()), *map(read_one, typed))))


def _operators(words: ParsedText) -> Operators | None:
    found = query_syntax.operators(words)
    if found is None or not found.not_owners:
        return found
    return replace(found, not_owners=tuple(map(values.owner, found.not_owners)))


def _kind(kinds: tuple[str, ...]) -> str | None:
    return kinds[0] if len(kinds) == 1 and kinds[0] != "all" else None


def _chains(asked: tuple[str, ...], known: Mapping[str, str], faults: list[Fault]) -> tuple[str, ...]:
    """Configured names for names or CAIP-2 ids, each once."""
    names: dict[str, None] = {}
    for text in asked:
        meant = [name for name, caip2 in known.items() if text in (name, caip2)]
        if not meant:
            choices = ", ".join(f"{name} ({caip2})" for name, caip2 in known.items()) or "none yet"
            faults.append(
                Fault("unknown-chain", f"chain: {shown(text)} is not indexed here; known: {choices}", "chain")
            )
        names.update(dict.fromkeys(meant))
    return tuple(names)


def _place(found: Mapping[str, Any], sort: str, faults: list[Fault]) -> cursors.Place | None:
    text = found["cursor"]
    if found.get("offset"):
        faults.append(Fault("conflict", "give cursor or offset, not both", "cursor"))
    try:
        place = cursors.decode(text)
    except ValueError as error:
        faults.append(Fault("bad-cursor", str(error), "cursor"))
        return None
    if place.sort != sort:
        detail = f"the cursor belongs to sort={shown(place.sort)}, not to sort={shown(sort)}"
        faults.append(Fault("bad-cursor", detail, "cursor"))
    elif not is_key(sort.removeprefix("-"), place.key):
        faults.append(Fault("bad-cursor", "the cursor was not given out here", "cursor"))
    return place


def _price_currency(found: Mapping[str, Any], faults: list[Fault]) -> str | None:
    """Law 15: the one given, else the one accepted currency asked for; several need to be told apart."""
    given: str | None = found.get("priceCurrency")
    accepted: tuple[str, ...] = found.get("acceptedCurrency", ())
    if given is not None or not _by_price(found):
        return given
    if len(accepted) > 1 and not _BOUNDS.isdisjoint(found):
        detail = f"priceCurrency is needed: prices could be in {' or '.join(map(shown, accepted))}"
        faults.append(Fault("price-currency-needed", detail, "priceCurrency"))
    return accepted[0] if len(accepted) == 1 else None


def _by_price(found: Mapping[str, Any]) -> bool:
    return not _BOUNDS.isdisjoint(found) or found.get("sort", "").endswith("price")


def _check_height(
    height: int | None, height_chain: str | None, heights: Mapping[str, int], faults: list[Fault]
) -> None:
    """Refuse a height of the future: the registry at it is not known yet, and would be another one then."""
    tip = heights.get(height_chain) if height_chain is not None else None
    if height is not None and tip is not None and height > tip:
        detail = f"asOfHeight: {height:,} is above the newest block of {height_chain} that is indexed, {tip:,}"
        faults.append(Fault("above-the-tip", detail, "asOfHeight"))


def _on_prices(
    found: Mapping[str, Any], price_currency: str, table: Rates | None, exchange: Exchange
) -> Iterable[Fault]:
    """Which offers could not be compared by price (law 15)."""
    if not _by_price(found):
        return
    if table is None:
        code, why = exchange.missing(price_currency)
        detail = f"{why}: only offers priced in {shown(price_currency)} were compared by price"
        yield Fault(code, detail, "priceCurrency")
    else:
        detail = f"offers in a currency that {table.source} does not quote were not compared by price"
        yield Fault("quoted-only", detail)
        if exchange.stands_in(table):
            used = f"the last good quote is used instead, of {timestamp(table.at)}"
            detail = (
                f"quotes of {shown(price_currency)} that {table.source} tells now are refused: {CONTRADICTED}; {used}"
            )
            yield Fault("refused-quote", detail)


def _on_heights(found: Mapping[str, Any], names: tuple[str, ...], height_chain: str | None) -> Iterable[Fault]:
    """Which heights could not be compared: those of several chains cannot, so only the first of them is searched."""
    if height_chain is None:
        for name in filter(_HEIGHTS.__contains__, found):
            yield Fault("no-chain", "no chain is configured yet, so there is no height to compare", name)
    if len(names) > 1:
        others = ", ".join(names[1:])
        yield Fault("one-chain", f"heights are those of {names[0]}: nothing of {others} is shown", "chain")
