"""Webhooks: listings that meet saved searches are reported to the URLs of subscriptions."""

from __future__ import annotations

from dataclasses import dataclass

from overlay.systems.webhooks.store import StoredWebhooks
from overlay.systems.webhooks.targets import Targets


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhooks:
    """What routes need of webhooks: the stored subscriptions, the targets, and the public key that verifies messages to
    them, as text."""

    subscriptions: StoredWebhooks
    targets: Targets
    public_key: str
