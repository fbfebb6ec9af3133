"""A search request: the query for the engine, and the notes of the answer about the request."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, filterfalse
from typing import Any, NamedTuple

from overlay.answers.items import STATUSES
from overlay.api import cursors, values
from overlay.api.lookups import lookups
from overlay.api.parameters import FILTERS, MAX_OFFSET, SEARCH, read
from overlay.api.problems import BadRequestError, Fault, bad_request
from overlay.api.saved_searches import follow
from overlay.api.understood import answered, preferences, with_preferences
from overlay.api.values import shown
from overlay.engines import IndexPosition
from overlay.installation import FILTERS as NEEDED_BY_FILTERS
from overlay.installation import NAMES, SORTS, absence, system
from overlay.pricing.exchange_rates import ExchangeRates, table_version
from overlay.search import query_syntax
from overlay.search.facet_counts import not_exact
from overlay.search.facts import EXACT
from overlay.search.preferences import Preference, hinted_kind
from overlay.search.query import PRICE_SORTS, Hits, Lookup, Query, question_mark
from overlay.search.query_syntax import ParsedText
from overlay.search.sorting import DOWNWARD, is_key
from overlay.text.network_words import network_note
from overlay.text.safe_text import on_one_line, one_line
from parsers.cards.intervals import meant
from parsers.cards.rate_table import RateTable

ABOVE_THE_TIP = "above-the-tip"
"""The code of a height above the indexed one."""

QUOTED_ONLY = "quoted-only"
"""The code of the note that offers in currencies without a quote were not compared."""

NO_CHAIN = "no-chain"
"""The code of a height that is compared with nothing, as no chain is configured."""

_BOUNDS = frozenset({"minPrice", "maxPrice"})
_HEIGHTS = {name: FILTERS[name].member for name in ("fromBlock", "toBlock", "asOfHeight")}
_MEMBERS = {
    parameter.name: parameter.member
    for parameter in SEARCH.parameters
    if parameter.member and parameter.name not in _HEIGHTS
}
"""The members of a query with the values of parameters. Some are replaced by what the values mean."""


class SearchRequest(NamedTuple):
    """A validated search. `kind` is agent, tool or all; `sort` as in the URL; `position` counts the listings before
    this page; `beyond` marks an offset above the largest one served: its page is empty. `unapplied` names the
    parameters that could not be applied, `notes` the reasons. `text` is `q` unchanged. `rates` is the table that
    converts prices, if any. `after` is the state of the index at the page before, for a cursor, and `continued` the
    mark of the question that this page answered. `fields` are the members of items to answer; None: all. `parameters`
    are those of the URL with a value, `systems` those that are served. `test_network` is a sentence that names the test
    networks that are searched. `preferences` are those in `text`."""

    query: Query
    kind: str
    sort: str
    position: int
    beyond: bool
    explain: bool
    notes: tuple[Fault, ...] = ()
    text: str = ""
    highlight: bool = False
    rates: RateTable | None = None
    after: IndexPosition | None = None
    continued: str | None = None
    fields: frozenset[str] | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    systems: Collection[str] = NAMES
    test_network: str = ""
    preferences: tuple[Preference, ...] = ()

    @property
    def is_converted(self) -> bool:
        """Whether the answer depends on exchange rates."""
        return self.query.price_currency is not None or self.query.quotes is not None

    @property
    def unapplied(self) -> list[str]:
        """The parameters that could not be applied: items may not meet them."""
        return [note.parameter for note in self.notes if note.parameter and note.code == NO_CHAIN]

    def notes_on(self, hits: Hits) -> tuple[Fault, ...]:
        """The notes of a page of hits."""
        notes = (*self.notes, NO_PHRASE) if hits.phrases_dropped else self.notes
        if hits.at_least and (names := not_exact(self.query)):
            notes = (*notes, _not_exact(names))
        if hits.is_weak:
            notes = (*notes, NOTHING_HERE)
        if self.query.sort == "rating" and hits.hits and not any(_RATED in bytes(hit.item) for hit in hits.hits):
            notes = (*notes, NOTHING_RATED)
        if not hits.total:
            notes = (*notes, *map(_as_written, filterfalse(meant, self.query.intervals)))
        return (*notes, _looked_up(hits.lookup)) if hits.lookup else notes

    def note_members(self, hits: Hits) -> dict[str, Any]:
        """`testNetwork`, `weak`, `follow`, `related`, `corrected`, `understood`, `unappliedFilters` (law 15) and
        `notes` of a page, as far as there are any."""
        members: dict[str, Any] = {
            "testNetwork": self.test_network,
            "weak": hits.is_weak,
            "follow": follow(self.parameters, self.systems) if hits.is_weak else {},
            "related": [{"word": word, "terms": terms} for word, terms in hits.related.items()],
            "corrected": [{"word": word, "to": to} for word, to in hits.plan.corrected] if hits.total else [],
            "understood": answered(self.parameters, self.preferences),
            "unappliedFilters": self.unapplied,
            "notes": [note.as_json() for note in self.notes_on(hits)],
        }
        return {name: value for name, value in members.items() if value}


NOTHING_HERE = Fault("nothing-here", "no listing here seems to do this")
_RATED = b'"rating":{'
"""The member of an encoded item with a rating; in a text of it the quotation marks are escaped."""

NOTHING_RATED = Fault(
    "nothing-rated", "none of these listings is rated: the order says nothing of the work that they did"
)
NO_PHRASE = Fault("phrase-not-found", "no listing contains the quoted phrase, so its words were searched for")


def _as_written(interval: str) -> Fault:
    detail = (
        f"the interval {shown(interval)} was compared as it is written; understood are ISO 8601 durations in upper "
        "case, such as P1M, words such as day, week, month, year or monthly, and none for a price per call"
    )
    return Fault("interval-as-written", detail)


def _looked_up(lookup: Lookup) -> Fault:
    what = "the first result" if lookup.leads else "the results"
    detail = f"{what} matched by {lookup.by}; in quotation marks, the text is searched for by its words only"
    return Fault("looked-up", detail)


def _not_exact(facets: Collection[str]) -> Fault:
    detail = (
        f"more than {EXACT:,} results: {', '.join(facets)} counts every listing with an offer of the value, also where "
        "another offer meets the other filters"
    )
    return Fault("facets-not-exact", detail)


NOT_COMPARED = Fault(
    "currencies-not-compared",
    "there are no exchange rates, so prices in different currencies are not compared: what is free comes first, then "
    "each currency by itself in the order of its name; bounds hold in each price's own currency",
)
NO_EXCHANGE = ExchangeRates()
NO_HEIGHTS: Mapping[str, int] = {}


def from_pairs(
    url_pairs: Iterable[tuple[str, str]],
    chains: Mapping[str, str],
    exchange: ExchangeRates = NO_EXCHANGE,
    heights: Mapping[str, int] = NO_HEIGHTS,
    systems: Collection[str] = NAMES,
) -> SearchRequest:
    """Parse a search from its URL parameters. `chains` maps configured names to CAIP-2 ids, in configured order;
    `exchange` converts prices; `heights` are the indexed heights by chain name; `systems` are those that are served.

    Raises BadRequestError naming every fault.
    """
    parameters = tuple(url_pairs)
    values_by_name, faults = read(parameters, SEARCH)
    names = _chains(values_by_name["chain"], chains, faults) if "chain" in values_by_name else ()
    sort = values_by_name.get("sort", "relevance")
    _check_systems(values_by_name, systems, faults)
    if sort.removeprefix("-") == "cost" and "calls" not in values_by_name:
        faults.append(Fault("missing", "sort=cost needs calls, such as calls=50/day", "calls"))
    after = _page_position(values_by_name, sort, faults) if "cursor" in values_by_name else None
    price_currency = _price_currency(values_by_name, exchange, faults)
    height_chain = next(iter(names or chains), None)
    _check_height(values_by_name.get("asOfHeight"), height_chain, heights, faults)
    if faults:
        raise BadRequestError(faults)
    text = values_by_name.get("q", "")
    words = query_syntax.read(text)
    understood = preferences(values_by_name, words)
    query = _query(values_by_name, words._replace(text=understood.text), names, sort)
    if understood.preferences:
        query = with_preferences(query, understood.preferences)
    if query.kind is None and values_by_name.get("understand", True):
        query = query._replace(hinted=hinted_kind(understood.text))
    table = _table(exchange, price_currency, after) if price_currency is not None else None
    if price_currency is not None:
        rates = exchange.crosses(table, price_currency) if table else {}
        by_filter = "priceCurrency" not in values_by_name
        query = query._replace(price_currency=price_currency, priced_by_filter=by_filter, rates=rates)
    elif after is not None and after.rates and _by_price(values_by_name):
        raise _rates_changed()
    if "priceCurrency" not in values_by_name and not _BOUNDS.isdisjoint(values_by_name):
        query = query._replace(quotes=exchange.quotes())
    if not _HEIGHTS.keys().isdisjoint(values_by_name):
        query = _at_heights(query, values_by_name, height_chain)
    if after is not None:
        query = query._replace(after=after.key, offset=min(after.position, MAX_OFFSET), shown=after.shown)
    return SearchRequest(
        query=query,
        kind=query.kind or "all",
        sort=sort,
        position=after.position if after else query.offset,
        beyond=not after and values_by_name.get("offset", 0) > MAX_OFFSET,
        explain=values_by_name.get("explain", False),
        notes=(
            *_on_words(words),
            *_on_prices(values_by_name, price_currency, table, exchange),
            *_on_heights(values_by_name, names, height_chain),
        ),
        text=text,
        highlight=values_by_name.get("highlight", False),
        rates=table,
        after=IndexPosition(after.epoch, after.seq) if after else None,
        continued=after.question if after else None,
        fields=frozenset(values_by_name["fields"]) | {"id"} if "fields" in values_by_name else None,
        parameters=tuple([pair for pair in parameters if pair[1].strip()]),
        systems=systems,
        test_network=network_note(*(chains[name] for name in names or chains)),
        preferences=understood.preferences,
    )


def check_cursor(search_request: SearchRequest) -> None:
    """Raise BadRequestError where a page follows a page of another question: with other words, other filters, also of a
    protocol, or another order."""
    is_next = search_request.query.after is not None
    if is_next and search_request.continued != question_mark(search_request.query):
        detail = (
            "the cursor belongs to another search: repeat the words, filters and order of its page, of which only "
            "the limit may change, or search without the cursor"
        )
        raise bad_request("bad-cursor", detail, "cursor")


def _check_systems(values_by_name: Mapping[str, Any], systems: Collection[str], faults: list[Fault]) -> None:
    """Add a fault for an order, and for each filter, of a system that is not served."""
    needed = {name: NEEDED_BY_FILTERS[name] for name in NEEDED_BY_FILTERS if name in values_by_name}
    if name := SORTS.get(values_by_name.get("sort", "").removeprefix("-")):
        needed["sort"] = name
    for parameter, name in needed.items():
        if name not in systems or system(name) is None:
            faults.append(Fault("unknown-value", f"{parameter}: {name} {absence(name)}", parameter))


def _table(exchange: ExchangeRates, price_currency: str, after: cursors.PagePosition | None) -> RateTable | None:
    """The newest exchange rates; for a later page of an order by price, the rates of its first page. Raises
    BadRequestError where these are not stored any more."""
    newest = exchange.quoting(price_currency)
    if after is None or after.sort.removeprefix("-") not in PRICE_SORTS:
        return newest
    if after.rates == (table_version(newest) if newest else ""):
        return newest
    table = exchange.of_version(after.rates, price_currency)
    if table is None:
        raise _rates_changed()
    return table


def _rates_changed() -> BadRequestError:
    detail = "the exchange rates have changed since this order by price began: search again without the cursor"
    return bad_request("rates-changed", detail, "cursor")


def _query(values_by_name: Mapping[str, Any], words: ParsedText, chains: tuple[str, ...], sort: str) -> Query:
    """The query without converted currencies, heights and cursor. Absent parameters keep the query's defaults."""
    fields: dict[str, Any] = {_MEMBERS[name]: value for name, value in values_by_name.items() if name in _MEMBERS}
    fields["text"] = words.text
    fields["lookups"] = lookups(values_by_name.get("q", ""))
    if words.has_operators:
        fields |= _typed(fields, words)
    if "type" in values_by_name:
        kinds = values_by_name["type"]
        fields["kind"] = kinds[0] if len(kinds) == 1 and kinds[0] != "all" else None
    if chains:
        fields["chains"] = chains
    if "status" in values_by_name:
        fields["statuses"] = STATUSES if "all" in values_by_name["status"] else values_by_name["status"]
    if "sort" in values_by_name:
        name = fields["sort"] = sort.removeprefix("-")
        fields["descending"] = name not in DOWNWARD if sort.startswith("-") else None
    if "offset" in values_by_name:
        fields["offset"] = min(values_by_name["offset"], MAX_OFFSET)
    if "facets" in values_by_name:
        fields["facets"] = tuple(dict.fromkeys(chain.from_iterable(values_by_name["facets"])))
    return Query(**fields)


