"""Query parameters: one table that parses them and from which the OpenAPI document is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from overlay.answers.items import HEALTH, ITEM_MEMBERS, KINDS, STATUSES
from overlay.api import values
from overlay.api.problems import BadRequestError, Fault, bad_request
from overlay.api.values import ValueRefusedError, shown
from overlay.search.facts import MOST_CUSTOMERS, MOST_FACET_VALUES, MOST_VALUES
from overlay.search.query import FACETS, SORTS
from overlay.search.value_lists import interval_parts, parts
from parsers.cards.intervals import interval_key
from parsers.cards.usage import ACCESS, AUTH, LAUNCHERS, PROTOCOLS, TRANSPORTS
from parsers.claims.amount_due import STAGES

if TYPE_CHECKING:
    from aiohttp import web

MAX_LIMIT, MAX_OFFSET = 100, 10_000
MAX_PAIRS, MAX_REPEATS = 200, 64
MAX_CHANGES = 1_000
_KIND_OF = {kind: kind for kind in KINDS} | {
    **dict.fromkeys(("a2b-agent", "a2b"), "agent"), **dict.fromkeys(("a2b-mcp", "mcp", "server"), "tool"),
}  # fmt: skip
LIST = " Several, separated by commas or repeated: any of them."
"""Ends the description of a parameter that may have several values."""

SORT_WORDS = tuple(sign + name for name in SORTS for sign in ("", "-"))


MOMENT: dict[str, Any] = {
    "type": "string",
    "anyOf": [{"format": "date"}, {"format": "date-time"}],
    "examples": ["2025-01-31", "2025-01-31T12:00:00Z"],
}
"""The schema of the texts that `values.moment` reads."""

WHOLE: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": values.LARGEST_WHOLE}
"""The schema of the texts that `values.whole` reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One query parameter. `read` parses one value or raises ValueRefusedError; `many`: it may be repeated (any of), so
    that there are from `least` to `most` different values;
    `parts` splits a list of values; `may_be_empty`: an empty value counts as absent; `required`: it must be given;
    `schema` is the JSON Schema of one value. `member` is the member of a `Query` with its value; a filter has a
    `label`, by which pages call it."""

    name: str
    description: str
    schema: dict[str, Any]
    read: Callable[[str], Any]
    many: bool = False
    least: int = 1
    most: int = MAX_REPEATS
    may_be_empty: bool = False
    required: bool = False
    aliases: tuple[str, ...] = ()
    parts: Callable[[str], list[str]] | None = None
    member: str = ""
    label: str = ""


def parameter(
    name: str,
    description: str,
    read: Callable[[str], Any] = values.text,
    *,
    many: bool = False,
    least: int = 1,
    most: int = MAX_REPEATS,
    may_be_empty: bool = False,
    required: bool = False,
    aliases: tuple[str, ...] = (),
    parts: Callable[[str], list[str]] | None = None,
    member: str = "",
    label: str = "",
    **schema: Any,
) -> Parameter:
    """A parameter: a string, unless its `schema` has another type."""
    return Parameter(
        name=name, description=description, schema={"type": "string", **schema}, read=read, many=many, least=least,
        most=most,
        may_be_empty=may_be_empty, required=required, aliases=aliases, parts=parts, member=member, label=label,
    )  # fmt: skip


def _page_size(value: str) -> int:
    size = values.whole(value)
    if not 1 <= size <= MAX_LIMIT:
        raise ValueRefusedError("out-of-range", f"{size:,} is not between 1 and {MAX_LIMIT}")
    return size


def _customers(value: str) -> int:
    number = values.whole(value)
    if not 1 <= number <= MOST_CUSTOMERS:
        raise ValueRefusedError("out-of-range", f"{number:,} is not between 1 and {MOST_CUSTOMERS}")
    return number


def page_size(name: str, description: str) -> Parameter:
    """The parameter of a foreign protocol for the entries a page, from 1 to 100, which are not clamped."""
    return parameter(name, description, _page_size, type="integer", minimum=1, maximum=MAX_LIMIT)


def optional(parameters: Iterable[Parameter]) -> tuple[Parameter, ...]:
    """The parameters, where an empty value counts as absent, as forms send it."""
    return tuple(replace(parameter, may_be_empty=True) for parameter in parameters)


def _facet_words(value: str) -> tuple[str, ...]:
    if value.strip().lower() in ("1", "true", "all"):
        return FACETS
    return tuple(values.one_of(name.strip(), FACETS) for name in value.split(",") if name.strip())


def _kind(value: str) -> str:
    return _KIND_OF[values.one_of(value, tuple(_KIND_OF))]


def _words(name: str, description: str, allowed: tuple[str, ...], *, many: bool = False, **schema: Any) -> Parameter:
    read = partial(values.one_of, allowed=allowed)
    return parameter(name, description, read, many=many, parts=parts if many else None, enum=list(allowed), **schema)


def _truth(name: str, description: str, **more: Any) -> Parameter:
    return parameter(name, description, values.truth, type="boolean", **more)


def _amount(name: str, description: str, member: str, label: str) -> Parameter:
    pattern = r"^[0-9]*\.?[0-9]*([eE][+-]?[0-9]{1,2})?$"
    return parameter(name, description, values.amount, member=member, label=label, pattern=pattern, examples=["0.05"])


def _all_words(value: str) -> bool:
    return values.one_of(value, ("all",)) == "all"


def _clamped(name: str, description: str, low: int, high: int, **schema: Any) -> Parameter:
    note = f" Numbers outside {low} to {high} are clamped, fractions cut."
    return parameter(name, description + note, partial(values.clamped, low=low, high=high), type="number", **schema)


@dataclass(frozen=True, slots=True)
class Table:
    """The parameters of one route; `names` maps every name and alias to its parameter."""

    parameters: tuple[Parameter, ...] = ()
    names: Mapping[str, Parameter] = field(default_factory=dict)


def table(*parameters: Parameter) -> Table:
    return Table(
        parameters, {alias: parameter for parameter in parameters for alias in (parameter.name, *parameter.aliases)}
    )


SEARCH = table(
    parameter(
        "q",
        "A question, or words to find in names, descriptions, tags, skills and examples; at most 4 kB, of which 96 "
        "words and 2 kB are searched for (`notes` names the others). In texts of more than six words, stop words such "
        "as `the` or `please` are not searched for; a stop word alone finds nothing where there are other words. In "
        'texts of at most eight words, `"a phrase"` is required word for word in one text, `-word` and `-"a phrase"` '
        "exclude, and `OR` between two words means either. `tag:`, `owner:` and `skill:`, with a word or a phrase, are "
        "the filters `tag`, `owner` and `skillId` "
        "(values here and there: any of them), with a `-` before them exclusions. An operator begins a word. A "
        "quotation mark without a second one, a `-` alone, `--` and a filter without a value are ignored, and a text "
        "that is `*`, which finds everything. A text that "
        "is nothing but an id, a txid, an outpoint, an owner's address, a host or URL, or a package or the command "
        "that installs it, is looked up first (`notes`: `looked-up`).",
        values.words, may_be_empty=True, aliases=("query",),
    ),
    parameter(
        "type", "What to find: `a2b-agent` and `a2b` are agent; `a2b-mcp`, `mcp` and `server` are tool.", _kind,
        many=True, parts=parts, member="kind", label="What", enum=list(_KIND_OF),
    ),
    parameter(
        "skillId",
        f"The id of a skill, in any case.{LIST} Where a listing has the whole text as an id, that is meant.",
        values.folded, many=True, aliases=("skill",), member="skills", label="Skill",
    ),
    parameter(
        "acceptedCurrency", f"A currency that an offer takes: its own or one of `acceptedCurrencies`.{LIST}",
        values.currency, many=True, aliases=("currency",), parts=parts, member="currencies", label="Takes",
    ),
    parameter(
        "interval",
        "How often an offer is paid: an ISO 8601 duration, words such as month, monthly, per month or 1 month, or "
        f"`none` (also `null`, `per call`).{LIST}",
        interval_key, many=True, parts=interval_parts, member="intervals", label="Paid",
    ),
    _amount("maxPrice", "The most an offer may cost, in `priceCurrency`.", "max_price", "At most"),
    _amount("minPrice", "The least an offer may cost, in `priceCurrency`.", "min_price", "At least"),
    parameter(
        "priceCurrency",
        "The currency of `maxPrice`, `minPrice` and of sorting by price. Default: the one of `acceptedCurrency`, "
        "else `A2B_PRICE_CURRENCY` (USD) where a feed quotes it, else each offer's own (with bounds and several of "
        "`acceptedCurrency` it must be given). Offers in other currencies are converted by the newest exchange rates, "
        "which the answer has in `rates`; an offer without a quote does not meet a price filter. Where nothing can be "
        "converted, only offers in this currency are compared, as `notes` says.",
        values.currency,
    ),
    parameter(
        "tag",
        f"A tag of the listing or of one of its skills.{LIST} Where a listing has the whole text as a tag, that is "
        "meant.",
        values.folded, many=True, member="tags", label="Tag",
    ),
    parameter(
        "chain", f"A chain by its configured name or its CAIP-2 id.{LIST}", many=True, parts=parts, member="chains",
        label="Chain",
    ),
    parameter(
        "domain", f"The host of an agent's URL, or the domain of a pointer.{LIST}", values.domain, many=True,
        parts=parts, member="domains", label="Domain",
    ),
    parameter(
        "owner", f"The address that holds the listing.{LIST}", values.owner, many=True, parts=parts, member="owners",
        label="Owner",
    ),
    parameter(
        "duplicatesOf", "The id of a listing: itself, and those that it is shown for in other searches.",
        member="group", label="Duplicates of",
    ),
    _truth(
        "verified", "`true`: only listings with a domain badge or a met hash; `false`: only those without.",
        aliases=("confirmed",), member="verified", label="Verified",
    ),
    _truth(
        "flagged", "`false`: no listing with a warning of high severity; `true`: only those.",
        member="flagged", label="Flagged",
    ),
    _truth(
        "deprecated", "`false`: no listing that its owner calls deprecated; `true`: only those.",
        member="deprecated", label="Deprecated",
    ),
    _words(
        "access", "How it is used: `remote` by a URL that every reader reaches, `local` by a command that runs here.",
        ACCESS, many=True, member="access", label="Access",
    ),
    _words(
        "transport", "A transport that the card states; stdio also of a command, jsonrpc also where A2A 0.2 and 0.3 "
        "mean it.",
        TRANSPORTS, many=True, member="transports", label="Transport",
    ),
    _words(
        "auth", "What a client needs, as the card says: a key or token, OAuth, a payment (x402), or nothing. Of most "
        "cards it is not known: they are found by none of these.",
        AUTH, many=True, member="auth", label="Needs",
    ),
    _words(
        "protocol", "An A2A version that the card states for an agent.", PROTOCOLS, many=True, member="protocols",
        label="A2A",
    ),
    _words(
        "launcher", "The program that starts a tool.", LAUNCHERS, many=True, member="launchers", label="Started by",
    ),
    _truth(
        "streaming", "Whether the card says that the agent streams; one that does not say is neither.",
        member="streaming", label="Streams",
    ),
    _truth(
        "hasPrice", "`true`: with a price; `false`: the card names none. One whose prices cannot be read is neither.",
        member="has_price", label="Has a price",
    ),
    _truth(
        "free", "`true`: with an offer of amount 0; `false`: with one that costs something. That offer must meet "
        "the other filters of prices.", member="free", label="Free",
    ),
    _truth(
        "payable", "`true`: with an offer for which nothing is to be paid, or whose address a payment in one of its "
        "currencies can reach; `false`: with one of which the card says no such thing. That offer must meet the other "
        "filters of prices.", member="payable", label="Payable",
    ),
    _truth(
        "runnable", "`true`: with a command, or a URL that every reader reaches; `false`: with neither.",
        member="runnable", label="Runnable",
    ),
    _truth(
        "reachable", "`true`: whose URL answers, if only to ask for a key or a payment, as of a visit within seven "
        "days; `false`: others, also those that nobody looked at.", member="reachable", label="Reachable",
    ),
    _words(
        "health", "What the last visit to its URL found (`health.state`).", HEALTH, many=True, member="health",
        label="Health",
    ),
    _truth(
        "forSale", "`true`: only listings whose output offers them for sale; `false`: only others.",
        member="for_sale", label="For sale",
    ),
    parameter(
        "minCustomers", "Rated, with at least so many distinct paying customers (`rating.customers`).", _customers,
        member="min_customers", label="Customers, at least", type="integer", minimum=1, maximum=MOST_CUSTOMERS,
    ),
    _words(
        "status", "The status of a listing; default live and pending.", (*STATUSES, "all"), many=True,
        member="statuses", label="Status",
    ),
    _clamped(
        "fromBlock", "The lowest updatedHeight, on `chain` (default: the first configured).", 0, values.LARGEST,
        member="from_height", label="From block",
    ),
    _clamped(
        "toBlock", "The highest updatedHeight, on `chain` (default: the first configured).", 0, values.LARGEST,
        member="to_height", label="To block",
    ),
    parameter(
        "updatedSince",
        "Updated, or called deprecated or not any more, at or after this time: RFC 3339, or a date (UTC).",
        values.moment,
        member="updated_since", label="Updated since", **MOMENT,
    ),
    parameter(
        "asOfHeight",
        "The registry after this block of `chain` (default: the first configured), at most the "
        "newest one indexed; nothing unconfirmed, and of each listing the last 256 states, "
        "and of these as many as have 32 MB of cards together.",
        values.whole, member="as_of", label="As of block", **WHOLE,
    ),
    parameter(
        "words",
        "`all`: only listings with all words of `q`, stop words left out. Without it orders other than by relevance "
        "have those first, then those with at least two thirds of the words, then the others.",
        _all_words, member="all_words", label="Words", enum=["all"],
    ),
    parameter(
        "calls",
        "How often it will be called, such as `50/day`, `10/week`, `1000/month` or `5/year`: each item has `cost`, the "
        "lowest cost of a month (a twelfth of a year) for that, and `sort=cost` orders by it.",
        values.calls, member="calls", label="Calls", pattern=r"^[1-9][0-9]{0,11}/(day|week|month|year)$",
        examples=["50/day"],
    ),
    _words(
        "sort",
        "relevance, updated, created and rating put the best or newest first, price, price_per_day, name and cost "
        "(with `calls`) the lowest; `-` reverses. price compares amounts, and with an `interval` that has a length "
        "prices per day, as price_per_day does; a listing without this price, or without a rating, comes last either "
        "way. The answer says in `priceComparison` which it was. Default: relevance, without words the latest.",
        SORT_WORDS, default="relevance",
    ),
    _clamped("limit", "Listings a page.", 1, MAX_LIMIT, member="limit", default=20),
    parameter(
        "offset", f"Listings to skip. Out of 0 to {MAX_OFFSET} it is clamped; beyond the end there are no items.",
        partial(values.clamped, low=0, high=MAX_OFFSET + 1), type="number", default=0,
    ),
    parameter(
        "cursor",
        "The `nextCursor` of the page before, instead of `offset`; with other words, filters or order it is refused "
        "(`bad-cursor`). Empty: the first page.",
        may_be_empty=True,
    ),
    parameter(
        "facets",
        f"What to count over all that was found: {', '.join(FACETS)}, comma-separated or repeated; "
        "or `all`. What a facet counts is not narrowed by its own filter, only by all others.",
        _facet_words, many=True,
    ),
    _clamped(
        "facetLimit",
        f"Values of each facet; at most {MOST_VALUES} of skills, currencies and intervals where one offer must meet "
        "several filters.",
        1, MOST_FACET_VALUES, member="facet_limit", default=MOST_VALUES,
    ),
    parameter(
        "facetPrefix", "Count only values that begin so, in any case.", values.folded, may_be_empty=True,
        member="facet_prefix",
    ),
    _truth(
        "explain",
        "`true`: the answer says in `explain` how the question was understood, and each item which factors "
        "its score is made of.",
    ),
    _truth(
        "highlight", "`true`: each item says in `highlights` where its texts contain what was searched for.",
    ),
    _truth(
        "understand",
        "`false`: phrases such as `free agents`, `accepts BSV` and `under 5 USD` are words; otherwise listings that "
        "meet them come first by relevance, and `understood` names them.",
    ),
    _words(
        "fields",
        "The members of items to answer, besides `id`, separated by commas or repeated; default: all.",
        ITEM_MEMBERS, many=True,
    ),
)  # fmt: skip

FILTERS = {parameter.name: parameter for parameter in SEARCH.parameters if parameter.label}
"""The filters of a search by their names."""

ONLY_OVER_HTTP = frozenset({"facets", "facetLimit", "facetPrefix", "explain", "highlight", "fields", "understand"})
"""The parameters that choose what a page holds. Protocols with a form of their own do not take them."""

SUGGEST = table(
    parameter("q", "What has been typed so far.", values.words, may_be_empty=True),
    _clamped("limit", "Completions.", 1, 20, default=8),
)

CHANGES = table(
    parameter(
        "since", "The last sequence number already known; default 0, the beginning.", values.whole, **WHOLE, default=0
    ),
    parameter(
        "epoch", "The epoch of `since`, as answers have it. A position that the database does not have gets a reset."
    ),
    _clamped("limit", "Rows.", 1, MAX_CHANGES, default=100),
)

STREAM = table(*CHANGES.parameters[:2])

PROOF = table(
    parameter(
        "from",
        "Add the chain's headers from this height on, such as that of a checkpoint: at most 20,160, so "
        "that a client that needs more continues from their end.",
        values.whole,
        **WHOLE,
    )
)

COMPARE = table(
    parameter("id", "The ids of the listings: two to four.", many=True, least=2, most=4, required=True),
    SEARCH.names["calls"],
    SEARCH.names["priceCurrency"],
)

RECEIPTS = table(
    parameter(
        "after",
        "The `next` of the page before.",
        values.record_position,
        pattern="^[0-9a-f]{64}-([0-9a-f]{64})?$",
    )
)

HEADERS = table(
    parameter(
        "from",
        "The height of the first header, 0 by default; at most 20,160 are returned at once.",
        values.whole,
        type="integer",
        minimum=0,
    ),
    parameter("chain", "The chain, by its configured name or CAIP-2 id; default: the first configured."),
)

QUOTE = table(
    parameter("id", "The listing's id.", required=True),
    parameter("configId", "The id of one of its offers; not needed where there is only one."),
    parameter(
        "currency",
        "The currency to pay in; default: the first of those accepted, the offer's own before all, that a "
        "chain here carries.",
        values.currency,
    ),
    _words("stage", "What to pay: default `deposit` where the offer has one, else `full`.", STAGES),
)

NONE = table()

CHECK = table(
    _words("type", "What the body is; default: by its shape.", ("agent", "tool", "prices")),
    parameter("owner", "The address that will own the listing: its other listings cause no warning."),
    parameter("id", "The id of the listing that the card updates."),
    _truth("findability", "Also answer how the card would be found: at most 20 searches."),
)


def pairs(query_string: str) -> list[tuple[str, str]]:
    """The key-value pairs of a raw query string, percent-decoded. Raises BadRequestError for other than UTF-8, or
    more than 200 pairs."""
    try:
        return parse_qsl(query_string, keep_blank_values=True, errors="strict", max_num_fields=MAX_PAIRS)
    except UnicodeError:
        detail = "the query string is not UTF-8 after percent-decoding"
        raise bad_request("not-utf-8", detail, "query string") from None
    except ValueError:
        detail = f"the query string has more than {MAX_PAIRS} parameters"
        raise bad_request("too-many", detail, "query string") from None


def read(pairs: Iterable[tuple[str, str]], table: Table) -> tuple[dict[str, Any], list[Fault]]:
    """The values of `pairs` by parameter name, and the faults. A repeatable parameter gives a tuple. An empty value
    is a fault, unless the parameter may be empty: then it counts as absent."""
    texts: dict[str, list[str]] = {}
    faults: list[Fault] = []
    for key, value in pairs:
        if (parameter := table.names.get(key)) is None:
            faults.append(_unknown(key, table.names))
        elif value and not value.isspace():
            texts.setdefault(parameter.name, []).append(value)
        elif not parameter.may_be_empty:
            faults.append(Fault("empty", f"{key} is empty: give it a value or leave it out", parameter.name))
    faults += [
        Fault("missing", f"{parameter.name} is missing: {parameter.description}", parameter.name)
        for parameter in table.parameters
        if parameter.required and parameter.name not in texts
    ]
    values_by_name = {name: _value(table.names[name], values, faults) for name, values in texts.items()}
    return {name: value for name, value in values_by_name.items() if value is not None}, faults


def read_query(request: web.Request, table: Table) -> dict[str, Any]:
    """The values of a request's query string by parameter name. Raises BadRequestError naming every fault."""
    values_by_name, faults = read(pairs(request.rel_url.raw_query_string), table)
    if faults:
        raise BadRequestError(faults)
    return values_by_name


