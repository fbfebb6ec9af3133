"""What of a document goes into which field."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING

import tantivy

from overlay.prices import amount_key
from overlay.sorting import made, name_key, newest
from overlay.text import words

if TYPE_CHECKING:
    from overlay.document import Document
    from parsers.offers import Offer

SLOTS = 64  # offers of a listing that are indexed (law 12)
NEVER = 2**63 - 1  # the end of what still stands
LISTED = ("live", "pending")
FACET_FIELDS = {
    "type": "kind",
    "skillId": "skill",
    "acceptedCurrency": "currency",
    "interval": "interval",
    "tag": "tag",
    "chain": "chain",
    "status": "status",
}
_STEP = 2.0**-21


def schema() -> tantivy.Schema:
    """The fields.

    `words` holds the terms of current, live or pending listings with their levels (`payment~7`), `others` those of all
    other documents, so that the latter cost a plain search nothing. `flag` holds exact facts with a prefix each.
    `offer` holds, for every offer by its number k: `k`, and `kc…`, `ki…`, `ka…`, `ks…` for currencies, interval, anchor
    and skills, or `k*` for all of the card's skills, which stand once as `*s…`; so the facts of one entry are never
    mixed with another's (law 14), in space that grows only as the card does.
    """
    builder = tantivy.SchemaBuilder()
    for name in ("words", "others", "names"):
        builder.add_text_field(name, tokenizer_name="whitespace", index_option="basic")
    for name in ("flag", "offer", "hint", "meta"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name in (*FACET_FIELDS.values(), "name"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic", fast=True)
    for name in ("place", "newest", "made", "height", "time", "since", "until", "amount"):
        builder.add_unsigned_field(name, fast=True)
    for slot in range(SLOTS):
        builder.add_unsigned_field(f"price{slot}", fast=True)
        builder.add_unsigned_field(f"anchor{slot}", fast=True)
    builder.add_float_field("recency", fast=True)
    builder.add_bytes_field("body", stored=True)
    return builder.build()


def is_listed(document: Document) -> bool:
    """True for what a plain search finds: current, and live or pending."""
    return document.until_height is None and document.status in LISTED


def to_fields(document: Document, levels: dict[str, int], place: int) -> tantivy.Document:
    """The document as Tantivy is given it; `place` is where its record lies."""
    found = tantivy.Document()
    text = " ".join(f"{term}~{level}" for term, level in levels.items())
    found.add_text("words" if is_listed(document) else "others", text)
    for flag in _flags(document):
        found.add_text("flag", flag)
    _add_facets(found, document)
    _add_numbers(found, document, place)
    for slot, offer in enumerate(document.offers[:SLOTS]):
        _add_offer(found, slot, offer)
    if document.offers:
        for skill in {skill.id for skill in document.skills}:
            found.add_text("offer", f"*s{skill}")
    if is_listed(document):
        _add_hints(found, document)
    return found


def anchor_number(currency: str) -> int:
    """A number that stands for a currency: 63 bits of BLAKE2b."""
    return int.from_bytes(blake2b(currency.encode(), digest_size=8).digest()) >> 1


def recency(time: int | None) -> float:
    """How much later a listing comes first among those of equal points: see `pages.page`.

    Tantivy multiplies points by log2(2 + this), in 32-bit floats. 1,023 steps of 11 days from 2008 make a factor of at
    most 1.00036, so points up to 2,000 keep their whole part, and every step can be told apart.
    """
    return _STEP * (1023 if time is None else min(1023, max(0, (time - 1_230_000_000) // 1_000_000)))


def _flags(document: Document) -> Iterator[str]:
    yield f"id:{document.id}"
    yield f"registration:{document.registration}"
    yield f"owner:{document.owner}"
    yield f"chain:{document.chain}"
    if document.caip2 != document.chain:
        yield f"chain:{document.caip2}"
    if document.domain:
        yield f"domain:{document.domain}"
    yield "verified" if document.verified else "unverified"
    if document.until_height is None:
        yield "current"
    if is_listed(document):
        yield "listed"


def _add_facets(found: tantivy.Document, document: Document) -> None:
    found.add_text("kind", document.kind)
    found.add_text("chain", document.chain)
    found.add_text("status", document.status)
    skills = [skill.id for skill in document.skills]
    for offer in document.offers:
        skills += offer.skill_ids or ()
    columns = {
        "skill": skills,
        "currency": [currency for offer in document.offers for currency in offer.accepted],
        "interval": [offer.interval_key for offer in document.offers],
        "tag": [tag.casefold() for tag in tags(document)],
    }
    for name, values in columns.items():
        for value in dict.fromkeys(values):
            found.add_text(name, value)


def tags(document: Document) -> Iterator[str]:
    """The tags of a listing and of its skills."""
    yield from document.tags
    for skill in document.skills:
        yield from skill.tags


def _add_numbers(found: tantivy.Document, document: Document, place: int) -> None:
    found.add_unsigned("place", place)
    found.add_unsigned("newest", newest(document))
    found.add_unsigned("made", made(document))
    found.add_text("name", name_key(document))
    found.add_float("recency", recency(document.updated_time))
    if document.updated_height is not None:
        found.add_unsigned("height", document.updated_height)
    if document.updated_time is not None:
        found.add_unsigned("time", max(0, document.updated_time))
    if document.from_height is not None:
        found.add_unsigned("since", document.from_height)
        found.add_unsigned("until", NEVER if document.until_height is None else document.until_height)


def _add_offer(found: tantivy.Document, slot: int, offer: Offer) -> None:
    key = amount_key(offer.amount)
    found.add_unsigned("amount", key)
    found.add_unsigned(f"price{slot}", key)
    found.add_unsigned(f"anchor{slot}", anchor_number(offer.currency))
    found.add_text("offer", f"{slot}")
    found.add_text("offer", f"{slot}a{offer.currency}")
    found.add_text("offer", f"{slot}i{offer.interval_key}")
    for currency in offer.accepted:
        found.add_text("offer", f"{slot}c{currency}")
    if offer.skill_ids is None:
        found.add_text("offer", f"{slot}*")
    for skill in offer.skill_ids or ():
        found.add_text("offer", f"{slot}s{skill}")


def _add_hints(found: tantivy.Document, document: Document) -> None:
    """What is completed while typing: the words of names, and every skill name and tag under each of its words."""
    found.add_text("names", " ".join(dict.fromkeys(words(document.name))))
    hints = {("skill", skill.name or skill.id) for skill in document.skills} | {("tag", tag) for tag in tags(document)}
    for kind, text in sorted(hints):
        shown = text[:100].replace("\0", "")
        for word in dict.fromkeys(words(shown)):
            found.add_text("hint", f"{word}\0{kind}\0{shown}")
