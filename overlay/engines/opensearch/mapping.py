"""The OpenSearch mapping, and documents as its fields.

Text is analysed here, not by OpenSearch: text fields contain index terms separated by spaces. Offers are nested
documents because one offer must meet all filters. `record` is the record for re-ranking and results.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING

from overlay.engines.opensearch.cluster import Json
from overlay.search.facts import FACET_FIELDS, facets, facts, heights
from overlay.search.forward import FIELDS, Analysed
from overlay.search.record_file import IndexRecord, pack_document
from overlay.search.sorting import NUMBERS, order_fields
from overlay.search.term_dictionary import TermCounts
from parsers.cards.intervals import per_day
from parsers.cards.money import decimal_key

if TYPE_CHECKING:
    from overlay.search.document import Document

LAYOUT = "a2b13"

_TEXT: Json = {"type": "text", "analyzer": "whitespace", "index_options": "freqs"}
_TERM: Json = {"type": "keyword", "doc_values": False}
_VALUE: Json = {"type": "keyword"}
_LONG: Json = {"type": "long"}
_NOWHERE: Json = {"type": "object", "enabled": False}

_OFFERS: Json = {
    "type": "nested",
    "dynamic": "strict",
    "properties": {
        "currency": _VALUE,
        "accepts": _TERM,
        "interval": _TERM,
        "skills": _TERM,
        **dict.fromkeys(("key", "day"), _VALUE),
        "payable": {"type": "boolean"},
    },
}

MAPPINGS: Json = {
    "dynamic": "strict",
    "_meta": {"layout": LAYOUT},
    "properties": {
        **dict.fromkeys(FIELDS, _TEXT),
        "term": _TERM,  # all index terms, not scored
        "text": _TEXT | {"index_options": "positions", "norms": False},
        **dict.fromkeys(("fact", "registration"), _TERM),
        **dict.fromkeys(("id", "name_order"), _VALUE),
        **dict.fromkeys(FACET_FIELDS.values(), _VALUE),
        **dict.fromkeys((*NUMBERS, "height", "time", "since", "until"), _LONG),
        "offers": _OFFERS,
        "record": {"type": "binary", "store": True},
        # the commits that a document was added and removed by
        **dict.fromkeys(("added", "removed"), _LONG),
        # word counts that a commit changed (`term_counts`), and the state of the index (`state`)
        **dict.fromkeys(("batch", "part"), _LONG),
        **dict.fromkeys(("body", "state"), _NOWHERE),
    },
}


def source(document: Document, commit: int, changes: TermCounts) -> Json:
    """The source of a document that `commit` adds; its words are counted in `changes`."""
    analysed = Analysed.of(document)
    return {
        "added": commit,
        "id": document.id,
        "registration": document.registration,
        **{name: " ".join(analysed.field_terms(field)) for field, name in enumerate(FIELDS)},
        "term": sorted(analysed.terms()),
        "text": analysed.sequences(),
        "fact": [*facts(document), f"id:{document.id}"],
        **facets(document),
        **order_fields(document),
        **heights(document),
        "offers": _offers(document),
        "record": b64encode(pack_document(document, analysed, changes)).decode(),
    }


def _offers(document: Document) -> list[Json]:
    """The offers as nested documents; an offer for all skills has the skills of the card. `key` orders by amount, `day`
    by price per day."""
    skill_ids = list(dict.fromkeys(skill.id.casefold() for skill in document.skills))
    return [
        {
            "currency": offer.currency,
            "accepts": list(dict.fromkeys((offer.currency, *offer.accepted))),
            "interval": offer.interval_key,
            "skills": skill_ids if offer.skill_ids is None else list(map(str.casefold, offer.skill_ids)),
            "key": decimal_key(offer.amount),
            "payable": offer.is_payable,
            **({} if daily is None else {"day": decimal_key(daily)}),
        }
        for offer in document.offers
        for daily in (per_day(offer.amount, offer.interval_key),)
    ]


def record_of(hit: Json) -> IndexRecord:
    """The record of a hit."""
    return IndexRecord(b64decode(hit["fields"]["record"][0]))
