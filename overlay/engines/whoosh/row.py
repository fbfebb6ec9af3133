"""What is kept of a document beside its words: all that filters, orders and facets look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from overlay.search.facts import facets, facts, is_listed
from overlay.search.prices import pack, usual
from overlay.search.sorting import made, name_key, newest, seniority

if TYPE_CHECKING:
    from overlay.document import Document


class Row(NamedTuple):
    """One document. `newest`, `seniority`, `made` and `name` are from `search.sorting`, `facts` and `facets` from
    `search.facts`, `usual` and `offers` from `search.prices`; `since` and `until` are the heights it holds for."""

    id: str
    newest: int
    seniority: int
    made: int
    name: str
    height: int | None
    time: int | None
    since: int | None
    until: int | None
    listed: bool
    usual: str
    offers: bytes
    facts: frozenset[str]
    facets: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, document: Document) -> Row:
        """From a document."""
        offers = pack(document)
        return cls(
            id=document.id,
            newest=newest(document),
            seniority=seniority(document),
            made=made(document),
            name=name_key(document),
            height=document.updated_height,
            time=document.updated_time,
            since=document.from_height,
            until=document.until_height,
            listed=is_listed(document),
            usual=usual(offers),
            offers=offers,
            facts=frozenset(facts(document)),
            facets=facets(document),
        )

    @classmethod
    def load(cls, kept: tuple[Any, ...]) -> Row:
        """From what `kept` gave."""
        return cls(*kept)

    def kept(self) -> tuple[Any, ...]:
        """Plain values, as Whoosh stores them."""
        return tuple(self)
