"""Search requests and results: `Query` in, `Matches` out of an engine, `Hits` out of the search index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from overlay.search.planner import ALL, RELATED, QueryPlan

if TYPE_CHECKING:
    from overlay.search.rerank import Scored

PRICE_SORTS = ("price", "price_per_day", "cost")
SORTS = ("relevance", *PRICE_SORTS, "updated", "created", "rating", "name")
FACETS = (
    "type", "skillId", "acceptedCurrency", "interval", "tag", "chain", "status", "access", "transport", "auth",
    "protocol", "launcher", "health",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Operators:
    """The operators of a search text (`search.query_syntax`). All `phrases` are required, all of `excluded` excluded:
    both are index terms in order, separated by spaces (`analysis.sequences`). `not_tags`, `not_skills` (both
    case-folded) and `not_owners` are exclusions."""

    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    not_tags: tuple[str, ...] = ()
    not_owners: tuple[str, ...] = ()
    not_skills: tuple[str, ...] = ()


_UNHASHED = ("rates", "quotes")
_NOT_ASKED = frozenset({*_UNHASHED, "limit", "offset", "after", "shown", "facets", "facet_limit", "facet_prefix"})

QUESTION_BYTES = 8
"""Bytes of a question's mark in a cursor."""

MARK_BYTES = 5
"""Bytes of a listing's mark in a cursor: with 500 shown of 10,000 listings, 1 in 200,000 cursors has a collision."""


def shown_mark(id_: str) -> bytes:
    """The mark that a cursor stores for a listing that was shown: a truncated hash of its id."""
    return shown_marks((id_,))


def shown_marks(ids: Iterable[str]) -> bytes:
    """The marks of listings, concatenated."""
    return b"".join([blake2b(id_.encode("utf-8", "surrogatepass"), digest_size=MARK_BYTES).digest() for id_ in ids])


def question_mark(query: Query) -> str:
    """The mark that a cursor stores for the question that its page answers: a truncated hash of all that decides which
    results there are and in which order. The same values in another order are the same question; a filter that is not
    used does not count."""
    members = [
        (name, mark)
        for number, name, default, unset in _MARKED
        if query[number] is not default and (mark := _sorted(query[number])) != unset
    ]
    return blake2b(repr(members).encode("utf-8", "surrogatepass"), digest_size=QUESTION_BYTES).hexdigest()


def _sorted(value: object) -> object:
    return sorted(map(repr, value)) if isinstance(value, tuple) else value


class Lookup(NamedTuple):
    """The listings that a whole text may name, `by` which kind of name: listings with one of `facts`; for a `host`, the
    listings of it. Listings with `leads` only come first among the results of the words."""

    by: str
    facts: tuple[str, ...]
    host: str = ""
    leads: bool = False


class StaleCursorError(Exception):
    """The index has changed since a page was read: the start of the next page is undefined."""


TIERS = 3
"""In orders other than by relevance listings with all content words of the text come first, then those with at least
two thirds of them, then the others: tiers 0, 1 and 2, which begin the sort keys."""


