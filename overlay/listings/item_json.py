"""Listings: a registration and its card become an item of the API (JSON)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from indexer.model import Status
from indexer.resolution.pointer_resolution import Integrity
from overlay.listings import from_pointer
from overlay.listings.card_texts import card_offers, more
from overlay.listings.motebit import contradicts_host, motebit_json
from overlay.listings.records import PendingRevision, Registration
from overlay.search.forward import Analysed
from parsers.cards import AgentCard, Card, McpServer, Skill, ToolConfig, offer_filter, server_id, summary
from parsers.cards.intervals import per_day
from parsers.cards.money import plain
from parsers.cards.offer_filter import OfferFilter, PriceEntry
from parsers.cards.offers import Offer
from parsers.cards.price_changes import price_changes
from parsers.pointers.locator import url_host
from parsers.reasons import Reason

if TYPE_CHECKING:
    from indexer.store.evidence import StoredRating

Shown = AgentCard | McpServer

_UNVERIFIED = {
    "malformed-signature": "it is no JWS by an algorithm that is verified (ES256, ES384, RS256, EdDSA)",
    "key-set-elsewhere": "its key set (jku) is neither on the card's host nor on a domain above it",
    "unknown-key": "the key set has no such key",
    "bad-signature": "the signature is not of this card, in any canonical form in use",
}
"""Why the signature of a card is not verified, by code; others are codes of fetching its key set."""


class CardChange(NamedTuple):
    """How the current card differs from one that was shown until height `replaced_at`."""

    replaced_at: int
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, kw_only=True)
class Listing(Registration):
    """One listing: a registration with its card, or with one server of it.

    `count` is the number of servers that the card holds: several are listed each under `<id>#<key>` (law 6). `warnings`
    are those of the config around a server. `changes` are the differences of prices and addresses to earlier cards,
    oldest first.
    """

    card: Shown
    count: int = 1
    warnings: tuple[Reason, ...] = ()
    changes: tuple[CardChange, ...] = ()

    @property
    def confirmed(self) -> bool:
        """False for a registration in the mempool, whose heights mean nothing."""
        return self.created_time is not None

    @property
    def id(self) -> str:
        """The listing's id (laws 3 and 6)."""
        return (
            server_id(self.state.id, self.card.key, self.count) if isinstance(self.card, McpServer) else self.state.id
        )

    @cached_property
    def analysed(self) -> Analysed:
        """Its analysed texts, for search and duplicate detection."""
        return Analysed.read(self.card, more(self.card))

    @property
    def status(self) -> str:
        """live, pending (without a confirmed event), burned or undecided."""
        if self.state.status is Status.BURNED:
            return "burned"
        if self.undecided or self.state.status is Status.UNDECIDED:
            return "undecided"
        return "live" if self.confirmed else "pending"

    @property
    def host(self) -> str:
        """Its domain: that of the pointer's locator, else that of the card's url."""
        resolution = self.pointers.resolution if self.pointers else None
        return (from_pointer.host(resolution.anchor.locator or "") if resolution else "") or url_host(self.card.url)

    @property
    def integrity(self) -> Integrity:
        """How the card is bound to the chain (law 10)."""
        resolution = self.pointers.resolution if self.pointers else None
        return resolution.integrity if resolution else Integrity.INSCRIBED

    @property
    def verified(self) -> bool:
        """Whether its card has the hash on chain, or its domain confirms it."""
        return self.integrity in (Integrity.HASH_VERIFIED, Integrity.DRIFTED) or self._has_badge

    @property
    def is_confirmed_by_domain(self) -> bool:
        """Whether the domain of the listing confirms it (laws 10 and 11)."""
        resolution = self.pointers.resolution if self.pointers else None
        if resolution is None:
            return bool(self.host) and self.verified
        return (
            bool(from_pointer.host(resolution.anchor.locator or "")) and resolution.integrity is Integrity.HASH_VERIFIED
        )

    @property
    def all_warnings(self) -> tuple[Reason, ...]:
        """Warnings of the config, the reason why it is undecided, and warnings about the chain's headers, a drifted
        card and its signature."""
        resolution = self.pointers.resolution if self.pointers else None
        reasons = [*self.warnings]
        if self.undecided and self.status == "undecided":
            reasons.append(self.undecided)
        if self.headers_unproved:
            reasons.append(Reason("headers-unproved"))
        if resolution is not None and resolution.drift is not None:
            reasons.append(Reason("drifted", timestamp_of_milliseconds(resolution.drift.since) or ""))
        if self.signature is not None and self.signature.reason and not self.signature.by:
            reasons.append(Reason("card-signature", _UNVERIFIED.get(self.signature.reason, self.signature.reason)))
        if contradicts_host(self):
            reasons.append(Reason("motebit-claim", "its host has published another one", "/x-motebit"))
        return tuple(reasons)

    @property
    def _has_badge(self) -> bool:
        return self.badge is not None and self.badge.holds(self.host, self.state.card)