def _at_heights(query: Query, values_by_name: Mapping[str, Any], height_chain: str | None) -> Query:
    """The query with its heights, where there is a chain for them."""
    if height_chain is None:
        return query
    heights = {_HEIGHTS[name]: value for name, value in values_by_name.items() if name in _HEIGHTS}
    return query._replace(height_chain=height_chain, **heights)


def _typed(fields: Mapping[str, Any], words: ParsedText) -> Iterator[tuple[str, Any]]:
    """Operators and filters that were typed in `q`; their values are added to those of the parameters."""
    operators = query_syntax.operators(words)
    if operators is not None and operators.not_owners:
        operators = replace(operators, not_owners=tuple(map(values.owner, operators.not_owners)))
    yield "operators", operators
    readers = {"skills": values.folded, "tags": values.folded, "owners": values.owner}
    for name, read_one in readers.items():
        typed = getattr(words, name)
        if typed:
            yield name, tuple(dict.fromkeys((*fields.get(name, ()), *map(read_one, typed))))


def _chains(texts: tuple[str, ...], configured: Mapping[str, str], faults: list[Fault]) -> tuple[str, ...]:
    """Configured names for names or CAIP-2 ids, each once."""
    names: dict[str, None] = {}
    for text in texts:
        matching = [name for name, caip2 in configured.items() if text in (name, caip2)]
        if not matching:
            choices = ", ".join(f"{name} ({caip2})" for name, caip2 in configured.items()) or "none yet"
            faults.append(
                Fault("unknown-chain", f"chain: {shown(text)} is not indexed here; known: {choices}", "chain")
            )
        names.update(dict.fromkeys(matching))
    return tuple(names)


