"""The health of a listing: whether its URL answers, as it was when somebody last looked."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from overlay.answers.items import AnsweredDays, ItemHealth
from overlay.listings.system_facts import FactSource, ListingHealth
from overlay.systems.liveness.store import REACHABLE, HealthQueries
from overlay.text.timestamps import timestamp_of_milliseconds
from parsers.reasons import Reason

if TYPE_CHECKING:
    from overlay.listings.listing import Listing
    from overlay.systems.liveness.store import Health

Stored = Mapping[str, "Health"]
"""The states of the URLs of a registration."""


def _of(listing: Listing, stored: Stored | None) -> Health | None:
    return (stored or {}).get(listing.card.url)


def _members(listing: Listing, stored: Stored | None) -> dict[str, Any]:
    """The member of an item, with what a change of state changes."""
    health = _of(listing, stored)
    return {} if health is None else {"health": ItemHealth(**_stable(health))}


def _stable(health: Health) -> dict[str, Any]:
    since = timestamp_of_milliseconds(health.since)
    return {"state": health.state.value, "reason": health.reason or None, "since": since}


def _fresh(listing: Listing, stored: Stored | None) -> dict[str, Any]:
    """The member of an item with the times of the last visit, which no index has."""
    health = _of(listing, stored)
    if health is None:
        return {}
    days = health.days.moved_to(int(time.time() * 1_000))
    counted = AnsweredDays(checks=days.checked.bit_count(), answered=days.answered.bit_count())
    checked_at = timestamp_of_milliseconds(health.checked_at)
    return {
        "health": ItemHealth(
            **_stable(health), checked_at=checked_at, latency_ms=health.latency_ms,
            answered30d=counted if days.checked else None,
        )
    }  # fmt: skip


def _state(listing: Listing, stored: Stored | None) -> ListingHealth | None:
    health = _of(listing, stored)
    return None if health is None else ListingHealth(health.state.value, health.state in REACHABLE, health.is_lost)


def _warnings(listing: Listing, stored: Stored | None) -> list[Reason]:
    health = _of(listing, stored)
    return [Reason("card-differs", text) for text in (health.differs if health else ())]


FACTS = FactSource(
    read=lambda store, hosts: HealthQueries(store.engine).of_registrations(hosts),
    members=_members,
    fresh=_fresh,
    warnings=_warnings,
    health=_state,
)
