"""The arrays of a segment: the stored data of each document, and the arrays derived from them (`derived`).

A segment holds *tables* of distinct strings, sorted by their UTF-8 bytes, and *members* of documents and of their
offers: columns of one value each, and rows of any number of values. Values are numbers, bytes, or numbers of strings of
a table, so that segments merge by renumbering (`merging`). All arrays are little-endian.

    table NAME    NAME_bytes (u1), NAME_offsets (i8): string i is NAME_bytes[NAME_offsets[i]:NAME_offsets[i + 1]]
    column NAME   NAME: one value for each document or offer
    rows NAME     NAME, NAME_offsets (i8): those of document or offer i are NAME[NAME_offsets[i]:NAME_offsets[i + 1]]
    offers        offers_offsets (i8): those of document i are from offers_offsets[i] until before offers_offsets[i + 1]
"""

from __future__ import annotations

from typing import NamedTuple

VECTOR = 128
"""Numbers of the text vector of a document."""


class ArrayMember(NamedTuple):
    """A member of each document, or with `of_offer` of each offer: a column, or rows if `is_rows`. Its values are of
    `dtype`; with a `table`, they are numbers of strings there."""

    name: str
    dtype: str
    table: str = ""
    is_rows: bool = False
    of_offer: bool = False


TABLES = ("terms", "surfaces", "facts", "values", "labels", "currencies", "intervals", "skills", "amounts")
"""`terms` are index terms, `surfaces` words before stemming, `values` those of facets as `field:value`, `labels` the
texts that complete a query (`labels.packed`), `amounts` decimal keys (`parsers.cards.money.decimal_key`), which sort as
the amounts."""

LISTED = 1
"""The bit of `flags` for documents in plain searches; the others are those of `search.ranker`."""

MEMBERS = (
    ArrayMember("flags", "u1"),
    ArrayMember("text_since", "f8"),
    ArrayMember("source", "u8"),
    ArrayMember("newest", "u8"),
    ArrayMember("made", "u8"),
    ArrayMember("rated", "u8"),
    ArrayMember("rated_up", "u8"),
    ArrayMember("text_surfaces", "u4"),
    ArrayMember("height", "i8"),
    ArrayMember("time", "i8"),
    ArrayMember("since", "i8"),
    ArrayMember("until", "i8"),
    ArrayMember("id", "u1", is_rows=True),
    ArrayMember("name_order", "u1", is_rows=True),
    ArrayMember("item", "u1", is_rows=True),
    ArrayMember("packed_offers", "u1", is_rows=True),
    ArrayMember("section_ends", "u4", is_rows=True),
    ArrayMember("forward", "u4", "terms", is_rows=True),
    ArrayMember("document_surfaces", "u4", "surfaces", is_rows=True),
    ArrayMember("document_facts", "u4", "facts", is_rows=True),
    ArrayMember("document_values", "u4", "values", is_rows=True),
    ArrayMember("document_labels", "u4", "labels", is_rows=True),
    ArrayMember("own_skills", "u4", "skills", is_rows=True),
    ArrayMember("vector", "i1", is_rows=True),
    ArrayMember("offer_currency", "u4", "currencies", of_offer=True),
    ArrayMember("offer_interval", "u4", "intervals", of_offer=True),
    ArrayMember("offer_amount", "u4", "amounts", of_offer=True),
    ArrayMember("offer_names_skills", "u1", of_offer=True),
    ArrayMember("offer_payable", "u1", of_offer=True),
    ArrayMember("offer_accepted", "u4", "currencies", is_rows=True, of_offer=True),
    ArrayMember("offer_skills", "u4", "skills", is_rows=True, of_offer=True),
)
"""Rows of `section_ends` have the ends of a forward index's sections (`ranker.SECTIONS`). The first `text_surfaces` of
a document's surfaces are those of its name and its description."""

BREAK = 0xFFFFFFFF
"""In `forward`: a separator of two texts of a section, so their words are not neighbours. No table has as many strings,
and merging does not change it."""


class DerivedArray(NamedTuple):
    """An array that is computed from others: postings, frequencies and ranks.

    It has a value for each document, offer, string of a table, or value of another array, by `of` ("": its length
    follows from nothing else). With `below`, its values are numbers of these. With `offsets_of`, its values are the
    start of each row in that array, and the end of the last row.
    """

    name: str
    dtype: str
    of: str = ""
    below: str = ""
    offsets_of: str = ""


DERIVED = (
    DerivedArray("term_offsets", "i8", "terms", offsets_of="term_documents"),
    DerivedArray("term_documents", "u4", below="documents"),
    DerivedArray("term_impacts", "f4", "term_documents"),
    DerivedArray("fact_offsets", "i8", "facts", offsets_of="fact_documents"),
    DerivedArray("fact_documents", "u4", below="documents"),
    DerivedArray("surface_term", "u4", "surfaces"),
    DerivedArray("surface_listed", "u4", "surfaces"),
    DerivedArray("term_listed", "u4", "terms"),
    DerivedArray("near_starts", "i8", "lengths", offsets_of="near_surfaces"),
    DerivedArray("near_surfaces", "u4", below="surfaces"),
    DerivedArray("near_signatures", "u8", "near_surfaces"),
    DerivedArray("value_group", "u4", "values", below="values"),
    DerivedArray("value_next", "u4", "values", below="values"),
    DerivedArray("value_hash", "u8", "values"),
    DerivedArray("id_order", "u4", "documents", below="documents"),
    DerivedArray("id_rank", "u8", "documents", below="documents"),
    DerivedArray("name_rank", "u8", "documents", below="documents"),
    DerivedArray("amount_double", "f8", "amounts"),
    DerivedArray("vector_inverse", "f4", "documents"),
    DerivedArray("cluster_centres", "i1"),
    DerivedArray("cluster_starts", "i8", "clusters", offsets_of="cluster_documents"),
    DerivedArray("cluster_documents", "u4", below="documents"),
    DerivedArray("name_bits", "u8", "documents"),
    DerivedArray("price", "u4", "offers", below="price_currency"),
    DerivedArray("price_currency", "u4", below="currencies"),
    DerivedArray("price_interval", "u4", "price_currency", below="intervals"),
    DerivedArray("price_amount", "u4", "price_currency", below="amounts"),
)
"""`term_*` and `fact_*`: postings, with the impact of a term in each document. `surface_term`: the term of each
surface, or BREAK. `*_listed`: documents with the flag `LISTED` that contain it. `near_*`: the surfaces that are
corrections, by number of letters (`lengths`: from `SHORTEST` to `LONGEST`). `value_group`: the first value that differs
in case only; `value_next`: the next one, or BREAK; `value_hash`: the order of equal counts. `id_order`: the documents
by id; `*_rank`: their ranks by id and by `name_order`. `price_*`: distinct prices, and `price` that of each offer.
`amount_double`: amounts, rounded. `vector_inverse`: one divided by the length of each text vector. `cluster_*`: text
vectors by the nearest of some centres, none in a small segment (`search.clusters`). `name_bits`: a bit for each term of
the name (`posting_kernels.name_bits`)."""