def listings_of(registration: Registration, card: Card) -> tuple[Listing, ...]:
    """The listings of a registration: its agent, or each of its servers."""
    shown: Sequence[Shown] = card.servers if isinstance(card, ToolConfig) else (card,)
    members = {name: getattr(registration, name) for name in Registration.__slots__}
    return tuple(
        Listing(
            **members | {"pending": _pending(registration.pending, one) if registration.pending else None},
            card=one,
            count=len(shown),
            warnings=card.warnings if isinstance(card, ToolConfig) else (),
            changes=_changes(registration, one),
        )
        for one in shown
    )


def _changes(registration: Registration, shown: Shown) -> tuple[CardChange, ...]:
    """The differences to each earlier card, oldest first; of equal neighbours the later one; () without any."""
    key = shown.key if isinstance(shown, McpServer) else ""
    changes: list[CardChange] = []
    for card in registration.previous:
        note = "; the owner has changed, too" if card.owner != registration.state.owner else ""
        reasons = price_changes(card_offers(card.body, registration.state.kind).get(key, ()), shown.offers, note)
        if changes and changes[-1].reasons == reasons:
            changes.pop()
        changes.append(CardChange(card.replaced_at, reasons))
    return tuple(changes) if any(change.reasons for change in changes) else ()


def rating_json(rating: StoredRating | None) -> dict[str, Any] | None:
    """CONTRACT's rating: the score from 0 to 1, how many tasks count, and the highest rung of evidence that does; None
    where nothing counts."""
    if rating is None or rating.score is None:
        return None
    members = {"score": rating.score / 1_000, "evidence": rating.completed + rating.failed, "rung": f"E{rating.rung}"}
    return members | {"asOf": timestamp_of_milliseconds(rating.as_of)}


def _pending(pending: PendingRevision, shown: Shown) -> PendingRevision:
    """The unconfirmed revision of one server or agent; its summary is empty for a server removed from the config."""
    if isinstance(shown, McpServer) and pending.servers:
        return PendingRevision(outpoint=pending.outpoint, summary=pending.servers.get(shown.key, ""))
    return pending


def listing_json(listing: Listing) -> dict[str, Any]:
    """CONTRACT's Item without the members that depend on a query (score, cheapest, highlights)."""
    members = chain_fields(listing) | {"id": listing.id} | card_fields(listing.card, listing.all_warnings)
    motebit = motebit_json(listing)
    return members | {"motebit": motebit} if motebit else members


def registration_json(listings: Sequence[Listing]) -> dict[str, Any]:
    """The answer for the plain id of a registration: its item with the cheapest offer, or, for a config of more than
    one server, its chain fields and the ids of the servers (law 6)."""
    first = listings[0]
    if len(listings) == 1:
        return listing_json(first) | {"cheapest": cheapest_json(first.card.offers)}
    warnings = [warning_json(reason) for reason in first.all_warnings]
    return chain_fields(first) | {"servers": [listing.id for listing in listings], "warnings": warnings}


