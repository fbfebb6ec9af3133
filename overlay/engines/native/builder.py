"""Documents to the primary arrays of a segment (`schema`)."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from overlay.engines.native.labels import labels_of_document
from overlay.engines.native.schema import (
    BREAK,
    LISTED,
    MEMBERS,
    TABLES,
    VECTOR,
)
from overlay.engines.native.tables import pack
from overlay.engines.native.text_rows import TextRows
from overlay.search import prices
from overlay.search.facts import facets, facts, heights, is_listed
from overlay.search.forward import Analysed
from overlay.search.ranker import (
    COMPOUND_FLAG,
    DEPRECATED_FLAG,
    LOST_FLAG,
    NOT_RUNNABLE_FLAG,
    SIGNED_FLAG,
    VERIFIED_FLAG,
)
from overlay.search.sorting import NUMBERS, order_fields
from overlay.search.text_vectors import pieces_of, vectors
from parsers.cards.money import decimal_key

if TYPE_CHECKING:
    from overlay.search.document import Document

Arrays = dict[str, npt.NDArray[Any]]

MISSING = -1
"""The value of a height or time that a document does not have; also `text_since` of an unconfirmed text."""
NEVER = 2**63 - 1
"""`until` of a document that has a start height and no end height."""
_CODES = {"u1": "B", "u4": "I", "u8": "Q", "i8": "q", "f8": "d", "i1": "b"}


class _Rows:
    """Rows of values, concatenated, and the end of each."""

    def __init__(self, dtype: str) -> None:
        self.values: Any = bytearray() if dtype == "u1" else array(_CODES[dtype])
        self.ends = array("q", [0])

    def add(self, values: Iterable[int]) -> None:
        """Add a row at the end."""
        self.values.extend(values)
        self.ends.append(len(self.values))


class _Numbers(dict[str, int]):
    """Strings numbered by their first use."""

    def __missing__(self, text: str) -> int:
        self[text] = number = len(self)
        return number


class SegmentBuilder:
    """Collects documents; `arrays` are the arrays of a segment that holds them in order."""

    def __init__(self) -> None:
        self._numbers = {table: _Numbers() for table in TABLES}
        self._texts = TextRows(self._numbers["terms"].__getitem__, self._numbers["surfaces"].__getitem__)
        self._columns: dict[str, Any] = {m.name: array(_CODES[m.dtype]) for m in MEMBERS if not m.is_rows}
        self._rows = {m.name: _Rows(m.dtype) for m in MEMBERS if m.is_rows}
        self._pieces = _Rows("u4")
        self._offers = array("q", [0])
        self.documents = 0
        self.newest = 0
        """The latest time of a block that a document is of, in seconds since 1970."""

    def add(self, document: Document) -> None:
        """Add a document at the end."""
        analysed = Analysed.of(document)
        self._add_columns(document, analysed)
        self._texts.add(analysed, described=bool(document.description))
        self._rows["id"].add(document.id.encode("utf-8", "surrogatepass"))
        self._rows["item"].add(document.item)
        self._rows["packed_offers"].add(prices.pack(document))
        of_facets = facets(document)
        ids = f"id:{document.id}", f"registration:{document.registration}"
        self._add_numbers("document_facts", "facts", dict.fromkeys((*facts(document, of_facets), *ids)))
        values = [f"{field}:{value}" for field, values in of_facets.items() for value in values]
        self._add_numbers("document_values", "values", values)
        self._add_numbers("document_labels", "labels", labels_of_document(document))
        self._pieces.add(pieces_of(document))
        self._add_offers(document)
        self.newest = max(self.newest, document.updated_time or 0, document.text_since or 0)
        self.documents += 1

    def _add_columns(self, document: Document, analysed: Analysed) -> None:
        since, order, bounds = document.text_since, order_fields(document), heights(document)
        values: dict[str, Any] = {
            "flags": LISTED * is_listed(document)
            | COMPOUND_FLAG * analysed.name_is_compound
            | VERIFIED_FLAG * document.verified
            | SIGNED_FLAG * document.signed
            | DEPRECATED_FLAG * document.deprecated
            | LOST_FLAG * document.lost
            | NOT_RUNNABLE_FLAG * document.not_runnable,
            "text_since": float(MISSING) if since is None else float(since),
            "source": document.source,
            **{name: max(0, int(order[name])) for name in NUMBERS},
            **{name: bounds.get(name, MISSING) for name in ("height", "time", "since")},
            "until": bounds.get("until", NEVER if "since" in bounds else MISSING),
        }
        for name, value in values.items():
            self._columns[name].append(value)
        self._rows["name_order"].add(str(order["name_order"]).encode("utf-8", "surrogatepass"))

    def _add_numbers(self, name: str, table: str, texts: Iterable[str]) -> None:
        self._rows[name].add(map(self._numbers[table].__getitem__, texts))

    def _add_offers(self, document: Document) -> None:
        columns, number = self._columns, self._numbers
        skill_ids = {skill.id.casefold(): None for skill in document.skills} if document.offers else {}
        self._add_numbers("own_skills", "skills", skill_ids)
        for offer in document.offers:
            columns["offer_currency"].append(number["currencies"][offer.currency])
            columns["offer_interval"].append(number["intervals"][offer.interval_key])
            columns["offer_amount"].append(number["amounts"][decimal_key(offer.amount)])
            columns["offer_names_skills"].append(offer.skill_ids is not None)
            columns["offer_payable"].append(offer.is_payable)
            self._add_numbers("offer_accepted", "currencies", offer.accepted)
            self._add_numbers("offer_skills", "skills", dict.fromkeys(map(str.casefold, offer.skill_ids or ())))
        self._offers.append(self._offers[-1] + len(document.offers))

    def arrays(self) -> Arrays:
        """The primary arrays, with the strings of tables in order. To be called once: their inputs are freed
        meanwhile."""
        arrays: Arrays = {"offers_offsets": np.array(self._offers, "<i8")}
        of_all = vectors(np.array(self._pieces.values, np.uint32), np.array(self._pieces.ends, np.int64)).reshape(-1)
        of_texts = self._texts.arrays() | {
            "vector": of_all,
            "vector_offsets": np.arange(0, len(of_all) + 1, VECTOR, dtype=np.int64),
        }
        ranks = {}
        for table, numbers in self._numbers.items():
            ordered = sorted(numbers)
            packed = pack([text.encode("utf-8", "surrogatepass") for text in ordered])
            arrays |= {f"{table}_bytes": packed.bytes, f"{table}_offsets": packed.offsets}
            rank = np.empty(len(ordered), np.uint32)
            rank[[numbers[text] for text in ordered]] = np.arange(len(ordered), dtype=np.uint32)
            ranks[table] = rank
            numbers.clear()
        arrays |= of_texts
        for member in MEMBERS:
            if member.name not in arrays:
                rows = self._rows.pop(member.name) if member.is_rows else None
                values = rows.values if rows else self._columns.pop(member.name)
                dtype = f"<{member.dtype}"
                arrays[member.name] = np.frombuffer(values, dtype).copy() if len(values) else np.empty(0, dtype)
                if rows:
                    arrays[f"{member.name}_offsets"] = np.array(rows.ends, "<i8")
            if member.table:
                arrays[member.name] = renumbered(arrays[member.name], ranks[member.table])
        return arrays


def renumbered(numbers: npt.NDArray[Any], ranks: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Numbers of strings by other numbers of theirs; a `BREAK` stays."""
    if not len(numbers):
        return numbers
    breaks = numbers == BREAK
    if not breaks.any():
        return np.asarray(ranks[numbers])
    changed = ranks[np.where(breaks, 0, numbers)] if len(ranks) else numbers.copy()
    changed[breaks] = BREAK
    return np.asarray(changed, np.uint32)
