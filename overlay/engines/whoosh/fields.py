"""The fields of a document for filters, orders and facets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from overlay.search.facts import facets, facts, is_listed
from overlay.search.forward import Analysed
from overlay.search.prices import pack
from overlay.search.sorting import created_key, name_key, rating_key, rising_rating_key, updated_key

if TYPE_CHECKING:
    from overlay.search.document import Document


class ListingFields(NamedTuple):
    """One document. `updated`, `created`, the ratings and `name` are from `search.sorting`, `facts` and `facets` from
    `search.facts`, `offers` from `search.prices`; `since` and `until` are the heights it holds for, `lengths` counts
    the terms of each field."""

    id: str
    updated: int
    created: int
    rating: int
    rising_rating: int
    name: str
    height: int | None
    time: int | None
    since: int | None
    until: int | None
    is_listed: bool
    lengths: tuple[int, ...]
    offers: bytes
    facts: frozenset[str]
    facets: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, document: Document, analysed: Analysed) -> ListingFields:
        """From a document."""
        return cls(
            id=document.id,
            updated=updated_key(document),
            created=created_key(document),
            rating=rating_key(document),
            rising_rating=rising_rating_key(document),
            name=name_key(document),
            height=document.updated_height,
            time=document.updated_time,
            since=document.from_height,
            until=document.until_height,
            is_listed=is_listed(document),
            lengths=tuple(sum(len(tokens.terms) for tokens in texts) for texts in analysed.fields),
            offers=pack(document),
            facts=frozenset(facts(document)),
            facets=facets(document),
        )

    @classmethod
    def load(cls, stored: tuple[Any, ...]) -> ListingFields:
        """From the stored tuple of a row."""
        return cls(*stored)
