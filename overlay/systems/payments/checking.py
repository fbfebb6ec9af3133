"""A dry run of a payment claim: everything that can be checked, nothing reserved and nothing sent; also whether what
its inputs spend exists, is unspent, and may be spent by them."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any

from indexer.admission.scripts import check_scripts
from indexer.chains.node.payment_node import Broadcaster
from indexer.errors import NotAdmittedError, SourceError
from indexer.headers.networks import by_caip2
from overlay.pricing.exchange_rates import ExchangeRates
from overlay.systems.payments.carriers import bare_claim
from parsers.bitcoin.beef import UnprovenInput
from parsers.bitcoin.script import is_p2pkh
from parsers.bitcoin.sighash import SharedHashes, p2pkh_error
from parsers.bitcoin.tx import TxOutput
from parsers.cards.fields import Fields
from parsers.cards.money import plain
from parsers.cards.offers import PRICE_KEYS, UNREADABLE, UNSOLD, Offer, price_lists, read_offers
from parsers.claims.amount_due import PaymentRefusedError
from parsers.claims.payment import Payment, PaymentTerms, UtxoChain, check_payment, read_payment
from parsers.reasons import Reason


def check_inputs(payment: Payment, spent: Sequence[TxOutput | None]) -> None:
    """Check the inputs of a payment against the outputs that they spend, in their order; None stands for an output that
    does not exist or is spent. Raises PaymentRefusedError: `input-spent`, `values`, `script-failed`, and
    `script-not-checkable` for a script other than P2PKH that nothing here can check."""
    tx = payment.tx
    unproven = []
    for vin, (tx_input, output) in enumerate(zip(tx.inputs, spent, strict=True)):
        if output is None:
            detail = f"input {vin} spends {tx_input.prevout}, which does not exist or is spent"
            raise PaymentRefusedError("PaymentInvalid", "input-spent", detail)
        unproven.append(UnprovenInput(tx, vin, output))
    fee = sum(member.spent.satoshis for member in unproven) - sum(output.satoshis for output in tx.outputs)
    if fee < 0:
        detail = f"the outputs hold {-fee:,} satoshis more than the inputs"
        raise PaymentRefusedError("PaymentInvalid", "values", detail)
    try:
        if payment.chain.coin == "bsv":
            check_scripts(unproven)
        else:
            _check_p2pkh(unproven, forkid=payment.chain.coin == "bch")
    except NotAdmittedError as error:
        raise PaymentRefusedError("PaymentInvalid", error.code, str(error)) from None


def _check_p2pkh(inputs: Sequence[UnprovenInput], *, forkid: bool) -> None:
    """Check inputs on chains with scripts that cannot be run here; all inputs are of one transaction. Raises
    NotAdmittedError."""
    shared = SharedHashes(inputs[0].tx) if inputs else None
    for tx, vin, spent in inputs:
        if not is_p2pkh(spent.script):
            detail = f"input {vin} spends a script other than P2PKH, which cannot be checked here"
            raise NotAdmittedError("script-not-checkable", detail)
        error = p2pkh_error(tx, vin, spent, forkid=forkid, shared=shared)
        if error is not None:
            raise NotAdmittedError("script-failed", error)


Run = Callable[..., Awaitable[Any]]
"""Runs a function with arguments in a thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentSources:
    """The sources with which payments are checked: the chains by ticker, their nodes as far as there are any, exchange
    rates."""

    chains: Mapping[str, UtxoChain]
    nodes: Mapping[str, Broadcaster] = field(default_factory=dict)
    exchange: ExchangeRates = field(default_factory=ExchangeRates)

    def rate(self, currency: str, into: str) -> Decimal:
        """Units of `into` for one of `currency`. Raises PaymentRefusedError with the reason where no rate counts."""
        return self.exchange.rate_to_pay(currency, into)

    def terms(self, offers: Sequence[Offer], skill: str | None, state: str | None) -> PaymentTerms:
        """The terms against which claims for these offers are verified."""
        return PaymentTerms(offers=offers, chains=self.chains, rate=self.rate, skill=skill, state=state)


def utxo_chains(chains: Mapping[str, str]) -> dict[str, UtxoChain]:
    """The UTXO chains among these (name to CAIP-2 id) by ticker; the first of several of a coin."""
    by_ticker: dict[str, UtxoChain] = {}
    for network in filter(None, map(by_caip2, chains.values())):
        by_ticker.setdefault(network.coin.upper(), UtxoChain(network.coin, network.kind))
    return by_ticker


