"""What of a document goes into which field."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tantivy

from overlay.engines.tantivy.facts import COLUMNS, SLOTS, joint_facts, number, price_class, slot_facts
from overlay.search.facts import FACET_FIELDS, facets, facts, is_listed
from overlay.search.prices import AMOUNT_BITS, amount_key
from overlay.search.ranking import texts
from overlay.search.sorting import made, name_key, newest, seniority
from overlay.search.suggesting import hints, name_words
from overlay.search.text import sequences

if TYPE_CHECKING:
    from overlay.document import Document

NEVER = 2**63 - 1  # the end of what still stands
FIRST = 4  # offers of a listing that have columns of their own
_STEP = 2.0**-21


def schema() -> tantivy.Schema:
    """The fields.

    `words` holds the terms of current, live or pending listings with their levels (`payment~7`), `held` the same
    without levels, `plain` their facts; `others` and `fact` hold terms and facts of all documents. So what a plain
    search looks for stands by itself, and neither old nor burned documents cost it anything.

    `offer` holds the facts of each offer by its number, `numbered` its amount. Joining 64 of them for facts that are
    common costs a millisecond, so what is asked most has its own place: facts that join currency and interval, and
    columns of amounts by class: all (class 0), by their currency, by currency and interval. Classes that are not usual
    may be shared, and a listing in which that happens says so: only there the numbered offers are looked through.

    Amounts are looked up as terms: their range is a few lists of documents, where a column would be read through (five
    times slower at 100,000 offers). Fields are few because Tantivy takes longer to open one the more there are (a
    hundred doubled it): a class, or a number, stands in the upper bits of a value. The first offers have columns of
    their own for sorting.
    """
    builder = tantivy.SchemaBuilder()
    for name in ("words", "held", "others", "names"):
        builder.add_text_field(name, tokenizer_name="whitespace", index_option="basic")
    builder.add_text_field("said", tokenizer_name="whitespace", index_option="position")
    for name in ("plain", "fact", "offer", "hint", "meta"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name in (*FACET_FIELDS.values(), "name"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic", fast=True)
    for name in ("place", "newest", "seniority", "made", "height", "time", "since", "until"):
        builder.add_unsigned_field(name, fast=True)
    for slot in range(FIRST):
        builder.add_unsigned_field(f"price{slot}", fast=True)
        builder.add_unsigned_field(f"anchor{slot}", fast=True)
    for name in ("numbered", *(f"cost{at}" for at in range(COLUMNS))):
        builder.add_unsigned_field(name, indexed=True)
    builder.add_float_field("bonus", fast=True)
    builder.add_bytes_field("body", stored=True)
    return builder.build()


def to_fields(document: Document, levels: dict[str, int], place: int) -> tantivy.Document:
    """The document as Tantivy is given it; `place` is where its record lies."""
    found = tantivy.Document()
    listed = is_listed(document)
    text = " ".join(f"{term}~{level}" for term, level in levels.items())
    if listed:
        found.add_text("words", text)
        found.add_text("held", " ".join(levels))
        _add_hints(found, document)
    else:
        found.add_text("others", text)
    for _, each in texts(document):
        for sequence in sequences(each):
            found.add_text("said", sequence)
    for fact in (*facts(document), *sorted(joint_facts(document))):
        found.add_text("fact", fact)
        if listed:
            found.add_text("plain", fact)
    found.add_text("fact", f"id:{document.id}")
    found.add_text("fact", f"registration:{document.registration}")
    for name, values in facets(document).items():
        for value in values:
            found.add_text(name, value)
    _add_numbers(found, document, place)
    _add_offers(found, document)
    return found


def bonus(since: int | None) -> float:
    """How much who has said so longer comes first among those of equal points: see `run.Run`.

    Tantivy multiplies points by log2(2 + this), in 32-bit floats. 1,023 steps of 11 days from 2008 make a factor of at
    most 1.00036, so points up to 2,000 keep their whole part, and every step can be told apart.
    """
    return _STEP * (0 if since is None else 1023 - min(1023, max(0, (since - 1_230_000_000) // 1_000_000)))


def _add_numbers(found: tantivy.Document, document: Document, place: int) -> None:
    found.add_unsigned("place", place)
    found.add_unsigned("newest", newest(document))
    found.add_unsigned("seniority", seniority(document))
    found.add_unsigned("made", made(document))
    found.add_text("name", name_key(document))
    found.add_float("bonus", bonus(document.senior_since))
    if document.updated_height is not None:
        found.add_unsigned("height", document.updated_height)
    if document.updated_time is not None:
        found.add_unsigned("time", max(0, document.updated_time))
    if document.from_height is not None:
        found.add_unsigned("since", document.from_height)
        found.add_unsigned("until", NEVER if document.until_height is None else document.until_height)


def _add_offers(found: tantivy.Document, document: Document) -> None:
    for fact in slot_facts(document):
        found.add_text("offer", fact)
    for slot, offer in enumerate(document.offers[:SLOTS]):
        key = amount_key(offer.amount)
        found.add_unsigned("numbered", classed(slot, key))
        for each in (0, price_class(offer.currency), price_class(offer.currency, offer.interval_key)):
            found.add_unsigned(cost_column(each), classed(each, key))
        if slot < FIRST:
            found.add_unsigned(f"price{slot}", key)
            found.add_unsigned(f"anchor{slot}", number(offer.currency))


def cost_column(price_class: int) -> str:
    """The column in which the amounts of a class stand."""
    return f"cost{price_class % COLUMNS}"


def classed(upper: int, key: int) -> int:
    """The value of an amount in a class, or of a number."""
    return upper << AMOUNT_BITS | key


def _add_hints(found: tantivy.Document, document: Document) -> None:
    """What is completed while typing."""
    found.add_text("names", " ".join(name_words(document)))
    for hint in hints(document):
        found.add_text("hint", hint)
