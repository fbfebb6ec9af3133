"""Listings as they are shown: one registration and one card in, an item of the house API or a `Document` out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from indexer.facts import State, Status
from indexer.pointers import Integrity
from overlay import pointed
from overlay.compact import encode
from overlay.document import Document
from overlay.ports import Listing, Pending
from overlay.texts import more
from parsers import cards
from parsers.cards import AgentCard, Card, Kind, Server, Skill, ToolConfig, server_id, summary
from parsers.hosts import url_host
from parsers.intervals import per_day
from parsers.money import plain
from parsers.offers import Offer
from parsers.price_changes import price_changes
from parsers.reasons import Reason

if TYPE_CHECKING:
    from indexer.pointing import Pointing
    from indexer.store.badges import Badge

Shown = AgentCard | Server


class CardChange(NamedTuple):
    """How the current card differs from one that was shown until height `replaced_at`."""

    replaced_at: int
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One listing to show: a registration's state, the card or server shown, and what hangs from them.

    `chain` is the configured name, `caip2` its CAIP-2 id; times are block times in seconds since 1970. `confirmed` is
    false for a newcomer from the mempool, whose heights mean nothing. `count` is the number of servers that the card
    holds: several are listed each under `<id>#<key>` (law 6). `warnings` are those of the config around a server.
    `pointing` is what points at the card where it was fetched, `badge` what the host of an inscribed card says of it.
    `changes` are the differences of prices and addresses to the cards shown before, oldest first.
    """

    state: State
    card: Shown
    chain: str
    caip2: str
    updated_time: int | None
    created_time: int | None
    confirmed: bool = True
    undecided: Reason | None = None
    count: int = 1
    warnings: tuple[Reason, ...] = ()
    signer: str | None = None
    pending: Pending | None = None
    owner_checked: int | None = None
    pointing: Pointing | None = None
    badge: Badge | None = None
    changes: tuple[CardChange, ...] = ()
    headers_unproved: bool = False

    @property
    def id(self) -> str:
        """The listing's id (laws 3 and 6)."""
        return server_id(self.state.id, self.card.key, self.count) if isinstance(self.card, Server) else self.state.id

    @property
    def status(self) -> str:
        """live, pending (an unconfirmed newcomer), burned or undecided."""
        if self.state.status is Status.BURNED:
            return "burned"
        if self.undecided or self.state.status is Status.UNDECIDED:
            return "undecided"
        return "live" if self.confirmed else "pending"

    @property
    def host(self) -> str:
        """The domain that it is of: the one pointed at, else that of its url."""
        standing = self.pointing.standing if self.pointing else None
        return (pointed.host(standing.anchor.locator or "") if standing else "") or url_host(self.card.url)

    @property
    def integrity(self) -> Integrity:
        """What the card was held to."""
        standing = self.pointing.standing if self.pointing else None
        return standing.integrity if standing else Integrity.INSCRIBED

    @property
    def verified(self) -> bool:
        """Whether its hash is met, or its domain speaks for it."""
        return self.integrity in (Integrity.HASH_VERIFIED, Integrity.DRIFTED) or self._has_badge

    @property
    def speaks(self) -> bool:
        """Whether the domain that it is of speaks for it (laws 10 and 11)."""
        standing = self.pointing.standing if self.pointing else None
        if standing is None:
            return bool(self.host) and self.verified
        return bool(pointed.host(standing.anchor.locator or "")) and standing.integrity is Integrity.HASH_VERIFIED

    @property
    def all_warnings(self) -> tuple[Reason, ...]:
        """Those of the config around a server, why it is undecided, and what is wrong with the chain's headers and with
        where the card was fetched."""
        standing = self.pointing.standing if self.pointing else None
        reasons = [*self.warnings]
        if self.undecided and self.status == "undecided":
            reasons.append(self.undecided)
        if self.headers_unproved:
            reasons.append(Reason("headers-unproved"))
        if standing is not None and standing.drift is not None:
            reasons.append(Reason("drifted", milliseconds(standing.drift.since) or ""))
        return tuple(reasons)

    @property
    def _has_badge(self) -> bool:
        return self.badge is not None and self.badge.holds(self.host, self.state.card)


def subjects(listing: Listing, card: Card) -> tuple[Subject, ...]:
    """What a registration lists: its agent, or each of its servers."""
    shown: Sequence[Shown] = card.servers if isinstance(card, ToolConfig) else (card,)
    return tuple(
        Subject(
            state=listing.state,
            card=each,
            chain=listing.chain,
            caip2=listing.caip2,
            updated_time=listing.updated_time,
            created_time=listing.created_time,
            confirmed=listing.created_time is not None,
            undecided=listing.undecided,
            count=len(shown),
            warnings=card.warnings if isinstance(card, ToolConfig) else (),
            signer=listing.signer,
            pending=_pending(listing.pending, each) if listing.pending else None,
            owner_checked=listing.owner_checked,
            pointing=listing.pointing,
            badge=listing.badge,
            changes=_changes(listing, each),
            headers_unproved=listing.headers_unproved,
        )
        for each in shown
    )


