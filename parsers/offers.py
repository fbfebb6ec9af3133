"""Prices of a card: read from where publishers put them, exact, with warnings (law 13; A2B §4.1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from parsers import money
from parsers.fields import Fields, Json, kind_of
from parsers.intervals import interval_key
from parsers.strict_json import step

__all__ = ["PRICE_KEYS", "Offer", "interval_key", "read_offers"]

PRICE_KEYS = ("x-payment-config", "x-payment")
MAX_OFFERS = 64
MAX_CURRENCIES = 64
MAX_SKILL_IDS = 256
MAX_TICKER = 64


@dataclass(frozen=True, slots=True)
class Offer:
    """One price entry of a card.

    `amount` is in units of `currency` (the anchor). `accepted` holds the anchor and `acceptedCurrencies`, upper-case,
    in card order, without repeats. `skill_ids` is None when the entry is for all skills of the card. `interval` is as
    written (None when per call), `interval_key` its canonical form, equal for equal meaning (`none` = per call).
    `number` is its place in the card's price list.
    """

    number: int
    id: str
    name: str
    currency: str
    amount: Decimal
    interval: str | None
    interval_key: str
    accepted: tuple[str, ...]
    skill_ids: tuple[str, ...] | None
    address: str
    deposit_pct: Decimal | None
    price_feed_url: str
    slippage_pct: Decimal | None
    description: str


def read_offers(card: Json, fields: Fields, skills: frozenset[str], at: str = "") -> tuple[Offer, ...]:
    """The offers of a card or config entry at pointer `at`, whose skills, indexed or not, have the ids `skills`.

    The first place that holds a price list wins: `x-payment-config`, `x-payment`, then the extensions' params. What
    is no usable price is left out with a warning; of usable ones the first 64 are read.
    """
    places = list(_places(card, at))
    if not places:
        return ()
    pointer, first = places[0]
    if pointer.endswith("/x-payment"):
        fields.warn("tolerated", "x-payment instead of x-payment-config", pointer)
    offers = tuple(_offers(first, fields, skills, pointer))
    for other, value in places[1:]:
        if not _agree(first, value):
            fields.warn("offer-conflict", f"{pointer} counts, {other} does not", other)
    _note_repeated(offers, fields, pointer)
    return offers


def _places(card: Json, at: str) -> Iterator[tuple[str, Any]]:
    """Where prices stand, in order of precedence. An object in place of a list is one price."""
    for key in PRICE_KEYS:
        if card.get(key) is not None:
            yield step(at, key), card[key]
    capabilities = card.get("capabilities")
    extensions = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    if isinstance(extensions, list):
        for number, extension in enumerate(extensions[:MAX_OFFERS]):
            if isinstance(extension, dict):
                yield from _in_params(extension.get("params"), f"{at}/capabilities/extensions/{number}/params")


def _in_params(params: Any, pointer: str) -> Iterator[tuple[str, Any]]:
    """A price list among the params of an extension, told by its entries, as other extensions have params too."""
    if isinstance(params, dict):
        for key in (*PRICE_KEYS, "configs"):
            if _is_price_list(params.get(key)):
                yield step(pointer, key), params[key]
                return
    if _is_price_list(params):
        yield pointer, params


def _is_price_list(value: Any) -> bool:
    entries = value if isinstance(value, list) else [value]
    return any(isinstance(entry, dict) and "amount" in entry and "currency" in entry for entry in entries)


def _agree(first: Any, other: Any) -> bool:
    """Whether two lists say the same prices, however they spell them."""
    if first == other:
        return True
    silent = Fields(0)
    nothing: frozenset[str] = frozenset()
    return list(_offers(first, silent, nothing, "")) == list(_offers(other, silent, nothing, ""))


def _offers(value: Any, fields: Fields, skills: frozenset[str], pointer: str) -> Iterator[Offer]:
    entries: list[tuple[str, Any]]
    if isinstance(value, dict):
        fields.warn("tolerated", "an object instead of a list of prices", pointer)
        entries = [(pointer, value)]
    elif isinstance(value, list):
        entries = [(f"{pointer}/{number}", entry) for number, entry in enumerate(value[:MAX_OFFERS])]
        if len(value) > MAX_OFFERS:
            fields.not_indexed(f"only the first {MAX_OFFERS} of {len(value):,} prices", pointer)
    else:
        fields.wrong(value, "a list", pointer)
        return
    for number, (at, entry) in enumerate(entries):
        if not isinstance(entry, dict):
            fields.wrong(entry, "an object", at)
            continue
        offer = _offer(number, entry, fields, skills, at)
        if offer:
            yield offer


def _offer(number: int, entry: Json, fields: Fields, skills: frozenset[str], at: str) -> Offer | None:
    amount = _amount(entry, fields, at)
    currency = _ticker(entry.get("currency"))
    if not currency:
        fields.warn("offer-currency", "", f"{at}/currency")
    interval = _interval(entry, fields, at)
    if amount is None or not currency or interval is None:
        return None
    address = fields.text(entry, "address", at)
    if currency in ("BSV", "BTC") and address and not money.address_looks_valid(address):
        fields.warn("address-checksum", address, f"{at}/address")
    return Offer(
        number=number,
        id=fields.text(entry, "id", at),
        name=fields.text(entry, "name", at),
        currency=currency,
        amount=amount,
        interval=interval or None,
        interval_key=interval_key(interval),
        accepted=_accepted(entry, currency, fields, at),
        skill_ids=_skill_ids(entry, fields, skills, at),
        address=address,
        deposit_pct=_fraction(entry, "depositPct", fields, at),
        price_feed_url=fields.text(entry, "priceFeedUrl", at),
        slippage_pct=_fraction(entry, "slippagePct", fields, at),
        description=fields.text(entry, "description", at),
    )


def _amount(entry: Json, fields: Fields, at: str) -> Decimal | None:
    value = entry.get("amount")
    amount = money.amount(value)
    if amount is None:
        fields.warn("offer-amount", _shown(value), f"{at}/amount")
    elif isinstance(value, str):
        fields.warn("tolerated", "an amount written as a string", f"{at}/amount")
    return amount


def _shown(value: Any) -> str:
    return "absent" if value is None else str(value)[:60] if isinstance(value, (str, int, Decimal)) else kind_of(value)


def _ticker(value: Any) -> str:
    """A currency as compared: upper-case. Empty when it is no text, blank or longer than 64 characters."""
    if not isinstance(value, str) or len(value) > MAX_TICKER or "\0" in value:
        return ""
    return value.strip().upper()


def _interval(entry: Json, fields: Fields, at: str) -> str | None:
    """The interval as written, empty when per call. None when it says something that is no text, so nobody can tell."""
    value = entry.get("interval")
    if value is None or isinstance(value, str):
        text = fields.identifier(value or "", at, "interval")
        return "" if text.isspace() else text
    fields.warn("offer-interval", kind_of(value), f"{at}/interval")
    return None


def _accepted(entry: Json, currency: str, fields: Fields, at: str) -> tuple[str, ...]:
    accepted = {currency: None}
    for number, value in enumerate(fields.items(entry, "acceptedCurrencies", at)):
        ticker = _ticker(value)
        if not ticker:
            fields.warn("ignored", "a currency that is no ticker", f"{at}/acceptedCurrencies/{number}")
        elif len(accepted) == MAX_CURRENCIES and ticker not in accepted:
            fields.not_indexed(f"only the first {MAX_CURRENCIES} currencies", f"{at}/acceptedCurrencies")
            break
        else:
            accepted[ticker] = None
    return tuple(accepted)


def _skill_ids(entry: Json, fields: Fields, skills: frozenset[str], at: str) -> tuple[str, ...] | None:
    """The skills a price is for, None for all: absent, null and empty mean all, a list without usable ids none."""
    key = "skillIds"
    if entry.get(key) is None and entry.get("skills") is not None:
        key = "skills"
        fields.warn("tolerated", "skills instead of skillIds", f"{at}/skills")
    value = entry.get(key)
    if isinstance(value, str) and value.strip():
        fields.warn("tolerated", f"{key} as one string", f"{at}/{key}")
        entry = {key: [value]}
    named: dict[str, None] = {}
    given = fields.items(entry, key, at)
    for number, value in enumerate(given[:MAX_SKILL_IDS]):
        if not isinstance(value, str):
            fields.wrong(value, "a string", at, key, number)
            continue
        identity = fields.identifier(value, at, key, number)
        if value not in skills and identity not in named:
            fields.warn("offer-skill", identity, f"{at}/{key}/{number}")
        named[identity] = None
    if len(given) > MAX_SKILL_IDS:
        fields.not_indexed(f"only the first {MAX_SKILL_IDS} of {len(given):,} skills of a price", f"{at}/{key}")
    return tuple(named) if given else None


def _fraction(entry: Json, key: str, fields: Fields, at: str) -> Decimal | None:
    value = entry.get(key)
    if value is None:
        return None
    fraction = money.amount(value)
    if fraction is not None and fraction <= 1:
        return fraction
    fields.warn("offer-fraction", f"{key} {_shown(value)}", f"{at}/{key}")
    return None


def _note_repeated(offers: tuple[Offer, ...], fields: Fields, pointer: str) -> None:
    seen: set[str] = set()
    for offer in offers:
        if offer.id in seen:
            fields.warn("offer-repeated", offer.id, f"{pointer}/{offer.number}/id")
        elif offer.id:
            seen.add(offer.id)
