"""What a card, an MCP config or a price list is worth, before anybody pays to publish it."""

from __future__ import annotations

from typing import Any

from overlay.items import Shown, cheapest, offer, shown, warning
from parsers import cards, strict_json
from parsers.cards import Kind, ToolConfig
from parsers.errors import CardError
from parsers.fields import Fields
from parsers.offers import PRICE_KEYS, Offer, read_offers
from parsers.reasons import Reason

_OF_A_CARD = frozenset({"name", "skills", "url", "supportedInterfaces", "mcpServers"})
_LEAVES_OUT = frozenset({"offer-amount", "offer-currency", "offer-interval", "wrong-type"})


def check(body: bytes, kind: str | None = None) -> dict[str, Any]:
    """CONTRACT's answer to a check: `{ok, errors, warnings, preview}`; `preview` is null when there are errors.

    `kind` is agent, tool or prices; None tells it by the shape. Never raises.
    """
    if kind == "prices" or kind is None:
        try:
            value, repeated = strict_json.loads(body)
        except CardError as error:
            return _answer(error.reasons, (), None)
        if kind == "prices" or _is_price_list(value):
            return _prices(value, repeated, len(body))
    found = cards.examine(body, None if kind is None else Kind(kind))
    return _answer(found.errors, found.warnings, _preview(found.card) if found.card else None)


def _is_price_list(value: Any) -> bool:
    """A list, one price, or an object that has prices and nothing else of a card."""
    if isinstance(value, dict):
        priced = any(key in value for key in PRICE_KEYS) or {"amount", "currency"} <= value.keys()
        return priced and not _OF_A_CARD & value.keys()
    return isinstance(value, list)


def _prices(value: Any, repeated: tuple[Reason, ...], size: int) -> dict[str, Any]:
    """A price list alone. What a card would only be warned of, a price left out, is an error here; which skills there
    are cannot be known."""
    bare = not (isinstance(value, dict) and any(key in value for key in PRICE_KEYS))
    fields = Fields(size, repeated)
    offers = read_offers({PRICE_KEYS[0]: value} if bare else value, fields, frozenset())
    reasons = [_relative(reason, bare=bare) for reason in fields.finish() if reason.code != "offer-skill"]
    errors = tuple(reason for reason in reasons if reason.code in _LEAVES_OUT)
    if not offers and not errors:
        errors = (Reason("missing", "a price"),)
    warnings = tuple(reason for reason in reasons if reason.code not in _LEAVES_OUT)
    return _answer(errors, warnings, _offers(offers))


def _relative(reason: Reason, *, bare: bool) -> Reason:
    return reason._replace(pointer=reason.pointer.removeprefix(f"/{PRICE_KEYS[0]}")) if bare else reason


def _offers(offers: tuple[Offer, ...]) -> dict[str, Any]:
    return {"type": "prices", "offers": [offer(each) for each in offers], "cheapest": cheapest(offers)}


def _preview(card: cards.Card) -> dict[str, Any]:
    """The result card: what the item would say of itself."""
    if isinstance(card, ToolConfig) and len(card.servers) > 1:
        return {"type": "tool", "servers": [_one(server) for server in card.servers]}
    return _one(card.servers[0] if isinstance(card, ToolConfig) else card)


def _one(card: Shown) -> dict[str, Any]:
    return {"type": card.kind.value, **shown(card), "cheapest": cheapest(card.offers)}


def _answer(errors: tuple[Reason, ...], warnings: tuple[Reason, ...], preview: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "ok": not errors,
        "errors": [warning(reason) for reason in errors],
        "warnings": [warning(reason) for reason in warnings],
        "preview": None if errors else preview,
    }
