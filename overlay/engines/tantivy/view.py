"""One commit of the index, for reading."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

import tantivy

from overlay.engines.tantivy.offers import OfferTerms
from overlay.engines.tantivy.state import TantivyCommitState
from overlay.engines.tantivy.translation import Part, Translator, every
from overlay.search.record_file import IndexRecord, RecordFile
from overlay.search.term_dictionary import TermDictionary

Address = tantivy.DocAddress
_MAX_DOCUMENTS = 1_000_000  # of one registration
BATCH = 500
"""Records of a batch of `all`."""


@dataclass(slots=True)
class TantivyView:
    """`state` and `records` are None for an index that is new, cleared or damaged; searches then have no results."""

    schema: tantivy.Schema
    searcher: tantivy.Searcher
    state: TantivyCommitState | None
    terms: TermDictionary
    records: RecordFile | None
    offers: OfferTerms = field(init=False)

    def __post_init__(self) -> None:
        self.offers = OfferTerms(self.searcher, self.schema)

    @property
    def translate(self) -> Translator:
        """A translator of queries. It refers to the view, so it is not stored there: a reference cycle would keep files
        open until the garbage collector runs."""
        return Translator(self.schema, self.searcher, self.offers, self.all)

    def read(self, addresses: list[Address]) -> list[IndexRecord]:
        """The records of documents."""
        return [] if self.records is None else self.records.read(self.record_addresses(addresses))

    def record_addresses(self, addresses: list[Address]) -> list[int]:
        """The addresses of the records of documents in the record file."""
        return cast("list[int]", self.searcher.fast_field_values("place", addresses))

    def addresses(self, part: Part, limit: int) -> list[Address]:
        """The first documents that match a part."""
        return [address for _, address in self.searcher.search(part, max(1, limit), count=False).hits]

    def first(self, part: Part, limit: int) -> list[IndexRecord]:
        """The records of the first documents that match a part."""
        return self.read(self.addresses(part, limit))

    def all(self, part: Part) -> Iterator[IndexRecord]:
        """The records of all documents that match a part, read in batches."""
        addresses = self.addresses(part, self.count(part))
        for start in range(0, len(addresses), BATCH):
            yield from self.read(addresses[start : start + BATCH])

    def count(self, part: Part) -> int:
        """The number of documents that match a part."""
        return counted(self.searcher.search(tantivy.Query.const_score_query(part, 1.0), 1))

    def current(self, id_: str) -> IndexRecord | None:
        """The record of a current listing."""
        records = self.first(every([self.translate.fact(f"id:{id_}"), self.translate.fact("current")]), 1)
        return records[0] if records else None

    def of_registration(self, registration: str) -> list[tuple[int, IndexRecord]]:
        """The addresses of the records of a registration, and the records."""
        addresses = self.addresses(self.translate.fact(f"registration:{registration}"), _MAX_DOCUMENTS)
        return list(zip(self.record_addresses(addresses), self.read(addresses), strict=True))


def counted(result: tantivy.SearchResult) -> int:
    """The number of documents that matched (missing in the stubs of tantivy)."""
    return int(result.count)  # type: ignore[attr-defined]
