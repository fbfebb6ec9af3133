"""The facts from receipts about listings: the rating of an item, and its score, by which results are sorted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from overlay.answers.items import ItemRating
from overlay.listings.system_facts import FactSource
from overlay.search.facts import customers_fact
from overlay.systems.rating.store import ReceiptQueries
from overlay.text.timestamps import timestamp_of_milliseconds
from parsers.claims.rating import stars

if TYPE_CHECKING:
    from overlay.listings.listing import Listing
    from overlay.systems.rating.store import StoredRating


def item_rating(rating: StoredRating | None) -> ItemRating | None:
    """The rating in an item, None where neither a receipt nor a complaint counts."""
    if rating is None or (rating.score is None and not rating.complaints):
        return None
    score = rating.score
    shown: ItemRating = {
        "paidTasks": rating.paid_tasks, "customers": rating.customers, "failed": rating.failed,
        "complaints": rating.complaints, "disputed": rating.disputed,
        "stars": None if score is None else stars(score, rating.customers),
        "evidence": rating.completed + rating.failed, "score": None if score is None else score / 1_000,
        "rung": f"E{rating.rung}", "asOf": timestamp_of_milliseconds(rating.as_of) or "",
    }  # fmt: skip
    if score is None:
        del shown["rung"]
    return shown


def _members(_listing: Listing, rating: StoredRating | None) -> Mapping[str, ItemRating | None]:
    return {"rating": item_rating(rating)}


def _terms(_listing: Listing, rating: StoredRating | None) -> tuple[str, ...]:
    return () if rating is None or rating.score is None else (customers_fact(rating.customers),)


FACTS = FactSource(
    read=lambda store, hosts: ReceiptQueries(store.engine).ratings(hosts),
    members=_members,
    terms=_terms,
    number=lambda rating: None if rating is None else rating.score,
)
