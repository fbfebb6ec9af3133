"""What is stored of a document, and as what.

Text is analysed here and not there: the fields hold index terms, separated by spaces. Offers are nested documents, so
that one of them must meet several filters. `record` is what stage two of ranking and results are made of.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

from overlay.search.analysis import sequences, stem
from overlay.search.facts import facets, facts, is_listed
from overlay.search.forward import FIELDS, Analysed, encode, field_texts
from overlay.search.prices import pack
from overlay.search.records import Record
from overlay.search.sorting import made, name_key, newest
from overlay.search.term_dictionary import TermChanges
from parsers.money import decimal_key

if TYPE_CHECKING:
    from overlay.document import Document
    from overlay.engines.opensearch.cluster import Cluster

LAYOUT = "a2b2"

Json = dict[str, Any]

_TEXT: Json = {"type": "text", "analyzer": "whitespace", "index_options": "freqs"}
_TERM: Json = {"type": "keyword", "doc_values": False}
_VALUE: Json = {"type": "keyword"}
_LONG: Json = {"type": "long"}
_NOWHERE: Json = {"type": "object", "enabled": False}

_OFFERS: Json = {
    "type": "nested",
    "dynamic": "strict",
    "properties": {"currency": _VALUE, "accepts": _TERM, "interval": _TERM, "skills": _TERM, "key": _VALUE},
}

MAPPINGS: Json = {
    "dynamic": "strict",
    "_meta": {"layout": LAYOUT},
    "properties": {
        **dict.fromkeys(FIELDS, _TEXT),
        "term": _TERM,  # all index terms, without a score
        "text": _TEXT | {"index_options": "positions", "norms": False},
        **dict.fromkeys(("fact", "registration"), _TERM),
        **dict.fromkeys(("id", "name_order"), _VALUE),
        **dict.fromkeys(("kind", "chain", "status", "skill", "currency", "interval", "tag"), _VALUE),
        **dict.fromkeys(("newest", "made", "height", "time", "since", "until"), _LONG),
        "offers": _OFFERS,
        "record": {"type": "binary", "store": True},
        # the commits that a document was added and removed by
        **dict.fromkeys(("added", "removed"), _LONG),
        # counts of words that a commit changed (`vocabulary`), and the state of the index (`state`)
        **dict.fromkeys(("batch", "part"), _LONG),
        "is_base": {"type": "boolean"},
        **dict.fromkeys(("body", "state"), _NOWHERE),
    },
}


def settings(cluster: Cluster) -> Json:
    """Settings of a new index; it is refreshed by each commit."""
    return {
        "number_of_shards": cluster.shards,
        "number_of_replicas": cluster.replicas,
        "refresh_interval": "-1",
    }


def source(document: Document, commit: int, changes: TermChanges) -> Json:
    """What is stored of a document that `commit` adds; its words are counted."""
    analysed = Analysed.of(document)
    words = ""
    if is_listed(document):
        changes.count(analysed.surfaces, set(map(stem, analysed.surfaces)), 1)
        words = " ".join(sorted(analysed.surfaces))
    record = Record(
        document.id, encode(analysed, document), pack(document), document.item, is_listed(document), words.encode()
    )
    numbers = {
        "height": document.updated_height,
        "time": document.updated_time,
        "since": document.from_height,
        "until": document.until_height,
    }
    return {
        "added": commit,
        "id": document.id,
        "registration": document.registration,
        **{name: " ".join(analysed.field_terms(at)) for at, name in enumerate(FIELDS)},
        "term": sorted(analysed.terms()),
        "text": [line for texts in field_texts(document) for text in texts for line in sequences(text)],
        "fact": [*facts(document), f"id:{document.id}"],
        **facets(document),
        "newest": newest(document),
        "made": made(document),
        "name_order": name_key(document),
        **{name: value for name, value in numbers.items() if value is not None},
        "offers": _offers(document),
        "record": b64encode(record.pack()).decode(),
    }


def _offers(document: Document) -> list[Json]:
    """The offers as nested documents; of one for all skills, the skills of the card."""
    own = list(dict.fromkeys(skill.id for skill in document.skills))
    return [
        {
            "currency": offer.currency,
            "accepts": list(dict.fromkeys((offer.currency, *offer.accepted))),
            "interval": offer.interval_key,
            "skills": own if offer.skill_ids is None else list(offer.skill_ids),
            "key": decimal_key(offer.amount),
        }
        for offer in document.offers
    ]


def record_of(hit: Json) -> Record:
    """The record of a hit."""
    return Record.unpack(b64decode(hit["fields"]["record"][0]))
