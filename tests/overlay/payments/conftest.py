"""The server, with its payments in the database of a registry, of each kind, as an overlay has it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from overlay.systems.payments.store import PaymentStore
from tests.overlay.payments.paid_server import PaidServer


@pytest.fixture
def server(database_url: str) -> Iterator[PaidServer]:
    payment_store = PaymentStore.open(database_url)
    yield PaidServer(payment_store)
    payment_store.close()
