"""Signatures of A2A cards: detached JWS (RFC 7515) over a canonical form of the card (A2A §8.4).

The signer chooses the header, and in it the key set (`jku`): which key sets to trust is the caller's decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from parsers.cards import strict_json
from parsers.cards.offers import price_lists
from parsers.claims.canonical_json import base64url_text
from parsers.claims.card_forms import CardForm, canonical_forms
from parsers.claims.json_web_key import ALGORITHMS, Key, base64url, may_verify, verifies
from parsers.errors import ParseError

SIGNATURES = b'"signatures"'
"""The bytes that every card with signatures contains."""

MAX_SIGNATURES = 4
MAX_CANDIDATES = 4
"""Keys tried for a signature without a key in its header."""

_MAX_PROTECTED, _MAX_SIGNATURE = 8_192, 2_048


class CardSignature(NamedTuple):
    """One signature of a card: its protected header as sent (base64url), the members of it that count ("" for absent
    ones), and the signature's bytes."""

    protected: str
    algorithm: str
    kid: str
    jku: str
    signature: bytes


class SignatureCheck(NamedTuple):
    """The result of checking a card's signature by some keys. `code` says why none is valid: unsigned,
    malformed-signature, unknown-key or bad-signature. Else `kid` names the key, `form` the canonical form, and
    `covers_pricing` whether the card has prices that are signed, too."""

    verified: bool
    code: str = ""
    algorithm: str = ""
    kid: str = ""
    form: str = ""
    covers_pricing: bool = False


def signed_card(body: bytes) -> dict[str, Any] | None:
    """The JSON object of a card that has signatures, else None."""
    if SIGNATURES not in body:
        return None
    try:
        card = strict_json.answer(body)
    except ParseError:
        return None
    return card if isinstance(card, dict) and card.get("signatures") else None


def signatures(card: dict[str, Any]) -> tuple[CardSignature, ...]:
    """The well-formed signatures among a card's first four, as far as their algorithm is verified."""
    listed = card.get("signatures")
    entries = listed[:MAX_SIGNATURES] if isinstance(listed, list) else []
    return tuple(read for entry in entries if (read := _signature(entry)) is not None)


def _signature(entry: Any) -> CardSignature | None:
    if not isinstance(entry, dict):
        return None
    protected, signature = entry.get("protected"), entry.get("signature")
    if not isinstance(protected, str) or not isinstance(signature, str):
        return None
    if len(protected) > _MAX_PROTECTED or len(signature) > _MAX_SIGNATURE:
        return None
    try:
        header, signed = strict_json.answer(base64url(protected)), base64url(signature)
    except (ValueError, ParseError):
        return None
    # an extension in `crit` would have to be understood (RFC 7515 §4.1.11), `b64` among them
    if not isinstance(header, dict) or "crit" in header or header.get("alg") not in ALGORITHMS:
        return None
    kid, jku = header.get("kid") or "", header.get("jku") or ""
    if not isinstance(kid, str) or not isinstance(jku, str):
        return None
    return CardSignature(protected, header["alg"], kid, jku, signed)


def verify(card: dict[str, Any], keys: Sequence[Key]) -> SignatureCheck:
    """Check the signatures of a card by these keys: one that verifies is enough."""
    if not card.get("signatures"):
        return SignatureCheck(verified=False, code="unsigned")
    signed = signatures(card)
    if not signed:
        return SignatureCheck(verified=False, code="malformed-signature")
    chosen = [(signature, key) for signature in signed for key in _keys_for(signature, keys)]
    if not chosen:
        return SignatureCheck(verified=False, code="unknown-key")
    for form in canonical_forms(card):
        payload = base64url_text(form.payload)
        for signature, key in chosen:
            signed_bytes = f"{signature.protected}.{payload}".encode()
            if verifies(key, signature.algorithm, signature.signature, signed_bytes):
                covers = _covers_pricing(card, form)
                return SignatureCheck(
                    True, "", signature.algorithm, signature.kid or str(key.get("kid", "")), form.name, covers
                )
    return SignatureCheck(verified=False, code="bad-signature")


def _keys_for(signature: CardSignature, keys: Iterable[Key]) -> list[Key]:
    """The keys that a header may mean: those with its key id, or, where it names none, the first few."""
    usable = [key for key in keys if may_verify(key, signature.algorithm)]
    named = [key for key in usable if key.get("kid") == signature.kid] if signature.kid else usable
    return named[:MAX_CANDIDATES]


def _covers_pricing(card: dict[str, Any], form: CardForm) -> bool:
    """Whether the price list that counts is in the signed bytes: one beside the members of A2A is only in forms with
    unknown members, one in the params of an extension in every form."""
    pointer = next((pointer for pointer, _ in price_lists(card, "")), None)
    return pointer is not None and (form.has_unknown or pointer.startswith("/capabilities/"))
