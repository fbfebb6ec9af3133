"""What is asked and what is answered: `Query` in, `Hits` out of an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import Any, NamedTuple

from overlay.search.planner import ALL, QueryPlan
from overlay.search.rerank import Scored

SORTS = ("relevance", "price", "updated", "created", "name")
FACETS = ("type", "skillId", "acceptedCurrency", "interval", "tag", "chain", "status")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operators:
    """What a search text asks beside its words (`search.query_syntax`). All `phrases` must be said, none of `excluded`
    may be: each is index terms one after the other, separated by spaces (`search.text.sequences`). A listing has none
    of the `not_tags` (case-folded), `not_owners` and `not_skills`."""

    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    not_tags: tuple[str, ...] = ()
    not_owners: tuple[str, ...] = ()
    not_skills: tuple[str, ...] = ()


_UNHASHED = ("rates", "quotes")


class Query(NamedTuple):
    """A search, every value validated and normalised; an empty tuple or None means no such filter.

    Tuples mean any of. `currencies` and `price_currency` are upper-case, `intervals` canonical keys
    (`parsers.offers.interval_key`), `domains` lower-case A-labels, `tags` case-folded. `group` is the id of
    a listing that is shown for its duplicates: these, and itself. `min_price` and `max_price` are
    in `price_currency`; when that is None each offer is compared in its own anchor currency. It is `priced_by_filter`
    where nothing but the one of `currencies` says so (law 15). `rates` are units of `price_currency` for one unit of
    each currency quoted in it (law 15); empty without quotes. `quotes` gives them for any currency, where choosing
    another one would change `price_currency`. Heights are of `height_chain` and inclusive; `updated_since` is in
    seconds since 1970. `as_of` asks for the registry as it stood after that block of `height_chain`. `descending` is
    None for the natural direction of `sort`. `operators` is None where the text asks for nothing but words. A page
    `after` a sort key begins at `offset` where the result before that has this key. A facet's own filter does not
    narrow its counts. Its hash leaves out the rates.
    """

    text: str = ""
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
    facets: tuple[str, ...] = ()
    operators: Operators | None = None

    def __hash__(self) -> int:
        return hash(tuple([value for name, value in zip(self._fields, self, strict=True) if name not in _UNHASHED]))


class Cheapest(NamedTuple):
    """The lowest amount among the offers that met all filters, in the currency law 14 names (decimal string).
    `converted` is what it is worth in another currency that prices were asked for in: (amount, currency)."""

    offer_id: str
    amount: str
    currency: str
    interval: str
    converted: tuple[str, str] | None = None


class Hit(NamedTuple):
    """A result: its id, its stored item (UTF-8 JSON object), its score, its place in the sort order, and what stage
    two of ranking computed for it."""

    id: str
    item: bytes
    score: float
    cheapest: Cheapest | None
    sort_key: tuple[Any, ...]
    scored: Scored | None = None


class Suggestion(NamedTuple):
    """A completion: the text to show, what it is (`listing`, `skill`, `tag` or `word`), and the id of a listing."""

    text: str
    kind: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Hits:
    """An answer: a page of hits and what holds for all results.

    `total` counts results exactly up to 10,000, beyond that `at_least` is true; `matched` counts those that hold all
    words. `facets` maps each facet asked for to (value, count) pairs, the commonest first, then by value. `plan` is how
    the text was understood.
    """

    hits: Sequence[Hit]
    total: int
    matched: int = 0
    at_least: bool = False
    facets: dict[str, tuple[tuple[str, int], ...]] | None = None
    plan: QueryPlan = field(default=ALL, compare=False)
