"""The payments of this overlay: the nodes that check claims, its own prices, the gate that takes them, and the relay
where its operator wants one, with the operator's address for deposits."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indexer.settings import Settings, SettingsError
from overlay.jobs import PeriodicJob, Role
from overlay.systems.payments.checking import UnreadableOfferError, offers_in
from overlay.systems.payments.node import PaymentNode, nodes_of
from parsers.bitcoin import address
from parsers.cards import strict_json
from parsers.errors import CardError

if TYPE_CHECKING:
    from indexer.store import Store
    from indexer.store.relay import RelayStore
    from overlay.api.identity_key import IdentityKey
    from overlay.pricing.exchange_rates import ExchangeRates
    from overlay.systems.payments.gate import PaymentGate
    from overlay.systems.payments.node import PaymentNode
    from overlay.systems.relay.bank import Bank
    from overlay.systems.relay.task_relay import Relay


MAINTENANCE_SECONDS = 10.0
"""Seconds between two looks at the payments, and at the relay."""


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
        from overlay.systems.payments.gate import PaymentGate

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
            raise SettingsError(f"{file} is no list of prices with an id and an amount above 0 (A2B x-payment-config)")
        if not self.nodes:
            raise SettingsError("prices needs a node among the chains, which checks and sends payments")
        shown = json.loads(body, parse_float=_number)
        self.prices = shown if isinstance(shown, list) else [shown]
        self.gate = PaymentGate(exact, PaymentLedger(store.primary), *self.nodes.values(), exchange=exchange)

    def jobs(self) -> list[PeriodicJob]:
        """What finishes, watches and expires payments, where there are prices."""
        if self.gate is None:
            return []
        return [
            PeriodicJob(name="payments", run=self.gate.maintain, every=MAINTENANCE_SECONDS, role=Role.SINGLE_SERVER)
        ]


def _number(text: str) -> float | str:
    """A number of a price as the card shows it: as it is where JSON readers get it exactly, else as a text."""
    value = float(text)
    return value if Decimal(repr(value)) == Decimal(text) else text


class OwnRelay:
    """The relay, None where the settings want none. Raises SettingsError, StoreError."""

    def __init__(
        self, settings: Settings, store: Store, identity: IdentityKey | None, payments: OwnPayments | None
    ) -> None:
        self.relay: Relay | None = None
        if not settings.relay or payments is None:
            return
        if identity is None:
            raise SettingsError("relay needs an identity key, which signs settlements: set identity_key")
        from indexer.store.relay import RelayStore
        from overlay.systems.relay.task_relay import Relay

        tables = RelayStore(store.primary)
        bank = _bank(settings.relay_address, tables, payments)
        self.relay = Relay(tables, identity.ed25519_public, identity.sign_ed25519, bank=bank)

    def jobs(self) -> list[PeriodicJob]:
        """What maintains the relay, where there is one."""
        if self.relay is None:
            return []
        maintain = partial(_maintain, self.relay)
        return [PeriodicJob(name="relay", run=maintain, every=MAINTENANCE_SECONDS, role=Role.SINGLE_SERVER)]


async def _maintain(relay: Relay) -> None:
    """Unlock what expired, forget old agents, and watch deposits and withdrawals. Raises SourceError."""
    from overlay.systems.relay.agent_registration import KEPT_SECONDS

    now = relay.now()
    while await asyncio.to_thread(relay.tasks.expire, now):
        continue
    await asyncio.to_thread(relay.agents.trim, now - KEPT_SECONDS)
    if relay.bank is not None:
        await relay.bank.watch()


def _bank(setting: str, tables: RelayStore, payments: OwnPayments) -> Bank | None:
    """What takes deposits at the configured `TICKER:ADDRESS`."""
    if not setting:
        return None
    from overlay.systems.relay.bank import Bank

    ticker, _, pay_to = setting.partition(":")
    node = _node(ticker, pay_to, payments.nodes)
    offers = payments.gate.offers if payments.gate is not None else ()
    if any(_hashes(offer.address.strip(), node.coin) & _hashes(pay_to, node.coin) for offer in offers):
        raise SettingsError(f"relay_address is {pay_to}, where prices are paid to: one payment would count twice")
    return Bank(tables.cash, node, pay_to, time.time)


def _hashes(text: str, coin: str) -> set[bytes]:
    """What an address pays to: on BCH it has two forms."""
    digests = (address.p2pkh_hash(text, prefixes) for prefixes in address.PREFIXES[coin].values())
    return {digest for digest in digests if digest is not None}


def _node(ticker: str, pay_to: str, nodes: Mapping[str, PaymentNode]) -> PaymentNode:
    node = nodes.get(ticker.upper())
    if node is None:
        raise SettingsError(f"relay_address needs a node of {ticker[:10]!a} among the chains, which sees deposits")
    networks = address.PREFIXES[node.coin].values()
    if not any(address.p2pkh_hash(pay_to, prefixes) for prefixes in networks):
        raise SettingsError(f"relay_address is {pay_to[:60]!a}: write TICKER:ADDRESS, a P2PKH address in base58")
    return node
