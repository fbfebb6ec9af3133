"""Offers: the price entries of a card, wherever publishers put them, exact and with warnings (law 13; A2B §4.1)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from typing import Any

from parsers.bitcoin.address import looks_valid
from parsers.cards import money
from parsers.cards.fields import Fields, Json, kind_of
from parsers.cards.intervals import PER_CALL, interval_key, meant
from parsers.cards.payees import SATS, reaches
from parsers.cards.strict_json import step

PRICE_KEYS = ("x-payment-config", "x-payment")
MAX_OFFERS = 64
MAX_CURRENCIES = 16
MAX_SKILL_IDS = 256
_SATOSHI, _LEAST_EXPONENT = -8, -490
_WIDE = Context(prec=200)

_TICKER = re.compile("[A-Z0-9]{1,12}", re.ASCII)
CHECKED_ADDRESSES = frozenset(("BSV", "BTC"))
"""The currencies with checked addresses."""

LEFT_OUT = frozenset({"offer-amount", "offer-currency", "offer-interval"})
"""Reason codes of warnings about prices that are left out."""

UNREADABLE = LEFT_OUT | {"offer-fraction", "wrong-type", "not-indexed"}
"""Reason codes of warnings about prices with a part that is left out."""

UNSOLD = UNREADABLE | {"interval-unknown", "sats"}
"""Reason codes of warnings about prices that are incomplete, that pay for an unknown time, or are in no coin as yet."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One price entry of a card.

    `amount` is in units of `currency` (the anchor). `accepted` holds the anchor and `acceptedCurrencies`, upper-case,
    in card order, without repeats. `skill_ids` is None when the entry is for all skills of the card. `interval` is as
    written (None when per call), `interval_key` its canonical form, equal for equal meaning (`none` = per call).
    `number` is its index in the card's price list.
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

    @property
    def is_payable(self) -> bool:
        """Whether there is nothing to pay, or a payment in one of its currencies can reach its address."""
        return not self.amount or any(reaches(self.address, currency) for currency in self.accepted)


def in_coin(offer: Offer, coin: str) -> Offer:
    """An offer in SATS as one in the coin (a ticker) of the chain that carries its card; "" where that has no satoshis.
    SATS stays among the accepted currencies."""
    if SATS not in offer.accepted or not coin or offer.amount.adjusted() < _LEAST_EXPONENT:
        return offer
    named: list[str] = []
    for ticker in offer.accepted:
        named += (coin, SATS) if ticker == SATS else (ticker,)
    accepted = tuple(dict.fromkeys(named))
    if offer.currency != SATS:
        return replace(offer, accepted=accepted)
    return replace(offer, accepted=accepted, currency=coin, amount=offer.amount.scaleb(_SATOSHI, _WIDE))


def read_offers(card: Json, fields: Fields, skills: frozenset[str], pointer: str = "") -> tuple[Offer, ...]:
    """The offers of a card or config entry at JSON `pointer`; `skills` are the ids of all its skills, indexed or not.

    The first price list counts: `x-payment-config`, `x-payment`, then the extensions' params. An unusable price is left
    out with a warning; of the entries the first 64 are parsed.
    """
    listed = list(price_lists(card, pointer))
    if not listed:
        return ()
    pointer, first = listed[0]
    if pointer.endswith("/x-payment"):
        fields.warn("tolerated", "x-payment instead of x-payment-config", pointer)
    offers = tuple(_offers(first, fields, skills, pointer))
    for other, value in listed[1:]:
        if not _agree(first, value):
            fields.warn("offer-conflict", f"{pointer} counts, {other} does not", other)
    seen: set[str] = set()
    for offer in offers:
        if offer.id in seen:
            fields.warn("offer-repeated", offer.id, f"{pointer}/{offer.number}/id")
        elif offer.id:
            seen.add(offer.id)
    return offers


def price_lists(card: Json, pointer: str) -> Iterator[tuple[str, Any]]:
    """The price lists with their pointers, in order of precedence. An object instead of a list is a single price."""
    for key in PRICE_KEYS:
        if card.get(key) is not None:
            yield step(pointer, key), card[key]
    capabilities = card.get("capabilities")
    extensions = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    if isinstance(extensions, list):
        for number, extension in enumerate(extensions[:MAX_OFFERS]):
            if isinstance(extension, dict):
                yield from _in_params(extension.get("params"), f"{pointer}/capabilities/extensions/{number}/params")


def _in_params(params: Any, pointer: str) -> Iterator[tuple[str, Any]]:
    """A price list among the params of an extension, recognised by its entries, as other extensions have params."""
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
    """Whether two lists state the same prices, in any spelling."""
    if first == other:
        return True
    unused = Fields(0)
    no_skills: frozenset[str] = frozenset()
    return list(_offers(first, unused, no_skills, "")) == list(_offers(other, unused, no_skills, ""))


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
    for number, (pointer, entry) in enumerate(entries):
        if not isinstance(entry, dict):
            fields.wrong(entry, "an object", pointer)
            continue
        offer = _offer(number, entry, fields, skills, pointer)
        if offer:
            yield offer


