"""The desk, with a ledger in the database of a registry, of each kind, as an overlay has it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from indexer.store.payments import PaymentLedger
from tests.overlay.payments.desk import Desk


@pytest.fixture
def desk(database_url: str) -> Iterator[Desk]:
    ledger = PaymentLedger.open(database_url)
    yield Desk(ledger)
    ledger.close()