def _page_position(values_by_name: Mapping[str, Any], sort: str, faults: list[Fault]) -> cursors.PagePosition | None:
    text = values_by_name["cursor"]
    if values_by_name.get("offset"):
        faults.append(Fault("conflict", "give cursor or offset, not both", "cursor"))
    try:
        position = cursors.decode(text)
    except ValueError as error:
        faults.append(Fault("bad-cursor", str(error), "cursor"))
        return None
    if position.sort != sort:
        detail = f"the cursor belongs to sort={shown(position.sort)}, not to sort={shown(sort)}"
        faults.append(Fault("bad-cursor", detail, "cursor"))
    elif not is_key(sort.removeprefix("-"), position.key):
        faults.append(Fault("bad-cursor", "the cursor was not given out here", "cursor"))
    return position


def _price_currency(values_by_name: Mapping[str, Any], exchange: ExchangeRates, faults: list[Fault]) -> str | None:
    """Law 15: `priceCurrency`, else the only accepted currency, else the default one where it is quoted. With several
    accepted currencies, bounds and no default a fault is added."""
    currency: str | None = values_by_name.get("priceCurrency")
    accepted: tuple[str, ...] = values_by_name.get("acceptedCurrency", ())
    if currency is not None or not _by_price(values_by_name):
        return currency
    if len(accepted) != 1 and (default := exchange.default_currency()) is not None:
        return default
    if len(accepted) > 1 and not _BOUNDS.isdisjoint(values_by_name):
        detail = f"priceCurrency is needed: prices could be in {' or '.join(map(shown, accepted))}"
        faults.append(Fault("price-currency-needed", detail, "priceCurrency"))
    return accepted[0] if len(accepted) == 1 else None


