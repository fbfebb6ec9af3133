"""Listings side by side."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from overlay.answers.items import Item
from overlay.answers.record import Record


class ComparedFact(Record, kw_only=True):
    """A fact of each listing in words, in their order; null where nothing is known."""

    fact: str
    values: tuple[str | None, ...]
    differs: bool


class ListingComparison(Record, kw_only=True):
    """Two to four listings, in the order of the request."""

    items: tuple[Item, ...]
    facts: Annotated[tuple[ComparedFact, ...], Meta(description="What decides between them, the first before all.")]
