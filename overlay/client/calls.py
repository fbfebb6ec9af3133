"""The requests of the HTTP API, each with the model of its answer. Nothing is sent here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Generic, TypedDict, TypeVar, Unpack
from urllib.parse import quote as quoted

import msgspec

from overlay.answers.history import ListingHistory
from overlay.answers.items import Item, ListingIds, ServerList, listing_model
from overlay.answers.observed_tools import ListedTools
from overlay.answers.pages import ChangePage, SearchPage
from overlay.answers.payments import ListingPayment, PaymentReview, PriceQuote
from overlay.answers.publishing import CardReview, DiagnosisTrace, Findability, IngestState
from overlay.answers.record import read
from overlay.answers.registry_status import RegistryStatus
from overlay.answers.side_by_side import ListingComparison
from overlay.answers.usage_snippets import UsageSnippets
from overlay.answers.verdicts import SubmittedReceipts
from overlay.client.event_stream import Position

T = TypeVar("T")
_body = msgspec.json.Encoder(decimal_format="number").encode

Words = str | Sequence[str]


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request: method, path below the base URL (percent-encoded), query, headers, body (JSON), and how its
    answer is read: JSON, or else bytes."""

    path: str
    read: Callable[[Any], T]
    parameters: tuple[tuple[str, str], ...] = ()
    method: str = "GET"
    content: bytes | None = None
    is_json: bool = True
    headers: tuple[tuple[str, str], ...] = ()


class SearchFilters(TypedDict, total=False):
    """The parameters of a search beside its words, as docs/search.md explains them; several words mean any of them."""

    type: Words
    skill_id: Words
    skill: Words
    accepted_currency: Words
    currency: Words
    interval: Words
    max_price: Decimal | int | str
    min_price: Decimal | int | str
    price_currency: str
    tag: Words
    chain: Words
    domain: Words
    owner: Words
    duplicates_of: str
    verified: bool
    status: Words
    from_block: int
    to_block: int
    updated_since: str
    as_of_height: int
    sort: str
    limit: int
    offset: int
    cursor: str
    facets: Words
    facet_limit: int
    facet_prefix: str
    explain: bool
    highlight: bool


def search(words: str = "", **filters: Unpack[SearchFilters]) -> Call[SearchPage]:
    """A page of items."""
    pairs = [("q", words)] if words else []
    for name, value in filters.items():
        values = value if isinstance(value, list | tuple | set | frozenset) else (value,)
        pairs += [(_camel(name), str(part).lower() if isinstance(part, bool) else str(part)) for part in values]
    return search_by(pairs)


def search_by(parameters: Sequence[tuple[str, str]]) -> Call[SearchPage]:
    """A search by the parameters of the URL."""
    return Call("/v1/search", _model(SearchPage), tuple(parameters))


def next_page(call: Call[SearchPage], cursor: str) -> Call[SearchPage]:
    """The search continued where a page ended."""
    others = tuple(pair for pair in call.parameters if pair[0] not in ("cursor", "offset"))
    return replace(call, parameters=(*others, ("cursor", cursor)))


def get(id_: str) -> Call[Item | ServerList | ListingIds]:
    """One item by its id, current outpoint or txid; the servers of a registration that holds several, the ids of a
    transaction with several."""
    return Call(_listing(id_), lambda value: read(value, listing_model(value)))


def history(id_: str) -> Call[ListingHistory]:
    """Every revision of a registration, the newest first."""
    return Call(f"{_listing(id_)}/history", _model(ListingHistory))


def snippets(id_: str) -> Call[UsageSnippets]:
    """Texts to copy: settings of MCP clients for a tool, and a call of an agent."""
    return Call(f"{_listing(id_)}/snippets", _model(UsageSnippets))


def compare(*ids: str, calls: str | None = None, price_currency: str | None = None) -> Call[ListingComparison]:
    """Two to four listings side by side; `calls` such as `50/day`."""
    terms = _parameters(calls=calls, priceCurrency=price_currency)
    return Call("/v1/compare", _model(ListingComparison), (*(("id", id_) for id_ in ids), *terms))


def tools(id_: str) -> Call[ListedTools]:
    """The tools that the URL of a listing lists, with their schemas, as a visit observed them."""
    return Call(f"{_listing(id_)}/tools", _model(ListedTools))


def card(id_: str) -> Call[bytes]:
    """A card's exact bytes."""
    return Call(f"{_listing(id_)}/card", _model(bytes), is_json=False)


