"""The cards that this server hides by law, as its operator publishes them: signed statements by SHA-256."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from indexer.store.hidden import HideDecision, HideReason
from overlay.text.timestamps import timestamp
from parsers.claims.canonical_json import base64url_text, jcs

if TYPE_CHECKING:
    from overlay.api.identity_key import IdentityKey
    from overlay.listings.repository import ListingRepository

WITHHELD = (HideReason.PERSONAL_DATA, HideReason.ILLEGAL_CONTENT)
"""Reasons for which not even the hash of a card is published."""

MOST = 10_000
"""Entries of the list: the newest decisions."""


def hidden_list(repository: ListingRepository, identity: IdentityKey | None) -> dict[str, Any]:
    """The list (schema `Hidden`): its entries by the hash of their card, and the key that signed them, null where this
    server has none."""
    entries: dict[str, dict[str, Any]] = {}
    for decision, card in repository.hidden_cards(WITHHELD):
        entries.setdefault(card.hex(), _entry(decision, card))
        if len(entries) == MOST:
            break
    shown = [_signed(entries[digest], identity) for digest in sorted(entries)]
    return {"publicKey": base64url_text(identity.ed25519_public) if identity else None, "entries": shown}


def _entry(decision: HideDecision, card: bytes) -> dict[str, Any]:
    entry: dict[str, Any] = {"cardSha256": card.hex(), "reason": decision.reason.value}
    entry |= {"law": decision.law} if decision.law else {}
    entry["since"] = timestamp(decision.since)
    return entry | ({} if decision.until is None else {"until": timestamp(decision.until)})


def _signed(entry: dict[str, Any], identity: IdentityKey | None) -> dict[str, Any]:
    return entry if identity is None else entry | {"signature": base64url_text(identity.sign_ed25519(jcs(entry)))}
