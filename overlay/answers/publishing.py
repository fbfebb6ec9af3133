"""Answers to publishers: traces of transactions, reviews of cards, fetches, unsigned registrations; and problems."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType, field

from overlay.answers.items import KINDS, CardWarning, CheapestOffer, FaultNote, ItemOffer
from overlay.answers.record import Amount, Count, Hex, OutpointText, Record, Time, Txid, words

HINTS = (
    "not-live", "shown-elsewhere", "not-served", "no-description", "no-skill", "no-example", "skill-not-described",
    "price-without-unit", "no-price", "no-tag", "not-found",
)  # fmt: skip
"""The codes of hints, the most important first."""


class TraceStep(Record, kw_only=True):
    """A step on the way of a transaction to a listing."""

    step: str
    ok: bool
    detail: str
    code: str | None = None


class TracedPointer(Record, kw_only=True):
    """The target of a pointer: a domain, the hash of a card, or its address, and the form in which it is written."""

    domain: str | None
    hash: str | None
    uri: str | None
    form: str


class TracedRecord(Record, kw_only=True):
    """The record in an output of a transaction: a card with its MAP, or a pointer."""

    outpoint: str | None
    kind: Annotated[str, words("registration", "update", "pointer", "near-miss")]
    outcome: str
    valid: bool
    reasons: tuple[FaultNote, ...]
    owner: str | None = None
    card_sha256: Txid | None = None
    map: dict[str, str] | None = None
    signer: str | None = None
    id: str | None = None
    pointer: TracedPointer | None = None


class CurrentRegistration(Record, kw_only=True):
    """A registration that the transaction concerns, in its current state."""

    id: str
    status: Annotated[str, words("live", "burned", "undecided")]
    outpoint: str | None
    card_outpoint: str
    owner: str | None


class DiagnosisTrace(Record, kw_only=True):
    """Why a transaction is listed, or not."""

    txid: str
    found_anywhere: bool = field(name="found", default=False)
    where: Annotated[str, words("mempool", "block", "raw", "nowhere")]
    source: str | None = None
    steps: tuple[TraceStep, ...]
    records: tuple[TracedRecord, ...]
    listed: tuple[str, ...]
    height: Count | None = None
    block_hash: Txid | None = None
    confirmations: Count | None = None
    more_records: Annotated[Count, Meta(description="Records beyond those shown, or outputs that were not read.")] = 0
    now: tuple[CurrentRegistration, ...] = ()


class CardPreview(Record, kw_only=True):
    """How a card would be listed: the members of an item that come from its card, and its warnings. `servers` of a
    config, only `offers` of a price list."""

    type: Annotated[str, words(*KINDS[:2], "prices")]
    name: str = ""
    summary: str = ""
    offers: tuple[ItemOffer, ...] = ()
    cheapest: CheapestOffer | None = None
    servers: tuple[CardPreview, ...] = ()


class CheaperListing(Record, kw_only=True):
    """The cheapest of the results before a listing, by prices of the unit of its own cheapest price."""

    id: str
    name: str
    amount: Amount
    currency: str
    interval: Annotated[str, Meta(description="What it pays for, such as `P1M` (a month); `none` for a call.")]


class FindabilitySearch(Record, kw_only=True):
    """A search for words of a card. `rank` is null where the listing is not among the first hundred results, or cannot
    be ranked: one that is not listed yet is ranked by the default engine only, as a new listing without a badge."""

    q: str
    source: Annotated[str, words("example", "skill", "tag")]
    rank: Annotated[int, Meta(ge=1)] | None
    total: Count
    at_least: bool
    lacks: Annotated[tuple[str, ...], Meta(description="Words of the search that the listing does not have.")]
    cheapest_before: CheaperListing | None


class SkillPrice(Record, kw_only=True):
    """The price of a card for a skill beside the median of other listings: of their cheapest prices for the skill in
    the same unit, at most those of the 500 listings that were updated last."""

    skill_id: str
    amount: Amount
    currency: str
    interval: Annotated[str, Meta(description="What it pays for, such as `P1M` (a month); `none` for a call.")]
    median: Amount
    prices: Annotated[int, Meta(ge=5, description="Of how many listings.")]


class FindabilityHint(Record, kw_only=True):
    """A hint how more people would find or choose a listing, by a fixed rule."""

    code: Annotated[str, words(*HINTS)]
    detail: str


class Findability(Record, kw_only=True):
    """How a listing is found by its words: at most 20 searches, and at most seven hints."""

    searches: Annotated[tuple[FindabilitySearch, ...], Meta(max_length=20)]
    prices: tuple[SkillPrice, ...]
    hints: Annotated[tuple[FindabilityHint, ...], Meta(max_length=7)]


class CardReview(Record, kw_only=True):
    """Errors and warnings of a card, config or price list; `preview` is null when there is nothing to show."""

    ok: bool
    errors: tuple[CardWarning, ...]
    warnings: tuple[CardWarning, ...]
    preview: CardPreview | None
    compared: Annotated[bool, Meta(description="Whether name, URL and addresses were compared with the listings.")] = (
        False
    )
    findability: Annotated[
        Findability | UnsetType, Meta(description="With `findability=true`, of a card, while the index answers.")
    ] = UNSET


class IngestState(Record, kw_only=True):
    """How far the fetching of a transaction has come."""

    txid: Txid
    state: Annotated[str, words("waiting", "found", "indexed", "given-up")]
    requested_at: Time | None = field(name="askedAt", default=None)
    tries: Count
    next_try_at: Time | None = None
    detail: str


class ScheduledCheck(Record, kw_only=True):
    """A fetch that a recheck has scheduled."""

    what: Annotated[str, words("pointer", "domain", "keys", "identity", "endpoint", "health")]
    name: str
    state: str
    code: str | None
    detail: str
    last_at: Time | None
    next_at: Time


class RecheckSchedule(Record, kw_only=True):
    """The fetches of the targets that a listing refers to."""

    id: str
    checks: tuple[ScheduledCheck, ...]


class UnsignedInput(Record, kw_only=True):
    """The output that an input of an unsigned transaction spends."""

    outpoint: OutpointText
    satoshis: Count
    script: Hex


class WalletFile(Record, kw_only=True):
    """An unsigned registration, update, transfer or burn; without coins, its outputs only. `create_action` has them as
    arguments of a BRC-100 wallet, `extended` is the transaction in extended format (BRC-30), `listing` the id of the
    listing that is changed."""

    fee: Annotated[Count, Meta(description="Satoshis; without coins, those of one input with change.")]
    create_action: dict[str, Any]
    listing: str | None = None
    raw_tx: Hex | None = None
    extended: Hex | None = None
    inputs: tuple[UnsignedInput, ...] = ()


class HiddenCard(Record, kw_only=True):
    """A card that this server hides by law. `signature` is the server's (Ed25519, base64url) over the other members in
    their canonical form (RFC 8785)."""

    card_sha256: Txid
    reason: Annotated[str, words("copyright", "trademark", "malware", "fraud", "court-order", "other")]
    law: str | None = None
    since: Time
    until: Time | None = None
    signature: str | None = None


class HiddenCards(Record, kw_only=True):
    """The cards that this server hides by law, and its Ed25519 key (base64url), null where it has none."""

    public_key: str | None
    entries: tuple[HiddenCard, ...]


class ProblemDetails(Record, kw_only=True):
    """The faults of a request (RFC 9457)."""

    type: str
    status: Annotated[int, Meta(ge=400, le=599)]
    title: str
    detail: str
    errors: tuple[FaultNote, ...]
    request_id: str
    error: str
    x402_version: int | None = field(name="x402Version", default=None)
    accepts: Annotated[
        tuple[dict[str, Any], ...], Meta(description="With a 429 beyond a limit: what pays for the request (x402).")
    ] = ()
    resource: dict[str, Any] | None = None
    reason: Annotated[
        Literal[
            "illegal-content", "copyright", "trademark", "personal-data", "malware", "fraud", "court-order", "other"
        ] | None,
        Meta(description="With a 451: why the operator hides the listing here."),
    ] = None  # fmt: skip
    law: Annotated[str | None, Meta(description="With a 451: the law.")] = None
    since: Annotated[Time | None, Meta(description="With a 451: since when.")] = None
    until: Annotated[Time | None, Meta(description="With a 451: until when.")] = None
