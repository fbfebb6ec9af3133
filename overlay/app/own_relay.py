"""The relay of this overlay, where its operator wants one: its tables in the registry's database, the operator's
address for deposits, and what it does from time to time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from indexer.errors import SourceError
from indexer.settings import Settings, SettingsError
from overlay.app.chain_loops import Loop
from parsers.bitcoin import address

if TYPE_CHECKING:
    from indexer.store import Store
    from indexer.store.relay import RelayStore
    from overlay.api.identity_key import IdentityKey
    from overlay.app.own_payments import OwnPayments
    from overlay.payments.node import PaymentNode
    from overlay.relay.bank import Bank
    from overlay.relay.task_relay import Relay

log = logging.getLogger(__name__)

MAINTENANCE_SECONDS = 10.0
"""Seconds between two looks at locks, deposits and withdrawals."""


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
        from overlay.relay.task_relay import Relay

        tables = RelayStore(store.primary)
        bank = _bank(settings.relay_address, tables, payments)
        self.relay = Relay(tables, identity.ed25519_public, identity.sign_ed25519, bank=bank)

    def loops(self) -> list[Loop]:
        """What is to run as long as the relay."""
        return [] if self.relay is None else [self._maintain]

    async def _maintain(self) -> None:
        """Unlock what expired, watch deposits and withdrawals, and forget old agents, again and again."""
        from overlay.relay.agent_registration import KEPT_SECONDS

        while self.relay is not None:
            now = self.relay.now()
            while await asyncio.to_thread(self.relay.tasks.expire, now):
                continue
            await asyncio.to_thread(self.relay.agents.trim, now - KEPT_SECONDS)
            try:
                if self.relay.bank is not None:
                    await self.relay.bank.watch()
            except SourceError as error:
                log.warning("deposits cannot be watched now: %s", error)
            await asyncio.sleep(MAINTENANCE_SECONDS)


def _bank(setting: str, tables: RelayStore, payments: OwnPayments) -> Bank | None:
    """What takes deposits at the configured `TICKER:ADDRESS`."""
    if not setting:
        return None
    from overlay.relay.bank import Bank

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
