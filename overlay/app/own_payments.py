"""The payments of this overlay: the nodes that check claims, its own prices, and the gate that takes them."""

from __future__ import annotations

import asyncio
import json
import logging
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indexer.errors import SourceError
from indexer.settings import Settings, SettingsError
from overlay.payments.checking import offers_in
from overlay.payments.node import PaymentNode, nodes_of
from parsers.cards import strict_json
from parsers.errors import CardError

if TYPE_CHECKING:
    from indexer.store import Store
    from overlay.payments.gate import PaymentGate
    from overlay.pricing.exchange_rates import ExchangeRates

log = logging.getLogger(__name__)

MAINTENANCE_SECONDS = 10.0
"""Seconds between two looks at the payments."""


class OwnPayments:
    """`nodes` are by ticker; `prices` as JSON, empty without a file of them, and `gate` None then. Raises
    SettingsError, SourceError for a wrong URL of a node, StoreError."""

    def __init__(self, settings: Settings, store: Store, exchange: ExchangeRates) -> None:
        self.nodes: dict[str, PaymentNode] = nodes_of(settings.sources())
        self.prices: list[Any] = []
        self.gate: PaymentGate | None = None
        if settings.prices:
            self._open(Path(settings.prices), store, exchange)

    def _open(self, file: Path, store: Store, exchange: ExchangeRates) -> None:
        from indexer.store.payments import PaymentLedger
        from overlay.payments.gate import PaymentGate

        try:
            body = file.read_bytes()
            exact = strict_json.loads(body)[0]
        except OSError as error:
            raise SettingsError(f"the prices in {file} cannot be read: {error.strerror}") from None
        except CardError as error:
            raise SettingsError(f"the prices in {file}: {error}") from None
        offers = offers_in(exact)
        if not offers or any(not offer.amount or not offer.id for offer in offers):
            raise SettingsError(f"{file} is no list of prices with an id and an amount above 0 (A2B x-payment-config)")
        if not self.nodes:
            raise SettingsError("prices needs a node among the chains, which checks and sends payments")
        shown = json.loads(body, parse_float=_number)
        self.prices = shown if isinstance(shown, list) else [shown]
        self.gate = PaymentGate(exact, PaymentLedger(store.primary), *self.nodes.values(), exchange=exchange)

    async def maintain(self) -> None:
        """Finish, watch and expire payments, again and again."""
        while self.gate is not None:
            try:
                await self.gate.maintain()
            except SourceError as error:
                log.warning("payments cannot be watched now: %s", error)
            await asyncio.sleep(MAINTENANCE_SECONDS)


def _number(text: str) -> float | str:
    """A number of a price as the card shows it: as it is where JSON readers get it exactly, else as a text."""
    value = float(text)
    return value if Decimal(repr(value)) == Decimal(text) else text