def _changes(listing: Listing, shown: Shown) -> tuple[CardChange, ...]:
    """What differs from each card shown before, oldest first, the later of equal neighbours; () when nothing does."""
    key = shown.key if isinstance(shown, Server) else ""
    changes: list[CardChange] = []
    for card in listing.previous:
        note = "; the owner has changed, too" if card.owner != listing.state.owner else ""
        reasons = price_changes(_offers(card.body, listing.state.kind).get(key, ()), shown.offers, note)
        if changes and changes[-1].reasons == reasons:
            changes.pop()
        changes.append(CardChange(card.replaced_at, reasons))
    return tuple(changes) if any(change.reasons for change in changes) else ()


@lru_cache(maxsize=256)  # the servers of one config, and the revisions of one registration, ask for the same
def _offers(body: bytes, kind: Kind) -> dict[str, tuple[Offer, ...]]:
    """The offers of a card, of a config by server."""
    card = cards.examine(body, kind).card
    if isinstance(card, ToolConfig):
        return {server.key: server.offers for server in card.servers}
    return {"": card.offers} if card is not None else {}


def _pending(pending: Pending, shown: Shown) -> Pending:
    """What an unconfirmed revision would change of the one that is shown: a server may be gone from its config."""
    if isinstance(shown, Server) and pending.servers:
        return Pending(outpoint=pending.outpoint, summary=pending.servers.get(shown.key, ""))
    return pending


def item(subject: Subject) -> dict[str, Any]:
    """CONTRACT's Item without the members that depend on a query (score, cheapest, highlights)."""
    return standing(subject) | {"id": subject.id} | shown(subject.card, subject.all_warnings)


def whole(subjects: Sequence[Subject]) -> dict[str, Any]:
    """What a registration answers under its plain id: its item with the cheapest offer, or, when its config holds
    several servers, where it stands and their ids (law 6)."""
    first = subjects[0]
    if len(subjects) == 1:
        return item(first) | {"cheapest": cheapest(first.card.offers)}
    warnings = [warning(each) for each in first.all_warnings]
    return standing(first) | {"servers": [subject.id for subject in subjects], "warnings": warnings}


def standing(subject: Subject) -> dict[str, Any]:
    """The members of an item that the chain decides; `id` is the registration's."""
    state = subject.state
    height = state.updated_height if subject.confirmed else None
    members: dict[str, Any] = {
        "id": state.id,
        "type": state.kind.value,
        "status": subject.status,
        "domain": domain(subject),
        "rating": None,
        "chain": subject.chain,
        "caip2": subject.caip2,
        "outpoint": str(state.outpoint) if state.outpoint else None,
        "origin": state.id if subject.pointing is None else None,
        "owner": state.owner,
        "txid": state.winner.txid[::-1].hex(),
        "app": state.map.get("app", ""),
        "cardSha256": state.card.hex(),
        "integrity": subject.integrity.value,
        "anchors": anchors(subject),
        "updatedHeight": height,
        "createdHeight": state.created_height if subject.confirmed else None,
        "timestamp": timestamp(subject.updated_time),
    }
    if height is not None:
        members["blockHeight"] = height
    if subject.changes:
        members["recentChanges"] = [
            {"replacedAt": change.replaced_at, "warnings": [warning(reason) for reason in change.reasons]}
            for change in subject.changes
        ]
    if subject.signer is not None:
        members["signer"] = subject.signer
    if subject.owner_checked is not None:
        members["ownerCheckedAt"] = timestamp(subject.owner_checked)
    if subject.pending is not None:
        members["pending"] = {"outpoint": subject.pending.outpoint, "summary": subject.pending.summary}
    return members | _fetched(subject)


def domain(subject: Subject) -> dict[str, Any] | None:
    """The domain that a listing is of, whether that speaks for it (laws 10 and 11), and when it was last asked."""
    host, standing = subject.host, subject.pointing.standing if subject.pointing else None
    if not host:
        return None
    if standing is not None:
        known = subject.pointing.fetching if subject.pointing else None
        checked_at = known.last_at if known else None
        return {"host": host, "verified": subject.speaks, "checkedAt": milliseconds(checked_at)}
    badge = subject.badge if subject.badge is not None and subject.badge.host == host else None
    told = {"host": host, "verified": subject.verified, "checkedAt": milliseconds(badge.checked_at if badge else None)}
    return told | {"by": badge.by} if badge is not None and subject.verified else told


def anchors(subject: Subject) -> list[dict[str, Any]]:
    """The pointers to a listing, the oldest first, and of each whether it is met (laws 9 and 10)."""
    standing = subject.pointing.standing if subject.pointing else None
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
        for anchor, met in (pointed.shown_anchors(standing) if standing else ())
    ]


