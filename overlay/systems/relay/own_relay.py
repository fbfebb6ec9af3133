"""The relay of this server, where its operator enabled it, with the operator's address for deposits."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from functools import partial

from aiohttp import web

from indexer.chains.node.payment_node import PaymentNode
from indexer.setting_values import SettingsError
from overlay.api.shared_services import AGENT_RELAY, PAYMENTS, Payments
from overlay.api.systems import Parts, Services
from overlay.installation import absence
from overlay.jobs import PeriodicJob, Role
from overlay.systems.relay.agent_registration import KEPT_SECONDS
from overlay.systems.relay.bank import Bank
from overlay.systems.relay.store import RelayStore
from overlay.systems.relay.task_relay import Relay
from parsers.bitcoin import address

log = logging.getLogger(__name__)

MAINTENANCE_SECONDS = 10.0
"""Seconds between two looks at tasks, deposits and withdrawals."""

TRIM_SECONDS = 3_600.0
FREE_SECONDS = 7 * 86_400
"""How long a task that locked nothing can be read after its time."""

RELAY: web.AppKey[Relay] = web.AppKey("relay", Relay)


def bring(parts: Parts) -> Services:
    """The relay, where the settings enable it and payments are installed. Raises SettingsError, StoreError."""
    settings, payments = parts.settings, parts.services.get(PAYMENTS)
    if not settings.relay:
        return {}
    if payments is None:
        log.warning("the relay is off: payments %s", absence("payments"))
        return {}
    if parts.identity is None:
        raise SettingsError("relay needs an identity key, which signs settlements: set identity_key")
    tables = RelayStore(parts.store.primary)
    bank = _bank(settings.relay_address, tables, payments)
    relay = Relay(tables, parts.identity.ed25519_public, parts.identity.sign_ed25519, bank=bank)
    return {RELAY: relay, AGENT_RELAY: relay}


def jobs(parts: Parts) -> list[PeriodicJob]:
    """The jobs that maintain the relay, where there is one."""
    relay = parts.services.get(RELAY)
    if relay is None:
        return []
    run, trim = partial(_maintain, relay), partial(_trim, relay)
    return [
        PeriodicJob(name="relay", run=run, every=MAINTENANCE_SECONDS, role=Role.SERVER),
        PeriodicJob(name="old-relay-tasks", run=trim, every=TRIM_SECONDS, role=Role.SINGLE_SERVER),
    ]


async def _trim(relay: Relay) -> None:
    """Delete old tasks that locked nothing."""
    while await asyncio.to_thread(relay.tasks.trim, relay.now() - FREE_SECONDS):
        continue


async def _maintain(relay: Relay) -> None:
    """Unlock what expired, delete old agents, and watch deposits and withdrawals. Raises SourceError."""
    now = relay.now()
    while await asyncio.to_thread(relay.tasks.expire, now):
        continue
    await asyncio.to_thread(relay.agents.trim, now - KEPT_SECONDS)
    if relay.bank is not None:
        await relay.bank.watch()


def _bank(setting: str, tables: RelayStore, payments: Payments) -> Bank | None:
    """The bank that takes deposits at the configured `TICKER:ADDRESS`."""
    if not setting:
        return None
    ticker, _, pay_to = setting.partition(":")
    node = _node(ticker, pay_to, payments.nodes)
    if any(_hashes(offer.address.strip(), node.coin) & _hashes(pay_to, node.coin) for offer in payments.offers):
        raise SettingsError(f"relay_address is {pay_to}, where prices are paid to: one payment would count twice")
    return Bank(tables.cash, node, pay_to, time.time, payments.reservations)


def _hashes(text: str, coin: str) -> set[bytes]:
    """The public key hashes that an address pays to: on BCH it has two forms."""
    digests = (address.p2pkh_hash(text, prefixes) for prefixes in address.PREFIXES[coin].values())
    return {digest for digest in digests if digest is not None}


def _node(ticker: str, pay_to: str, nodes: Mapping[str, PaymentNode]) -> PaymentNode:
    node = nodes.get(ticker.upper())
    if node is None:
        raise SettingsError(
            f"relay_address needs a node of {ticker[:10]!a} among A2B_CHAINS, which sees deposits: write TICKER:ADDRESS"
        )
    networks = address.PREFIXES[node.coin].values()
    if not any(address.p2pkh_hash(pay_to, prefixes) for prefixes in networks):
        raise SettingsError(f"relay_address is {pay_to[:60]!a}: write TICKER:ADDRESS, a P2PKH address in base58")
    return node
