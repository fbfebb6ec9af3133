"""Listings side by side: the facts that decide between them, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from overlay.answers.side_by_side import ComparedFact
from overlay.listings.listing import Listing
from overlay.text.interval_words import per
from overlay.text.rating_words import rating_words
from parsers.cards.money import plain
from parsers.cards.offer_filter import OfferFilter, cheapest, cost, entries, worth
from parsers.reasons import HIGH

_NAMED = 8
"""Skills and tools that a fact names."""


class Candidate(NamedTuple):
    """A listing that is compared, and its item."""

    listing: Listing
    item: Mapping[str, Any]


def compared(candidates: Sequence[Candidate], terms: OfferFilter) -> list[ComparedFact]:
    """The facts of these listings that any of them has; prices by `terms`: calls a year, currency and rates."""
    readers: dict[str, Callable[[Candidate], str | None]] = {
        "does": lambda candidate: candidate.item["summary"] or None,
        "skills": _skills,
        "answers": _health,
        "price": lambda candidate: _price(candidate, terms),
        "cost": lambda candidate: _cost(candidate, terms),
        "use": lambda candidate: (
            " ".join([candidate.item["command"], *candidate.item["args"]]) or candidate.item["url"] or None
        ),
        "access": lambda candidate: _words(candidate.listing.usage.access),
        "credentials": lambda candidate: _words(candidate.listing.usage.auth),
        "protocol": lambda candidate: _words(candidate.listing.usage.protocols or candidate.listing.usage.transports),
        "rating": lambda candidate: rating_words(candidate.item["rating"]) if candidate.item.get("rating") else None,
        "beware": _beware,
        "domain": _domain,
        "registered": lambda candidate: (
            f"{candidate.item['chain']}, {candidate.item['timestamp'] or 'in no block yet'}"
        ),
        "owner": lambda candidate: candidate.item["owner"],
    }
    facts = []
    for fact, read in readers.items():
        values = tuple(map(read, candidates))
        if any(values):
            facts.append(ComparedFact(fact=fact, values=values, differs=len(set(values)) > 1))
    return facts


def _words(values: Sequence[str]) -> str | None:
    return ", ".join(values) or None


def _skills(candidate: Candidate) -> str | None:
    names = [skill["name"] or skill["id"] for skill in candidate.item["skills"]] or [*candidate.item["tools"]]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}" if names else None


def _health(candidate: Candidate) -> str | None:
    """Its state by the last probe, and when that was; None where nobody looked."""
    health = candidate.item.get("health")
    if not health:
        return None
    checked = f", checked {health['checkedAt']}" if health.get("checkedAt") else ""
    return f"{health['state']}{checked}"


def _price(candidate: Candidate, terms: OfferFilter) -> str | None:
    least = cheapest(entries(candidate.listing.card), terms._replace(calls=None))
    if least is None:
        return None
    offer, price = least.offer, worth(least.offer, terms)
    about = f" (≈ {plain(price)} {terms.price_currency})" if price is not None and _is_converted(offer, terms) else ""
    return f"{plain(offer.amount)} {offer.currency} {per(offer.interval_key)}{about}"


def _cost(candidate: Candidate, terms: OfferFilter) -> str | None:
    """The cost of a month; None without `calls`, and without a price for them."""
    least = cheapest(entries(candidate.listing.card), terms) if terms.calls is not None else None
    monthly = None if least is None else cost(least.offer, terms)
    if least is None or monthly is None:
        return None
    return f"{plain(monthly)} {terms.price_currency or least.offer.currency} a month"


def _is_converted(offer: Any, terms: OfferFilter) -> bool:
    return terms.price_currency not in (None, offer.currency)


def _beware(candidate: Candidate) -> str | None:
    codes = dict.fromkeys(warning["code"] for warning in candidate.item["warnings"] if warning["severity"] == HIGH)
    return _words([*(["deprecated"] if "deprecated" in candidate.item else []), *codes])


def _domain(candidate: Candidate) -> str | None:
    domain = candidate.item["domain"]
    if not domain:
        return None
    if domain["verified"]:
        return f"{domain['host']} names it"
    is_checked = domain["checkedAt"] and "lastFailure" not in domain
    return f"{domain['host']} {'does not name it' if is_checked else 'is not checked'}"
