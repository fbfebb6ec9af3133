"""The Tantivy schema, and documents as its fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tantivy

from overlay.engines.tantivy.offers import ANCHOR, COMPLEX, OWN_SKILL, offer_terms
from overlay.search.facts import FACET_FIELDS, facets, facts, heights, is_listed
from overlay.search.forward import FIELDS, Analysed
from overlay.search.sorting import order_fields

if TYPE_CHECKING:
    from overlay.search.document import Document

NEVER = 2**63 - 1
"""The end height of current documents."""
UNLISTED = "old_"
"""Prefix of the text fields of documents that a plain search does not find."""
_BREAK = " | "
"""Separator of texts: it is no term, so that no phrase spans two texts."""


def schema() -> tantivy.Schema:
    """The schema.

    Terms and facts of the documents that a plain search finds have their own fields, so that it needs no filter, which
    would double its time (measured). `text` has the terms in order, for phrases. Facets and sort keys are fast fields.
    """
    builder = tantivy.SchemaBuilder()
    for name in FIELDS:
        builder.add_text_field(name, tokenizer_name="whitespace", index_option="freq")
        builder.add_text_field(UNLISTED + name, tokenizer_name="whitespace", index_option="freq")
    builder.add_text_field("text", tokenizer_name="whitespace", index_option="position")
    for name in ("listed", "fact", "offer", "meta"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name in (*(f"{field}_facet" for field in FACET_FIELDS.values()), "name_order"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic", fast=True)
    for name in ("place", "newest", "made", "rated", "rated_up", "height", "time", "since", "until"):
        builder.add_unsigned_field(name, fast=True)
    builder.add_bytes_field("body", stored=True)
    return builder.build()


def to_fields(document: Document, analysed: Analysed, record_address: int) -> tantivy.Document:
    """A document for Tantivy; `record_address` is the address of its record in the record file."""
    listed = is_listed(document)
    texts = {
        name if listed else UNLISTED + name: " ".join(analysed.field_terms(field)) for field, name in enumerate(FIELDS)
    }
    offers, is_complex = offer_terms(document)
    facet_values = facets(document)
    numbers: dict[str, int] = {"place": record_address, **heights(document)}
    if "since" in numbers:
        numbers.setdefault("until", NEVER)
    order: dict[str, str] = {}
    for name, value in order_fields(document).items():
        if isinstance(value, int):
            numbers[name] = value
        else:
            order[name] = value
    filter_terms = list(facts(document, facet_values))
    more = [f"id:{document.id}", f"registration:{document.registration}", *([COMPLEX] if is_complex else [])]
    if document.offers:
        more += {ANCHOR + offer.currency: None for offer in document.offers}
        more += {OWN_SKILL + skill.id.casefold(): None for skill in document.skills}
    fields = tantivy.Document(
        **texts,
        text=_BREAK.join(analysed.sequences()),
        listed=filter_terms if listed else [],
        fact=filter_terms + more,
        offer=offers,
        **{f"{name}_facet": list(values) for name, values in facet_values.items()},
        **order,
    )
    for name, number in numbers.items():
        fields.add_unsigned(name, max(0, number))
    return fields
