"""Items: a listing as searches and lookups answer it, in the order of its members as they are encoded."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from msgspec import UNSET, Meta, UnsetType, field

from overlay.answers.record import Amount, Count, OutpointText, PerDay, Record, Time, Txid, text, words
from parsers.reasons import HIGH, INFO, LOW

KINDS = ("agent", "tool", "all")
STATUSES = ("live", "pending", "burned", "undecided")
SEVERITY = (HIGH, LOW, INFO)


class FaultNote(Record, kw_only=True):
    """A fault or reason: `code` is for programs; `pointer` (RFC 6901) or `parameter` names its subject."""

    code: str
    detail: str
    pointer: str = ""
    parameter: str = ""


class CardWarning(Record, kw_only=True, omit_defaults=True):
    """A warning or an error of a card: its code, the JSON pointer (RFC 6901) of the member, and a sentence."""

    code: str
    severity: Annotated[
        Annotated[str, words(*SEVERITY)] | None,
        Meta(description="How severe a warning is for those who use the listing; absent for an error."),
    ] = None
    pointer: str
    detail: str


class _Rated(TypedDict):
    evidence: Annotated[Count, Meta(description="All tasks that count, also those that a second key only signed.")]
    score: Annotated[
        float | None,
        Meta(
            description="From 0 to 1, for order alone: with few customers it is low for any work. Null where only "
            "complaints count."
        ),
    ]


class ItemRating(_Rated, total=False):
    """Counts of the work that receipts prove; `rung` is the highest rung of a counted receipt. An overlay of version
    0.2.0 answers without `paidTasks`, `customers`, `failed`, `complaints`, `disputed` and `stars`."""

    paidTasks: Annotated[Count, Meta(description="Tasks that count and were paid for in full, failed ones among them.")]
    customers: Annotated[Count, Meta(description="The distinct parties that paid for these.")]
    failed: Annotated[Count, Meta(description="Tasks that count and failed, paid for or not.")]
    complaints: Annotated[Count, Meta(description="Payments whose payer complains; never part of the score.")]
    disputed: Annotated[Count, Meta(description="Complaints about payments that a receipt names, too.")]
    stars: Annotated[float | None, Meta(description="The score as stars of five; null below ten customers.")]
    rung: Annotated[str, words("E1", "E2", "E3")]
    asOf: Time


class ItemChange(Record, kw_only=True):
    """A value that a revision changes, or would once it is mined; null where there is none before or after it."""

    what: Annotated[str, words("address", "owner", "deprecated", "url", "command", "price", "skills")]
    before: Annotated[str | None, text()] = field(name="from")
    after: Annotated[str | None, text()] = field(name="to")


class PendingUpdate(Record, kw_only=True):
    """An unconfirmed revision, which changes the listing once it is mined: look at it before paying or running
    anything."""

    outpoint: Annotated[OutpointText | None, Meta(description="Where the satoshi will be; null where it is burned.")]
    changes: Annotated[
        tuple[ItemChange, ...],
        Meta(
            description="Pay-to addresses, owner, deprecation, URL, command, prices and skills that it changes, "
            "at most 64."
        ),
    ] = ()
    summary: Annotated[str, Meta(description="The changes in a sentence.")]


HEALTH = ("answers", "needs-auth", "needs-payment", "fails", "not-checked")
"""The states of `ItemHealth`."""


class AnsweredDays(Record, kw_only=True):
    """Of the last 30 days those on which a visit was made, and those on which one was answered."""

    checks: Count
    answered: Count


class ItemHealth(Record, kw_only=True, omit_defaults=True):
    """Whether the URL of a listing answers, as of the last visit. Results of a search have what a change of state
    changes, and the listing itself the times of the last visit, too."""

    state: Annotated[
        str,
        words(
            *HEALTH,
            description="`needs-auth` (401, 403) and `needs-payment` (402) answer, too; `not-checked`: no visit was "
            "possible, or none is recent.",
        ),
    ]
    reason: Annotated[str | None, Meta(description="A code of why it fails, or was not checked.")] = None
    since: Annotated[Time | None, Meta(description="Since when the state is this.")] = None
    checked_at: Annotated[Time | None, Meta(description="The last visit.")] = None
    latency_ms: Annotated[Count | None, Meta(description="Milliseconds until it answered, connecting included.")] = None
    answered30d: AnsweredDays | None = None


class CardDrift(TypedDict):
    """Another card that is served instead of the one listed."""

    cardSha256: Annotated[Txid, Meta(description="The SHA-256 of what is served.")]
    since: Annotated[Time | None, Meta(description="When it was first served.")]


class Highlight(TypedDict):
    """Where a text contains words of the query: `pointer` is RFC 6901, into the item."""

    pointer: str
    ranges: Annotated[
        tuple[tuple[Count, Count], ...], Meta(description="Pairs of start and end, in UTF-16 code units.")
    ]


class DomainFailure(Record, kw_only=True):
    """Why a check of a domain failed."""

    failed_at: Time = field(name="at")
    reason: Annotated[str, Meta(description="A reason code.")]


class ItemDomain(Record, kw_only=True, omit_defaults=True):
    """The host of a listing, and whether it names the listing."""

    host: Annotated[str, Meta(description="The host of the URL, or the domain of the pointer.")]
    verified: Annotated[bool, Meta(description="Whether it names the registration or serves exactly this card.")]
    checked_at: Annotated[Time | None, Meta(description="When that was checked last; null before.")]
    by: Annotated[
        Annotated[str, words("name", "dns", "hash")] | None,
        Meta(description="How: the id in its `agent.json`, a DNS record, or the hash of the card that it serves."),
    ] = None
    last_failure: Annotated[
        DomainFailure | None, Meta(description="Why the last check failed, or a part of it; absent where it did not.")
    ] = None


class DeprecationNotice(Record, kw_only=True, omit_defaults=True):
    """The owner says that the listing is deprecated. Nothing proves that the successor is as good, or its owner's."""

    since: Annotated[
        Time | None, Meta(description="The block of the notice, or the first fetch of the card; null before a block.")
    ]
    successor: Annotated[
        Annotated[str, text()] | None, Meta(description="The id of a listing to use instead, as the owner names it.")
    ] = None
    message: Annotated[Annotated[str, text(maxLength=500)] | None, Meta(description="To those who use it.")] = None


