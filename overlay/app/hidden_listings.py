"""Announce what the operator hides, from whichever process wrote the decision."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from indexer.store.hidden import announce_hidden
from indexer.store.logos import Logos
from overlay.jobs import PeriodicJob, Role
from overlay.listings.card_texts import read_card
from overlay.listings.listing import listings_of
from overlay.listings.repository import ListingRepository

if TYPE_CHECKING:
    from indexer.store import Store, Writer

HIDE_SECONDS = 1.0
"""Seconds between two looks at new decisions: hidden listings leave all indexes within five."""


def announce(store: Store, writer: Writer) -> bool:
    """Announce decisions that have begun or ended, and delete the thumbnails of hidden logos; False where there is
    nothing to announce. Raises StoreError."""
    if not store.hidden.has_news():
        return False
    hidden = ListingRepository(store).listings(announce_hidden(writer))
    logos = set[str]()
    for id_, record in hidden.items():
        body = record.card_body
        if body is not None:
            logos |= {listing.card.logo for listing in listings_of(record, read_card(id_, body, record.state.kind))}
    Logos(writer.engine).remove(sorted(logos - {""}))
    return True


async def _announce(store: Store, writer: Writer, notify: Callable[[], None]) -> None:
    if await asyncio.to_thread(announce, store, writer):
        notify()


def hide_job(store: Store, writer: Writer, notify: Callable[[], None]) -> PeriodicJob:
    """The job of the process that writes; `notify` is called after an announcement."""
    return PeriodicJob(
        name="hidden", run=partial(_announce, store, writer, notify), every=HIDE_SECONDS, role=Role.INDEXER
    )
