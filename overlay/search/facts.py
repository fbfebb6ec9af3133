"""Filter terms of a document (facts): exact strings like `chain:bsv`, the same for every engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING

from parsers.cards.command_packages import package_key

if TYPE_CHECKING:
    from overlay.search.document import Document
    from overlay.search.query import Query
    from parsers.bitcoin.tx import Outpoint

LISTED = frozenset(("live", "pending"))
HERE = "=here"
"""Not a chain name: the view of a search by domain, which hides as duplicates only listings of the same domain on the
same chains."""
FACET_FIELDS = {
    "type": "kind",
    "skillId": "skill",
    "acceptedCurrency": "currency",
    "interval": "interval",
    "tag": "tag",
    "chain": "chain",
    "status": "status",
    "access": "access",
    "transport": "transport",
    "auth": "auth",
    "protocol": "protocol",
    "launcher": "launcher",
    "health": "health",
}
"""The facets of a query and the fields they count."""
MOST_VALUES = 50  # of a facet, unless a query has another limit
MOST_FACET_VALUES = 1_000  # of a facet, at most
MAX_TRIED = 1_000  # values of a joint facet that are counted one by one
MAX_COUNTED = 20_000  # values of a facet that an engine counts
EXACT = 10_000  # the largest exact total


MOST_CUSTOMERS = 256
"""The most customers that a filter can require; a listing with more has the fact of this number."""


def is_listed(document: Document) -> bool:
    """True for listings that a plain search finds: current, live or pending, and not hidden as a duplicate."""
    return document.until_height is None and document.status in LISTED and "" not in document.hidden_in


def is_plain(query: Query) -> bool:
    """Whether a search is plain: over the current documents of live and pending listings, without filters that turn off
    the hiding of duplicates."""
    return query.as_of is None and frozenset(query.statuses) == LISTED and collapsed(query) == (FIRST,)


FIRST, _FIRST_HERE = "first", "first=here"


def collapsed(query: Query) -> tuple[str, ...]:
    """The groups of facts that hide duplicates: the shown listing of each duplicate group has such a fact. Empty where
    duplicates are not hidden: a filter on a value in which duplicates differ must find each of them."""
    whole = (
        query.as_of is not None
        or query.with_duplicates
        or query.group is not None
        or query.owners
        or query.verified is False
        or query.updated_since is not None
    )
    if whole or (query.operators is not None and query.operators.not_owners):
        return ()
    if query.from_height is not None or query.to_height is not None:
        return ()
    if query.statuses and "live" not in query.statuses:
        return ()
    if query.domains:
        return (_FIRST_HERE,)
    return tuple(f"{FIRST}:{chain}" for chain in query.chains) or (FIRST,)


def tags(document: Document) -> Iterator[str]:
    """The tags of a listing and of its skills."""
    yield from document.tags
    for skill in document.skills:
        yield from skill.tags


def facets(document: Document) -> dict[str, tuple[str, ...]]:
    """The distinct values of each facet field; ids of skills that differ in case only are one, as first spelt."""
    skills = [skill.id for skill in document.skills]
    for offer in document.offers:
        skills += offer.skill_ids or ()
    values: dict[str, Iterable[str]] = {
        "kind": [document.kind],
        "chain": [document.chain, *document.also_on],
        "status": [document.status],
        "skill": {skill.casefold(): skill for skill in reversed(skills)}.values(),
        "currency": [currency for offer in document.offers for currency in offer.accepted],
        "interval": [offer.interval_key for offer in document.offers],
        "tag": [tag.casefold() for tag in tags(document)],
        "access": document.usage.access,
        "transport": document.usage.transports,
        "auth": document.usage.auth,
        "protocol": document.usage.protocols,
        "launcher": document.usage.launchers,
        "health": [document.health] if document.health else [],
    }
    return {name: tuple(dict.fromkeys(entries)) for name, entries in values.items()}


def facts(document: Document, facets_of: Mapping[str, Iterable[str]] | None = None) -> Iterator[str]:
    """All facts of a document but ids. Numbers, and conditions that one offer must meet together, are not facts.
    `facets_of` are its `facets`, if they are already computed."""
    for name, values in (facets_of or facets(document)).items():
        for value in values:
            yield f"{name}:{value.casefold() if name == 'skill' else value}"
    if document.caip2 != document.chain:
        yield f"chain:{document.caip2}"
    # heights are of this chain only, even if pointers on other chains name the listing
    yield f"home:{document.chain}"
    if document.caip2 != document.chain:
        yield f"home:{document.caip2}"
    yield f"owner:{document.owner}"
    if document.domain:
        yield f"domain:{document.domain}"
    if document.source:
        yield source_fact(document.source)
    yield "verified" if document.verified and not document.drifted else "unverified"
    yield from (stated_fact(name, value) for name in STATED if (value := getattr(document.usage, name)) is not None)
    yield from document.more_facts
    if document.until_height is None:
        yield "current"
        # the views in which it is shown
        if "" not in document.hidden_in:
            yield FIRST
        for chain in (document.chain, *document.also_on):
            if chain not in document.hidden_in:
                yield f"{FIRST}:{chain}"
        if document.chain not in document.hidden_in and document.caip2 != document.chain:
            yield f"{FIRST}:{document.caip2}"
        if HERE not in document.hidden_in:
            yield _FIRST_HERE
        if document.group:
            yield f"group:{document.group}"


def heights(document: Document) -> dict[str, int]:
    """The numbers that documents are filtered by: the height of their revision, its time or that of a later notice, and
    the heights from which (`since`) and until before which they hold."""
    times = [time for time in (document.updated_time, document.notice_time) if time is not None]
    values = {
        "height": document.updated_height,
        "time": max(times, default=None),
        "since": document.from_height,
        "until": document.until_height,
    }
    return {name: value for name, value in values.items() if value is not None}


FILTERS = {
    "tag": "tags", "chain": "chains", "domain": "domains", "owner": "owners", "skill": "skills",
    "currency": "currencies", "interval": "intervals", "access": "access", "transport": "transports", "auth": "auth",
    "protocol": "protocols", "launcher": "launchers", "health": "health",
}  # fmt: skip
"""Facts with a value, as the first part of `tag:pay`, by the member of a query with values of which one is required."""

FLAGS = ("flagged", "deprecated", "runnable", "for_sale", "reachable")
"""Facts without a value: a query has a member of this name, True where it requires the fact and False where it excludes
it, and a listing has a property `is_…`."""

STATED = ("streaming", "has_price")
"""Facts that are true, false or not stated by a card, such as `streaming:true`: a listing that does not say has none. A
query and the `usage` of a document have members of these names."""

CUSTOMERS = "customers"
"""The name of the facts by number of customers."""

_filters = attrgetter(*FILTERS.values())


def required(query: Query) -> Iterator[tuple[str, ...]]:
    """The facts that a query requires: one of each group. Facts about offers may be met by different offers."""
    if query.kind is not None:
        yield (f"kind:{query.kind}",)
    for name, values in zip(FILTERS, _filters(query), strict=True):
        if values:
            yield tuple(f"{name}:{value}" for value in values)
    yield from query.more_facts
    if query.group is not None:
        yield (f"group:{query.group}",)
    if query.verified is not None:
        yield ("verified" if query.verified else "unverified",)
    yield from ((flag,) for flag in FLAGS if getattr(query, flag))
    yield from ((stated_fact(name, value),) for name in STATED if (value := getattr(query, name)) is not None)
    if query.min_customers is not None:
        yield tuple(map(customers_fact, range(query.min_customers, MOST_CUSTOMERS + 1)))
    if query.from_height is not None or query.to_height is not None:
        yield (f"home:{query.height_chain}",)


def stated_fact(name: str, value: bool) -> str:
    """The fact of the listings whose card states one of `STATED` so."""
    return f"{name}:{str(value).lower()}"


def customers_fact(customers: int) -> str:
    """The fact of the listings with this number of distinct paying customers."""
    return f"{CUSTOMERS}:{min(customers, MOST_CUSTOMERS)}"


def source_fact(source: int) -> str:
    """The fact of the listings of a source (`diversity.source_number`)."""
    return f"source:{source:016x}"


def unwanted(query: Query) -> list[str]:
    """The facts that a query excludes."""
    excluded = [*query.not_facts, *(flag for flag in FLAGS if getattr(query, flag) is False)]
    operators = query.operators
    if operators is not None:
        named = (("tag", operators.not_tags), ("owner", operators.not_owners), ("skill", operators.not_skills))
        excluded += [f"{name}:{value}" for name, values in named for value in values]
        excluded += [run_fact(sequence) for sequence in operators.excluded if " " not in sequence]
    return excluded


def selection(query: Query) -> Iterator[tuple[str, ...]]:
    """The groups of facts, as of `required`, for the statuses, and for current documents only, or those of the chain of
    `as_of`."""
    yield ("current",) if query.as_of is None else (f"home:{query.height_chain}",)
    if query.statuses:
        yield tuple(f"status:{status}" for status in query.statuses)
    if only := collapsed(query):
        yield only


def id_fact(id_: str) -> str:
    """The fact of the listings with this id, their own or that of their registration."""
    return f"id:{id_}"


def outpoint_fact(outpoint: Outpoint) -> str:
    """The fact of the listings that began at this outpoint, are at it, or have their card there."""
    return f"outpoint:{outpoint}"


def transaction_fact(txid: bytes) -> str:
    """The fact of the listings with an outpoint, or an anchor, in this transaction (internal byte order)."""
    return f"transaction:{txid[::-1].hex()}"


def same_fact(value: int) -> str:
    """The fact of the listings with this name, URL or pay-to address, by its digest (`TextKey.value`)."""
    return f"same:{value % 2**64:016x}"


def run_fact(term: str) -> str:
    """The fact of the tools with this index term in their command, its arguments or the names of their variables, by
    which they are excluded, but not found."""
    return f"run:{term}"


def package_fact(name: str) -> str:
    """The fact of the tools that install this package by their command, of any version."""
    return f"package:{package_key(name)}"
