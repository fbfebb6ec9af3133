"""Opens the webhooks of this server, and runs the jobs that deliver to them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from aiohttp import web

from overlay.api.parameters import pairs
from overlay.api.problems import BadRequestError
from overlay.api.search_request import from_pairs
from overlay.api.systems import Parts, Services
from overlay.jobs import PeriodicJob
from overlay.systems.webhooks.delivery_loop import DeliveryLoop
from overlay.systems.webhooks.matcher import WebhookMatcher
from overlay.systems.webhooks.store import StoredWebhooks
from overlay.systems.webhooks.targets import Targets, public_key_text

if TYPE_CHECKING:
    from overlay.search.query import Query


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhooks:
    """The services of the webhook routes: the stored webhooks, the targets, and the public key that verifies messages
    to them, as text."""

    stored: StoredWebhooks
    targets: Targets
    public_key: str


WEBHOOKS: web.AppKey[Webhooks] = web.AppKey("webhooks", Webhooks)
DELIVERIES: web.AppKey[DeliveryLoop] = web.AppKey("deliveries", DeliveryLoop)


def bring(parts: Parts) -> Services:
    """Webhooks, and the loop that delivers, where this server has a key and sends requests to hosts."""
    if parts.identity is None or parts.visits is None or parts.index is None:
        return {}
    stored = StoredWebhooks(parts.store.primary)
    targets = Targets(parts.visits, parts.identity.sign_ed25519)
    parse = partial(_saved_query, parts)
    matcher = WebhookMatcher(
        parts.store, stored, parts.index, parts.duplicates, parse, parts.exchange.stamp,
        left_out=parts.left_out,
    )  # fmt: skip
    key = public_key_text(parts.identity.ed25519_public)
    return {
        WEBHOOKS: Webhooks(stored=stored, targets=targets, public_key=key),
        DELIVERIES: DeliveryLoop(stored, matcher, targets),
    }


def _saved_query(parts: Parts, search: str) -> Query | None:
    """The query of a saved search; None where it has become invalid, for example by a chain that is no longer
    followed."""
    try:
        return from_pairs(pairs(search), parts.chains(), parts.exchange).query
    except BadRequestError:
        return None


def jobs(parts: Parts) -> list[PeriodicJob]:
    """The jobs that deliver, where this server has webhooks."""
    deliveries = parts.services.get(DELIVERIES)
    return [] if deliveries is None or parts.when_searchable is None else deliveries.jobs(parts.when_searchable)
