"""A search that is slow and obvious: every listing is looked at, every filter tested one after the other.

The rules are written down again from the design (laws 13, 14 and 19), with flat price rows. Cutting text into words is
the analyser's and what stands for a word is the planner's, since all engines must read a question alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from overlay.document import Document
from overlay.query import Operators, Query
from overlay.search.analysis import fold, sequences, stem, words
from overlay.search.planner import ALL, Group, QueryPlan
from parsers.matching import Filter
from parsers.offers import Offer
from tests.oracles.prices import Row, row_meets, row_price, rows


def distance(one: str, other: str) -> int:
    """Insertions, deletions, substitutions and transpositions of neighbours, none of whose letters is edited again."""
    table = {(row, 0): row for row in range(len(one) + 1)} | {(0, column): column for column in range(len(other) + 1)}
    for row, left in enumerate(one, 1):
        for column, right in enumerate(other, 1):
            ways = [
                table[row - 1, column] + 1,
                table[row, column - 1] + 1,
                table[row - 1, column - 1] + (left != right),
            ]
            if row > 1 and column > 1 and left == other[column - 2] and one[row - 2] == right:
                ways.append(table[row - 2, column - 2] + 1)
            table[row, column] = min(ways)
    return table[len(one), len(other)]


def text_of(document: Document) -> set[str]:
    """Every word of a listing, as written (folded)."""
    texts = [document.name, document.description, *document.tags, *document.words]
    for skill in document.skills:
        texts += [skill.id, skill.name, skill.description, *skill.tags, *skill.examples]
    return {word for text in texts for word in words(text)}


def is_shown(document: Document) -> bool:
    """Whether a plain search may find a document; only such are counted, and proposed for mistyped words."""
    return document.until_height is None and document.status in {"live", "pending"}


def holds(document: Document, group: Group) -> bool:
    """Whether a document holds an alternative for a word of a plan."""
    terms = _terms(document)
    return any(each.term in terms for each in group.alternatives)


_known: dict[int, tuple[Document, set[str]]] = {}


def _terms(document: Document) -> set[str]:
    """The terms of a document, which are compared often."""
    if id(document) not in _known:
        _known[id(document)] = document, {stem(word) for word in text_of(document)}
    return _known[id(document)][1]


def holds_all(document: Document, plan: QueryPlan) -> bool:
    """Whether a document holds every word of a plan."""
    return all(holds(document, group) for group in plan.groups)


def _says(document: Document, sequence: str) -> bool:
    """Whether one text of a document says index terms one after the other, or is cut into such words."""
    texts = [document.name, document.description, *document.tags, *document.words]
    for skill in document.skills:
        texts += [skill.id if not skill.name else skill.name, skill.description, *skill.tags, *skill.examples]
        texts += [skill.id]
    asked_for = sequence.split()
    for text in texts:
        for said in map(str.split, sequences(text)):
            if any(said[at : at + len(asked_for)] == asked_for for at in range(len(said))):
                return True
    return False


def _meets_operators(document: Document, operators: Operators | None) -> bool:
    if operators is None:
        return True
    tags = {tag.casefold() for tag in document.tags}
    skills = {skill.id for skill in document.skills}
    for skill in document.skills:
        tags |= {tag.casefold() for tag in skill.tags}
    for offer in document.offers:
        skills |= set(offer.skill_ids or ())
    return (
        all(_says(document, phrase) for phrase in operators.phrases)
        and not any(_says(document, phrase) for phrase in operators.excluded)
        and tags.isdisjoint(operators.not_tags)
        and document.owner not in operators.not_owners
        and skills.isdisjoint(operators.not_skills)
    )


def _is_admitted(document: Document, query: Query) -> bool:
    """Every filter but the text, one after the other."""
    chain = {document.chain, document.caip2}
    if query.as_of is None:
        stands = document.until_height is None
    else:
        until = document.until_height
        stands = (
            query.height_chain in chain
            and document.from_height is not None
            and document.from_height <= query.as_of
            and (until is None or query.as_of < until)
        )
    tags = {tag.casefold() for tag in document.tags}
    for skill in document.skills:
        tags |= {tag.casefold() for tag in skill.tags}
    return (
        stands
        and (not query.statuses or document.status in query.statuses)
        and query.kind in {None, document.kind}
        and (not query.tags or bool(tags & set(query.tags)))
        and (not query.chains or bool(chain & set(query.chains)))
        and (not query.domains or document.domain in query.domains)
        and (not query.owners or document.owner in query.owners)
        and query.verified in {None, document.verified}
        and _is_in_heights(document, query)
        and (query.updated_since is None or _time(document) >= query.updated_since)
        and any(row_meets(row, _filter(query)) for row in rows(document.skills, document.offers))
        and _meets_operators(document, query.operators)
    )


def _time(document: Document) -> float:
    return float("-inf") if document.updated_time is None else document.updated_time


def _is_in_heights(document: Document, query: Query) -> bool:
    if query.from_height is None and query.to_height is None:
        return True
    height = document.updated_height
    if height is None or query.height_chain not in {document.chain, document.caip2}:
        return False
    low = height if query.from_height is None else query.from_height
    high = height if query.to_height is None else query.to_height
    return low <= height <= high


def _filter(query: Query) -> Filter:
    prices = (query.min_price, query.max_price, query.price_currency, query.rates)
    return Filter(query.skills, query.currencies, query.intervals, *prices)


def cheapest(document: Document, query: Query) -> Offer | None:
    """The lowest of the offers that meet the query, reading the list from the top."""
    best: Offer | None = None
    least: Fraction | None = None
    anchor: str | None = None
    for offer in document.offers:
        table = rows(document.skills, [offer])
        if any(row.amount is not None and row_meets(row, _filter(query)) for row in table):
            anchor = anchor or offer.currency
            price = price_of(offer, query)
            comparable = query.price_currency is not None or offer.currency == anchor
            if comparable and price is not None and (least is None or price < least):
                best, least = offer, price
    return best


def price_of(offer: Offer, query: Query) -> Fraction | None:
    """What an offer costs in the currency asked for."""
    return row_price(Row(None, None, None, offer.currency, offer.amount), _filter(query))


def _values(document: Document, facet: str) -> set[str]:
    skills = {skill.id for skill in document.skills}
    tags = set(document.tags)
    for skill in document.skills:
        tags |= set(skill.tags)
    for offer in document.offers:
        skills |= set(offer.skill_ids or ())
    found: dict[str, set[str]] = {
        "type": {document.kind},
        "chain": {document.chain},
        "status": {document.status},
        "skillId": skills,
        "acceptedCurrency": {currency for offer in document.offers for currency in offer.accepted},
        "interval": {offer.interval_key for offer in document.offers},
        "tag": {tag.casefold() for tag in tags},
    }
    return found[facet]


def ordered(documents: Sequence[Document], query: Query, plan: QueryPlan) -> list[str]:
    """The ids in the order of a field, those that hold all words first. Relevance without words is that of updates."""
    first = [each for each in documents if holds_all(each, plan)]
    others = [each for each in documents if not holds_all(each, plan)]
    return _ordered(first, query) + _ordered(others, query)


def _ordered(documents: Sequence[Document], query: Query) -> list[str]:
    sort = "updated" if query.sort == "relevance" else query.sort
    if sort == "price":
        return _by_price(documents, query)
    keys: dict[str, Callable[[Document], Any]] = {
        "updated": lambda each: (*_latest(each.updated_time, each.updated_height), each.id),
        "created": lambda each: (*_latest(each.created_time, each.created_height), each.id),
        "name": lambda each: (fold(each.name).casefold()[:100].replace("\n", " "), each.id),
    }
    down = query.sort in {"relevance", "updated", "created"}
    reverse = query.descending is not None and query.descending != down
    return [each.id for each in sorted(documents, key=keys[sort], reverse=reverse)]


def _latest(time: int | None, height: int | None) -> tuple[bool, int, int]:
    """What is unconfirmed comes first, then the later the earlier."""
    return (True, -time, -(height or 0)) if time is not None else (False, 0, 0)


def _by_price(documents: Sequence[Document], query: Query) -> list[str]:
    priced: list[tuple[str, Fraction, str]] = []
    unpriced: list[str] = []
    for each in documents:
        offer = cheapest(each, query)
        price = None if offer is None else price_of(offer, query)
        if offer is None or price is None:
            unpriced.append(each.id)
        else:
            priced.append((query.price_currency or offer.currency, price, each.id))
    reverse = bool(query.descending)
    return [id_ for *_, id_ in sorted(priced, reverse=reverse)] + sorted(unpriced, reverse=reverse)


def _without(query: Query, facet: str) -> Query:
    """The query without what the facet is filtered by; live and pending are found without asking."""
    asks_status = set(query.statuses) != {"live", "pending"}
    return {
        "type": query._replace(kind=None),
        "skillId": query._replace(skills=()),
        "acceptedCurrency": query._replace(currencies=()),
        "interval": query._replace(intervals=()),
        "tag": query._replace(tags=()),
        "chain": query._replace(chains=()),
        "status": query._replace(statuses=()) if asks_status else query,
    }[facet]


def _unpriced(query: Query) -> Query:
    """The query without bounds of prices, which may be in the currency that is chosen."""
    return query._replace(min_price=None, max_price=None)


def _choosing(query: Query, facet: str, value: str) -> Query:
    """The query with one value of a facet chosen; bounds of prices without a currency are in the one that is chosen."""
    prices = query.min_price is not None or query.max_price is not None
    into = value if prices and query.price_currency is None else query.price_currency
    return {
        "type": query._replace(kind=value),
        "skillId": query._replace(skills=(value,)),
        "acceptedCurrency": query._replace(currencies=(value,), price_currency=into),
        "interval": query._replace(intervals=(value,)),
        "tag": query._replace(tags=(value,)),
        "chain": query._replace(chains=(value,)),
        "status": query._replace(statuses=(value,)),
    }[facet]


@dataclass
class Oracle:
    """Documents in a list."""

    documents: list[Document] = field(default_factory=list)

    def replace(self, registrations: Iterable[str], documents: Iterable[Document]) -> None:
        """As an engine's."""
        gone = set(registrations)
        self.documents = [each for each in self.documents if each.registration not in gone] + list(documents)

    def found(self, query: Query, plan: QueryPlan = ALL) -> list[Document]:
        """The documents that are the answer, in no special order."""
        if plan.finds_nothing:
            return []
        admitted = [each for each in self.documents if _is_admitted(each, query)]
        return [each for each in admitted if not plan.groups or any(holds(each, group) for group in plan.groups)]

    def matched(self, query: Query, plan: QueryPlan) -> int:
        """How many of these hold all words."""
        return sum(holds_all(each, plan) for each in self.found(query, plan))

    def facets(self, query: Query, plan: QueryPlan) -> dict[str, tuple[tuple[str, int], ...]] | None:
        """The fifty commonest values of each facet asked for, of equally common ones the first by value: what is found
        once a value is chosen in place of all others of its facet."""
        counts: dict[str, tuple[tuple[str, int], ...]] = {}
        for name in query.facets:
            wide = _without(query, name)
            documents = self.found(_unpriced(wide), plan)
            values = {value for each in documents for value in _values(each, name)}
            chosen = {value: _choosing(wide, name, value) for value in values}
            pairs = [(value, sum(_is_admitted(each, chosen[value]) for each in documents)) for value in values]
            counts[name] = tuple(sorted((p for p in pairs if p[1]), key=lambda pair: (-pair[1], pair[0]))[:50])
        return counts or None