def _by_price(values_by_name: Mapping[str, Any]) -> bool:
    return not _BOUNDS.isdisjoint(values_by_name) or values_by_name.get("sort", "").removeprefix("-") in PRICE_SORTS


def _check_height(
    height: int | None, height_chain: str | None, heights: Mapping[str, int], faults: list[Fault]
) -> None:
    """Add a fault for a height above the indexed one, as the answer would change."""
    tip = heights.get(height_chain) if height_chain is not None else None
    if height is not None and tip is not None and height > tip:
        detail = f"asOfHeight: {height:,} is above the newest block of {height_chain} that is indexed, {tip:,}"
        faults.append(Fault(ABOVE_THE_TIP, detail, "asOfHeight"))


def _on_words(words: ParsedText) -> Iterator[Fault]:
    """Notes on words that were not searched for, or not as operators. They are not a filter, so no parameter is
    named."""
    if words.left_out:
        read = f"only {query_syntax.MAX_WORDS} words and {query_syntax.MAX_BYTES:,} bytes of q were searched for"
        yield Fault("words-left-out", f"{read}; left out: {one_line(on_one_line(words.left_out))}")
    if words.is_sentence:
        most = query_syntax.OPERATOR_WORDS
        detail = f"quotation marks and hyphens are operators only in texts of at most {most} words"
        yield Fault("operators-as-words", detail)