class ItemSale(Record, kw_only=True):
    """The output that holds the listing offers it for sale, by an OrdLock contract: a wallet buys it, in a transaction
    that spends the outpoint and pays the price."""

    satoshis: Annotated[Count, Meta(description="The price.")]
    outpoint: OutpointText
    pay_to: Annotated[str | None, Meta(description="The address that is paid; null for a script without one.")]


class ItemAnchor(Record, kw_only=True):
    """A pointer on some chain to the same card."""

    chain: Annotated[str, Meta(description="The chain of the pointer, by its configured name.")]
    txid: Txid
    outpoint: Annotated[
        OutpointText | None, Meta(description="The output with the pointer, where the chain has outputs.")
    ] = None
    height: Annotated[Count | None, Meta(description="Of its block; null while unconfirmed.")]
    hash: Annotated[Txid | None, Meta(description="The SHA-256 that it names; null for none.")]
    met: Annotated[bool, Meta(description="Whether the card that is shown has this hash.")]
    time: Annotated[Time | None, Meta(description="Of its block.")]


class ItemSkill(Record, kw_only=True):
    """A skill of an agent."""

    id: str
    name: str
    description: str
    tags: tuple[str, ...]
    examples: tuple[str, ...]


class ItemOffer(Record, kw_only=True):
    """A price. `interval` as written; null: per call."""

    id: Annotated[str, Meta(description="To name it in a quote or a payment.")]
    name: str
    currency: Annotated[str, Meta(description="What the amount is in, such as BSV or USD.")]
    amount: Amount
    interval: str | None
    per_day: PerDay = None
    accepted_currencies: Annotated[tuple[str, ...], Meta(description="What it may be paid in.")]
    skill_ids: Annotated[tuple[str, ...], Meta(description="Empty: all skills.")]
    address: Annotated[str, Meta(description="Where payments go; empty where the card names none.")]
    deposit_pct: Annotated[
        Amount | None, Meta(description="The part that is paid in advance: 0.2 is 20 %; null for all at once.")
    ]
    price_feed_url: Annotated[str, Meta(description="The publisher's own rates; this program does not fetch them.")] = (
        ""
    )
    slippage_pct: Annotated[
        Amount | None, Meta(description="How far a payment may fall short: 0.01 is 1 %, as by default (null).")
    ]
    description: str = ""


