"""One committed state of the index, as searches see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import tantivy

from overlay.engines.tantivy.offers import OfferTerms
from overlay.engines.tantivy.state import State
from overlay.engines.tantivy.translation import Part, Translator, every
from overlay.search.records import LazyRecord, Record, Records
from overlay.search.term_dictionary import TermDictionary

Address = tantivy.DocAddress
_MAX_DOCUMENTS = 1_000_000  # of one registration


@dataclass(slots=True)
class View:
    """`state` and `records` are None for an index that is new, cleared or damaged; it finds nothing."""

    schema: tantivy.Schema
    searcher: tantivy.Searcher
    state: State | None
    terms: TermDictionary
    records: Records | None
    offers: OfferTerms = field(init=False)

    def __post_init__(self) -> None:
        self.offers = OfferTerms(self.searcher, self.schema)

    @property
    def translate(self) -> Translator:
        """What translates queries; made when needed, since it refers to the view, which would else wait for the garbage
        collector with its open files."""
        return Translator(self.schema, self.searcher, self.offers, self.first)

    def read(self, addresses: list[Address]) -> list[Record]:
        """The records of documents."""
        return [] if self.records is None else self.records.read(self.places(addresses))

    def candidates(self, addresses: list[Address]) -> list[LazyRecord]:
        """The records of documents, decoded when they are needed."""
        return [] if self.records is None else self.records.candidates(self.places(addresses))

    def places(self, addresses: list[Address]) -> list[int]:
        """Where the records of documents lie."""
        return cast("list[int]", self.searcher.fast_field_values("place", addresses))

    def addresses(self, part: Part, limit: int) -> list[Address]:
        """The first documents that a part finds."""
        return [address for _, address in self.searcher.search(part, max(1, limit), count=False).hits]

    def first(self, part: Part, limit: int) -> list[Record]:
        """The records of the first documents that a part finds."""
        return self.read(self.addresses(part, limit))

    def count(self, part: Part) -> int:
        """How many documents a part finds."""
        return counted(self.searcher.search(tantivy.Query.const_score_query(part, 1.0), 1))

    def current(self, id_: str) -> Record | None:
        """The record of a current listing."""
        found = self.first(every([self.translate.fact(f"id:{id_}"), self.translate.fact("current")]), 1)
        return found[0] if found else None

    def of_registration(self, registration: str) -> list[tuple[int, Record]]:
        """The places and records of all documents of a registration."""
        addresses = self.addresses(self.translate.fact(f"registration:{registration}"), _MAX_DOCUMENTS)
        return list(zip(self.places(addresses), self.read(addresses), strict=True))


def counted(result: tantivy.SearchResult) -> int:
    """How many documents matched (the stubs of tantivy leave it out)."""
    return int(result.count)  # type: ignore[attr-defined]
