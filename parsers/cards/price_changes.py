"""Differences between two lists of offers that matter to buyers: prices and payment addresses."""

from __future__ import annotations

from collections.abc import Sequence

from parsers.cards.money import plain
from parsers.cards.offers import Offer
from parsers.reasons import Reason

PRICE, ADDRESS = "price-changed", "address-changed"

MAX_LISTED = 5
"""Prices or addresses that a reason lists; further ones are only counted."""

_Price = tuple[str, str, str, tuple[str, ...]]


def price_changes(before: Sequence[Offer], after: Sequence[Offer], note: str = "") -> tuple[Reason, ...]:
    """The changes from one revision's offers to the offers of a later one: at most one reason for prices and one for
    addresses; their details state the old and the new value. `note` is appended to both details.

    Offers with the same id are compared; an offer with a new id is compared with a dropped one, so that a new id hides
    no change. Dropping an offer, adding one while all others remain, and a lower amount alone give none. Any new
    address gives one. There is none where the card before has no offers.
    """
    if not before:
        return ()
    details = ((PRICE, _prices(before, after)), (ADDRESS, _addresses(before, after)))
    return tuple(Reason(code, detail + note) for code, detail in details if detail)


def changed_prices(before: Sequence[Offer], after: Sequence[Offer]) -> list[tuple[Offer | None, Offer | None]]:
    """The offers whose price differs, before and after, as `price_changes` compares them; None for an offer that is
    added or dropped."""
    old = {offer.id: offer for offer in reversed(before)}
    ids = {offer.id for offer in after}
    dropped = [offer for offer in before if offer.id not in ids]
    dropped_prices, new_prices = {_price(offer) for offer in dropped}, {_price(offer) for offer in after}
    pairs: list[tuple[Offer | None, Offer | None]] = []
    for offer in after:
        previous = old.get(offer.id, dropped[0] if dropped else None)
        is_renamed = offer.id not in old and _price(offer) in dropped_prices
        if not is_renamed and (previous is None or _price(previous) != _price(offer)):
            pairs.append((previous, offer))
    replaced = {id(previous) for previous, _ in pairs}
    gone = (offer for offer in dropped if id(offer) not in replaced and _price(offer) not in new_prices)
    return pairs + [(offer, None) for offer in gone]


def changed_addresses(before: Sequence[Offer], after: Sequence[Offer]) -> tuple[list[str], list[str]]:
    """The pay-to addresses that are removed, and those that are added."""
    old, new = _pay_to(before), _pay_to(after)
    return [address for address in old if address not in new], [address for address in new if address not in old]


def price_text(offer: Offer) -> str:
    """A price with its currency and interval, and the currency that it is paid in where that is another one."""
    others = "" if offer.accepted == (offer.currency,) else f", paid in {_currencies(offer)}"
    return _text(offer) + others


def _prices(before: Sequence[Offer], after: Sequence[Offer]) -> str:
    pairs = changed_prices(before, after)
    return _joined([_change(old, new) for old, new in pairs if old and new and not _is_cut(old, new)])


def _is_cut(previous: Offer, offer: Offer) -> bool:
    """Whether the amount alone differs, and is lower."""
    is_alike = _unit(previous) == _unit(offer) and previous.accepted == offer.accepted
    return is_alike and offer.amount < previous.amount


def _addresses(before: Sequence[Offer], after: Sequence[Offer]) -> str:
    removed, added = changed_addresses(before, after)
    if not added:
        return ""
    if not removed:
        return f"payments also go to {_joined(added)}" if _pay_to(before) else f"payments go to {_joined(added)}"
    return f"the pay-to address changed from {_joined(removed)} to {_joined(added)}"


def _pay_to(offers: Sequence[Offer]) -> list[str]:
    return list(dict.fromkeys(offer.address for offer in offers if offer.address))


def _price(offer: Offer) -> _Price:
    return plain(offer.amount), offer.currency, offer.interval_key, offer.accepted


def _change(previous: Offer, offer: Offer) -> str:
    if _unit(previous) == _unit(offer) and previous.amount != offer.amount:
        verb = "rose" if offer.amount > previous.amount else "fell"
        return f"price {verb} from {plain(previous.amount)} to {plain(offer.amount)} {_unit(offer)}"
    if previous.accepted != offer.accepted and _text(previous) == _text(offer):
        return f"{_text(offer)} can be paid in {_currencies(offer)}, before in {_currencies(previous)}"
    return f"price changed from {_text(previous)} to {_text(offer)}"


def _unit(offer: Offer) -> str:
    interval = "" if offer.interval_key == "none" else f" per {offer.interval_key}"
    return offer.currency + interval


def _text(offer: Offer) -> str:
    return f"{plain(offer.amount)} {_unit(offer)}"


def _currencies(offer: Offer) -> str:
    return ", ".join(offer.accepted[:MAX_LISTED])


def _joined(parts: Sequence[str]) -> str:
    more = f" and {len(parts) - MAX_LISTED} more" if len(parts) > MAX_LISTED else ""
    return ", ".join(parts[:MAX_LISTED]) + more
