"""The answers of an overlay as typed records, after the OpenAPI document.

Unknown members are ignored, and words, times and patterns are texts, as they may be those of a newer version; what is
required is what every overlay answers.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, TypedDict

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0)]


class _Rated(TypedDict):
    score: float
    evidence: Count


class ItemRating(_Rated, total=False):
    rung: str
    asOf: str


class PendingUpdate(TypedDict):
    outpoint: str | None
    summary: str


class CardDrift(TypedDict):
    cardSha256: str
    since: str | None


class Highlight(TypedDict):
    pointer: str
    ranges: tuple[tuple[Count, Count], ...]


class FacetValue(TypedDict):
    value: str
    count: Count


class _Narrowed(TypedDict):
    parameters: tuple[str, ...]
    total: Count


class Narrowing(_Narrowed, total=False):
    near: dict[str, tuple[FacetValue, ...]]


class Respelling(TypedDict):
    q: str
    total: Count


class AnchorAmount(TypedDict):
    amount: Decimal
    currency: str


class StateDigest(TypedDict):
    height: Count
    hash: str | None


class RebuildProgress(TypedDict):
    done: Count
    of: Count


class _Record(msgspec.Struct, kw_only=True, rename="camel"):
    """Members in camel case, in any order."""


class FaultNote(_Record):
    """A warning, fault or reason: `code` is for programs; `pointer` (RFC 6901) or `parameter` say what it is about."""

    code: str
    detail: str
    pointer: str = ""
    parameter: str = ""


class ItemDomain(_Record):
    """The host of a listing, and whether it names the listing."""

    host: str
    verified: bool
    checked_at: str | None
    by: str | None = None


class ItemAnchor(_Record):
    """A pointer on some chain to the same card."""

    chain: str
    txid: str
    height: Count | None
    hash: str | None
    met: bool
    time: str | None
    outpoint: str | None = None


class ItemSkill(_Record):
    """A skill of an agent."""

    id: str
    name: str
    description: str
    tags: tuple[str, ...]
    examples: tuple[str, ...]


class ItemOffer(_Record):
    """A price. No `skill_ids`: for all skills. `interval` None: per call."""

    id: str
    name: str
    currency: str
    amount: Decimal
    interval: str | None
    accepted_currencies: tuple[str, ...]
    skill_ids: tuple[str, ...]
    address: str
    deposit_pct: Decimal | None
    slippage_pct: Decimal | None
    per_day: Decimal | None = None
    price_feed_url: str = ""
    description: str = ""


class ConvertedPrice(_Record):
    """A price in another currency."""

    amount: Decimal
    currency: str
    rate: Decimal


class CheapestOffer(_Record):
    """The lowest price that meets the filters."""

    offer_id: str
    amount: Decimal
    currency: str
    interval: str
    converted: ConvertedPrice | None = None


class ListingHead(_Record):
    """What chain and registry say of a listing, whatever its card holds."""

    id: str
    type: str
    status: str
    domain: ItemDomain | None
    rating: ItemRating | None
    chain: str
    caip2: str
    outpoint: str | None
    origin: str | None
    owner: str | None
    txid: str
    app: str
    card_sha256: str
    integrity: str
    anchors: tuple[ItemAnchor, ...]
    updated_height: Count | None
    created_height: Count | None
    timestamp: str | None
    warnings: tuple[FaultNote, ...]
    anchor_count: Count = 0
    signer: str | None = None
    pending: PendingUpdate | None = None
    drift: CardDrift | None = None
    fetched_from: str | None = None


class Item(ListingHead, kw_only=True):
    """A listing with its card. `command`, `args` and `env` are a stranger's: never run them unread."""

    name: str
    description: str
    summary: str
    logo: str
    version: str
    url: str
    provider: dict[str, str] | None
    skills: tuple[ItemSkill, ...]
    tags: tuple[str, ...]
    offers: tuple[ItemOffer, ...]
    cheapest: CheapestOffer | None
    server_name: str
    command: str
    args: tuple[str, ...]
    env: dict[str, str]
    keywords: tuple[str, ...]
    tools: tuple[str, ...]
    prompts: tuple[str, ...]
    resources: tuple[str, ...]
    score: float = 0.0
    highlights: tuple[Highlight, ...] = ()
    lacks: tuple[str, ...] = ()
    by_meaning: bool = False
    duplicates: Count = 0
    transport: str = ""
    headers: tuple[str, ...] = ()


class ServerList(ListingHead, kw_only=True):
    """A registration that holds several servers: the ids of their listings."""

    servers: tuple[str, ...]


class ListingIds(_Record):
    """The listings of a transaction that has several."""

    ids: tuple[str, ...]


def read_listing(value: Any) -> Item | ServerList | ListingIds:
    """The model of one listing. Raises msgspec.ValidationError."""
    if isinstance(value, dict) and "servers" in value:
        return msgspec.convert(value, ServerList)
    if isinstance(value, dict) and value.keys() == {"ids"}:
        return msgspec.convert(value, ListingIds)
    return msgspec.convert(value, Item)


class Correction(_Record):
    """A word that no listing contains, and what was searched for instead."""

    word: str
    to: str


class SearchPage(_Record):
    """A page of items. `total_relation` is `gte` where there are more than `total`; `price_comparison` is `amount` or
    `per-day` where prices are compared."""

    items: tuple[Item, ...]
    total: Count
    matched: Count
    total_relation: str
    limit: Count
    offset: Count
    next_cursor: str | None
    query: str
    price_comparison: str | None = None
    facets: dict[str, tuple[FacetValue, ...]] = {}
    facet_totals: dict[str, Count] = {}
    corrected: tuple[Correction, ...] = ()
    unapplied_filters: tuple[str, ...] = ()
    notes: tuple[FaultNote, ...] = ()
    emptied_by: tuple[Narrowing, ...] = ()
    did_you_mean: tuple[Respelling, ...] = ()


