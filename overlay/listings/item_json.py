"""Listings as items of the API: the models of `overlay.answers` filled from a listing, and their JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from msgspec.structs import fields

from overlay.answers.items import (
    CardSigner,
    CardWarning,
    CheapestOffer,
    DeprecationNotice,
    DomainFailure,
    Item,
    ItemAnchor,
    ItemChange,
    ItemDomain,
    ItemOffer,
    ItemSale,
    ItemSkill,
    ItemTools,
    PendingUpdate,
    ServerList,
    StoredItem,
)
from overlay.answers.record import Amount, as_json, encode
from overlay.listings import from_pointer, pending_changes, recent_changes
from overlay.listings.listing import Listing, Shown
from overlay.text.compact_json import decode
from overlay.text.timestamps import timestamp, timestamp_of_milliseconds
from parsers.cards import McpServer, offer_filter, summary
from parsers.cards.intervals import per_day
from parsers.cards.offer_filter import OfferFilter, PriceEntry
from parsers.cards.offers import Offer
from parsers.reasons import Reason, severity

_NAMES = {field.name: field.encode_name for field in fields(Item)}


def stored_item(listing: Listing) -> bytes:
    """The item as the index stores it, compact UTF-8 JSON: without the members that depend on a query, and after the
    differences to earlier cards."""
    item = StoredItem(
        **_head(listing), **_of_card(listing.card, listing.all_warnings), **listing.members_of_systems, id=listing.id
    )
    return recent_changes.prefixed(encode(item), _changes(listing))


def listing_json(listing: Listing) -> dict[str, Any]:
    """The item as the index stores it, as a JSON value, with members that are read from the store alone."""
    item: dict[str, Any] = decode(stored_item(listing))
    item |= as_json(listing.fresh_members)
    return item


def registration_json(listings: Sequence[Listing]) -> dict[str, Any]:
    """The answer for the plain id of a registration: its item with the cheapest offer, or, for a config of more than
    one server, its chain fields and the ids of the servers (law 6)."""
    first = listings[0]
    if len(listings) == 1:
        return listing_json(first) | {"cheapest": cheapest_json(first.card.offers)}
    first = replace(first, observed={})  # those are of one server
    more = {name: value for name, value in first.members_of_systems.items() if name in ServerList.__struct_fields__}
    servers = ServerList(
        **_head(first) | {"pending": pending_update(listings)}, **more, id=first.state.id,
        servers=tuple(listing.id for listing in listings),
        warnings=tuple(map(card_warning, first.all_warnings)),
    )  # fmt: skip
    answer: dict[str, Any] = decode(recent_changes.prefixed(encode(servers), _changes(first)))
    return answer


def item_tools(listing: Listing) -> ItemTools | None:
    """The first visit that saw the tools of its URL, with their digest and number; None where nobody looked."""
    tools = listing.observed_tools
    if tools is None:
        return None
    observed_at = timestamp_of_milliseconds(tools.observed_at) or ""
    return ItemTools(observed_at=observed_at, sha256=tools.sha256, count=tools.count)


def _changes(listing: Listing) -> list[dict[str, Any]]:
    return [
        {"replacedAt": change.replaced_at, "warnings": [warning_json(reason) for reason in change.reasons]}
        for change in listing.changes
    ]


def _head(listing: Listing) -> dict[str, Any]:
    """The members of `ListingHead` but the id."""
    state = listing.state
    height = state.updated_height if listing.confirmed else None
    signature, pointers = listing.signature, listing.pointers
    members: dict[str, Any] = {
        "type": state.kind.value,
        "status": listing.status,
        "domain": item_domain(listing),
        "chain": listing.chain,
        "caip2": listing.caip2,
        "outpoint": str(state.outpoint) if state.outpoint else None,
        "origin": state.id if pointers is None else None,
        "owner": listing.owner,
        "txid": state.winner.txid[::-1].hex(),
        "app": state.map.get("app", ""),
        "card_sha256": state.card.hex(),
        "integrity": listing.integrity.value,
        "anchors": _anchors(listing),
        "updated_height": height,
        "created_height": state.created_height if listing.confirmed else None,
        "timestamp": timestamp(listing.updated_time),
        "block_height": height,
        "signer": listing.signer,
        "signed": CardSigner(by=signature.by, covers_pricing=signature.covers_pricing, kid=signature.kid,
                             form=signature.form) if signature is not None and signature.verdict.is_verified else None,
        "owner_checked_at": timestamp(listing.owner_checked),
        "pending": pending_update([listing]),
        "deprecated": _deprecation(listing),
        "sale": _sale(listing),
        "observed_tools": item_tools(listing),
    }  # fmt: skip
    if pointers is None or pointers.resolution is None:
        return members
    members |= {"anchor_count": pointers.total, "fetched_from": pointers.resolution.fact.url or None}
    if (drift := pointers.resolution.drift) is not None:
        members["drift"] = {"cardSha256": drift.sha256.hex(), "since": timestamp_of_milliseconds(drift.since)}
    return members


def _deprecation(listing: Listing) -> DeprecationNotice | None:
    notice = listing.deprecation
    if notice is None:
        return None
    successor, message = notice.successor or None, notice.message or None
    return DeprecationNotice(since=listing.deprecated_since, successor=successor, message=message)


def _sale(listing: Listing) -> ItemSale | None:
    sale, outpoint = listing.sale, listing.state.outpoint
    if sale is None or outpoint is None:
        return None
    return ItemSale(satoshis=sale.satoshis, outpoint=str(outpoint), pay_to=listing.address(sale.payout))


def pending_update(listings: Sequence[Listing]) -> PendingUpdate | None:
    """The unconfirmed revision of a registration's listings, None without one."""
    pending = listings[0].pending
    if pending is None:
        return None
    changes = pending_changes.pending_changes(listings)
    return PendingUpdate(
        outpoint=pending.outpoint,
        changes=tuple(ItemChange(**change._asdict()) for change in changes[: pending_changes.MAX_CHANGES]),
        summary=pending_changes.summary_of(changes, is_burned=pending.is_burned),
    )


