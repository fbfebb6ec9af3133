"""One committed state of the index, as searches see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from overlay.engines.tantivy.pages import Address
from overlay.engines.tantivy.queries import Part, Translator, every
from overlay.engines.tantivy.state import State
from overlay.search.postings import Postings
from overlay.search.records import Record, Records
from overlay.search.vocabulary import Vocabulary

_MOST_DOCUMENTS = 1_000_000  # of one registration


class View(NamedTuple):
    """`state` and `records` are None for an index that is new, cleared or damaged; it finds nothing. `postings` are
    None where they are not held in memory."""

    ask: Translator
    state: State | None
    vocabulary: Vocabulary
    records: Records | None
    postings: Postings | None = None

    def read(self, addresses: list[Address]) -> list[Record]:
        """The records of documents."""
        return self.read_at(self.ask.numbers("place", addresses))

    def read_at(self, places: list[int]) -> list[Record]:
        """The records at places."""
        return [] if self.records is None else self.records.unpacked(places)

    def ids_at(self, places: list[int]) -> list[str]:
        """The ids of the records at places."""
        return [] if self.records is None else list(map(self.records.id_at, places))

    def _stored(self, addresses: list[Address]) -> Iterator[tuple[int, bytes]]:
        if self.records is not None:
            places = self.ask.numbers("place", addresses)
            yield from zip(places, self.records.read(places), strict=True)

    def item(self, id_: str) -> bytes | None:
        """The stored item of a current listing."""
        for record in self.read(self._addresses(every([self._fact(f"id:{id_}"), self._fact("current")]), 1)):
            return record.item
        return None

    def of_registration(self, registration: str) -> Iterator[tuple[int, bytes]]:
        """The places and bytes of the records of all documents of a registration."""
        return self._stored(self._addresses(self._fact(f"registration:{registration}"), _MOST_DOCUMENTS))

    def _addresses(self, part: Part, limit: int) -> list[Address]:
        return [address for _, address in self.ask.searcher.search(part, limit, count=False).hits]

    def _fact(self, value: str) -> Part:
        return self.ask.term("fact", value)