class ConvertedPrice(Record, kw_only=True):
    """A price in the currency of the query (`priceCurrency`): exactly the amount times the rate."""

    amount: Amount
    currency: str
    rate: Amount
    per_day: PerDay = None


class CheapestOffer(Record, kw_only=True, omit_defaults=True):
    """The cheapest of the offers that meet the filters and can be compared: in `priceCurrency`, else in the currency of
    most of them; a price per call before one for an interval, these by their price a day. In an order by price it is
    the offer that was compared."""

    offer_id: str
    amount: Amount
    currency: str
    interval: Annotated[str, Meta(description="What it pays for, such as `P1M` (a month); `none` for a call.")]
    per_day: PerDay
    converted: ConvertedPrice | None = None
    others: Annotated[
        tuple[str, ...], Meta(description="Currencies of prices that cannot be compared with this one; absent without.")
    ] = ()


class MonthlyCost(Record, kw_only=True):
    """The lowest cost of a month, a twelfth of a year, with the `calls` of the query, among the offers that meet the
    filters: the price of each call, or that of an interval."""

    offer_id: str
    amount: Amount
    currency: Annotated[str, Meta(description="`priceCurrency`, else that of the offer.")]
    per: Annotated[str, words("P1M")] = "P1M"


class CardSigner(Record, kw_only=True):
    """The card's own signature (JWS) is verified, by a key that this host publishes. `covers_pricing`: its prices are
    signed, too."""

    by: Annotated[str, Meta(description="The host that publishes the key.")]
    covers_pricing: Annotated[bool, Meta(description="Whether its prices are among what was signed.")]
    kid: Annotated[str, Meta(description="The id of the key.")]
    form: Annotated[str, Meta(description="Which form of signature it is.")]


class ItemTools(Record, kw_only=True):
    """The tools that the URL of a listing lists (`tools/list`): `at` is the first visit that saw these, with their
    SHA-256 in the order of their names."""

    observed_at: Time = field(name="at")
    sha256: Txid
    count: Count


class EndpointHandshake(Record, kw_only=True, omit_defaults=True):
    """The outcome of the newest handshake with an MCP endpoint; `added`, `removed` and `changed` name tools."""

    state: Annotated[str, words("unchecked", "verified", "refused")]
    reason: str | None
    checked_at: Time
    manifest_sha256: Annotated[str | None, text()]
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


class MotebitIdentity(Record, kw_only=True, omit_defaults=True):
    """The Motebit identity of an agent. `verified`: its host serves the identity file, signed by this key, and its MCP
    endpoint was not refused; else only its card states it (`x-motebit`), or its host serves another key (`reason`)."""

    id: str
    public_key: str
    did: str | None
    verified: bool
    endpoint: str
    capabilities: tuple[str, ...]
    reason: Annotated[
        Annotated[str, words("key-changed")] | None,
        Meta(description="Why it is not verified: the host serves another key, and the pinned one did not sign it."),
    ] = None
    pinned: Annotated[str | None, Meta(description="The key (hex) that the host published first.")] = None
    served: Annotated[str | None, Meta(description="The key (hex) that it serves instead.")] = None
    since: Annotated[Time | None, Meta(description="When that was seen first.")] = None
    handshake: EndpointHandshake | None = None


class ExplainedMeaning(Record, kw_only=True):
    """The weight of meaning in the score, and the part that meaning adds to the score by words, which has the remaining
    weight."""

    weight: float
    score: float


