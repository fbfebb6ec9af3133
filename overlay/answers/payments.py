"""Prices to pay, and answers about payment claims."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from msgspec import Meta

from overlay.answers.items import STATUSES, FaultNote, PendingUpdate
from overlay.answers.pages import AnswerRates
from overlay.answers.record import Amount, Count, Hex, Record, TestNetwork, Time, Txid, words
from parsers.claims.amount_due import STAGES

RefusalCode = Annotated[int | None, Meta(description="Where `ok` is false: the JSON-RPC code of A2B §5.3.")]


class AnchorAmount(TypedDict):
    """The amount due, in the offer's currency."""

    amount: Amount
    currency: str


class PriceQuote(Record, kw_only=True):
    """The amount to pay now; where not `ok`, `code`, `error` and `detail` explain why there is no amount, or why no
    payment can reach the address."""

    test_network: TestNetwork = ""
    ok: bool
    id: str
    network: Annotated[str, words("mainnet", "testnet", "regtest", description="Of the listing's chain.")] = ""
    status: Annotated[str, words(*STATUSES)] = ""
    config_id: str
    stage: Annotated[str, words(*STAGES)]
    currency: str
    interval: str | None = None
    deposit_pct: Amount | None = None
    address: Annotated[str, Meta(description="As the offer names it, for its own currency.")]
    pending: Annotated[
        PendingUpdate | None,
        Meta(description="An update of the listing that waits to be mined: ask again after it, before paying."),
    ] = None
    code: Annotated[
        int | str | None, Meta(description="Where `ok` is false: the code of A2B §5.3, or `no-chain` (see `currency`).")
    ] = None
    error: str = ""
    detail: str = ""
    anchor: AnchorAmount | None = None
    amount: Annotated[Amount | None, Meta(description="What is due, rounded up to the currency's smallest unit.")] = (
        None
    )
    least: Annotated[Amount | None, Meta(description="The least that is enough, `slippagePct` below.")] = None
    rate: Annotated[Amount | None, Meta(description="Units of `currency` for one of the offer's.")] = None
    slippage_pct: Annotated[Amount | None, Meta(description="A fraction: 0.01 is 1 %.")] = None
    needed_satoshis: Count | None = None
    least_satoshis: Count | None = None
    rates: AnswerRates | None = None
    notes: Annotated[
        tuple[FaultNote, ...], Meta(description="`refused-quote`: the last good rate is used, and why.")
    ] = ()
    valid_until: Annotated[
        Time | None,
        Meta(description="From when on the rates are too old; absent without any: it holds until the card changes."),
    ] = None


class ListingPayment(Record, kw_only=True):
    """A payment to an address of a listing, with its proof."""

    txid: Txid
    raw_tx: Annotated[Hex, Meta(description="The transaction, without witness.")]
    bump: Annotated[Hex, Meta(description="Its merkle path (BRC-74).")]
    beef: Annotated[Hex, Meta(description="Both (BRC-62), with the transaction that its first input spends.")]
    height: Annotated[Count, Meta(description="That of its block.")]


class PaymentReview(Record, kw_only=True):
    """Whether a payment claim would be accepted; where not `ok`, `code` (A2B §5.3) and `reasons` explain why. The
    amounts paid and needed are null where no payment could be read."""

    ok: bool
    reasons: tuple[FaultNote, ...]
    unchecked: tuple[FaultNote, ...]
    needed_satoshis: Count | None
    paid_satoshis: Annotated[Count | None, Meta(description="What the outputs to the address hold together.")]
    code: RefusalCode = None
    error: str = ""
    detail: str = ""
    config_id: str = ""
    stage: Annotated[str, words(*STAGES)] = ""
    currency: str = ""
    address: str = ""
    txid: Txid = ""
    rate: Annotated[Amount | None, Meta(description="Units of `currency` for one of the offer's.")] = None
    slippage_pct: Amount | None = None
    least_satoshis: Annotated[Count, Meta(description="The least that is enough, `slippagePct` below.")] = 0


class GateRefusal(Record, kw_only=True, rename=None):
    """The answer of the payment gate (A2B §5.3), also as x402 clients read it."""

    code: int
    error: str
    x402Version: int | None = None  # noqa: N815 - the member's name in JSON
    accepts: tuple[dict[str, Any], ...] = ()
    reason: str = ""
    detail: str = ""
    state: str = ""
