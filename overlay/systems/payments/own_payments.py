"""The payments of this overlay: the nodes that check claims, its own prices, and the gate that takes them."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web

from indexer.chains.node.payment_node import PaymentNode, nodes_of
from indexer.settings import Settings, SettingsError
from overlay.api.shared_services import PAYMENTS, Payments
from overlay.api.systems import Parts, Services
from overlay.jobs import PeriodicJob, Role
from overlay.systems.payments.checking import UnreadableOfferError, offers_in
from overlay.systems.payments.gate import PaymentGate
from overlay.systems.payments.store import PaymentStore
from parsers.cards import strict_json
from parsers.cards.payees import reaches
from parsers.errors import CardError

if TYPE_CHECKING:
    from indexer.store import Store
    from overlay.pricing.exchange_rates import ExchangeRates


log = logging.getLogger(__name__)

MAINTENANCE_SECONDS = 10.0
"""Seconds between two looks at the payments."""

GATE: web.AppKey[PaymentGate] = web.AppKey("payment gate", PaymentGate)


class OwnPayments:
    """`nodes` are by ticker; `prices` as JSON, empty without a file of them, and `gate` None then. `payment_store` is
    in the registry's database. Raises SettingsError, SourceError for a wrong URL of a node, StoreError."""

    def __init__(self, settings: Settings, store: Store, exchange: ExchangeRates) -> None:
        self.nodes: dict[str, PaymentNode] = nodes_of(settings.sources())
        self.prices: list[Any] = []
        self.gate: PaymentGate | None = None
        self.payment_store = PaymentStore(store.primary)
        if settings.prices:
            self._open(Path(settings.prices), exchange)

    def _open(self, file: Path, exchange: ExchangeRates) -> None:
        try:
            body = file.read_bytes()
            exact = strict_json.loads(body)[0]
        except OSError as error:
            raise SettingsError(f"the prices in {file} cannot be read: {error.strerror}") from None
        except CardError as error:
            raise SettingsError(f"the prices in {file}: {error}") from None
        try:
            offers = offers_in(exact, sold=True)
        except UnreadableOfferError as error:
            raise SettingsError(f"the prices in {file}: {error}") from None
        if not offers or any(not offer.amount or not offer.id for offer in offers):
            raise SettingsError(
                f"{file} is not a list of prices with an id and an amount above 0 (A2B x-payment-config)"
            )
        if not self.nodes:
            raise SettingsError("prices needs a node among the chains, which checks and sends payments")
        for offer in offers:
            if not any(ticker in self.nodes and reaches(offer.address, ticker) for ticker in offer.accepted):
                log.warning(
                    "nobody can pay the price %s in %s: no node here has a chain of its address", offer.id, file
                )
        shown = json.loads(body, parse_float=_number)
        self.prices = shown if isinstance(shown, list) else [shown]
        self.gate = PaymentGate(exact, self.payment_store, *self.nodes.values(), name="A2B_PRICES", exchange=exchange)


def _number(text: str) -> float | str:
    """A number of a price as the card shows it: a JSON number where readers get it exactly, else a text."""
    value = float(text)
    return value if Decimal(repr(value)) == Decimal(text) else text


def bring(parts: Parts) -> Services:
    """The services of these settings. Raises SettingsError, SourceError, StoreError."""
    own_payments = OwnPayments(parts.settings, parts.store, parts.exchange)
    gate = own_payments.gate
    offers = () if gate is None else gate.offers
    payments = Payments(
        nodes=own_payments.nodes, prices=own_payments.prices, offers=offers, reservations=own_payments.payment_store
    )
    services: Services = {PAYMENTS: payments}
    return services if gate is None else {**services, GATE: gate}


async def close(app: web.Application) -> AsyncIterator[None]:
    """Close the nodes when the application ends."""
    yield
    for node in app[PAYMENTS].nodes.values() if PAYMENTS in app else ():
        await node.close()


def jobs(parts: Parts) -> list[PeriodicJob]:
    """The job that finishes, watches and expires payments, where there are prices."""
    gate = parts.services.get(GATE)
    if gate is None:
        return []
    return [PeriodicJob(name="payments", run=gate.maintain, every=MAINTENANCE_SECONDS, role=Role.SERVER)]
