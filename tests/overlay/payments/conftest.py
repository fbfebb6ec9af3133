"""The server, with a ledger in the database of a registry, of each kind, as an overlay has it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from overlay.systems.payments.store import PaymentLedger
from tests.overlay.payments.paid_server import PaidServer


@pytest.fixture
def server(database_url: str) -> Iterator[PaidServer]:
    ledger = PaymentLedger.open(database_url)
    yield PaidServer(ledger)
    ledger.close()