class ListingRevision(_Record):
    """One revision: `valid` says whether it counts, `reasons` why not."""

    outpoint: str | None
    txid: str
    height: Count | None
    kind: str
    card_sha256: str | None
    valid: bool
    reasons: tuple[FaultNote, ...]
    owner: str | None
    timestamp: str | None


class ListingHistory(_Record):
    """The revisions of a registration, the newest first."""

    id: str
    revisions: tuple[ListingRevision, ...]
    drifts: tuple[CardDrift, ...] = ()


class TraceStep(_Record):
    """A step on the way of a transaction to a listing."""

    step: str
    ok: bool
    detail: str
    code: str | None = None


class TracedRecord(_Record):
    """What an output of a transaction records."""

    outpoint: str | None
    kind: str
    outcome: str
    valid: bool
    reasons: tuple[FaultNote, ...]
    id: str | None = None


class DiagnosisTrace(_Record):
    """Why a transaction is listed, or not. `where` is mempool, block, raw or nowhere."""

    txid: str
    where: str
    steps: tuple[TraceStep, ...]
    records: tuple[TracedRecord, ...]
    listed: tuple[str, ...]
    height: Count | None = None
    block_hash: str | None = None
    confirmations: Count | None = None


class CardPreview(_Record):
    """How a card would be listed; `servers` of a config, only `offers` of a price list."""

    type: str
    name: str = ""
    summary: str = ""
    offers: tuple[ItemOffer, ...] = ()
    cheapest: CheapestOffer | None = None
    servers: tuple[CardPreview, ...] = ()


class CardReview(_Record):
    """Errors and warnings of a card, config or price list."""

    ok: bool
    errors: tuple[FaultNote, ...]
    warnings: tuple[FaultNote, ...]
    preview: CardPreview | None


class IngestState(_Record):
    """How far the fetching of a transaction has come: waiting, found, indexed or given-up."""

    txid: str
    state: str
    tries: Count
    detail: str


class RatesInUse(_Record):
    """The exchange rates that an answer used; `age` in seconds."""

    source: str | None
    quoted_at: str | None = msgspec.field(name="at")
    age: Count | None


class PriceQuote(_Record):
    """What to pay now; where not `ok`, `code` (A2B §5.3), `error` and `detail` say why there is no amount."""

    ok: bool
    id: str
    config_id: str
    stage: str
    currency: str
    address: str
    interval: str | None = None
    code: int | None = None
    error: str = ""
    detail: str = ""
    anchor: AnchorAmount | None = None
    amount: Decimal | None = None
    least: Decimal | None = None
    rate: Decimal | None = None
    slippage_pct: Decimal | None = None
    needed_satoshis: Count | None = None
    least_satoshis: Count | None = None
    valid_until: str | None = None
    rates: RatesInUse | None = None


class PaymentReview(_Record):
    """Whether a payment claim would be taken; where not `ok`, `code` (A2B §5.3) and `reasons` say why. What it pays and
    what is needed are None where no payment could be read."""

    ok: bool
    reasons: tuple[FaultNote, ...]
    unchecked: tuple[FaultNote, ...]
    code: int | None = None
    error: str = ""
    stage: str = ""
    config_id: str = ""
    txid: str = ""
    address: str = ""
    paid_satoshis: Count | None = None
    needed_satoshis: Count | None = None
    least_satoshis: Count = 0


class RegistryChange(_Record):
    """A change: `upsert`, `remove` or `revert` of the listing `id`, or `reset`: forget everything, all comes again."""

    seq: Count
    epoch: str
    op: str
    id: str | None
    height: Count | None
    reason: str


class ChangePage(_Record):
    """Changes in order, without gaps; `more` follow after (`epoch`, `next_since`)."""

    changes: tuple[RegistryChange, ...]
    epoch: str
    next_since: Count
    more: bool


class SourceSummary(_Record):
    """One source of a chain."""

    source: str
    state: str
    height: Count | None = None
    error: str = ""


class ChainSummary(_Record):
    """Where a chain is."""

    name: str
    chain: str
    state: str
    height: int | None
    hash: str | None
    lag: int | None = None
    mempool: int | None = None
    reorgs: Count | None = None
    error: str | None = None
    note: str = ""
    complete: bool = True
    caught: Count = 0
    sources: tuple[SourceSummary, ...] = ()
    warnings: tuple[str, ...] = ()


class IndexSummary(_Record):
    """How far the index has come in the changes."""

    engine: str
    seq: Count
    changes_behind: Count = msgspec.field(name="behind")
    meaning: bool = False
    renewal: RebuildProgress | None = None
    compiling: bool = False
    damage: str = ""


class RatesFeed(RatesInUse, kw_only=True):
    """A feed of exchange rates."""

    base: str
    error: str = ""


class RatesSummary(RatesInUse, kw_only=True):
    """The exchange rates in use, and every feed."""

    feeds: tuple[RatesFeed, ...]


class RegistryStatus(_Record):
    """Chains, counts and versions of an overlay."""

    version: str
    chains: tuple[ChainSummary, ...]
    listings: dict[str, Count]
    index: IndexSummary | None = None
    state_hash: dict[str, StateDigest | None] = {}
    rates: RatesSummary | None = None
    pointers: dict[str, Count] = {}
