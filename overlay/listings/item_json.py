"""Listings as items of the API (JSON)."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from overlay.listings import from_pointer, recent_changes
from overlay.listings.listing import Listing, Shown
from overlay.listings.motebit import motebit_json
from overlay.text.timestamps import timestamp, timestamp_of_milliseconds
from parsers.cards import AgentCard, McpServer, Skill, offer_filter, summary
from parsers.cards.intervals import per_day
from parsers.cards.money import plain
from parsers.cards.offer_filter import OfferFilter, PriceEntry
from parsers.cards.offers import Offer
from parsers.reasons import Reason

if TYPE_CHECKING:
    from indexer.store.evidence import StoredRating


def rating_json(rating: StoredRating | None) -> dict[str, Any] | None:
    """CONTRACT's rating: the score from 0 to 1, how many tasks count, and the highest rung of evidence that does; None
    where nothing counts."""
    if rating is None or rating.score is None:
        return None
    members = {"score": rating.score / 1_000, "evidence": rating.completed + rating.failed, "rung": f"E{rating.rung}"}
    return members | {"asOf": timestamp_of_milliseconds(rating.as_of)}


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
    members: dict[str, Any] = recent_changes.members(
        {"replacedAt": change.replaced_at, "warnings": [warning_json(reason) for reason in change.reasons]}
        for change in listing.changes
    )
    members |= {
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
    stated: dict[str, Any] = {"transport": card.transport} if card.transport else {}
    stated |= {"headers": list(card.headers)} if card.headers else {}
    return stated | {
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