def chain_fields(listing: Listing) -> dict[str, Any]:
    """The members of an item that come from the chain; `id` is the registration's."""
    state = listing.state
    height = state.updated_height if listing.confirmed else None
    members: dict[str, Any] = {
        "id": state.id,
        "type": state.kind.value,
        "status": listing.status,
        "domain": domain_json(listing),
        "rating": rating_json(listing.rating),
        "chain": listing.chain,
        "caip2": listing.caip2,
        "outpoint": str(state.outpoint) if state.outpoint else None,
        "origin": state.id if listing.pointers is None else None,
        "owner": state.owner,
        "txid": state.winner.txid[::-1].hex(),
        "app": state.map.get("app", ""),
        "cardSha256": state.card.hex(),
        "integrity": listing.integrity.value,
        "anchors": anchors_json(listing),
        "updatedHeight": height,
        "createdHeight": state.created_height if listing.confirmed else None,
        "timestamp": timestamp(listing.updated_time),
    }
    if height is not None:
        members["blockHeight"] = height
    if listing.changes:
        members["recentChanges"] = [
            {"replacedAt": change.replaced_at, "warnings": [warning_json(reason) for reason in change.reasons]}
            for change in listing.changes
        ]
    if listing.signer is not None:
        members["signer"] = listing.signer
    if listing.signature is not None and listing.signature.by:
        signature = listing.signature
        members["signed"] = {"by": signature.by, "coversPricing": signature.covers_pricing} | {
            "kid": signature.kid, "form": signature.form,
        }  # fmt: skip
    if listing.owner_checked is not None:
        members["ownerCheckedAt"] = timestamp(listing.owner_checked)
    if listing.pending is not None:
        members["pending"] = {"outpoint": listing.pending.outpoint, "summary": listing.pending.summary}
    return members | _fetched(listing)


def domain_json(listing: Listing) -> dict[str, Any] | None:
    """The domain of a listing, whether it confirms the listing (laws 10 and 11), and when that was last checked."""
    host, resolution = listing.host, listing.pointers.resolution if listing.pointers else None
    if not host:
        return None
    if resolution is not None:
        fetching = listing.pointers.fetching if listing.pointers else None
        checked_at = fetching.last_at if fetching else None
        return {
            "host": host,
            "verified": listing.is_confirmed_by_domain,
            "checkedAt": timestamp_of_milliseconds(checked_at),
        }
    badge = listing.badge if listing.badge is not None and listing.badge.host == host else None
    members = {
        "host": host,
        "verified": listing.verified,
        "checkedAt": timestamp_of_milliseconds(badge.checked_at if badge else None),
    }
    return members | {"by": badge.by} if badge is not None and listing.verified else members


def anchors_json(listing: Listing) -> list[dict[str, Any]]:
    """The pointers to a listing, oldest first, with whether each is met (laws 9 and 10)."""
    resolution = listing.pointers.resolution if listing.pointers else None
    return [
        {
            "chain": anchor.chain,
            "txid": anchor.txid[::-1].hex(),
            "outpoint": str(anchor.outpoint) if anchor.outpoint else None,
            "height": anchor.height,
            "hash": anchor.digest.hex() if anchor.digest is not None else None,
            "met": met,
            "time": timestamp(anchor.time),
        }
        for anchor, met in (from_pointer.shown_anchors(resolution) if resolution else ())
    ]


def _fetched(listing: Listing) -> dict[str, Any]:
    """The members of listings with fetched cards: number of pointers, URL, and a card that has drifted."""
    pointers = listing.pointers
    if pointers is None or pointers.resolution is None:
        return {}
    members: dict[str, Any] = {"anchorCount": pointers.total, "fetchedFrom": pointers.resolution.fact.url or None}
    if (drift := pointers.resolution.drift) is not None:
        members["drift"] = {"cardSha256": drift.sha256.hex(), "since": timestamp_of_milliseconds(drift.since)}
    return members