def item_domain(listing: Listing) -> ItemDomain | None:
    """The domain of a listing, whether it confirms the listing (laws 10 and 11), and when that was last checked."""
    host, pointers = listing.host, listing.pointers
    if not host:
        return None
    if pointers is not None and pointers.resolution is not None:
        fetching = pointers.fetching
        return ItemDomain(
            host=host, verified=listing.is_confirmed_by_domain,
            checked_at=timestamp_of_milliseconds(fetching.last_at if fetching else None),
            last_failure=_failure(fetching.reason, fetching.last_at) if fetching else None,
        )  # fmt: skip
    badge = listing.badge if listing.badge is not None and listing.badge.host == host else None
    return ItemDomain(
        host=host, verified=listing.verified,
        checked_at=timestamp_of_milliseconds(badge.verdict.checked_at if badge else None),
        by=badge.by if badge is not None and listing.verified else None,
        last_failure=_failure(badge.verdict.reason, badge.tried_at) if badge is not None else None,
    )  # fmt: skip


def _failure(reason: str, milliseconds: int | None) -> DomainFailure | None:
    failed_at = timestamp_of_milliseconds(milliseconds)
    return DomainFailure(failed_at=failed_at, reason=reason) if reason and failed_at else None


def _anchors(listing: Listing) -> tuple[ItemAnchor, ...]:
    """The pointers to a listing, oldest first, with whether each is met (laws 9 and 10)."""
    resolution = listing.pointers.resolution if listing.pointers else None
    return tuple(
        ItemAnchor(
            chain=anchor.chain, txid=anchor.txid[::-1].hex(), height=anchor.height, met=met,
            outpoint=str(anchor.outpoint) if anchor.outpoint else None, time=timestamp(anchor.time),
            hash=anchor.digest.hex() if anchor.digest is not None else None,
        )
        for anchor, met in (from_pointer.shown_anchors(resolution) if resolution else ())
    )  # fmt: skip