def _offer(number: int, entry: Json, fields: Fields, skills: frozenset[str], pointer: str) -> Offer | None:
    amount = _amount(entry, fields, pointer)
    currency = _ticker(entry.get("currency"), fields, f"{pointer}/currency")
    if currency == "":
        fields.warn("offer-currency", "", f"{pointer}/currency")
    interval = _interval(entry, fields, pointer)
    if amount is None or not currency or interval is None:
        return None
    address = fields.text(entry, "address", pointer)
    accepted = _accepted(entry, currency, fields, pointer)
    if SATS in accepted:
        fields.warn("sats", "", f"{pointer}/{'currency' if currency == SATS else 'acceptedCurrencies'}")
    if not CHECKED_ADDRESSES.isdisjoint(accepted) and address and not looks_valid(address):
        fields.warn("address-checksum", address, f"{pointer}/address")
    return Offer(
        number=number,
        id=fields.text(entry, "id", pointer),
        name=fields.text(entry, "name", pointer),
        currency=currency,
        amount=amount,
        interval=interval or None,
        interval_key=interval_key(interval),
        accepted=accepted,
        skill_ids=_skill_ids(entry, fields, skills, pointer),
        address=address,
        deposit_pct=_fraction(entry, "depositPct", fields, pointer),
        price_feed_url=fields.text(entry, "priceFeedUrl", pointer),
        # the specification has a member that overrides the default slippage (A2B §5.2), but does not name it
        slippage_pct=_fraction(
            entry, "slippagePct" if entry.get("slippagePct") is not None else "slippage", fields, pointer
        ),
        description=fields.text(entry, "description", pointer),
    )


def _amount(entry: Json, fields: Fields, pointer: str) -> Decimal | None:
    value = entry.get("amount")
    amount = money.amount(value)
    if amount is None:
        fields.warn("offer-amount", _shown(value), f"{pointer}/amount")
    elif isinstance(value, str):
        fields.warn("tolerated", "an amount written as a string", f"{pointer}/amount")
    return amount


def _shown(value: Any) -> str:
    return (
        "absent"
        if value is None
        else str(value)[:60]
        if isinstance(value, (str, int, float, Decimal))
        else kind_of(value)
    )


def _ticker(value: Any, fields: Fields, pointer: str) -> str | None:
    """A currency in upper case, as it is compared: 1 to 12 letters and digits of ASCII. Empty for a blank text and
    anything but a text; None for any other text, with a warning."""
    text = value.strip() if isinstance(value, str) else ""
    ticker = text.upper()
    if not text or (text.isascii() and _TICKER.fullmatch(ticker)):
        return ticker
    fields.not_indexed(f"the currency {text[:40]}, which is not 1 to 12 letters and digits", pointer)
    return None


def _interval(entry: Json, fields: Fields, pointer: str) -> str | None:
    """The interval as written, empty for per call; None for a value that is not a text."""
    value = entry.get("interval")
    if value is None or isinstance(value, str):
        text = fields.identifier(value or "", pointer, "interval")
        key = meant(text)
        if key is None:
            fields.warn("interval-unknown", text, f"{pointer}/interval")
        return "" if key == PER_CALL else text
    fields.warn("offer-interval", kind_of(value), f"{pointer}/interval")
    return None


def _accepted(entry: Json, currency: str, fields: Fields, pointer: str) -> tuple[str, ...]:
    accepted = {currency: None}
    for number, value in enumerate(fields.items(entry, "acceptedCurrencies", pointer)):
        ticker = _ticker(value, fields, f"{pointer}/acceptedCurrencies/{number}")
        if ticker == "":
            fields.warn("ignored", "a currency that is not a ticker", f"{pointer}/acceptedCurrencies/{number}")
        elif ticker and len(accepted) == MAX_CURRENCIES and ticker not in accepted:
            fields.not_indexed(f"only the first {MAX_CURRENCIES} currencies", f"{pointer}/acceptedCurrencies")
            break
        elif ticker:
            accepted[ticker] = None
    return tuple(accepted)


def _skill_ids(entry: Json, fields: Fields, skills: frozenset[str], pointer: str) -> tuple[str, ...] | None:
    """The skills of a price, None for all: absent, null and empty mean all, a list without usable ids means none."""
    key = "skillIds"
    if entry.get(key) is None and entry.get("skills") is not None:
        key = "skills"
        fields.warn("tolerated", "skills instead of skillIds", f"{pointer}/skills")
    value = entry.get(key)
    if isinstance(value, str) and value.strip():
        fields.warn("tolerated", f"{key} as one string", f"{pointer}/{key}")
        entry = {key: [value]}
    ids: dict[str, None] = {}
    listed = fields.items(entry, key, pointer)
    for number, value in enumerate(listed[:MAX_SKILL_IDS]):
        if not isinstance(value, str):
            fields.wrong(value, "a string", pointer, key, number)
            continue
        identity = fields.identifier(value, pointer, key, number)
        if value not in skills and identity not in ids:
            fields.warn("offer-skill", identity, f"{pointer}/{key}/{number}")
        ids[identity] = None
    if len(listed) > MAX_SKILL_IDS:
        fields.not_indexed(f"only the first {MAX_SKILL_IDS} of {len(listed):,} skills of a price", f"{pointer}/{key}")
    return tuple(ids) if listed else None


def _fraction(entry: Json, key: str, fields: Fields, pointer: str) -> Decimal | None:
    value = entry.get(key)
    if value is None:
        return None
    fraction = money.amount(value)
    if fraction is not None and fraction <= 1:
        return fraction
    fields.warn("offer-fraction", f"{key} {_shown(value)}", f"{pointer}/{key}")
    return None
