"""What of a document is stored in which field."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tantivy

from overlay.engines.tantivy.offers import ANCHOR, COMPLEX, OWN_SKILL, offer_terms
from overlay.search.facts import FACET_FIELDS, facets, facts, is_listed
from overlay.search.forward import FIELDS, Analysed
from overlay.search.sorting import made, name_key, newest

if TYPE_CHECKING:
    from overlay.document import Document

NEVER = 2**63 - 1
"""The end of what no block has ended."""
UNLISTED = "old_"
"""Before the names of the fields that hold the text of documents which a plain search does not find."""
ORDERS = {"updated": "newest", "created": "made", "name": "name_order"}
"""The fields that results are sorted by."""


def schema() -> tantivy.Schema:
    """The fields.

    Terms and facts of what a plain search finds have fields of their own, so that it needs no filter: one would cost as
    much again as the words (measured). `text` holds terms in order, for phrases. Facets and orders are fast fields.
    """
    builder = tantivy.SchemaBuilder()
    for name in FIELDS:
        builder.add_text_field(name, tokenizer_name="whitespace", index_option="freq")
        builder.add_text_field(UNLISTED + name, tokenizer_name="whitespace", index_option="freq")
    builder.add_text_field("text", tokenizer_name="whitespace", index_option="position")
    for name in ("listed", "fact", "offer", "meta"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name in (*(f"{each}_facet" for each in FACET_FIELDS.values()), "name_order"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic", fast=True)
    for name in ("place", "newest", "made", "height", "time", "since", "until"):
        builder.add_unsigned_field(name, fast=True)
    builder.add_bytes_field("body", stored=True)
    return builder.build()


def to_fields(document: Document, analysed: Analysed, place: int) -> tantivy.Document:
    """A document for Tantivy; `place` is that of its record."""
    fields = tantivy.Document()
    listed = is_listed(document)
    for at, name in enumerate(FIELDS):
        fields.add_text(name if listed else UNLISTED + name, " ".join(analysed.field_terms(at)))
    for texts in analysed.fields:
        for tokens in texts:
            for sequence in tokens.sequences():
                fields.add_text("text", sequence)
    _add_facts(fields, document, listed=listed)
    for name, values in facets(document).items():
        for value in values:
            fields.add_text(f"{name}_facet", value)
    _add_numbers(fields, document, place)
    return fields


def _add_facts(fields: tantivy.Document, document: Document, *, listed: bool) -> None:
    offers, is_complex = offer_terms(document)
    for fact in facts(document):
        fields.add_text("fact", fact)
        if listed:
            fields.add_text("listed", fact)
    more = [f"id:{document.id}", f"registration:{document.registration}", *([COMPLEX] if is_complex else [])]
    if document.offers:
        more += {ANCHOR + offer.currency: None for offer in document.offers}
        more += {OWN_SKILL + skill.id: None for skill in document.skills}
    for fact in more:
        fields.add_text("fact", fact)
    for term in offers:
        fields.add_text("offer", term)


def _add_numbers(fields: tantivy.Document, document: Document, place: int) -> None:
    fields.add_unsigned("place", place)
    fields.add_unsigned("newest", newest(document))
    fields.add_unsigned("made", made(document))
    fields.add_text("name_order", name_key(document))
    if document.updated_height is not None:
        fields.add_unsigned("height", document.updated_height)
    if document.updated_time is not None:
        fields.add_unsigned("time", max(0, document.updated_time))
    if document.from_height is not None:
        fields.add_unsigned("since", document.from_height)
        fields.add_unsigned("until", NEVER if document.until_height is None else document.until_height)
