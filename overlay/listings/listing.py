"""Listings: a registration with its card, or with one server of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from indexer.check_verdict import CheckedState
from indexer.model import Status
from indexer.resolution.pointer_resolution import Integrity
from overlay.listings import from_pointer
from overlay.listings.card_texts import card_offers, more
from overlay.listings.records import Registration
from overlay.listings.system_facts import ListingHealth
from overlay.text.timestamps import timestamp, timestamp_of_milliseconds
from parsers.cards import AgentCard, Card, McpServer, ToolConfig, server_id
from parsers.cards.deprecation import Deprecation, from_map, states_status
from parsers.cards.price_changes import price_changes
from parsers.cards.secrets import secret_in
from parsers.cards.usage import Usage, is_runnable, usage_of
from parsers.pointers.locator import url_host
from parsers.reasons import HIGH, Reason, severity

if TYPE_CHECKING:
    from indexer.store.observed_tools import ObservedTools
    from overlay.search.forward import Analysed

Shown = AgentCard | McpServer

_UNVERIFIED = {
    "malformed-signature": "it is not a JWS by an algorithm that is verified (ES256, ES384, RS256, EdDSA)",
    "key-set-elsewhere": "its key set (jku) is neither on the card's host nor on a domain above it",
    "unknown-key": "the key set does not have the key",
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
        """False for a registration in the mempool, as its heights mean nothing."""
        return self.created_time is not None

    @property
    def id(self) -> str:
        """The listing's id (laws 3 and 6)."""
        return (
            server_id(self.state.id, self.card.key, self.count) if isinstance(self.card, McpServer) else self.state.id
        )

    @cached_property
    def more_texts(self) -> tuple[str, ...]:
        """Its texts other than name, description, tags and skills."""
        return tuple(more(self.card))

    @cached_property
    def analysed(self) -> Analysed:
        """The analysed texts of its card, for search and duplicate detection."""
        from overlay.search.forward import Analysed  # with numpy, which a check of a card does not need

        return Analysed.read(self.card, self.more_texts)

    @property
    def observed_tools(self) -> ObservedTools | None:
        """The tools that its URL lists; None where nobody looked."""
        return self.observed.get(self.card.url)

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
        if self.integrity in (Integrity.HASH_VERIFIED, Integrity.DRIFTED):
            return True
        return self.badge is not None and self.badge.holds(self.host, self.state.card)

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
        card and its signature, the tools of its endpoint, and those of systems."""
        resolution = self.pointers.resolution if self.pointers else None
        reasons = [*self.warnings]
        if self.undecided and self.status == "undecided":
            reasons.append(self.undecided)
        if self.headers_unproved:
            reasons.append(Reason("headers-unproved"))
        if resolution is not None and secret_in(resolution.anchor.locator or ""):
            reasons.append(Reason("secret", "the URI of its pointer"))
        if resolution is not None and resolution.drift is not None:
            reasons.append(Reason("drifted", timestamp_of_milliseconds(resolution.drift.since) or ""))
        if self.signature is not None and self.signature.verdict.state is CheckedState.REFUSED:
            code = self.signature.verdict.reason
            reasons.append(Reason("card-signature", _UNVERIFIED.get(code, code)))
        if (tools := self.observed_tools) is not None:
            reasons += [Reason("tools-changed", tools.changes.words)] if any(tools.changes) else []
            reasons += tools.findings
        for source, value in self.facts.values():
            reasons += source.warnings(self, value)
        return tuple(reasons)

    @property
    def deprecation(self) -> Deprecation | None:
        """Its owner's notice that it is deprecated: of its MAP where that states a status, else of its card."""
        return notice_of(self.state.map, self.card)

    @property
    def deprecated_since(self) -> str | None:
        """When its owner said so: the block of the MAP, else that of the card or of the pointer with its hash, else the
        first fetch of the card. None while that is unconfirmed."""
        if states_status(self.state.map):
            return timestamp(self.notice_time)
        resolution = self.pointers.resolution if self.pointers else None
        if resolution is not None and resolution.integrity is Integrity.UNHASHED:
            return timestamp_of_milliseconds(resolution.fact.first_at)
        return timestamp(self.updated_time)

    @property
    def is_deprecated(self) -> bool:
        """Whether its owner says that it is."""
        return self.deprecation is not None

    @property
    def is_for_sale(self) -> bool:
        """Whether its output offers it for sale."""
        return self.sale is not None

    @property
    def is_flagged(self) -> bool:
        """Whether a warning of it is of high severity."""
        return any(severity(reason.code) == HIGH for reason in (*self.card.warnings, *self.all_warnings))

    @cached_property
    def usage(self) -> Usage:
        """How it is used, by its card alone."""
        return usage_of(self.card, self.warnings)

    @property
    def is_runnable(self) -> bool:
        """Whether it can be used as it is: by a command, or at a URL that leads others there, too."""
        return is_runnable(self.card.command if isinstance(self.card, McpServer) else "", self.card.url)

    @cached_property
    def health(self) -> ListingHealth | None:
        """Whether it answers; None where nobody looked."""
        stated = (source.health(self, value) for source, value in self.facts.values())
        return next((health for health in stated if health is not None), None)

    @property
    def is_reachable(self) -> bool:
        """Whether it answered when it was visited last, not long ago."""
        return self.health is not None and self.health.is_reachable

    @property
    def fresh_members(self) -> dict[str, Any]:
        """The members of its item that systems bring and no change announces."""
        members: dict[str, Any] = {}
        for source, value in self.facts.values():
            members |= source.fresh(self, value)
        return members

    @property
    def members_of_systems(self) -> dict[str, Any]:
        """The members of its item that systems bring."""
        members: dict[str, Any] = {}
        for source, value in self.facts.values():
            members |= source.members(self, value)
        return members


def notice_of(fields: Mapping[str, str], card: Shown | None) -> Deprecation | None:
    """The notice of a MAP where that states a status, else of the card beside it."""
    if states_status(fields):
        return from_map(fields)
    return card.deprecated if card else None


def listings_of(registration: Registration, card: Card) -> tuple[Listing, ...]:
    """The listings of a registration: its agent, or each of its servers."""
    shown: Sequence[Shown] = card.servers if isinstance(card, ToolConfig) else (card,)
    members = {name: getattr(registration, name) for name in Registration.__slots__}
    return tuple(
        Listing(
            **members,
            card=shown_card,
            count=len(shown),
            warnings=card.warnings if isinstance(card, ToolConfig) else (),
            changes=_changes(registration, shown_card),
        )
        for shown_card in shown
    )


def _changes(registration: Registration, shown: Shown) -> tuple[CardChange, ...]:
    """The differences to each earlier card, oldest first; of equal neighbours the later one; () without any."""
    key = shown.key if isinstance(shown, McpServer) else ""
    changes: list[CardChange] = []
    for card in registration.previous:
        note = "; the owner has changed, too" if card.owner != registration.owner else ""
        reasons = price_changes(card_offers(card.body, registration.state.kind).get(key, ()), shown.offers, note)
        if changes and changes[-1].reasons == reasons:
            changes.pop()
        changes.append(CardChange(card.replaced_at, reasons))
    return tuple(changes) if any(change.reasons for change in changes) else ()
