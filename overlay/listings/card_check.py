"""Check a card, an MCP config or a price list before it is published."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from overlay.listings.item_json import card_fields, cheapest_json, offer_json, warning_json
from overlay.listings.listing import Shown
from parsers import cards
from parsers.cards import Kind, ToolConfig, strict_json
from parsers.cards.fields import Fields
from parsers.cards.mcp_config import is_payment
from parsers.cards.offers import LEFT_OUT, PRICE_KEYS, Offer, price_lists, read_offers
from parsers.cards.strict_json import step
from parsers.errors import CardError
from parsers.reasons import Reason

_OF_A_CARD = frozenset({"skills", "url", "supportedInterfaces", "mcpServers"})
_PRICES = re.compile(r"(?<!\A/mcpServers)/x-payment(-config)?(/[0-9]+)?\Z")
"""The pointer of a price or of prices, which is not that of a server of this name."""


def _compared_with_nothing(_: Shown) -> Sequence[Reason]:
    return ()


def check(
    body: bytes, kind: str | None = None, earlier: Callable[[Shown], Sequence[Reason]] = _compared_with_nothing
) -> dict[str, Any]:
    """The answer to a check: `{ok, errors, warnings, preview}`; `preview` is null when there is nothing to show.

    A price that readers leave out is an error, also of a card that is valid without it. `kind` is agent, tool or
    prices; with None the shape of the JSON decides. `earlier` are the warnings of a listing by what other listings
    have. Raises only what that raises.
    """
    if kind == "prices" or kind is None:
        try:
            value, repeated = strict_json.loads(body)
        except CardError as error:
            return _answer(error.reasons, (), None)
        if kind == "prices" or _is_price_list(value):
            return _prices(value, repeated, len(body))
    examined = cards.examine(body, None if kind is None else Kind(kind))
    left_out = tuple(filter(_leaves_out_a_price, examined.warnings))
    warnings = tuple(reason for reason in examined.warnings if reason not in left_out)
    preview, of_others = _preview(examined.card, body, earlier) if examined.card else (None, [])
    return _answer((*examined.errors, *left_out), (*warnings, *of_others), preview)


def _leaves_out_a_price(reason: Reason) -> bool:
    is_price = _PRICES.search(reason.pointer) is not None
    return _leaves_out(reason) or (reason.code == "wrong-type" and is_price)


def _leaves_out(reason: Reason) -> bool:
    """Whether a price is left out because of a member. One in a currency that is not a ticker is not indexed."""
    return reason.code in LEFT_OUT or (reason.code == "not-indexed" and reason.pointer.endswith("/currency"))


def _is_price_list(value: Any) -> bool:
    """Whether a value is a list, one price, or an object with prices and no other member of a card."""
    if isinstance(value, dict):
        has_prices = "name" not in value and any(key in value for key in PRICE_KEYS) and not is_payment(value)
        return (has_prices or {"amount", "currency"} <= value.keys()) and not _OF_A_CARD & value.keys()
    return isinstance(value, list)


def _prices(value: Any, repeated: tuple[Reason, ...], size: int) -> dict[str, Any]:
    """The answer for a price list. An offer that a card would omit with a warning is an error here; skill ids are not
    checked, as there is no list of skills."""
    prefix = ""
    if not (isinstance(value, dict) and any(key in value for key in PRICE_KEYS)):
        prefix = f"/{PRICE_KEYS[0]}" if isinstance(value, list) else f"/{PRICE_KEYS[0]}/0"
        value = {PRICE_KEYS[0]: value if isinstance(value, list) else [value]}
    fields = Fields(size, repeated)
    offers = read_offers(value, fields, frozenset())
    reasons = [
        reason._replace(pointer=reason.pointer.removeprefix(prefix))
        for reason in fields.finish()
        if reason.code != "offer-skill"
    ]
    errors = tuple(reason for reason in reasons if _leaves_out(reason) or reason.code == "wrong-type")
    if not offers and not errors:
        errors = (Reason("missing", "a price"),)
    warnings = tuple(reason for reason in reasons if reason not in errors)
    unpayable = (reason._replace(pointer=reason.pointer.removeprefix(prefix)) for reason in _unpayable(offers, value))
    warnings = (*warnings, *unpayable)
    shown = {"type": "prices", "offers": [offer_json(offer) for offer in offers], "cheapest": cheapest_json(offers)}
    return _answer(errors, warnings, None if errors else shown)


def _unpayable(offers: Sequence[Offer], value: Any, key: str | None = None) -> list[Reason]:
    """Warnings of prices that nobody can pay, in a card, or in the entry of a config with this key, where that has its
    own."""
    servers = value.get("mcpServers")
    entry = servers.get(key) if isinstance(servers, dict) else None
    lists = [
        *(price_lists(entry, step("/mcpServers", key or "")) if isinstance(entry, dict) else ()),
        *price_lists(value, ""),
    ]
    pointer, prices = lists[0] if lists else ("", None)
    return [
        Reason("unpayable", offer.address or "there is none", pointer + f"/{offer.number}" * isinstance(prices, list))
        for offer in offers
        if not offer.is_payable
    ]


def _preview(
    card: cards.Card, body: bytes, earlier: Callable[[Shown], Sequence[Reason]]
) -> tuple[dict[str, Any], list[Reason]]:
    """The result card, with the members that the item would have, and its warnings: by comparison with other listings,
    and of prices that nobody can pay."""
    listed: list[Shown] = list(card.servers) if isinstance(card, ToolConfig) else [card]
    value = strict_json.loads(body)[0]
    of_others = [
        [*earlier(server), *_unpayable(server.offers, value, getattr(server, "key", None))] for server in listed
    ]
    shown = [
        {"type": card.kind.value, **card_fields(card, tuple(reasons)), "cheapest": cheapest_json(card.offers)}
        for card, reasons in zip(listed, of_others, strict=True)
    ]
    preview = {"type": "tool", "servers": shown} if len(shown) > 1 else shown[0]
    return preview, list(dict.fromkeys(reason for reasons in of_others for reason in reasons))


def _answer(errors: tuple[Reason, ...], warnings: tuple[Reason, ...], preview: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "ok": not errors,
        "errors": [{"code": error.code, "pointer": error.pointer, "detail": error.explanation} for error in errors],
        "warnings": [warning_json(reason) for reason in warnings],
        "preview": preview,
    }
