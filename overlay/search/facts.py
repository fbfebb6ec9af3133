"""Facts about a document that filters ask for, as exact strings, the same for every engine."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overlay.document import Document
    from overlay.query import Query

LISTED = frozenset(("live", "pending"))
HERE = "=here"
"""As no chain is named: the view of a search for domains, in which only listings of the same domain and on the same
chains are hidden as duplicates."""
FACET_FIELDS = {
    "type": "kind",
    "skillId": "skill",
    "acceptedCurrency": "currency",
    "interval": "interval",
    "tag": "tag",
    "chain": "chain",
    "status": "status",
}
"""The facets of a query and what they count."""
MOST_VALUES = 50  # of a facet
MAX_TRIED = 1_000  # values of a facet that an engine counts
EXACT = 10_000  # the largest total that is told exactly


def is_listed(document: Document) -> bool:
    """True for what a plain search finds: current, live or pending, and no duplicate of another one that is shown."""
    return document.until_height is None and document.status in LISTED and "" not in document.hidden_in


def is_plain(query: Query) -> bool:
    """True for a plain search: it asks for the current documents of listings that are live or pending, each of which
    is found by it just when its duplicates would be."""
    return query.as_of is None and frozenset(query.statuses) == LISTED and collapsed(query) == (_FIRST,)


_FIRST, _FIRST_HERE = "first", "first=here"


def collapsed(query: Query) -> tuple[str, ...]:
    """Of duplicates only one is found, which has one of these facts; empty where all are. The one that is shown must
    meet every filter that the others meet, so it depends on what is asked beside what the card says."""
    whole = (
        query.as_of is not None
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
    return tuple(f"{_FIRST}:{chain}" for chain in query.chains) or (_FIRST,)


def _first(document: Document) -> Iterator[str]:
    """The views in which this one is shown."""
    if "" not in document.hidden_in:
        yield _FIRST
    for chain in (document.chain, *document.also_on):
        if chain not in document.hidden_in:
            yield f"{_FIRST}:{chain}"
    if document.chain not in document.hidden_in and document.caip2 != document.chain:
        yield f"{_FIRST}:{document.caip2}"
    if HERE not in document.hidden_in:
        yield _FIRST_HERE


def tags(document: Document) -> Iterator[str]:
    """The tags of a listing and of its skills."""
    yield from document.tags
    for skill in document.skills:
        yield from skill.tags


def facets(document: Document) -> dict[str, tuple[str, ...]]:
    """What is counted, each value once."""
    skills = [skill.id for skill in document.skills]
    for offer in document.offers:
        skills += offer.skill_ids or ()
    values = {
        "kind": [document.kind],
        "chain": [document.chain, *document.also_on],
        "status": [document.status],
        "skill": skills,
        "currency": [currency for offer in document.offers for currency in offer.accepted],
        "interval": [offer.interval_key for offer in document.offers],
        "tag": [tag.casefold() for tag in tags(document)],
    }
    return {name: tuple(dict.fromkeys(each)) for name, each in values.items()}


def facts(document: Document) -> Iterator[str]:
    """Everything that is filtered by, but for ids, numbers and what offers say together."""
    for name, values in facets(document).items():
        for value in values:
            yield f"{name}:{value}"
    if document.caip2 != document.chain:
        yield f"chain:{document.caip2}"
    # heights are of this chain alone, wherever else a listing is pointed at
    yield f"home:{document.chain}"
    if document.caip2 != document.chain:
        yield f"home:{document.caip2}"
    yield f"owner:{document.owner}"
    if document.domain:
        yield f"domain:{document.domain}"
    yield "verified" if document.verified else "unverified"
    if document.until_height is None:
        yield "current"
        yield from _first(document)
        if document.group:
            yield f"group:{document.group}"


_FILTERS = ("tag", "chain", "domain", "owner", "skill", "currency", "interval")
_filters = attrgetter("tags", "chains", "domains", "owners", "skills", "currencies", "intervals")


def wanted(query: Query) -> Iterator[tuple[str, ...]]:
    """The facts a query asks for; of each group one must hold. What is asked of offers holds of some offer each, which
    need not be the same one."""
    if query.kind is not None:
        yield (f"kind:{query.kind}",)
    for name, values in zip(_FILTERS, _filters(query), strict=True):
        if values:
            yield tuple(f"{name}:{value}" for value in values)
    if query.group is not None:
        yield (f"group:{query.group}",)
    if query.verified is not None:
        yield ("verified" if query.verified else "unverified",)
    if query.from_height is not None or query.to_height is not None:
        yield (f"home:{query.height_chain}",)


def unwanted(query: Query) -> list[str]:
    """The facts that no listing found may have."""
    operators = query.operators
    if operators is None:
        return []
    named = (("tag", operators.not_tags), ("owner", operators.not_owners), ("skill", operators.not_skills))
    return [f"{name}:{value}" for name, values in named for value in values]


def selection(query: Query) -> Iterator[tuple[str, ...]]:
    """As `wanted`: of what status a document is, and that it is the current one, or of the chain `as_of` is about."""
    yield ("current",) if query.as_of is None else (f"home:{query.height_chain}",)
    if query.statuses:
        yield tuple(f"status:{status}" for status in query.statuses)
    if only := collapsed(query):
        yield only
