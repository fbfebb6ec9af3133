"""Payment claims: whether a transaction pays for an offer (A2B §4.2, §9). Pure: the caller checks its inputs against
the chain and other claims.

Decided where the specification leaves a choice: all outputs to the address count together; only the exact script of an
address counts, on BSV P2PKH; `full` pays for an offer with a deposit, too; rates are units of the paid currency for one
unit of the offer's; an unsigned transaction, one with bytes after it and one that may not be final yet are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from parsers.bitcoin import address
from parsers.bitcoin.tx import COINBASE_TXID, Transaction, read_exactly
from parsers.cards.offers import Offer
from parsers.claims.amount_due import STAGES, Due, PaymentRefusedError, check_currency, due, satoshis
from parsers.errors import TransactionError

MAX_RAW_BYTES = 400_000
"""Bytes of a transaction in a claim."""

MAX_ITEMS = 2_000
"""Outputs of a transaction, and witness items of an input."""

MAX_INPUTS = 250
"""Inputs of a transaction: each signs a digest over all of them, so checking takes the square of their number (13.6 s
for 2,000, 0.2 s for 250)."""

MAX_TEXT = 256
"""Characters of a member of a claim other than its transaction."""

MAX_MONEY = 21_000_000 * 10**8
"""Satoshis that an output can hold; DOGE, with more coins, is within it for payments of less than 21 million."""

STAGES_IN = {"pending": ("deposit", "full"), "needsFinal": ("final",)}
"""The stages that a task in a state takes (A2B §5.4); in any other state none."""

_SEGWIT = ("btc", "ltc")
_FINAL, _TIMES = 0xFFFFFFFF, 500_000_000


class UtxoChain(NamedTuple):
    """A chain that payments are made on: a coin and network of `address.PREFIXES`."""

    coin: str
    network: str

    @property
    def name(self) -> str:
        """The chain in stored payments."""
        return f"{self.coin}:{self.network}"


def has_segwit(chain: UtxoChain) -> bool:
    """Whether transactions of a chain may carry witnesses."""
    return chain.coin in _SEGWIT


class PaymentClaim(NamedTuple):
    """A claim as a client sends it, with members of the right type. `currency` is upper-case, `raw` the transaction."""

    config_id: str
    stage: str
    currency: str
    raw: bytes
    refund_address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentTerms:
    """The terms that claims are verified against.

    `rate(currency, into)` is units of `into` for one of `currency`, None without one. `chains` maps tickers to the
    chains on which they are paid. `skill` is the requested one, None for any. `state` is that of the task, None for any
    stage. `is_used` returns whether a txid (hex, display order) was claimed before. `height` is the height of the next
    block of a chain, for lock times; None where it is unknown.
    """

    offers: Sequence[Offer]
    chains: Mapping[str, UtxoChain]
    rate: Callable[[str, str], Decimal | None] = lambda _currency, _into: None
    skill: str | None = None
    state: str | None = "pending"
    is_used: Callable[[str], bool] = lambda _txid: False
    height: Callable[[UtxoChain], int | None] = lambda _chain: None


class Payment(NamedTuple):
    """A claim with a transaction that pays for its offer. Amounts are in satoshis: `needed` without slippage, `least`
    with it, `paid` to the address."""

    claim: PaymentClaim
    offer: Offer
    chain: UtxoChain
    tx: Transaction
    due: Due
    paid: int

    @property
    def needed(self) -> int:
        """Satoshis due."""
        return satoshis(self.due.amount)

    @property
    def least(self) -> int:
        """Satoshis that are accepted at least."""
        return satoshis(self.due.least)


def verify(value: Any, terms: PaymentTerms) -> Payment:
    """The sufficient and new payment of a claim (JSON; None without a claim). Raises PaymentRefusedError."""
    payment = read_payment(value, terms)
    check_payment(payment, terms)
    return payment


def read_payment(value: Any, terms: PaymentTerms) -> Payment:
    """The payment that a claim names, enough or not, and claimed before or not. Raises PaymentRefusedError."""
    claim = read_claim(value)
    offer = _offer(claim, terms)
    check_currency(offer, claim.currency)
    chain = terms.chains.get(claim.currency)
    if chain is None:
        detail = f"payments in {claim.currency!a} cannot be checked here: no UTXO chain is configured for them"
        raise PaymentRefusedError("CurrencyUnsupported", "no-chain", detail)
    state = terms.state
    taken: Collection[str] = STAGES if state is None else STAGES_IN.get(state, ())
    if claim.stage not in taken:
        detail = f"a task that is {state} takes {' or '.join(taken) or 'no payment'}, not {claim.stage}"
        raise PaymentRefusedError("StageMismatch", "stage", detail)
    tx = transaction_of(claim, chain)
    _check_final(tx, terms.height(chain))
    amount = due(offer, claim.stage, claim.currency, terms.rate(offer.currency, claim.currency))
    return Payment(claim, offer, chain, tx, amount, _paid(tx, offer, chain))


def check_payment(payment: Payment, terms: PaymentTerms) -> None:
    """Raises PaymentRefusedError for a payment that is too small, or was claimed before."""
    if payment.paid < payment.least:
        detail = f"{payment.paid:,} satoshis are paid, and at least {payment.least:,} of {payment.needed:,} are due"
        raise PaymentRefusedError("AmountInsufficient", "amount", f"{detail} for the stage {payment.claim.stage}")
    if terms.is_used(payment.tx.hex_id):
        raise _invalid("duplicate", f"the transaction {payment.tx.hex_id} was claimed before")


def read_claim(value: Any) -> PaymentClaim:
    """The claim in a JSON value. Raises PaymentRefusedError."""
    if value is None:
        raise PaymentRefusedError("PaymentMissing", "missing", "there is no payment claim")
    if not isinstance(value, Mapping):
        raise _invalid("claim-malformed", "the claim is not a JSON object")
    config_id, stage, currency = (_text(value, name) for name in ("configId", "stage", "currency"))
    refund = "" if value.get("refundAddress") is None else _text(value, "refundAddress")
    if not (refund.isascii() and refund.isprintable()):
        raise _invalid("claim-malformed", "refundAddress is not an address: it has characters that none has")
    if stage not in STAGES:
        raise PaymentRefusedError(
            "StageMismatch", "stage", f"the stage {stage!a} is unknown: send one of {', '.join(STAGES)}"
        )
    return PaymentClaim(config_id, stage, currency.strip().upper(), _raw(value.get("rawTx")), refund)


def _text(claim: Mapping[str, Any], name: str) -> str:
    value = claim.get(name)
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise _invalid("claim-malformed", f"{name} is not a text of at most {MAX_TEXT} characters")
    return value


def _raw(value: Any) -> bytes:
    if not isinstance(value, str) or not value:
        raise _invalid("claim-malformed", "rawTx is not a text")
    if len(value) > 2 * MAX_RAW_BYTES:
        raise _invalid("transaction-malformed", f"rawTx is longer than {MAX_RAW_BYTES:,} bytes")
    try:
        raw = bytes.fromhex(value)
    except ValueError:
        raw = b""
    if len(raw) * 2 != len(value):
        raise _invalid("transaction-malformed", "rawTx is not pairs of hex digits")
    return raw


def _offer(claim: PaymentClaim, terms: PaymentTerms) -> Offer:
    """The offer that a claim names, the first where its id is repeated."""
    for offer in terms.offers:
        if offer.id == claim.config_id:
            break
    else:
        ids = ", ".join(ascii(offer.id[:MAX_TEXT]) for offer in terms.offers[:16]) or "none"
        raise _invalid("unknown-config", f"no price has the id {claim.config_id!a}; there are {ids}")
    if terms.skill is not None and offer.skill_ids is not None and terms.skill not in offer.skill_ids:
        raise _invalid("skill", f"the price {offer.id!a} is not for the skill {terms.skill[:MAX_TEXT]!a}")
    return offer


def transaction_of(claim: PaymentClaim, chain: UtxoChain) -> Transaction:
    """The transaction of a claim, whole and signed. Raises PaymentRefusedError."""
    try:
        tx = read_exactly(claim.raw, segwit=has_segwit(chain), max_items=MAX_ITEMS)
    except TransactionError as error:
        raise _invalid("transaction-malformed", f"rawTx is not a transaction: {error}") from None
    if not tx.inputs or not tx.outputs:
        raise _invalid("transaction-malformed", "the transaction has no inputs or no outputs")
    if len(tx.inputs) > MAX_INPUTS:
        raise _invalid("transaction-malformed", f"the transaction has more than {MAX_INPUTS} inputs")
    if len({tx_input.prevout for tx_input in tx.inputs}) < len(tx.inputs):
        raise _invalid("transaction-malformed", "the transaction spends an output twice")
    if any(tx_input.prevout.txid == COINBASE_TXID for tx_input in tx.inputs):
        raise _invalid("transaction-malformed", "the transaction is a coinbase")
    for output in tx.outputs:
        if not 0 <= output.satoshis <= MAX_MONEY:
            raise _invalid("transaction-malformed", f"an output holds {output.satoshis:,} satoshis")
    if sum(output.satoshis for output in tx.outputs) > MAX_MONEY:
        raise _invalid("transaction-malformed", "the outputs hold more than there is")
    for vin, tx_input in enumerate(tx.inputs):
        if not tx_input.script and not tx_input.witness:
            raise _invalid("unsigned", f"input {vin} is not signed")
    return tx


def _check_final(tx: Transaction, height: int | None) -> None:
    """Lock times that are times are refused: the time that counts is that of blocks to come."""
    if not tx.locktime or all(tx_input.sequence == _FINAL for tx_input in tx.inputs):
        return
    if height is None or tx.locktime >= min(height, _TIMES):
        raise _invalid("not-final", f"the transaction may not be final before its lock time {tx.locktime:,}")


def _paid(tx: Transaction, offer: Offer, chain: UtxoChain) -> int:
    """Satoshis that the outputs with the exact script of the offer's address hold together."""
    prefixes = address.PREFIXES[chain.coin][chain.network]
    script = address.script_of(offer.address.strip(), prefixes)
    paying = [output.satoshis for output in tx.outputs if output.script == script]
    if not paying:
        kind = "P2PKH script" if prefixes.p2sh is None else "script"
        detail = f"no output is the {kind} of {offer.address[:MAX_TEXT]!a} on {chain.coin} {chain.network}"
        raise PaymentRefusedError("AddressMismatch", "address", detail)
    return sum(paying)


def _invalid(reason: str, detail: str) -> PaymentRefusedError:
    return PaymentRefusedError("PaymentInvalid", reason, detail)