def _fetched(subject: Subject) -> dict[str, Any]:
    """What only listings of fetched cards have: how many pointers, where from, and what is served there by now."""
    found = subject.pointing
    if found is None or found.standing is None:
        return {}
    members: dict[str, Any] = {"anchorCount": found.total, "fetchedFrom": found.standing.fact.url or None}
    if (drift := found.standing.drift) is not None:
        members["drift"] = {"cardSha256": drift.sha256.hex(), "since": milliseconds(drift.since)}
    return members


def shown(card: Shown, more_warnings: tuple[Reason, ...] = ()) -> dict[str, Any]:
    """The members of an item that the card alone decides: also the preview of a card that is not published yet."""
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
        "offers": [offer(each) for each in card.offers],
        "warnings": [warning(each) for each in card.warnings + more_warnings],
    }
    if isinstance(card, AgentCard):
        return (
            members | {"protocol": card.protocol, "documentationUrl": card.documentation_url} | _agent_as_server(card)
        )
    return members | _server(card)


def _agent_as_server(card: AgentCard) -> dict[str, Any]:
    """What the existing client reads of every item, for an agent, which is not started by a command."""
    empty = {"command": "", "args": [], "env": {}, "tools": [], "prompts": [], "resources": []}
    return {"serverName": card.name, "keywords": list(card.tags)} | empty


def _server(card: Server) -> dict[str, Any]:
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


def offer(each: Offer) -> dict[str, Any]:
    """One price entry; amounts and percentages are decimal strings, an empty `skillIds` means all skills. `perDay` is
    what the amount comes to for one day, None per call."""
    return {
        "id": each.id,
        "name": each.name,
        "currency": each.currency,
        "amount": plain(each.amount),
        "interval": each.interval,
        "perDay": _plain(per_day(each.amount, each.interval_key)),
        "acceptedCurrencies": list(each.accepted),
        "skillIds": list(each.skill_ids or ()),
        "address": each.address,
        "depositPct": _plain(each.deposit_pct),
        "priceFeedUrl": each.price_feed_url,
        "slippagePct": _plain(each.slippage_pct),
        "description": each.description,
    }


def cheapest(offers: Sequence[Offer]) -> dict[str, str | None] | None:
    """The lowest amount in the anchor currency of the first offer, ties in card order (law 14, with no filter)."""
    if not offers:
        return None
    least = min((each for each in offers if each.currency == offers[0].currency), key=lambda each: each.amount)
    return {
        "offerId": least.id,
        "amount": plain(least.amount),
        "currency": least.currency,
        "interval": least.interval_key,
        "perDay": _plain(per_day(least.amount, least.interval_key)),
    }


def _plain(value: Decimal | None) -> str | None:
    return None if value is None else plain(value)


def warning(reason: Reason) -> dict[str, str]:
    """A warning or an error of a card: its code, where it stands (RFC 6901) and the sentence for people."""
    return {"code": reason.code, "pointer": reason.pointer, "detail": reason.explanation}


def milliseconds(since: int | None) -> str | None:
    """Milliseconds since 1970 as ISO 8601 in UTC, to the second; None also for 0, which is never."""
    return timestamp(since // 1000) if since else None


def timestamp(seconds: int | None) -> str | None:
    """A block time as ISO 8601 in UTC, to the second: `2025-04-20T12:00:00Z`."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def document(subject: Subject, until_height: int | None = None) -> Document:
    """The subject as an engine is given it, standing from its updated height until before `until_height`."""
    state, card = subject.state, subject.card
    confirmed = subject.confirmed
    # what the heights of a chain had to say does not hold fetched cards (law 18)
    stands = confirmed and subject.pointing is None
    return Document(
        id=subject.id,
        registration=state.id,
        kind=card.kind.value,
        status=subject.status,
        chain=subject.chain,
        caip2=subject.caip2,
        owner=state.owner or "",
        domain=subject.host,
        verified=subject.verified,
        also_on=tuple(_other_chains(subject)),
        from_height=state.updated_height if stands else None,
        until_height=until_height,
        updated_height=state.updated_height if confirmed else None,
        updated_time=subject.updated_time,
        created_height=state.created_height if confirmed else None,
        created_time=subject.created_time,
        name=card.name,
        description=card.description,
        tags=card.tags,
        skills=card.skills,
        words=tuple(more(card)),
        offers=card.offers,
        signed=subject.signer is not None,
        item=encode(item(subject)),
    )


def _other_chains(subject: Subject) -> Iterable[str]:
    """The chains on which it is pointed at too, by anchors that are met."""
    standing = subject.pointing.standing if subject.pointing else None
    if standing is not None:
        on = {anchor.chain for anchor, met in zip(standing.anchors, standing.met, strict=True) if met}
        yield from sorted(on - {subject.chain})