def card_fields(card: Shown, more_warnings: tuple[Reason, ...] = ()) -> dict[str, Any]:
    """The members of an item that come from the card alone; also the preview of an unpublished card."""
    members: dict[str, Any] = {
        "name": card.name,
        "description": card.description,
        "summary": summary(card.description),
        "logo": card.logo,
        "version": card.version,
        "url": card.url,
        "provider": card.provider or None,
        "skills": [_skill(skill) for skill in card.skills],
        "tags": list(card.tags),
        "offers": [offer_json(offer) for offer in card.offers],
        "warnings": [warning_json(reason) for reason in card.warnings + more_warnings],
    }
    if isinstance(card, AgentCard):
        return (
            members | {"protocol": card.protocol, "documentationUrl": card.documentation_url} | _agent_as_server(card)
        )
    return members | _server(card)


def _agent_as_server(card: AgentCard) -> dict[str, Any]:
    """The server members that the existing client reads of every item, empty for an agent."""
    empty = {"command": "", "args": [], "env": {}, "tools": [], "prompts": [], "resources": []}
    return {"serverName": card.name, "keywords": list(card.tags)} | empty


def _server(card: McpServer) -> dict[str, Any]:
    return {
        "serverName": card.key,
        "command": card.command,
        "args": list(card.args),
        "env": card.env,
        "keywords": list(card.keywords),
        "tools": list(card.tools),
        "prompts": list(card.prompts),
        "resources": list(card.resources),
    }


def _skill(skill: Skill) -> dict[str, Any]:
    return {
        "id": skill.id,
        "name": skill.name,
        "description": skill.description,
        "tags": list(skill.tags),
        "examples": list(skill.examples),
    }


def offer_json(offer: Offer) -> dict[str, Any]:
    """One price entry; amounts and percentages are decimal strings, an empty `skillIds` means all skills. `perDay` is
    the amount for one day, None for a price per call."""
    return {
        "id": offer.id,
        "name": offer.name,
        "currency": offer.currency,
        "amount": plain(offer.amount),
        "interval": offer.interval,
        "perDay": _plain(per_day(offer.amount, offer.interval_key)),
        "acceptedCurrencies": list(offer.accepted),
        "skillIds": list(offer.skill_ids or ()),
        "address": offer.address,
        "depositPct": _plain(offer.deposit_pct),
        "priceFeedUrl": offer.price_feed_url,
        "slippagePct": _plain(offer.slippage_pct),
        "description": offer.description,
    }


def cheapest_json(offers: Sequence[Offer]) -> dict[str, str | None] | None:
    """The lowest amount in the anchor currency of the first offer, ties in card order (law 14, with no filter)."""
    least = offer_filter.cheapest((PriceEntry(frozenset(), offer) for offer in offers), OfferFilter())
    if least is None:
        return None
    return {
        "offerId": least.id,
        "amount": plain(least.amount),
        "currency": least.currency,
        "interval": least.interval_key,
        "perDay": _plain(per_day(least.amount, least.interval_key)),
    }


def _plain(value: Decimal | None) -> str | None:
    return None if value is None else plain(value)


def warning_json(reason: Reason) -> dict[str, str]:
    """A warning or an error of a card: its code, the JSON pointer (RFC 6901) of the member, and a sentence."""
    return {"code": reason.code, "pointer": reason.pointer, "detail": reason.explanation}


def timestamp_of_milliseconds(since: int | None) -> str | None:
    """Milliseconds since 1970 as ISO 8601 in UTC, to the second; None also for 0, which means never."""
    return timestamp(since // 1000) if since else None


def timestamp(seconds: int | None) -> str | None:
    """A block time as ISO 8601 in UTC, to the second: `2025-04-20T12:00:00Z`."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
