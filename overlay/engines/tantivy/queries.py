"""A `Query` in Tantivy's terms: which documents it admits, and how words make points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import cast

import tantivy
from tantivy import FieldType, Occur

from overlay.engines.tantivy.schema import LISTED, NEVER, SLOTS
from overlay.matching import Choice, Plan, Word
from overlay.prices import amount_key, asks_offer, asks_price
from overlay.query import Query
from overlay.ranking import LEVELS
from overlay.vocabulary import Vocabulary

Part = tantivy.Query
Kind = tuple[str, Callable[[str], int]]
"""A field of terms, and which levels a term may stand at in it (bit n: level n + 1)."""
_MOST_REMEMBERED = 10_000


@dataclass(slots=True)
class Translator:
    """Builds queries against one state of the index; remembers which slots a currency, interval or skill stands in."""

    schema: tantivy.Schema
    searcher: tantivy.Searcher
    _slots: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def term(self, name: str, value: str) -> Part:
        """Documents with exactly this value in a field; every one counts 1."""
        return tantivy.Query.term_query(self.schema, name, value, "basic")

    def any_of(self, name: str, values: Iterable[str]) -> Part:
        """Documents with one of these values."""
        return either([self.term(name, value) for value in values])

    def between(self, name: str, low: int | None, high: int | None) -> Part:
        """Documents with a number from `low` to `high`, both included."""
        return tantivy.Query.range_query(
            self.schema, name, FieldType.Unsigned, min(low or 0, NEVER), NEVER if high is None else high
        )

    def numbers(self, name: str, addresses: list[tantivy.DocAddress]) -> list[int]:
        """The whole numbers that documents have in a field, which all of them must have."""
        return cast("list[int]", self.searcher.fast_field_values(name, addresses))

    def admitted(self, query: Query) -> list[Part]:
        """The filters; each adds no points. Never empty."""
        return [tantivy.Query.const_score_query(part, 0.0) for part in (*self._standing(query), *self._plain(query))]

    def _standing(self, query: Query) -> Iterator[Part]:
        """Which of a listing's documents: the current one, or the one of a height; and of what status."""
        if query.as_of is not None:
            yield self.term("flag", f"chain:{query.height_chain}")
            yield self.between("since", 0, query.as_of)
            yield self.between("until", query.as_of + 1, None)
        elif frozenset(query.statuses) == frozenset(LISTED):
            yield self.term("flag", "listed")
            return
        else:
            yield self.term("flag", "current")
        if query.statuses:
            yield self.any_of("status", query.statuses)

    def _plain(self, query: Query) -> Iterator[Part]:
        if query.kind is not None:
            yield self.term("kind", query.kind)
        if query.tags:
            yield self.any_of("tag", query.tags)
        for prefix, values in (("chain", query.chains), ("domain", query.domains), ("owner", query.owners)):
            if values:
                yield self.any_of("flag", [f"{prefix}:{value}" for value in values])
        if query.verified is not None:
            yield self.term("flag", "verified" if query.verified else "unverified")
        if query.from_height is not None or query.to_height is not None:
            yield self.term("flag", f"chain:{query.height_chain}")
            yield self.between("height", query.from_height, query.to_height)
        if query.updated_since is not None:
            yield self.between("time", query.updated_since, None)
        offers = self.offers(query)
        if offers is not None:
            yield offers

    def offers(self, query: Query) -> Part | None:
        """Listings with one entry that meets all filters of offers (law 14); None without such filters."""
        only = [name for name in ("skills", "currencies", "intervals") if getattr(query, name)]
        if not asks_price(query) and not only:
            return None
        if not asks_price(query) and len(only) == 1:
            return self.any_of({"skills": "skill", "currencies": "currency", "intervals": "interval"}[only[0]],
                               getattr(query, only[0]))  # fmt: skip
        if not only and query.price_currency is None:
            return self._price("amount", query)
        return either([self.slot(slot, query) for slot in self.slots(query)])

    def slots(self, query: Query, *, anchored: bool = False) -> list[int]:
        """The numbers of the offers that may meet the query, over all listings; `anchored` to `price_currency` also
        when no price is asked for."""
        left = set(self._standing_in("", ("",)))
        if query.currencies:
            left &= set(self._standing_in("c", query.currencies))
        if query.intervals:
            left &= set(self._standing_in("i", query.intervals))
        if query.price_currency is not None and (anchored or asks_price(query)):
            left &= set(self._standing_in("a", (query.price_currency,)))
        if query.skills:
            left &= {*self._standing_in("s", query.skills), *self._standing_in("*", ("",))}
        return sorted(left)

    def _standing_in(self, kind: str, values: Iterable[str]) -> Iterator[int]:
        for value in values:
            fact = kind + value
            if fact not in self._slots:
                if len(self._slots) >= _MOST_REMEMBERED:
                    self._slots.clear()
                self._slots[fact] = tuple(self._probe(fact))
            yield from self._slots[fact]

    def _probe(self, fact: str) -> Iterator[int]:
        among = range(SLOTS) if not fact else self._standing_in("", ("",))
        for slot in among:
            if self.searcher.doc_freq("offer", f"{slot}{fact}"):
                yield slot
            elif not fact:
                return

    def slot(self, slot: int, query: Query, *, anchored: bool = False) -> Part:
        """Listings whose offer of that number meets the filters; see `slots`."""
        parts = [self.term("offer", f"{slot}")] if not (query.currencies or query.intervals or query.skills) else []
        if query.currencies:
            parts.append(self.any_of("offer", [f"{slot}c{each}" for each in query.currencies]))
        if query.intervals:
            parts.append(self.any_of("offer", [f"{slot}i{each}" for each in query.intervals]))
        if query.skills:
            named = self.any_of("offer", [f"{slot}s{each}" for each in query.skills])
            own = self.any_of("offer", [f"*s{each}" for each in query.skills])
            parts.append(either([named, every([self.term("offer", f"{slot}*"), own])]))
        if asks_price(query):
            parts.append(self._price(f"price{slot}", query))
        if query.price_currency is not None and (anchored or asks_price(query)):
            parts.append(self.term("offer", f"{slot}a{query.price_currency}"))
        return every(parts)

    def _price(self, name: str, query: Query) -> Part:
        low = None if query.min_price is None else amount_key(query.min_price)
        return self.between(name, low, None if query.max_price is None else amount_key(query.max_price))

    def doubtful(self, query: Query) -> Part | None:
        """Listings whose amounts agree with a bound in more digits than keys hold; None when there can be none."""
        bounds = [amount_key(bound) for bound in (query.min_price, query.max_price) if bound is not None]
        odd = [bound for bound in bounds if bound % 2]
        return either([self.between("amount", bound, bound) for bound in odd]) if odd else None

    def words(self, plan: Plan, vocabulary: Vocabulary, *, listed: bool) -> list[Part]:
        """One query a word: the points of the best choice that a document holds. Documents that a plain search does not
        find keep their terms apart, and the vocabulary does not know their levels."""
        kinds: list[Kind] = [("words", vocabulary.levels)]
        if not listed:
            kinds.append(("others", lambda _: (1 << LEVELS) - 1))
        return [self._word(word, kinds) for word in plan.words]

    def _word(self, word: Word, kinds: list[Kind]) -> Part:
        found: list[Part] = []
        for choice in word.choices:
            for kind in kinds:
                if len(choice.terms) == 1:
                    found += self._term_levels(*kind, choice, choice.terms[0])
                else:
                    found.append(every([best(list(self._term_levels(*kind, choice, term))) for term in choice.terms]))
        return best(found)

    def _term_levels(self, name: str, levels: Callable[[str], int], choice: Choice, term: str) -> Iterator[Part]:
        present = levels(term)
        for level, points in enumerate(choice.points, 1):
            if present >> (level - 1) & 1:
                yield tantivy.Query.const_score_query(self.term(name, f"{term}~{level}"), float(points))


def every(parts: list[Part]) -> Part:
    """Documents that all parts find; points add up."""
    return parts[0] if len(parts) == 1 else tantivy.Query.boolean_query([(Occur.Must, part) for part in parts])


def either(parts: list[Part]) -> Part:
    """Documents that any part finds; points add up."""
    if not parts:
        return tantivy.Query.empty_query()
    return parts[0] if len(parts) == 1 else tantivy.Query.boolean_query([(Occur.Should, part) for part in parts])


def best(parts: list[Part]) -> Part:
    """Documents that any part finds; the most points of one count."""
    if not parts:
        return tantivy.Query.empty_query()
    return parts[0] if len(parts) == 1 else tantivy.Query.disjunction_max_query(parts)


def without(found: Part, excluded: Part) -> Part:
    """Documents that the first finds and the second does not."""
    return tantivy.Query.boolean_query([(Occur.Must, found), (Occur.MustNot, excluded)])


__all__ = ["Part", "Translator", "asks_offer", "best", "either", "every", "without"]
