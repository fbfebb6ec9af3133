"""The desk, with a ledger in each database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from indexer.store.payments import PaymentLedger
from tests.overlay.payments.desk import Desk


@pytest.fixture
def desk(empty_database_url: str) -> Iterator[Desk]:
    ledger = PaymentLedger.open(empty_database_url)
    yield Desk(ledger)
    ledger.close()