class ExplainedWord(Record, kw_only=True):
    """The term that counts for a word of the question; `edits` typing errors were corrected, where it is corrected."""

    word: str
    score: float
    term: str | None
    match: Annotated[str, words("exact", "joined", "corrected", "split", "completed", "related")] | None
    edits: Count | None = None


class ExplainedScore(Record, kw_only=True):
    """The factors of a score: (the sum of words + proximity) · exactName · staticRank."""

    score: float
    stage: Annotated[str, words("rerank", "engine", description="`engine` beyond the candidates of stage two.")]
    words: tuple[ExplainedWord, ...]
    proximity: float | None = None
    exact_name: float | None = None
    static_rank: float | None = None
    lowered: Annotated[
        tuple[Annotated[str, words("deprecated", "no-answer", "not-runnable")], ...],
        Meta(description="The rules that make the static rank lower; absent without any."),
    ] = ()
    meaning: ExplainedMeaning | None = None


class ListingHead(Record, kw_only=True, omit_defaults=True):
    """The facts of chain and registry about a listing, without its card."""

    id: Annotated[str, text("`<txid>_<vout>` (`#<key>` added for one of several), a domain or a URL.")]
    type: Annotated[str, words(*KINDS[:2], description="What the card describes.")]
    status: Annotated[
        str,
        words(
            *STATUSES,
            description="`pending` before the first block; `undecided` where a transaction is missing.",
        ),
    ]
    domain: Annotated[
        ItemDomain | None, Meta(description="The host, and whether it names the listing; null without a host.")
    ]
    rating: Annotated[
        ItemRating | UnsetType | None, Meta(description="From receipts of paid work; null without any.")
    ] = UNSET
    chain: Annotated[str, text("The configured name.")]
    caip2: Annotated[str, text("The chain's CAIP-2 id.")]
    outpoint: Annotated[OutpointText | None, Meta(description="Where the satoshi is; null once burned to the fee.")]
    origin: Annotated[
        str | None, Meta(description="The registration: the outpoint of its first record; null for a pointer.")
    ]
    owner: Annotated[
        str | None,
        Meta(
            description="The address that holds the satoshi, or may cancel its sale; the account that keeps a pointer."
        ),
    ]
    txid: Annotated[Txid, text("The transaction of the winning revision.")]
    app: Annotated[str, Meta(description="The program that published it, as it names itself.")]
    card_sha256: Annotated[Txid, Meta(description="The SHA-256 of the card's exact bytes.")]
    integrity: Annotated[
        str,
        words(
            "inscribed",
            "hash-verified",
            "unhashed",
            "drifted",
            description="In the transaction; by a hash that the card has; by an address; or another card is served.",
        ),
    ]
    anchors: Annotated[tuple[ItemAnchor, ...], Meta(description="The pointers to it; empty for an inscription.")]
    updated_height: Annotated[Count | None, Meta(description="The block of the winning revision.")]
    created_height: Annotated[Count | None, Meta(description="The block of the first record.")]
    timestamp: Annotated[Time | None, Meta(description="Of the winning revision's block; null while unconfirmed.")]
    block_height: Annotated[Count | None, Meta(description="The winning revision's; absent while unconfirmed.")] = None
    signer: Annotated[str | None, Meta(description="The address of a verified SIGMA signature.")] = None
    signed: Annotated[
        CardSigner | None, Meta(description="The verified signature of the card; absent without one.")
    ] = None
    owner_checked_at: Annotated[
        Time | None,
        Meta(description="When the source last reported the outpoint as unspent, where moves are found by queries."),
    ] = None
    pending: Annotated[
        PendingUpdate | None, Meta(description="The newest unconfirmed revision; absent without one.")
    ] = None
    deprecated: Annotated[
        DeprecationNotice | None, Meta(description="The owner's notice not to use it any more; absent without one.")
    ] = None
    sale: Annotated[
        ItemSale | None, Meta(description="The offer to sell the listing itself; absent where it is not for sale.")
    ] = None
    observed_tools: Annotated[
        ItemTools | None,
        Meta(description="The tools that its URL lists, at `/v1/listings/{id}/tools`; absent where nobody looked."),
    ] = None
    anchor_count: Annotated[
        Count, Meta(description="How many pointers there are to it; `anchors` has the most important ones.")
    ] = 0
    fetched_from: Annotated[str | UnsetType | None, Meta(description="Where the card of a pointer was fetched.")] = (
        UNSET
    )
    drift: Annotated[
        CardDrift | None, Meta(description="What the address serves instead; absent where it serves the card.")
    ] = None