def _value(parameter: Parameter, texts: list[str], faults: list[Fault]) -> Any:
    if parameter.parts:
        texts = [part for text in texts for part in parameter.parts(text)]
    number = len(list(chain.from_iterable(map(parts, texts)))) if parameter.many else len(set(texts))
    if number > (MAX_REPEATS if parameter.many else 1):
        allowed = f"at most {MAX_REPEATS} times" if parameter.many else "once"
        detail = f"{parameter.name} may be given {allowed}, not {number} times"
        faults.append(Fault("repeated", detail, parameter.name))
        return None
    try:
        parsed = [_parsed(parameter, text) for text in texts]
    except ValueRefusedError as error:
        faults.append(Fault(error.code, f"{parameter.name}: {error}", parameter.name))
        return None
    if not parameter.many:
        return parsed[0]
    if not parameter.least <= (different := len(set(parsed))) <= parameter.most:
        detail = f"{parameter.name}: {different} different values, not {parameter.least} to {parameter.most}"
        faults.append(Fault("wrong-number", detail, parameter.name))
        return None
    return tuple(parsed) if len(parsed) == 1 else tuple(dict.fromkeys(parsed))


def _parsed(parameter: Parameter, text: str) -> Any:
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueRefusedError("not-utf-8", f"{shown(text)} is not UTF-8")
    if len(text) > values.MAX_VALUE_BYTES and parameter.name not in ("q", "cursor"):
        raise ValueRefusedError("too-long", f"{shown(text)} is longer than {values.MAX_VALUE_BYTES:,} characters")
    return parameter.read(text)


def _unknown(key: str, names: Mapping[str, Parameter]) -> Fault:
    nearest = get_close_matches(key[:40], names, 1)
    choices = f"known are {', '.join(names)}" if names else "this takes none"
    hint = f"did you mean {nearest[0]}?" if nearest else choices
    return Fault("unknown-parameter", f"{shown(key)} is not a parameter here; {hint}", key[:100])
