"""What a revision changed that a buyer should look at before paying: prices, and where payments go. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from parsers.money import plain
from parsers.offers import Offer
from parsers.reasons import Reason

PRICE, ADDRESS = "price-changed", "address-changed"
CODES = frozenset((PRICE, ADDRESS))

MOST = 5
"""Changes of a kind that are told."""

_Price = tuple[str, str, str, tuple[str, ...]]


def price_changes(before: Sequence[Offer], after: Sequence[Offer], more: str = "") -> tuple[Reason, ...]:
    """The changes from one revision's offers to the next one's, each kind in one reason; `more` is said with them.

    Offers are the same when they have the same id, else those left over are compared with one another, so that a new
    id hides nothing. What is dropped changes no price; what is added to offers that stay changes none either, but a
    new address is one wherever it stands. Nothing is said of a card that had no offers.
    """
    if not before:
        return ()
    told = ((PRICE, _prices(before, after)), (ADDRESS, _addresses(before, after)))
    return tuple(Reason(code, _listed(changes) + more) for code, changes in told if changes)


def _prices(before: Sequence[Offer], after: Sequence[Offer]) -> list[str]:
    old = {offer.id: offer for offer in reversed(before)}
    changes = []
    unknown = []
    for offer in after:
        known = old.get(offer.id)
        if known is None:
            unknown.append(offer)
        elif _price(known) != _price(offer):
            changes.append(f"{_told(known)} is {_told(offer)}")
    ids = {offer.id for offer in after}
    gone = [offer for offer in before if offer.id not in ids]
    left = {_price(offer) for offer in gone}
    if gone:
        changes += [f"{_told(gone[0])} is {_told(offer)}" for offer in unknown if _price(offer) not in left]
    return changes


def _addresses(before: Sequence[Offer], after: Sequence[Offer]) -> list[str]:
    known = {offer.address for offer in before}
    return list(dict.fromkeys(offer.address for offer in after if offer.address and offer.address not in known))


def _price(offer: Offer) -> _Price:
    return plain(offer.amount), offer.currency, offer.interval_key, offer.accepted


def _told(offer: Offer) -> str:
    interval = "" if offer.interval_key == "none" else f" per {offer.interval_key}"
    return f"{plain(offer.amount)} {offer.currency}{interval}"


def _listed(changes: Sequence[str]) -> str:
    more = f" and {len(changes) - MOST} more" if len(changes) > MOST else ""
    return ", ".join(changes[:MOST]) + more