class UnreadableOfferError(ValueError):
    """A price cannot be read, or not as a whole: the message names it by its JSON Pointer."""

    def __init__(self, reason: Reason) -> None:
        where = f"the price {reason.pointer}" if reason.pointer else "the price"
        super().__init__(f"{where} cannot be read: {reason.explanation}")
        self.reason = reason


def offers_in(value: Any, *, sold: bool = False) -> tuple[Offer, ...]:
    """The offers in a card, a price list or a single price, complete and as written. Raises UnreadableOfferError for an
    offer that readers of cards would leave out, whole or in part; with `sold` also for one with an unknown interval, as
    its buyer would get a single call."""
    is_holder = isinstance(value, dict) and any(price_lists(value, ""))
    if isinstance(value, dict) and not is_holder and not value.keys() & {"amount", "currency"}:
        return ()  # a card without prices
    fields = Fields(0)
    offers = read_offers(value if is_holder else {PRICE_KEYS[0]: value}, fields, frozenset())
    for reason in fields.warnings:
        if reason.code in (UNSOLD if sold else UNREADABLE):
            pointer = reason.pointer if is_holder else reason.pointer.removeprefix(f"/{PRICE_KEYS[0]}")
            raise UnreadableOfferError(reason._replace(pointer=pointer))
    return offers


def currency_of(claim: Any) -> str:
    """The ticker in a claim (JSON), "" without one."""
    currency = claim.get("currency") if isinstance(claim, Mapping) else None
    return currency.strip().upper() if isinstance(currency, str) else ""


async def next_height(node: Broadcaster | None) -> int | None:
    """The height of the next block, None where it is unknown."""
    try:
        return None if node is None else await node.next_height()
    except SourceError:
        return None


async def check_claim(
    value: Any,
    offers: Sequence[Offer],
    sources: PaymentSources,
    *,
    skill: str | None = None,
    state: str | None = None,
    run: Run = to_thread,
) -> dict[str, Any]:
    """The answer of `POST /v1/pay/check`: `ok`, and where it is false `code`, `error` and `reasons`; `unchecked` names
    what cannot be known here. The amounts are None where no payment could be read. `run` runs slow work on a large
    transaction in a thread."""
    value = bare_claim(value)
    unread = {"neededSatoshis": None, "paidSatoshis": None}
    answer: dict[str, Any] = {"ok": False, "reasons": [], "unchecked": []} | unread
    terms = sources.terms(offers, skill, state)
    node = sources.nodes.get(currency_of(value))
    height = await next_height(node)
    try:
        payment = await run(read_payment, value, replace(terms, height=lambda _chain: height))
        answer |= payment_json(payment)
        check_payment(payment, terms)
        answer["unchecked"] = await _unchecked(payment, node, run)
    except PaymentRefusedError as error:
        return answer | refusal_json(error)
    return answer | {"ok": True}


async def _unchecked(payment: Payment, node: Broadcaster | None, run: Run) -> list[dict[str, str]]:
    """Check the inputs where there is a node, else report them as not checked."""
    reserved = {"code": "not-reserved", "detail": "whether the transaction was claimed elsewhere before is not known"}
    if node is None:
        detail = f"no node of {payment.chain.coin} is configured: its inputs may be spent or wrongly signed"
        return [{"code": "no-node", "detail": detail}, reserved]
    try:
        spent = await node.outputs([tx_input.prevout for tx_input in payment.tx.inputs])
    except SourceError:
        detail = f"the node of {payment.chain.coin} does not answer: its inputs may be spent or wrongly signed"
        return [{"code": "node-unreachable", "detail": detail}, reserved]
    await run(partial(check_inputs, payment, spent))
    return [reserved]


def payment_json(payment: Payment) -> dict[str, Any]:
    """The members of an answer about a payment."""
    return {
        "configId": payment.offer.id,
        "stage": payment.claim.stage,
        "currency": payment.claim.currency,
        "address": payment.offer.address,
        "txid": payment.tx.hex_id,
        "rate": plain(payment.due.rate),
        "slippagePct": plain(payment.due.slippage),
        "neededSatoshis": payment.needed,
        "leastSatoshis": payment.least,
        "paidSatoshis": payment.paid,
    }


def refusal_json(error: PaymentRefusedError) -> dict[str, Any]:
    """The members of an answer about a refused payment: the JSON-RPC code and name of A2B §5.3, and the reason."""
    reasons = [{"code": error.reason, "detail": str(error)}]
    return {"code": error.code, "error": error.name, "detail": str(error), "reasons": reasons}