class StoredItem(ListingHead, kw_only=True, omit_defaults=True):
    """A listing with its card, as the index stores it. `command`, `args` and `env` are a stranger's: never run them
    unread."""

    name: Annotated[str, Meta(description="Of the agent, or of the server in its config.")]
    description: Annotated[str, Meta(description="As the card has it, cut where it is very long.")]
    summary: Annotated[str, text("The first sentence of the description.", maxLength=160)]
    logo: Annotated[str, Meta(description="The address of its picture; `/logos` serves thumbnails.")]
    version: Annotated[str, Meta(description="Of the card.")]
    url: Annotated[str, Meta(description="Where the agent or server is reached; empty for a command.")]
    provider: Annotated[dict[str, str] | None, Meta(description="Who offers it, as the card says.")]
    skills: Annotated[tuple[ItemSkill, ...], Meta(description="What an agent can do.")]
    tags: Annotated[tuple[str, ...], Meta(description="Words for filters.")]
    offers: Annotated[tuple[ItemOffer, ...], Meta(description="Its prices.")]
    warnings: Annotated[
        tuple[CardWarning, ...],
        Meta(description="What readers should know, such as a name that another listing had before."),
    ]
    protocol: Annotated[str | UnsetType, Meta(description="The A2A protocol version of the card.")] = UNSET
    documentation_url: Annotated[str | UnsetType, Meta(description="Of the card.")] = UNSET
    transport: Annotated[
        str, words("stdio", "streamable-http", "sse", description="As the config states it; else absent.")
    ] = ""
    headers: Annotated[
        tuple[str, ...], Meta(description="The names of the headers that the url needs; absent without any.")
    ] = ()
    server_name: Annotated[str, Meta(description="The key of the server in its config; empty for an agent.")]
    command: Annotated[str, text("A stranger's: never run it unread.")]
    args: Annotated[tuple[str, ...], Meta(description="The arguments of the command.")]
    env: Annotated[
        dict[str, str], Meta(description="Environment variables of the command, with what the config says of each.")
    ]
    keywords: Annotated[tuple[str, ...], Meta(description="Of an MCP server.")]
    tools: Annotated[tuple[str, ...], Meta(description="Names of the tools that the config lists.")]
    prompts: Annotated[tuple[str, ...], Meta(description="Names of its prompts.")]
    resources: Annotated[tuple[str, ...], Meta(description="Names of its resources.")]
    health: Annotated[ItemHealth | None, Meta(description="Whether its URL answers; absent where nobody looked.")] = (
        None
    )
    motebit: Annotated[MotebitIdentity | None, Meta(description="Its Motebit identity; absent without one.")] = None


class Item(StoredItem, kw_only=True, omit_defaults=True):
    """A listing with its card, and the members that an answer adds: its duplicates, its latest change, and those that
    depend on the query."""

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
    cheapest: Annotated[
        CheapestOffer | None, Meta(description="The lowest price that meets the filters; null without prices.")
    ]
    cost: Annotated[
        MonthlyCost | None,
        Meta(description="With `calls`: what they cost; absent without a price for calls or a time."),
    ] = None
    lacks: Annotated[
        tuple[str, ...],
        Meta(description="The words of `q`, stop words left out, that the listing does not have."),
    ] = ()
    by_meaning: Annotated[
        bool, Meta(description="The listing has no word of `q`: it was found by its meaning alone.")
    ] = False
    score: Annotated[
        float, Meta(description="The relevance of a result, by which `sort=relevance` orders; 0 in other orders.")
    ] = 0.0


ITEM_MEMBERS = tuple(Item.__struct_encode_fields__)


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
