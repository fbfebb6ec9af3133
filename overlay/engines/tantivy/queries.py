"""A `Query` in Tantivy's terms: which documents it admits, and how words make points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import tantivy
from tantivy import FieldType, Occur

from overlay.engines.tantivy.facts import SLOTS, both, cost, is_shared, mixed, price_class
from overlay.engines.tantivy.schema import NEVER, classed, cost_column
from overlay.query import Query
from overlay.search.facts import LISTED, is_plain, standing, wanted
from overlay.search.matching import Choice, Plan, Word
from overlay.search.prices import AMOUNT_BITS, amount_key, asks_price, each_currency
from overlay.search.ranking import LEVELS
from overlay.search.vocabulary import Vocabulary

if TYPE_CHECKING:
    from overlay.engines.tantivy.prices import Priced

Part = tantivy.Query
Kind = tuple[str, Callable[[str], int]]
"""A field of terms, and which levels a term may stand at in it (bit n: level n + 1)."""
_MOST_REMEMBERED = 10_000
_MOST_BEGUN = 8_192  # beginnings of hints: 250 bytes each, 5 kB where all words are common


@dataclass(slots=True)
class Translator:
    """Builds queries against one state of the index; remembers which slots a currency, interval or skill stands in,
    which hints begin alike, what listings cost under the last questions (`prices`), and how questions were taken
    (`coverage`)."""

    schema: tantivy.Schema
    searcher: tantivy.Searcher
    _slots: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _begun: dict[tuple[str, int], list[tuple[str, int]]] = field(default_factory=dict)
    priced: dict[Query, Priced] = field(default_factory=dict)
    driven_out: dict[Query, bool] = field(default_factory=dict)

    def term(self, name: str, value: str) -> Part:
        """Documents with exactly this value in a field; every one counts 1."""
        return tantivy.Query.term_query(self.schema, name, value, "basic")

    def any_of(self, name: str, values: Iterable[str]) -> Part:
        """Documents with one of these values."""
        return either([self.term(name, value) for value in values])

    def hints(self, prefix: str, limit: int) -> list[tuple[str, int]]:
        """The commonest hints that begin so, and how many documents have each; not to be changed. To look through those
        of a common word takes a millisecond, and it is completed again and again."""
        found = self._begun.get((prefix, limit))
        if found is None:
            if len(self._begun) >= _MOST_BEGUN:
                self._begun.clear()
            found = self._begun[prefix, limit] = self.searcher.terms_with_prefix("hint", prefix, limit=limit)
        return found

    def between(self, name: str, low: int | None, high: int | None) -> Part:
        """Documents with a number from `low` to `high`, both included."""
        return tantivy.Query.range_query(
            self.schema, name, FieldType.Unsigned, min(low or 0, NEVER), NEVER if high is None else high
        )

    def numbers(self, name: str, addresses: list[tantivy.DocAddress]) -> list[int]:
        """The whole numbers that documents have in a field, which all of them must have."""
        return cast("list[int]", self.searcher.fast_field_values(name, addresses))

    def admitted(self, query: Query, *, scored: bool) -> list[Part]:
        """The filters; they add no points. With `scored`, words that only listed documents have are asked for too."""
        name = "plain" if is_plain(query) else "fact"
        exact = [*self._standing(query), *self._exact(query, name)]
        if name == "plain" and not scored and not exact:
            exact.append(self.any_of("plain", [f"status:{each}" for each in sorted(LISTED)]))
        parts = [*exact, *self._ranges(query)]
        return [tantivy.Query.const_score_query(part, 0.0) for part in parts] if scored else parts

    def _standing(self, query: Query) -> Iterator[Part]:
        """Which of a listing's documents: the current one, or the one of a height; and of what status."""
        if is_plain(query):
            return
        yield from (self.any_of("fact", group) for group in standing(query))
        if query.as_of is not None:
            yield self.between("since", 0, query.as_of)
            yield self.between("until", query.as_of + 1, None)

    def _exact(self, query: Query, name: str) -> Iterator[Part]:
        """What single facts say; less of offers where facts that join two, or columns of amounts, say more."""
        if not query.skills:
            joint = bool(query.currencies and query.intervals) and not asks_price(query)
            if joint:
                yield self.any_of(name, [both(one, other) for one in query.currencies for other in query.intervals])
            if joint or (asks_price(query) and query.price_currency is not None):
                query = query._replace(currencies=(), intervals=())
        yield from (self.any_of(name, group) for group in wanted(query))

    def _ranges(self, query: Query) -> Iterator[Part]:
        """What numbers and numbered offers say."""
        if query.from_height is not None or query.to_height is not None:
            yield self.between("height", query.from_height, query.to_height)
        if query.updated_since is not None:
            yield self.between("time", query.updated_since, None)
        if asks_price(query):
            yield either([self._priced(each) for each in self.each_currency(query)])
        elif query.skills and (query.currencies or query.intervals):
            yield either(self._slotted(query))

    def _priced(self, query: Query) -> Part:
        """Listings with one entry that meets a query for prices (law 14)."""
        if query.price_currency is None and not (query.skills or query.currencies or query.intervals):
            return self._amount(cost_column(0), 0, query)
        if query.price_currency is None or query.skills:
            return either(self._slotted(query))
        return self._costing(query, query.price_currency)

    def each_currency(self, query: Query) -> Iterator[Query]:
        """See `search.prices`: a question for each currency that some offer is priced in."""
        return each_currency(query, lambda currency: self.searcher.doc_freq("fact", cost(currency, None)) > 0)

    def _slotted(self, query: Query, *more: Part) -> list[Part]:
        return [every([*more, self.slot(slot, query)]) for slot in self.slots(query)]

    def _costing(self, query: Query, anchor: str) -> Part:
        """By the columns of amounts. An entry with that anchor takes that currency, so asking for it says nothing more;
        when only others are asked for, all slots have to be looked through."""
        if query.currencies and anchor not in query.currencies:
            return either(self._slotted(query))
        parts = []
        for interval in query.intervals or (None,):
            kind = price_class(anchor, interval)
            found = self._amount(cost_column(kind), kind, query)
            if is_shared(kind):
                found = every([self.term("fact", cost(anchor, interval)), found])
            if is_shared(kind) and self.searcher.doc_freq("fact", mixed(kind)):
                several = self.term("fact", mixed(kind))
                found = either([without(found, several), *self._slotted(query, several)])
            parts.append(found)
        return either(parts)

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
            parts.append(self._amount("numbered", slot, query))
        if query.price_currency is not None and (anchored or asks_price(query)):
            parts.append(self.term("offer", f"{slot}a{query.price_currency}"))
        return every(parts)

    def _amount(self, name: str, upper: int, query: Query) -> Part:
        """Listings with an amount in range, of one class or one number."""
        low = 0 if query.min_price is None else amount_key(query.min_price)
        high = (1 << AMOUNT_BITS) - 1 if query.max_price is None else amount_key(query.max_price)
        return self.between(name, classed(upper, low), classed(upper, high))

    def doubtful(self, query: Query) -> Part | None:
        """Listings whose amounts agree with a bound in more digits than keys hold; None when there can be none."""
        if not asks_price(query):
            return None
        asked = [bound for each in self.each_currency(query) for bound in (each.min_price, each.max_price)]
        bounds = {amount_key(bound) for bound in asked if bound is not None}
        odd = [classed(0, bound) for bound in sorted(bounds) if bound % 2]
        return either([self.between(cost_column(0), bound, bound) for bound in odd]) if odd else None

    def words(self, plan: Plan, vocabulary: Vocabulary, query: Query) -> list[Part]:
        """One query a word: the points of the best choice that a document holds. Documents that a plain search does not
        find keep their terms apart, and the vocabulary does not know their levels."""
        kinds: list[Kind] = [("words", vocabulary.levels)]
        if not is_plain(query):
            kinds.append(("others", lambda _: (1 << LEVELS) - 1))
        return [self._word(word, kinds) for word in plan.words]

    def tiers(self, word: Word, vocabulary: Vocabulary) -> list[tuple[int, Part]]:
        """The listed documents that hold a word by the points it makes there, the most first; a document may be found
        in several. Empty for a word whose choices are of several terms."""
        found: dict[int, list[Part]] = {}
        for choice in word.choices:
            if len(choice.terms) > 1:
                return []
            for points, part in self._listed_levels(choice, vocabulary.levels):
                found.setdefault(points, []).append(part)
        return [(points, either(found[points])) for points in sorted(found, reverse=True)]

    def _listed_levels(self, choice: Choice, levels: Callable[[str], int]) -> Iterator[tuple[int, Part]]:
        (term,) = choice.terms
        for level, points in present(choice, levels(term)):
            yield points, self.term("words", f"{term}~{level}")

    def held(self, word: Word) -> Part:
        """The listed documents that hold a word, at whatever level; none counts more than another."""
        return either([every([self.term("held", term) for term in choice.terms]) for choice in word.choices])

    def _word(self, word: Word, kinds: list[Kind]) -> Part:
        return best([self._choice(choice, *kind) for choice in word.choices for kind in kinds])

    def _choice(self, choice: Choice, name: str, levels: Callable[[str], int]) -> Part:
        # A term stands in a document at one level, so adding up is taking the best, and Tantivy is faster at it.
        return every([either(list(self._term_levels(name, levels, choice, term))) for term in choice.terms])

    def _term_levels(self, name: str, levels: Callable[[str], int], choice: Choice, term: str) -> Iterator[Part]:
        for level, points in present(choice, levels(term)):
            yield tantivy.Query.const_score_query(self.term(name, f"{term}~{level}"), float(points))


def present(choice: Choice, levels: int) -> Iterator[tuple[int, int]]:
    """The levels that a term stands at somewhere (bit n: level n + 1), and the points that each makes."""
    for level, points in enumerate(choice.points, 1):
        if levels >> (level - 1) & 1:
            yield level, points


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