def evidence(id_: str, after: str | None = None) -> Call[dict[str, Any]]:
    """A page of the receipts behind the rating of a listing. `overlay.verify` reads it."""
    return Call(f"{_listing(id_)}/evidence", _model(dict[str, Any]), _parameters(after=after))


def document(sha256: str) -> Call[bytes]:
    """A document that receipts name."""
    return Call(f"/v1/evidence/{quoted(sha256, safe='')}", _model(bytes), is_json=False)


def stream() -> Call[bytes]:
    """The change stream."""
    return Call("/v1/stream", _model(bytes), is_json=False)


def proof(id_: str, first: int | None = None) -> Call[dict[str, Any]]:
    """The proof of a listing, with headers from height `first` on. `overlay.verify` reads it."""
    parameters = _parameters(**{"from": None if first is None else str(first)})
    return Call(f"{_listing(id_)}/proof", _model(dict[str, Any]), parameters)


def diagnose(transaction: str | bytes) -> Call[DiagnosisTrace]:
    """The step trace of a txid, an outpoint or a raw transaction."""
    trace = _model(DiagnosisTrace)
    if isinstance(transaction, bytes):
        return Call("/v1/diagnose", trace, method="POST", content=_body({"rawTx": transaction.hex()}))
    return Call(f"/v1/diagnose/{quoted(transaction, safe='')}", trace)


def findability(id_: str) -> Call[Findability]:
    """How a listing is found by its words: at most 20 searches."""
    return Call(f"{_listing(id_)}/findability", _model(Findability))


def check(
    body: bytes, kind: str | None = None, *, owner: str = "", id_: str = "", findability: bool = False
) -> Call[CardReview]:
    """Errors, warnings and preview of a card, config or price list, for the address that will own its listing, and the
    id of the listing that it updates; with `findability`, also how it would be found."""
    parameters = _parameters(
        type=kind or None, owner=owner or None, id=id_ or None, findability="true" if findability else None
    )
    return Call("/v1/check", _model(CardReview), parameters, "POST", content=body)


def ingest(txid: str) -> Call[IngestState]:
    """Request that a transaction be fetched."""
    return Call("/v1/ingest", _model(IngestState), method="POST", content=_body({"txid": txid}))


def quote(
    id_: str, config_id: str | None = None, *, currency: str | None = None, stage: str | None = None
) -> Call[PriceQuote]:
    """The amount to pay now for an offer of a listing."""
    parameters = _parameters(id=id_, configId=config_id, currency=currency, stage=stage)
    return Call("/v1/quote", _model(PriceQuote), parameters)


def payment(id_: str, txid: str) -> Call[ListingPayment]:
    """A payment to a listing that is in a block, with its proof."""
    return Call(f"{_listing(id_)}/payments/{quoted(txid, safe='')}", _model(ListingPayment))


def submit_evidence(body: dict[str, Any]) -> Call[SubmittedReceipts]:
    """Submit a receipt of work, as `POST /v1/evidence` takes it."""
    return Call("/v1/evidence", _model(SubmittedReceipts), method="POST", content=_body(body))


def pay_check(body: dict[str, Any]) -> Call[PaymentReview]:
    """Whether a payment claim would be taken: `claim`, `id` or `config`, and optionally `skillId` and `state`."""
    return Call("/v1/pay/check", _model(PaymentReview), method="POST", content=_body(body))


def changes(since: Position | None = None, limit: int = 1_000) -> Call[ChangePage]:
    """A page of the change feed after a position, from the beginning without one."""
    after = () if since is None else (("since", str(since.seq)), ("epoch", since.epoch))
    return Call("/v1/changes", _model(ChangePage), (*after, ("limit", str(limit))))


def anchors(path: str, question: Mapping[str, Any], topic: str) -> Call[dict[str, Any]]:
    """A route of a topic's anchors (BRC-136). `overlay.verify` reads the answer."""
    headers = (("X-BSV-Topic", topic),)
    return Call(path, _model(dict[str, Any]), method="POST", content=_body(dict(question)), headers=headers)


def status() -> Call[RegistryStatus]:
    """Heights, counts, rates and versions."""
    return Call("/v1/status", _model(RegistryStatus))


def _listing(id_: str) -> str:
    return f"/v1/listings/{quoted(id_, safe='')}"


def _parameters(**texts: str | None) -> tuple[tuple[str, str], ...]:
    """The parameters that are not None; the overlay refuses empty ones."""
    return tuple((name, text) for name, text in texts.items() if text is not None)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _model(kind: type[T]) -> Callable[[Any], T]:
    return lambda value: read(value, kind)
