"""A gate that passes calls of a server when they are paid for (A2B §5, §7, §8, §9).

`full`: the work is done, and its answer is withheld until the node has accepted the payment; the payment of failed work
is given back unsent. No part of a streamed answer is sent before the payment, so it is paid for even where it breaks
off. `deposit`: the payment is sent first; the answer of the work, or the last part of a streamed one, is withheld until
the `final` payment is sent; after the first part of a stream the deposit is not refunded. A client that did not receive
the answer repeats the call with its claim and task: it gets the answer and pays once. A paid interval pays for all
calls until its end.
"""

from __future__ import annotations

import time
from asyncio import Lock, gather, to_thread
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from indexer.chains.node.payment_node import Broadcaster
from indexer.errors import SourceError, SourceUnavailableError
from overlay.pricing.exchange_rates import ExchangeRates
from overlay.systems.payments.carriers import A2A_METHODS, PaidCall, read_call
from overlay.systems.payments.checking import PaymentSources, currency_of, offers_in
from overlay.systems.payments.gate_answers import (
    GateAnswer,
    StreamDelivery,
    accepts,
    limited,
    payment_required,
    unavailable,
)
from overlay.systems.payments.gate_limits import GateLimits
from overlay.systems.payments.gate_receipts import ReceiptSigner
from overlay.systems.payments.paid_work import PaidWork, Work, WorkError
from overlay.systems.payments.settlement import WORK_SECONDS, Settlement
from overlay.systems.payments.store import PaymentStore
from overlay.systems.payments.store_records import PaidInterval, TaskState
from parsers.cards.offers import Offer, price_lists
from parsers.claims.amount_due import PaymentRefusedError
from parsers.claims.payment import UtxoChain

KEPT_SECONDS = 86_400
"""How long the answer of a task that ended is there for a client that did not receive it."""

REOPEN_SECONDS = 10.0
"""Seconds until a node is queried again that did not report its chain."""