def _on_prices(
    values_by_name: Mapping[str, Any], price_currency: str | None, table: RateTable | None, exchange: ExchangeRates
) -> Iterator[Fault]:
    """Notes on offers that could not be compared by price (law 15)."""
    if not _by_price(values_by_name):
        return
    if price_currency is None:
        yield NOT_COMPARED
    elif table is None:
        code, why = exchange.missing(price_currency)
        detail = f"{why}: only offers priced in {shown(price_currency)} were compared by price"
        yield Fault(code, detail, "priceCurrency" if "priceCurrency" in values_by_name else None)
    else:
        detail = f"offers in a currency that {table.source} does not quote were not compared by price"
        yield Fault(QUOTED_ONLY, detail)
        if note := exchange.last_good_note(table, price_currency):
            yield Fault("refused-quote", note)


def _on_heights(values_by_name: Mapping[str, Any], names: tuple[str, ...], height_chain: str | None) -> Iterator[Fault]:
    """Notes on heights that could not be applied: only the first of several chains is searched."""
    if _HEIGHTS.keys().isdisjoint(values_by_name):
        return
    if height_chain is None:
        for name in filter(_HEIGHTS.__contains__, values_by_name):
            yield Fault(NO_CHAIN, "no chain is configured yet, so there is no height to compare", name)
    if len(names) > 1:
        others = ", ".join(names[1:])
        yield Fault("one-chain", f"heights are those of {names[0]}: nothing of {others} is shown", "chain")
