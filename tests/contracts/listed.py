"""Listings made in a line, and questions put to an engine in one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from overlay.engines import IndexPosition
from overlay.projection.search_index import SearchIndex
from overlay.search.diversity import source_number
from overlay.search.document import Document
from overlay.search.query import Hits, Query
from parsers.cards import Skill
from parsers.cards.intervals import interval_key
from parsers.cards.offers import Offer
from tests.oracles.search import hash_of

EPOCH = "epoch"


def price(amount: str, currency: str = "USD", interval: str | None = None, *others: str, **more: Any) -> Offer:
    """An offer; `others` are accepted too, `skills` names those it is for."""
    skills = more.pop("skills", None)
    return Offer(
        number=more.pop("number", 0),
        id=more.pop("id", f"{amount} {currency} {interval}"),
        name="",
        currency=currency,
        amount=Decimal(amount),
        interval=interval,
        interval_key=interval_key(interval),
        accepted=(currency, *others),
        skill_ids=None if skills is None else tuple(skills),
        address=more.pop("address", ""),
        deposit_pct=None,
        price_feed_url="",
        slippage_pct=None,
        description="",
    )


def listing(id_: str, name: str = "Nameless", **more: Any) -> Document:
    """A document; heights and times go with its number if its id has one. `skills` may be ids."""
    number = int("".join(filter(str.isdigit, id_[:9])) or 0)
    skills = tuple(entry if isinstance(entry, Skill) else Skill(entry) for entry in more.pop("skills", ()))
    offers = tuple(more.pop("offers", ()))
    height = more.pop("height", 100 + number)
    time = more.pop("time", None if height is None else 1_700_000_000 + 600 * height)
    supplied: dict[str, Any] = {
        "id": id_, "registration": id_.partition("#")[0], "kind": "agent", "status": "live", "chain": "bsv",
        "caip2": "bsv:mainnet", "owner": "alice", "from_height": height, "until_height": None,
        "updated_height": height, "updated_time": time, "created_height": height, "created_time": time,
        "name": name, "skills": skills, "offers": offers,
    }  # fmt: skip
    shown = [{"id": skill.id, "name": skill.name, "tags": list(skill.tags)} for skill in skills]
    item = {
        "id": id_, "name": name, "description": more.get("description", ""), "tags": list(more.get("tags", ())),
        "skills": shown, "said": more.pop("said", ""),
    }  # fmt: skip
    return with_source(Document(**(supplied | more), item=json.dumps(item).encode()))


def with_source(document: Document) -> Document:
    """A document with the number of its source, as the projection has it of a database with this key."""
    is_confirmed = document.verified and document.domain
    return replace(document, source=0 if is_confirmed else source_number(b"a key", document.owner, document.domain))


def put(engine: SearchIndex, *documents: Document, seq: int = 1) -> None:
    """Let an engine hold these documents of these registrations."""
    engine.replace([document.registration for document in documents], documents, IndexPosition(EPOCH, seq))


def ask(engine: SearchIndex, text: str = "", **query: Any) -> Hits:
    """Ask an engine; one value may stand for a tuple of one."""
    names = ("skills", "currencies", "intervals", "tags", "chains", "domains", "owners", "statuses", "facets")
    for name in names:
        if isinstance(query.get(name), str):
            query[name] = (query[name],)
    for name in ("min_price", "max_price"):
        if isinstance(query.get(name), str):
            query[name] = Decimal(query[name])
    return engine.search(Query(text=text, **query))


def ranked(*counts: tuple[str, int]) -> tuple[tuple[str, int], ...]:
    """Values of a facet in the order in which they are shown: equally frequent ones by hash."""
    return tuple(sorted(counts, key=lambda pair: (-pair[1], hash_of(pair[0]))))


def ids(hits: Hits) -> list[str]:
    """The ids found, in order; checks that what is said of them fits together."""
    assert all(json.loads(bytes(hit.item))["id"] == hit.id for hit in hits.hits)
    assert hits.total >= len(hits.hits)
    return [hit.id for hit in hits.hits]


def matching_ids(engine: SearchIndex, text: str = "", **query: Any) -> set[str]:
    """Which listings are found."""
    hits = ask(engine, text, **{"limit": 100, **query})
    listed = ids(hits)
    assert len(listed) == len(set(listed)) == hits.total
    return set(listed)


def count(engine: SearchIndex) -> int:
    """How many listings an index holds that are in a block, whatever their status, hidden copies among them."""
    return ask(engine, statuses=(), updated_since=0, limit=0).total


def names(documents: Sequence[Document]) -> set[str]:
    """The ids of documents."""
    return {document.id for document in documents}