class PaymentGate:
    """`card` is an agent card, a price list or a single price (JSON). `payment_store` stores its payments, and those of
    any number of other cards: prices with the same id are told apart by `name`, by default that of the card.
    `broadcasters` are nodes of the chains that payments are made on. `free` are skills, tools and methods that are
    free; no others are. Work may take `work_seconds`. With `signing_key`, the 32 bytes of the Ed25519 key that the card
    names, paid answers carry a receipt of the work (`parsers.claims.gate_receipts`); `limits` bounds what is sold at
    once (`gate_limits`). Call `maintain` every few seconds, in one process or several. Raises ValueError for a card
    without a price and a wrong key or limit, and UnreadableOfferError for a price that cannot be read."""

    def __init__(
        self,
        card: Any,
        payment_store: PaymentStore,
        *broadcasters: Broadcaster,
        name: str = "",
        exchange: ExchangeRates | None = None,
        free: Collection[str] = (),
        work_seconds: int = WORK_SECONDS,
        signing_key: bytes | None = None,
        limits: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.offers: tuple[Offer, ...] = offers_in(card, sold=True)
        if not self.offers:
            raise ValueError("the card has no price that can be read: all calls would be free")
        named = card.get("name") if isinstance(card, dict) and any(price_lists(card, "")) else None
        self._card = name or (named if isinstance(named, str) else "")
        self._store, self._clock, self._free, self._work_seconds = payment_store, clock, frozenset(free), work_seconds
        self._exchange = exchange or ExchangeRates()
        self._receipts = None if signing_key is None else ReceiptSigner(signing_key)
        self._limits = GateLimits(limits, clock) if limits.strip() else None
        self._nodes: dict[UtxoChain, Broadcaster] = {}
        self._unopened, self._opening, self._opened_at = list(broadcasters), Lock(), float("-inf")
        self._by_chain: dict[str, Broadcaster] = {}
        self._accepted: tuple[object, Sequence[dict[str, Any]]] = None, ()
        self._settlement = Settlement(payment_store, self._by_chain, self.offers, clock)

    async def _open(self, currency: str = "") -> PaymentSources:
        """The sources of the nodes that answer. Raises SourceError where none has answered yet, or where `currency` may
        be that of a node that has not."""
        if self._unopened and not any(chain.coin.upper() == currency for chain in self._nodes):
            async with self._opening:
                if self._clock() >= self._opened_at + REOPEN_SECONDS or not self._nodes:
                    self._opened_at = self._clock()
                    await gather(*map(self._identify, tuple(self._unopened)))
        sources = self._sources()
        if self._unopened and (not self._nodes or (currency and currency not in sources.chains)):
            raise SourceUnavailableError("the chain's node does not answer, so no payment can be checked")
        return sources

    def _sources(self) -> PaymentSources:
        return PaymentSources(
            chains={chain.coin.upper(): chain for chain in self._nodes},
            nodes={chain.coin.upper(): node for chain, node in self._nodes.items()},
            exchange=self._exchange,
        )

    async def _identify(self, node: Broadcaster) -> None:
        try:
            chain = await node.chain()
        except SourceError:
            return
        self._unopened.remove(node)
        self._nodes.setdefault(chain, node)
        self._by_chain.setdefault(chain.name, node)

    async def maintain(self) -> None:
        """Read newer exchange rates, finish tasks that crashed, watch payments that were sent, and fail overdue tasks.
        Raises SourceError, after everything else was done."""
        await to_thread(self._exchange.refresh)
        try:
            await self._open()
        finally:
            try:
                await self._settlement.recover()
            finally:
                await self._settlement.watch()
        await to_thread(self._store.trim, self._settlement.now() - KEPT_SECONDS)

    async def answer(
        self,
        headers: Mapping[str, str],
        body: bytes,
        work: Work,
        *,
        url: str = "",
        skill: str | None = None,
        delivery: StreamDelivery | None = None,
    ) -> GateAnswer:
        """`handle` for an HTTP request. `skill` is the skill of its address, "" for any: then the body is not read.
        None: it is a JSON-RPC call of A2A or MCP, and its body names the skill and may carry a claim."""
        try:
            call = read_call(headers, body if skill is None else b"", url)
        except PaymentRefusedError as error:
            return await self.refuse(PaidCall(url=url), error)
        if not call.is_paid or self._free & {call.skill, call.method}:
            return await work()
        call = replace(call, body=body) if self._receipts is not None else call
        named = call.skill if skill is None else skill
        offers = self.offers if skill == "" else self._offers_for(named)
        if named is None and (call.claim is not None or call.subscription) and call.method in A2A_METHODS:
            offers = self.offers  # the claim or the paid interval names the price
        if not offers:
            skills = sorted({skill for offer in self.offers for skill in offer.skill_ids or ()})[:16]
            detail = f"name the price by the configId of a claim, or the skill: {', '.join(map(ascii, skills))}"
            reasons = ("PaymentMissing", "missing") if call.claim is None else ("PaymentInvalid", "skill")
            return await self.refuse(call, PaymentRefusedError(*reasons, detail))
        is_priced = any(offer.skill_ids is not None and named in offer.skill_ids for offer in offers)
        return await self.handle(replace(call, skill=named if is_priced else None), work, offers, delivery)

    async def handle(
        self, call: PaidCall, work: Work, offers: Sequence[Offer] | None = None, delivery: StreamDelivery | None = None
    ) -> GateAnswer:
        """The answer of `work` to a call that is paid for by one of the offers (by default all of the card), or has a
        paid interval; else 402, and 503 where this cannot be decided now. `work` queries `delivery` before it sends a
        part of its answer. Raises what `work` raises, with the payment given back, and StoreError."""
        offers, delivery = self.offers if offers is None else offers, delivery or StreamDelivery()
        interval = await to_thread(self.paid_interval, call, offers) if call.claim is None else None
        if interval is not None:
            if self._limits is not None and (wait := self._limits.take(f"interval {interval.id}", 0)):
                return limited(call, wait)
            delivery.config = interval.config
            return await work()
        try:
            sources = await self._open(currency_of(call.claim))
        except SourceError as error:
            return unavailable(call, str(error))
        try:
            paid = PaidWork(
                self._store,
                sources,
                self._settlement,
                offers,
                call,
                work,
                self._work_seconds,
                delivery,
                self._card,
                self._receipts,
                self._limits,
            )
            return await paid.run()
        except WorkError as failed:
            raise failed.error from None

    def paid_interval(self, call: PaidCall, offers: Sequence[Offer] | None = None) -> PaidInterval | None:
        """The paid interval that a call names, where it pays for the call. Raises StoreError."""
        paid = self._store.paid_interval(call.subscription) if call.subscription else None
        if paid is None or paid.paid_until <= self._clock():
            return None
        offers = self.offers if offers is None else offers
        return paid if any(paid.is_for(self._card, offer.id) for offer in offers) else None

    async def accepted(self) -> Sequence[dict[str, Any]]:
        """The ways to pay for a call, on the chains of the nodes that have answered, for clients that have not tried to
        pay. As anybody may ask, the amounts are computed once for each state of the exchange rates, and a node that did
        not answer is not waited for again within REOPEN_SECONDS."""
        if not self._nodes and not self._opening.locked() and self._clock() >= self._opened_at + REOPEN_SECONDS:
            with suppress(SourceError):
                await self._open()
        stamp = len(self._nodes), self._exchange.stamp()
        if self._accepted[0] != stamp:
            self._accepted = stamp, list(accepts(self.offers, self._sources(), TaskState.PENDING, ""))
        return self._accepted[1]

    async def refuse(self, call: PaidCall, error: PaymentRefusedError) -> GateAnswer:
        """The 402 for a call that cannot be read, or has an ambiguous price."""
        try:
            sources = await self._open()
        except SourceError as unreachable:
            return unavailable(call, str(unreachable))
        return payment_required(call, error, self.offers, sources, TaskState.PENDING)

    def _offers_for(self, skill: str | None) -> Sequence[Offer]:
        """The offers that pay for a skill. A skill without an offer, or an unnamed one, is paid by the offers for all
        skills, or by all offers where these are for the same skills; else by none."""
        matching = [offer for offer in self.offers if offer.skill_ids is None or skill in offer.skill_ids]
        if not matching and len({frozenset(offer.skill_ids or ()) for offer in self.offers}) == 1:
            return self.offers
        return matching
