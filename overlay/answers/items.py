"""Items: a listing as searches and lookups answer it, in the order of its members as they are encoded."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from msgspec import UNSET, Meta, UnsetType

from overlay.answers.record import Amount, Count, OutpointText, PerDay, Record, Time, Txid, text, words

KINDS = ("agent", "tool", "all")
STATUSES = ("live", "pending", "burned", "undecided")


class FaultNote(Record, kw_only=True):
    """A fault or reason: `code` is for programs; `pointer` (RFC 6901) or `parameter` say what it is about."""

    code: str
    detail: str
    pointer: str = ""
    parameter: str = ""


class CardWarning(Record, kw_only=True):
    """A warning or an error of a card: its code, the JSON pointer (RFC 6901) of the member, and a sentence."""

    code: str
    pointer: str
    detail: str


class _Rated(TypedDict):
    score: float
    evidence: Count


class ItemRating(_Rated, total=False):
    """The score from 0 to 1, how many tasks count, and the highest rung of receipts that count."""

    rung: Annotated[str, words("E1", "E2", "E3")]
    asOf: Time


class PendingUpdate(TypedDict):
    """An unconfirmed revision."""

    outpoint: OutpointText | None
    summary: str


class CardDrift(TypedDict):
    """Another card that is served instead of the one listed."""

    cardSha256: Txid
    since: Time | None


class Highlight(TypedDict):
    """Where a text contains words of the query: `pointer` is RFC 6901, into the item."""

    pointer: str
    ranges: tuple[tuple[Count, Count], ...]


class ItemDomain(Record, kw_only=True, omit_defaults=True):
    """The host of a listing, and whether it names the listing."""

    host: str
    verified: bool
    checked_at: Time | None
    by: Annotated[str, words("name", "dns", "hash")] | None = None


class ItemAnchor(Record, kw_only=True):
    """A pointer on some chain to the same card."""

    chain: str
    txid: Txid
    outpoint: OutpointText | None = None
    height: Count | None
    hash: Txid | None
    met: bool
    time: Time | None


class ItemSkill(Record, kw_only=True):
    """A skill of an agent."""

    id: str
    name: str
    description: str
    tags: tuple[str, ...]
    examples: tuple[str, ...]


class ItemOffer(Record, kw_only=True):
    """A price. `interval` as it is written; null: per call."""

    id: str
    name: str
    currency: str
    amount: Amount
    interval: str | None
    per_day: PerDay = None
    accepted_currencies: tuple[str, ...]
    skill_ids: Annotated[tuple[str, ...], Meta(description="Empty: all skills.")]
    address: str
    deposit_pct: Amount | None
    price_feed_url: str = ""
    slippage_pct: Amount | None
    description: str = ""


class ConvertedPrice(Record, kw_only=True):
    """A price in the currency of the query (`priceCurrency`): exactly the amount times the rate."""

    amount: Amount
    currency: str
    rate: Amount
    per_day: PerDay = None


class CheapestOffer(Record, kw_only=True, omit_defaults=True):
    """The lowest amount of the offers that meet the filters; where the page compares prices per day, the lowest price
    per day, if any of them has one."""

    offer_id: str
    amount: Amount
    currency: str
    interval: str
    per_day: PerDay
    converted: ConvertedPrice | None = None


class CardSigner(Record, kw_only=True):
    """The card's own signature (JWS) is verified, by a key that this host publishes. `covers_pricing`: its prices are
    among what was signed."""

    by: str
    covers_pricing: bool
    kid: str
    form: str


class EndpointHandshake(Record, kw_only=True, omit_defaults=True):
    """The outcome of the newest handshake with an MCP endpoint; `added`, `removed` and `changed` name tools."""

    state: Annotated[str, words("verified", "refused")]
    reason: str | None
    checked_at: Time
    manifest_sha256: Annotated[str | None, text()]
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


class MotebitIdentity(Record, kw_only=True, omit_defaults=True):
    """The Motebit identity of an agent. `verified`: its host serves the identity file, signed by this key, and its MCP
    endpoint was not refused; else only its card claims it (`x-motebit`)."""

    id: str
    public_key: str
    did: str | None
    verified: bool
    endpoint: str
    capabilities: tuple[str, ...]
    handshake: EndpointHandshake | None = None


class ExplainedMeaning(Record, kw_only=True):
    """The weight of meaning in the score, and what it adds to that of the words, which counts for the others."""

    weight: float
    score: float


class ExplainedWord(Record, kw_only=True):
    """The term that counts for a word of the question; `edits` typing errors were corrected, where it is corrected."""

    word: str
    score: float
    term: str | None
    match: Annotated[str, words("exact", "joined", "corrected", "split", "completed")] | None
    edits: Count | None = None


class ExplainedScore(Record, kw_only=True):
    """The factors of a score: (the sum of words + proximity) · exactName · staticRank."""

    score: float
    stage: Annotated[str, words("rerank", "engine", description="`engine` beyond the candidates of stage two.")]
    words: tuple[ExplainedWord, ...]
    proximity: float | None = None
    exact_name: float | None = None
    static_rank: float | None = None
    meaning: ExplainedMeaning | None = None


class ListingHead(Record, kw_only=True, omit_defaults=True):
    """The facts of chain and registry about a listing, without its card."""

    id: Annotated[str, text("`<txid>_<vout>` (`#<key>` added for one of several), a domain or a URL.")]
    type: Annotated[str, words(*KINDS[:2])]
    status: Annotated[str, words(*STATUSES)]
    domain: ItemDomain | None
    rating: ItemRating | UnsetType | None = UNSET
    chain: Annotated[str, text("The configured name.")]
    caip2: Annotated[str, text("The chain's CAIP-2 id.")]
    outpoint: Annotated[OutpointText | None, Meta(description="Where the satoshi is; null once burned to the fee.")]
    origin: Annotated[
        str | None, Meta(description="The registration: the outpoint of its first record; null for a pointer.")
    ]
    owner: str | None
    txid: Annotated[Txid, text("The transaction of the winning revision.")]
    app: str
    card_sha256: Txid
    integrity: Annotated[str, words("inscribed", "hash-verified", "unhashed", "drifted")]
    anchors: tuple[ItemAnchor, ...]
    updated_height: Count | None
    created_height: Count | None
    timestamp: Annotated[Time | None, Meta(description="Of the winning revision's block; null while unconfirmed.")]
    block_height: Annotated[Count | None, Meta(description="The winning revision's; absent while unconfirmed.")] = None
    signer: Annotated[str | None, Meta(description="The address of a verified SIGMA signature.")] = None
    signed: CardSigner | None = None
    owner_checked_at: Annotated[
        Time | None,
        Meta(description="When the source last said that the outpoint is unspent, where moves are found by asking."),
    ] = None
    pending: PendingUpdate | None = None
    anchor_count: Annotated[
        Count, Meta(description="How many pointers there are to it; `anchors` shows the telling ones.")
    ] = 0
    fetched_from: Annotated[str | UnsetType | None, Meta(description="Where the card of a pointer was fetched.")] = (
        UNSET
    )
    drift: CardDrift | None = None


class StoredItem(ListingHead, kw_only=True, omit_defaults=True):
    """A listing with its card, as the index stores it. `command`, `args` and `env` are a stranger's: never run them
    unread."""

    name: str
    description: str
    summary: Annotated[str, text(maxLength=160)]
    logo: str
    version: str
    url: str
    provider: dict[str, str] | None
    skills: tuple[ItemSkill, ...]
    tags: tuple[str, ...]
    offers: tuple[ItemOffer, ...]
    warnings: tuple[CardWarning, ...]
    protocol: str | UnsetType = UNSET
    documentation_url: str | UnsetType = UNSET
    transport: Annotated[
        str, words("stdio", "streamable-http", "sse", description="As the config states it; else absent.")
    ] = ""
    headers: Annotated[
        tuple[str, ...], Meta(description="The names of the headers that the url needs; absent without any.")
    ] = ()
    server_name: str
    command: Annotated[str, text("A stranger's: never run it unread.")]
    args: tuple[str, ...]
    env: dict[str, str]
    keywords: tuple[str, ...]
    tools: tuple[str, ...]
    prompts: tuple[str, ...]
    resources: tuple[str, ...]
    motebit: MotebitIdentity | None = None


class Item(StoredItem, kw_only=True, omit_defaults=True):
    """A listing with its card, and what an answer adds: its duplicates, its latest change, and what depends on the
    query."""

    changed_height: Annotated[
        Count | None,
        Meta(description="From where on another card is shown than the one that change warnings compare with."),
    ] = None
    duplicates: Annotated[
        Count,
        Meta(
            description="Listings of the same or nearly the same text that this one is shown for; see `duplicatesOf`."
        ),
    ] = 0
    highlights: Annotated[
        tuple[Highlight, ...],
        Meta(
            description="With `highlight`: where texts contain words of the query, half-open, in UTF-16 code units, as "
            "JavaScript counts. The first 100 in the first 16,384 characters."
        ),
    ] = ()
    explain: Annotated[
        ExplainedScore | None,
        Meta(description="With `explain`: the factors of the score, and the term for every word of the question."),
    ] = None
    cheapest: CheapestOffer | None
    lacks: Annotated[
        tuple[str, ...],
        Meta(description="The words of `q`, stop words left out, that the listing does not have."),
    ] = ()
    by_meaning: Annotated[
        bool, Meta(description="The listing has no word of `q`: it was found by its meaning alone.")
    ] = False
    score: float = 0.0


class ServerList(ListingHead, kw_only=True, omit_defaults=True):
    """A registration that holds several servers: the ids of their listings."""

    servers: tuple[str, ...]
    warnings: tuple[CardWarning, ...]


class ListingIds(Record, kw_only=True):
    """The listings of a transaction that has several."""

    ids: tuple[str, ...]


def listing_model(value: Any) -> type[Item | ServerList | ListingIds]:
    """Which of the three answers of `GET /v1/listings/{id}` a JSON value is."""
    if isinstance(value, dict) and "servers" in value:
        return ServerList
    return ListingIds if isinstance(value, dict) and value.keys() == {"ids"} else Item