def _of_card(card: Shown, more_warnings: tuple[Reason, ...] = ()) -> dict[str, Any]:
    """The members of `StoredItem` that come from the card alone."""
    skills = tuple(
        ItemSkill(id=skill.id, name=skill.name, description=skill.description, tags=skill.tags, examples=skill.examples)
        for skill in card.skills
    )
    members = {
        "name": card.name,
        "description": card.description,
        "summary": summary(card.description),
        "logo": card.logo,
        "version": card.version,
        "url": card.url,
        "provider": card.provider or None,
        "skills": skills,
        "tags": card.tags,
        "offers": tuple(map(item_offer, card.offers)),
        "warnings": tuple(map(card_warning, card.warnings + more_warnings)),
    }
    if isinstance(card, McpServer):
        return members | _of_server(card)
    # with the members of servers, which the existing client reads of every item
    empty = {"command": "", "args": (), "env": {}, "tools": (), "prompts": (), "resources": ()}
    more = {"protocol": card.protocol, "documentation_url": card.documentation_url}
    return members | more | {"server_name": card.name, "keywords": card.tags} | empty


def _of_server(card: McpServer) -> dict[str, Any]:
    stated: dict[str, Any] = {"transport": card.transport} if card.transport else {}
    stated |= {"headers": tuple(card.headers)} if card.headers else {}
    return stated | {
        "server_name": card.key,
        "command": card.command,
        "args": card.args,
        "env": card.env,
        "keywords": card.keywords,
        "tools": card.tools,
        "prompts": card.prompts,
        "resources": card.resources,
    }


def card_fields(card: Shown, more_warnings: tuple[Reason, ...] = ()) -> dict[str, Any]:
    """The members of an item that come from the card alone, as JSON values; also the preview of an unpublished card."""
    members: dict[str, Any] = as_json({_NAMES[name]: value for name, value in _of_card(card, more_warnings).items()})
    return members


def item_offer(offer: Offer) -> ItemOffer:
    """One price entry; an empty `skill_ids` means all skills. `per_day` is the amount for one day, None for a price per
    call."""
    return ItemOffer(
        id=offer.id, name=offer.name, currency=offer.currency, amount=Amount(offer.amount), interval=offer.interval,
        per_day=_amount(per_day(offer.amount, offer.interval_key)), accepted_currencies=offer.accepted,
        skill_ids=tuple(offer.skill_ids or ()), address=offer.address, deposit_pct=_amount(offer.deposit_pct),
        price_feed_url=offer.price_feed_url, slippage_pct=_amount(offer.slippage_pct), description=offer.description,
    )  # fmt: skip


def offer_json(offer: Offer) -> dict[str, Any]:
    """One price entry as a JSON value."""
    entry: dict[str, Any] = as_json(item_offer(offer))
    return entry


def cheapest_json(offers: Sequence[Offer]) -> dict[str, Any] | None:
    """The cheapest of all offers that can be compared (law 14, with no filter)."""
    least = offer_filter.cheapest((PriceEntry(frozenset(), offer) for offer in offers), OfferFilter())
    if least is None:
        return None
    offer = least.offer
    cheapest: dict[str, Any] = as_json(CheapestOffer(
        offer_id=offer.id, amount=Amount(offer.amount), currency=offer.currency, interval=offer.interval_key,
        per_day=_amount(per_day(offer.amount, offer.interval_key)), others=least.others,
    ))  # fmt: skip
    return cheapest


def _amount(value: Decimal | None) -> Amount | None:
    return None if value is None else Amount(value)


def card_warning(reason: Reason) -> CardWarning:
    """A warning of a card."""
    return CardWarning(
        code=reason.code, severity=severity(reason.code), pointer=reason.pointer, detail=reason.explanation
    )


def warning_json(reason: Reason) -> dict[str, str]:
    """The warning of a reason, as a JSON value."""
    warning: dict[str, str] = as_json(card_warning(reason))
    return warning
