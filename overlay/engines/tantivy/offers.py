"""Offers as terms that combine the members of one price entry, so that no filter mixes two entries (law 14).

An offer is indexed as anchor, interval, accepted currency and skill, each also left empty, followed by its amount
(`money.decimal_key`, which sorts numerically): `USD␀P1M␀␀␀5000…`. Its price per day is indexed under its anchor and the
interval `PER_DAY`. A filter is the set of terms with a prefix whose amounts are within its bounds; the amounts of a
prefix are read from Tantivy's term dictionary once per commit.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING

import tantivy

from overlay.search.prices import asks_price, by_currency
from overlay.search.query import Query
from parsers.cards.intervals import per_day
from parsers.cards.money import decimal_key

if TYPE_CHECKING:
    from overlay.search.document import Document

COMPLEX = "complex-offers"
"""The fact of a listing whose offers need more than `MAX_TERMS` terms: currencies and skills are empty in its terms,
and filters for these are checked on its record."""
MAX_TERMS = 4_096
ANCHOR, OWN_SKILL = "anchor:", "own-skill:"
"""Prefixes of the facts that an offer has a currency, and that the card has a skill."""
PER_DAY = " "
"""Used in place of an interval; no interval key is blank (`intervals.interval_key`)."""
_ANY, _ALL_SKILLS = "", "*"
_SKILL = "="  # prefix of a skill that an offer names


def offer_terms(document: Document) -> tuple[list[str], bool]:
    """The terms of all offers, and whether the listing is `COMPLEX`."""
    terms: dict[str, None] = {}
    for offer in document.offers:
        key = _key(offer.amount)
        combine = _combined if offer.skill_ids else _combined_for_all_skills
        combined = combine(offer.currency, offer.interval_key, offer.accepted, offer.skill_ids)
        if combined is not None:
            terms |= dict.fromkeys([prefix + key for prefix in combined])
        if combined is None or len(terms) > MAX_TERMS:
            return [*_open_terms(document), *_terms_per_day(document)], True
    return [*terms, *_terms_per_day(document)], False


_key = lru_cache(maxsize=4_096)(decimal_key)
_per_day = lru_cache(maxsize=4_096)(per_day)


def _combined(
    currency: str, interval: str, accepted: tuple[str, ...], skill_ids: tuple[str, ...] | None
) -> list[str] | None:
    """The terms of an offer without its amount; None for more than `MAX_TERMS`."""
    skills = [_ALL_SKILLS] if skill_ids is None else [_SKILL + skill.casefold() for skill in skill_ids]
    currencies = dict.fromkeys((_ANY, currency, *accepted))
    if len(currencies) * (1 + len(skills)) > MAX_TERMS:
        return None
    combined = product((_ANY, currency), (_ANY, interval), currencies, (_ANY, *skills))
    return ["\0".join((*parts, "")) for parts in combined]


_combined_for_all_skills = lru_cache(maxsize=256)(_combined)  # a quarter of `offer_terms`; few offers name skills


def _terms_per_day(document: Document) -> dict[str, None]:
    daily = [(offer.currency, _per_day(offer.amount, offer.interval_key)) for offer in document.offers]
    return {"\0".join((under(name, PER_DAY), _key(price))): None for name, price in daily if price is not None}


def under(anchor: str, interval: str = "") -> str:
    """The prefix of all offers in a currency, with an interval or `PER_DAY`."""
    return "\0".join((anchor, interval, _ANY, _ANY))


def _open_terms(document: Document) -> list[str]:
    terms: dict[str, None] = {}
    for offer in document.offers:
        for anchor, interval in product((_ANY, offer.currency), (_ANY, offer.interval_key)):
            terms["\0".join((anchor, interval, _ANY, _ANY, decimal_key(offer.amount)))] = None
    return list(terms)


def prefixes(query: Query) -> Iterator[str]:
    """The prefixes of the offers that meet a query in one currency. Those for all skills of a card end in `*`."""
    anchors = (query.price_currency or _ANY,) if asks_price(query) else (_ANY,)
    skills = (*(_SKILL + skill for skill in query.skills), _ALL_SKILLS) if query.skills else (_ANY,)
    for parts in product(anchors, query.intervals or (_ANY,), query.currencies or (_ANY,), skills):
        yield "\0".join(parts)


@dataclass(slots=True)
class OfferTerms:
    """The amounts under each prefix, of one commit."""

    searcher: tantivy.Searcher
    schema: tantivy.Schema
    _amounts: dict[str, tuple[list[str], list[int]]] = field(default_factory=dict)

    def amounts(self, prefix: str) -> tuple[list[str], list[int]]:
        """The amounts under a prefix in order, and their document frequencies."""
        if prefix not in self._amounts:
            if len(self._amounts) >= _MAX_PREFIXES:
                self._amounts.clear()
            terms = sorted(self.searcher.terms_with_prefix("offer", f"{prefix}\0"))
            keys = [term[len(prefix) + 1 :] for term, _ in terms]
            self._amounts[prefix] = keys, [count for _, count in terms]
        return self._amounts[prefix]

    def within(self, prefix: str, query: Query) -> list[str]:
        """The terms under a prefix whose amounts are within the bounds of a query."""
        keys, _ = self.amounts(prefix)
        low = 0 if query.min_price is None else bisect_left(keys, decimal_key(query.min_price))
        high = len(keys) if query.max_price is None else bisect_right(keys, decimal_key(query.max_price))
        return [f"{prefix}\0{key}" for key in keys[low:high]]

    def in_use(self, currency: str) -> bool:
        """Whether any offer is priced in a currency."""
        return bool(self.amounts(under(currency))[0])

    def anchors(self) -> list[str]:
        """The currencies that offers are priced in, in order."""
        return sorted(term.removeprefix(ANCHOR) for term, _ in self.searcher.terms_with_prefix("fact", ANCHOR))

    def meeting(self, query: Query) -> tuple[list[str], list[str]]:
        """The terms of offers that meet a query, and of those that meet it if the card has one of the skills."""
        terms: tuple[list[str], list[str]] = ([], [])
        for query_in_currency in by_currency(query, self.in_use) if asks_price(query) else (query,):
            for prefix in prefixes(query_in_currency):
                terms[prefix.endswith(f"\0{_ALL_SKILLS}")].extend(self.within(prefix, query_in_currency))
        return terms

    def any_of(self, terms: list[str]) -> tantivy.Query:
        """Documents with one of these terms."""
        if not terms:
            return tantivy.Query.empty_query()
        if len(terms) > _MAX_UNION:
            return tantivy.Query.term_set_query(self.schema, "offer", terms)
        parts = [tantivy.Query.term_query(self.schema, "offer", term, "basic") for term in terms]
        return tantivy.Query.boolean_query([(tantivy.Occur.Should, part) for part in parts])


_MAX_UNION = 64
"""Terms of which a union takes less time than a set, which reads the term dictionary from end to end."""
_MAX_PREFIXES = 1_000