class Query(NamedTuple):
    """A search with every value validated and normalised; an empty tuple or None means that the filter is not set.

    With `all_words` only listings with all content words are results. Tuples mean any of. `currencies` and
    `price_currency` are upper-case, `intervals` canonical keys (`parsers.cards.intervals.interval_key`), `domains`
    lower-case A-labels, `tags` and `skills` case-folded. `group` is the id of a listing that is shown for its
    duplicates: these, and itself. `min_price` and `max_price` are in `price_currency`; when that is None each offer is
    compared in its own anchor currency. It is `priced_by_filter` where the filter of `currencies` decides it, or would
    (law 15). `rates` are units of `price_currency` for one of each currency quoted in it (law 15); empty without
    quotes. `quotes` gives them for any currency, where choosing another one would change `price_currency`. Heights are
    of `height_chain` and inclusive; `updated_since` is in seconds since 1970. `as_of` selects the registry after that
    block of `height_chain`. `descending` is None for the natural direction of `sort`. `operators` is None where the
    text has only words. A page `after` a sort key begins at `offset` where the result before that has this key; one
    that follows pages which have `shown` some results (the `shown_mark` of each, one after the other) begins with the
    first of the others. A facet's own filter does not narrow its counts; it has at most `facet_limit` values (None:
    50), those that begin with `facet_prefix` (case-folded). `with_duplicates`: no listing is hidden as a duplicate.
    `access` to `has_price` are of how a listing is used (`parsers.cards.usage.Usage`), `free` and `payable` of its
    offers. `calls` are those of a year, for which the cost of a month is compared by `sort` cost. `min_customers` is at
    most `facts.MOST_CUSTOMERS`. `preferred` are members of the query that finds the results which come before others by
    relevance, and `hinted` is the kind of listing that the text hints at. `health` are states of the last visits to a
    listing's URL. `more_facts` are filters of other protocols: one fact of each group is required. No result has one of
    `not_facts`. `lookups` are what the text may name: the first that finds anything counts instead of the words, or
    leads their results. Its hash leaves out the rates.
    """

    text: str = ""
    all_words: bool = False
    kind: str | None = None
    skills: tuple[str, ...] = ()
    currencies: tuple[str, ...] = ()
    intervals: tuple[str, ...] = ()
    min_price: Decimal | None = None
    max_price: Decimal | None = None
    price_currency: str | None = None
    priced_by_filter: bool = False
    rates: Mapping[str, Decimal] = MappingProxyType({})
    quotes: Callable[[str], Mapping[str, Decimal]] | None = None
    tags: tuple[str, ...] = ()
    chains: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    group: str | None = None
    statuses: tuple[str, ...] = ("live", "pending")
    verified: bool | None = None
    flagged: bool | None = None
    deprecated: bool | None = None
    access: tuple[str, ...] = ()
    transports: tuple[str, ...] = ()
    auth: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ()
    launchers: tuple[str, ...] = ()
    streaming: bool | None = None
    has_price: bool | None = None
    free: bool | None = None
    payable: bool | None = None
    min_customers: int | None = None
    calls: Decimal | None = None
    runnable: bool | None = None
    for_sale: bool | None = None
    reachable: bool | None = None
    health: tuple[str, ...] = ()
    height_chain: str | None = None
    from_height: int | None = None
    to_height: int | None = None
    as_of: int | None = None
    updated_since: int | None = None
    sort: str = "relevance"
    descending: bool | None = None
    limit: int = 20
    offset: int = 0
    after: tuple[Any, ...] | None = None
    shown: bytes = b""
    facets: tuple[str, ...] = ()
    facet_limit: int | None = None
    facet_prefix: str = ""
    operators: Operators | None = None
    with_duplicates: bool = False
    preferred: tuple[tuple[str, Any], ...] = ()
    hinted: str = ""
    more_facts: tuple[tuple[str, ...], ...] = ()
    not_facts: tuple[str, ...] = ()
    lookups: tuple[Lookup, ...] = ()

    def __hash__(self) -> int:
        return hash(tuple([value for name, value in zip(self._fields, self, strict=True) if name not in _UNHASHED]))


_DEFAULTS = Query()
_MARKED = [
    (number, name, _DEFAULTS[number], _sorted(_DEFAULTS[number]))
    for number, name in enumerate(Query._fields)
    if name not in _NOT_ASKED
]
"""The index, the name and the default of each member that a question's mark covers, and the default as the mark sorts
it."""


def looked_up(query: Query, lookup: Lookup) -> Query:
    """The query for the listings that a lookup names: instead of its words, with duplicates unless it is a host, or
    among the results of its words where that only leads them."""
    narrowed = query._replace(more_facts=(*query.more_facts, lookup.facts))
    if lookup.leads:
        return narrowed
    return narrowed._replace(
        text="",
        operators=None,
        domains=query.domains or ((lookup.host,) if lookup.host else ()),
        with_duplicates=query.with_duplicates or not lookup.host,
        lookups=(lookup,),
    )


def without_phrases(query: Query) -> Query | None:
    """The query in which the words of quoted phrases are plain words; None without phrases."""
    if query.operators is None or not query.operators.phrases:
        return None
    return query._replace(operators=replace(query.operators, phrases=()))


class StoredListing(Protocol):
    """The stored form of a result: its id, its item (UTF-8 JSON object) and its packed offers (`prices.pack`)."""

    @property
    def id(self) -> str: ...
    @property
    def item(self) -> bytes | memoryview: ...
    @property
    def offers(self) -> bytes: ...


