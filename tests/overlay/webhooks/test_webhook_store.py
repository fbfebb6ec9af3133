"""Stored subscriptions, in both databases: how many a client may have."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from indexer.client_networks import SITE_FACTOR
from indexer.store import connect
from overlay.systems.webhooks.store import PER_CLIENT, StoredWebhook, StoredWebhooks, TooManyWebhooksError


@pytest.fixture
def webhooks(database_url: str) -> Iterator[StoredWebhooks]:
    engine = connect(database_url)
    yield StoredWebhooks(engine)
    engine.dispose()


def webhook(number: int, client: str) -> StoredWebhook:
    return StoredWebhook(
        id=f"{number}", client=client, url="https://a.example/", search="q=a", base="", secret_sha256=b"", created_at=1
    )


def test_a_customer_of_ipv6_has_the_subscriptions_of_sixteen_clients_however_many_addresses_it_uses(
    webhooks: StoredWebhooks,
) -> None:
    for number in range(1, PER_CLIENT * SITE_FACTOR + 1):
        webhooks.add(webhook(number, f"2001:db8:1:{number:x}::/64"))
    new = webhook(0, "2001:db8:1::/64")
    with pytest.raises(TooManyWebhooksError, match="80 subscriptions of the network 2001:db8:1::/48 are active"):
        webhooks.check_room(new.client)
    with pytest.raises(TooManyWebhooksError):
        webhooks.add(new)
    webhooks.add(webhook(-1, "2001:db8:2::/64"))
    webhooks.end("7", "gone", 2)
    webhooks.add(new)