class EngineHit(NamedTuple):
    """A result of an engine: its sort key, its score (0.0 in orders other than relevance), its record, and the
    re-ranker's result for it."""

    key: tuple[Any, ...]
    score: float
    record: StoredListing
    scored: Scored | None = None


class ValueCounts(Protocol):
    """The number of results with each value of a facet. Values that differ in case only are one, in the most frequent
    spelling."""

    def commonest(self, prefix: str, limit: int) -> tuple[tuple[tuple[str, int], ...], int]:
        """The most frequent values with a beginning (with folded case), equally frequent ones in the order of
        `facet_counts.hash_of`, and the number of all with it."""
        ...


class Matches(NamedTuple):
    """The results of an engine from one position of the order to another, the number of all results, the number of
    those that contain all words, and for each facet the number of results by value. `is_far`: none contains all words,
    and none of all listings that the filters admit is near in meaning."""

    rows: list[EngineHit]
    total: int
    matched: int
    facets: Mapping[str, ValueCounts]
    is_far: bool = False


NO_MATCHES = Matches([], 0, 0, {})


class Cheapest(NamedTuple):
    """The cheapest of the offers that meet all filters, in the currency of law 14; `amount` is a decimal string.
    `converted` is its (amount, currency) in the requested currency, if that is another one; `others` has the currencies
    of offers that meet the filters and cannot be compared with it."""

    offer_id: str
    amount: str
    currency: str
    interval: str
    converted: tuple[str, str] | None = None
    others: tuple[str, ...] = ()


class Cost(NamedTuple):
    """The lowest cost of a month among the offers that meet all filters; `amount` is a decimal string, in the requested
    currency or that of the offer."""

    offer_id: str
    amount: str
    currency: str


class Hit(NamedTuple):
    """A result: its id, its stored item (UTF-8 JSON object, perhaps a part of a mapped file), its score, its cheapest
    offer, its sort key, the re-ranker's result for it, the content words of the text that it lacks, and whether only
    its meaning was found, because these are all words; and its cost, where the query has calls."""

    id: str
    item: bytes | memoryview
    score: float
    cheapest: Cheapest | None
    sort_key: tuple[Any, ...]
    scored: Scored | None = None
    lacks: tuple[str, ...] = ()
    by_meaning: bool = False
    cost: Cost | None = None


class Suggestion(NamedTuple):
    """A completion: its text, its kind (`listing`, `skill`, `tag` or `word`), and the id of a listing or skill."""

    text: str
    kind: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Hits:
    """A page of hits, and the counts of all results.

    `total` is exact up to 10,000, beyond that `at_least` is true; `matched` counts the results that contain all words.
    `facets` maps each requested facet to (value, count) pairs, the most frequent first, equally frequent ones in an
    order that is not of the alphabet (`facet_counts.commonest`); `facet_totals` counts the values of each facet of
    which all were counted. `plan` is the plan of the query text. `is_weak`: no listing seems to be what the query asks
    for. `phrases_dropped`: no listing contains the quoted
    phrases, so these are results by their words. `lookup` is that of the query which counts. `is_of_new_index`: the
    index had read nothing when it was searched.
    """

    hits: Sequence[Hit]
    total: int
    matched: int = 0
    at_least: bool = False
    facets: dict[str, tuple[tuple[str, int], ...]] | None = None
    facet_totals: dict[str, int] = field(default_factory=dict)
    plan: QueryPlan = field(default=ALL, compare=False)
    is_weak: bool = False
    phrases_dropped: bool = False
    lookup: Lookup | None = None
    is_of_new_index: bool = False

    @property
    def related(self) -> dict[str, list[str]]:
        """For words of the query the related ones that count for a hit of this page instead."""
        by_word: dict[str, dict[str, None]] = {}
        if any(group.alternatives[-1].match == RELATED for group in self.plan.groups):
            for scored in filter(None, [hit.scored for hit in self.hits]):
                for group, chosen in zip(self.plan.groups, scored.factors.terms[scored.row].tolist(), strict=True):
                    if chosen >= 0 and group.alternatives[chosen].match == RELATED:
                        by_word.setdefault(group.word, {})[group.alternatives[chosen].written] = None
        return {word: list(terms) for word, terms in by_word.items()}
