"""A search that is slow and obvious: each listing is tested against each filter, one after the other.

The rules are written down again from the design (laws 13, 14 and 19), with flat price rows. It knows plain words only:
lower-case text between spaces, compared whole. What the product makes of other texts (stems, compounds, scripts without
spaces, typing errors) is not repeated here; tests state which words a text means.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tests.oracles.prices import Row, meaning, per_day, per_month, row_meets, row_price, rows

if TYPE_CHECKING:
    from overlay.search.document import Document
    from overlay.search.query import Operators, Query
    from parsers.cards.offers import Offer

Words = Sequence[str]
"""The words that a search text means, in lower case, alternatives with a bar between them. None at all means every
listing."""


def plain_words(text: str) -> list[str]:
    """The words of a text without punctuation, each once, in order; two with `OR` between them are alternatives."""
    return list(dict.fromkeys(text.replace(" OR ", "|").lower().split()))


def texts_of(document: Document) -> list[str]:
    """Every searched text of a listing."""
    texts = [document.name, document.description, *document.tags, *document.words]
    for skill in document.skills:
        texts += [skill.id, skill.name, skill.description, *skill.tags, *skill.examples]
    return texts


def has_word(document: Document, words: Words) -> bool:
    """Whether a listing contains at least one of the words."""
    alternatives = {alternative for word in words for alternative in word.split("|")}
    return not words or any(set(text.lower().split()) & alternatives for text in texts_of(document))


def has_all_words(document: Document, words: Words) -> bool:
    """Whether a listing contains every word, in whichever of its texts."""
    return all(has_word(document, [word]) for word in words)


def has_phrase(document: Document, phrase: str) -> bool:
    """Whether one text of a listing contains the words of a phrase one after the other."""
    return any(f" {phrase} " in f" {' '.join(text.lower().split())} " for text in texts_of(document))


def _tags(document: Document) -> set[str]:
    tags = [*document.tags, *(tag for skill in document.skills for tag in skill.tags)]
    return {tag.casefold() for tag in tags}


def _skills(document: Document) -> set[str]:
    """The ids of its skills, and of those that its offers name."""
    named = [id_ for offer in document.offers for id_ in offer.skill_ids or ()]
    return {skill.id for skill in document.skills} | set(named)


def meets_operators(document: Document, operators: Operators | None) -> bool:
    """Whether a listing meets the phrases and exclusions of a search text."""
    return operators is None or (
        all(has_phrase(document, phrase) for phrase in operators.phrases)
        and not any(
            has_phrase(document, phrase) or f"run:{phrase}" in document.more_facts for phrase in operators.excluded
        )
        and _tags(document).isdisjoint(operators.not_tags)
        and document.owner not in operators.not_owners
        and {id_.casefold() for id_ in _skills(document)}.isdisjoint(operators.not_skills)
    )


def meets_filters(document: Document, query: Query) -> bool:
    """Whether a listing meets everything that is asked beside the words."""
    chain = {document.chain, document.caip2}
    return (
        _is_current(document, query)
        and (not query.statuses or document.status in query.statuses)
        and query.kind in {None, document.kind}
        and (not query.tags or not _tags(document).isdisjoint(query.tags))
        and (not query.chains or not chain.isdisjoint(query.chains))
        and (not query.domains or document.domain in query.domains)
        and (not query.owners or document.owner in query.owners)
        and query.verified in {None, document.verified}
        and query.flagged in {None, "flagged" in document.more_facts}
        and query.deprecated in {None, "deprecated" in document.more_facts}
        and query.runnable in {None, "runnable" in document.more_facts}
        and query.for_sale in {None, "for_sale" in document.more_facts}
        and query.reachable in {None, "reachable" in document.more_facts}
        and (not query.health or document.health in query.health)
        and _is_used_so(document, query)
        and (query.min_customers is None or _customers(document) >= query.min_customers)
        and _is_in_heights(document, query)
        and _is_updated_since(document, query.updated_since)
        and any(row_meets(row, query) for row in rows(document.skills, document.offers))
        and meets_operators(document, query.operators)
    )


def _customers(document: Document) -> int:
    """The customers of a listing, none of one without a rating."""
    numbers = [fact.removeprefix("customers:") for fact in document.more_facts if fact.startswith("customers:")]
    return max(map(int, numbers), default=0)


def _is_used_so(document: Document, query: Query) -> bool:
    """Whether a listing states each way of use that is asked for; nothing of it means neither true nor false."""
    usage = document.usage
    return (
        all(
            not values or not set(values).isdisjoint(stated)
            for values, stated in (
                (query.access, usage.access),
                (query.transports, usage.transports),
                (query.auth, usage.auth),
                (query.protocols, usage.protocols),
                (query.launchers, usage.launchers),
            )
        )
        and (query.streaming is None or usage.streaming is query.streaming)
        and (query.has_price is None or usage.has_price is query.has_price)
    )


def _is_current(document: Document, query: Query) -> bool:
    """Whether a document is the newest of its listing, or was after the block that is asked for."""
    since, until = document.from_height, document.until_height
    if query.as_of is None:
        return until is None
    if since is None or query.height_chain not in {document.chain, document.caip2}:
        return False
    return since <= query.as_of and (until is None or query.as_of < until)


def _is_updated_since(document: Document, since: int | None) -> bool:
    times = (document.updated_time, document.notice_time)
    return since is None or any(time is not None and time >= since for time in times)


def _is_in_heights(document: Document, query: Query) -> bool:
    if query.from_height is None and query.to_height is None:
        return True
    height = document.updated_height
    if height is None or query.height_chain not in {document.chain, document.caip2}:
        return False
    low = height if query.from_height is None else query.from_height
    high = height if query.to_height is None else query.to_height
    return low <= height <= high


# -- prices


def cheapest(document: Document, query: Query) -> Offer | None:
    """The lowest of the offers that meet the query and can be compared, reading the list from the top; per day, where
    prices are compared so and any can be."""
    meeting = [
        offer
        for offer in document.offers
        if any(row.amount is not None and row_meets(row, query) for row in rows(document.skills, [offer]))
    ]
    if is_for_time(query):
        lowest = _lowest(meeting, query, lambda offer: compared_price_of(offer, query))
        if lowest is not None:
            return lowest
    if query.sort in {"price", "price_per_day", "cost"}:
        return _lowest(meeting, query, lambda offer: price_of(offer, query))
    compared = _of_one_currency([offer for offer in meeting if price_of(offer, query) is not None], query)
    by_day = query._replace(sort="price_per_day")
    of_calls = [offer for offer in compared if offer.interval_key == "none"]
    return (
        _lowest(of_calls, query, lambda offer: price_of(offer, query))
        or _lowest(compared, query, lambda offer: compared_price_of(offer, by_day))
        or _lowest(compared, query, lambda offer: price_of(offer, query))
    )


def _of_one_currency(offers: list[Offer], query: Query) -> list[Offer]:
    """The offers that can be compared with each other: without a currency those in the most frequent one."""
    if query.price_currency is not None or not offers:
        return offers
    names = [offer.currency for offer in offers]
    most = max(names.count(name) for name in names)
    currency = next(name for name in names if names.count(name) == most)
    return [offer for offer in offers if offer.currency == currency]


def is_for_time(query: Query) -> bool:
    """Whether prices are compared per day, or as the cost of a month."""
    return is_per_day(query) or query.sort == "cost"


def is_per_day(query: Query) -> bool:
    """Whether prices are compared per day."""
    lengths = [meaning(interval) for interval in query.intervals]
    return query.sort == "price_per_day" or (
        query.sort == "price" and any(isinstance(length, tuple) and any(length) for length in lengths)
    )


def _lowest(offers: list[Offer], query: Query, price_in: Callable[[Offer], Fraction | None]) -> Offer | None:
    best: Offer | None = None
    least: Fraction | None = None
    for offer in _of_one_currency([offer for offer in offers if price_in(offer) is not None], query):
        price = price_in(offer)
        if price is not None and (least is None or price < least):
            best, least = offer, price
    return best


def price_of(offer: Offer, query: Query) -> Fraction | None:
    """The price of an offer in the currency of the query."""
    return row_price(Row(None, None, None, offer.currency, offer.amount), query)


def compared_price_of(offer: Offer, query: Query) -> Fraction | None:
    """The price of an offer for one day, or its cost for a month, in the currency of the query."""
    amount, price = Fraction(offer.amount), price_of(offer, query)
    if query.sort == "cost":
        share = per_month(amount, offer.interval_key, Fraction(query.calls or 0))
    else:
        share = per_day(amount, offer.interval_key)
    if share is None or price is None or not offer.amount:
        return None if price is None else share
    return share * (price / amount)


# -- orders


def ordered(documents: Sequence[Document], query: Query, words: Words) -> list[str]:
    """The ids in the order of a field: those that contain all words, two thirds of them, and the others.

    Relevance without words is the order of updates."""
    shares = [(document, sum(has_word(document, [word]) for word in words)) for document in documents]
    first = [document for document, held in shares if held == len(words)]
    most = [document for document, held in shares if held * 3 >= len(words) * 2 and held < len(words)]
    others = [document for document, held in shares if held * 3 < len(words) * 2]
    return [id_ for tier in (first, most, others) for id_ in _ordered(tier, query)]


def _ordered(documents: Sequence[Document], query: Query) -> list[str]:
    sort = "updated" if query.sort == "relevance" else query.sort
    if sort in {"price", "price_per_day", "cost"}:
        return _by_price(documents, query)
    keys: dict[str, Callable[[Document], Any]] = {
        "updated": lambda document: (*_latest(document.updated_time, document.updated_height), document.id),
        "created": lambda document: (*_latest(document.created_time, document.created_height), document.id),
        "name": lambda document: (document.name.lower()[:100], document.id),
    }
    down = query.sort in {"relevance", "updated", "created", "rating"}
    reverse = query.descending is not None and query.descending != down
    worst = 1_001 if reverse else -1  # without a rating: last either way
    keys["rating"] = lambda document: (
        -(worst if document.rating is None else document.rating),
        *_latest(document.updated_time, None),
        document.id,
    )
    return [document.id for document in sorted(documents, key=keys[sort], reverse=reverse)]


def _latest(time: int | None, height: int | None) -> tuple[bool, int, int]:
    """The sort key by time: unconfirmed listings first, then the newest."""
    return (True, -time, -(height or 0)) if time is not None else (False, 0, 0)


def _by_price(documents: Sequence[Document], query: Query) -> list[str]:
    priced: list[tuple[str, Fraction, str]] = []
    unpriced: list[str] = []
    price_in = compared_price_of if is_for_time(query) else price_of
    for document in documents:
        offer = cheapest(document, query)
        price = None if offer is None else price_in(offer, query)
        if offer is None or price is None:
            unpriced.append(document.id)
        else:
            is_free = price == 0 and query.price_currency is None  # first, where currencies are not compared
            priced.append(("" if is_free else query.price_currency or offer.currency, price, document.id))
    reverse = bool(query.descending)
    return [id_ for *_, id_ in sorted(priced, reverse=reverse)] + sorted(unpriced, reverse=reverse)


# -- facets


def _values(document: Document, facet: str) -> set[str]:
    return {
        "type": {document.kind},
        "chain": {document.chain},
        "status": {document.status},
        "skillId": _skills(document),
        "acceptedCurrency": {currency for offer in document.offers for currency in offer.accepted},
        "interval": {offer.interval_key for offer in document.offers},
        "tag": _tags(document),
        "access": set(document.usage.access),
        "transport": set(document.usage.transports),
        "auth": set(document.usage.auth),
        "protocol": set(document.usage.protocols),
        "launcher": set(document.usage.launchers),
        "health": {document.health} - {""},
    }[facet]


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
        "access": query._replace(access=()),
        "transport": query._replace(transports=()),
        "auth": query._replace(auth=()),
        "protocol": query._replace(protocols=()),
        "launcher": query._replace(launchers=()),
        "health": query._replace(health=()),
    }[facet]


def _choosing(query: Query, facet: str, value: str) -> Query:
    """The query with one value of a facet chosen; bounds of prices without a currency are in the one that is chosen."""
    prices = query.min_price is not None or query.max_price is not None
    into = value if prices and query.price_currency is None else query.price_currency
    return {
        "type": query._replace(kind=value),
        "skillId": query._replace(skills=(value.casefold(),)),
        "acceptedCurrency": query._replace(currencies=(value,), price_currency=into),
        "interval": query._replace(intervals=(value,)),
        "tag": query._replace(tags=(value,)),
        "chain": query._replace(chains=(value,)),
        "status": query._replace(statuses=(value,)),
        "access": query._replace(access=(value,)),
        "transport": query._replace(transports=(value,)),
        "auth": query._replace(auth=(value,)),
        "protocol": query._replace(protocols=(value,)),
        "launcher": query._replace(launchers=(value,)),
        "health": query._replace(health=(value,)),
    }[facet]


def hash_of(value: str) -> str:
    """The hash by which equally common values are ordered."""
    return hashlib.blake2b(value.casefold().encode(), digest_size=8).hexdigest()


@dataclass
class Oracle:
    """Documents in a list."""

    documents: list[Document] = field(default_factory=list)

    def replace(self, registrations: Iterable[str], documents: Iterable[Document]) -> None:
        """Remove all documents of `registrations`, and add `documents`."""
        replaced = set(registrations)
        self.documents = [document for document in self.documents if document.registration not in replaced]
        self.documents += documents

    def results(self, query: Query, words: Words) -> list[Document]:
        """The documents that are the answer, in no special order."""
        return [document for document in self.documents if has_word(document, words) and meets_filters(document, query)]

    def matched(self, query: Query, words: Words) -> int:
        """How many of these contain all words."""
        return sum(has_all_words(document, words) for document in self.results(query, words))

    def facets(self, query: Query, words: Words) -> dict[str, tuple[tuple[str, int], ...]] | None:
        """The fifty commonest values of each facet asked for, of equally common ones the first by hash: how many are
        results once a value is chosen in place of all others of its facet."""
        return {name: self._facet(_without(query, name), words, name) for name in query.facets} or None

    def _facet(self, wide: Query, words: Words, name: str) -> tuple[tuple[str, int], ...]:
        # without bounds of prices, which may be in the currency that is chosen
        documents = self.results(wide._replace(min_price=None, max_price=None), words)
        counts = {}
        for value in {value for document in documents for value in _values(document, name)}:
            chosen = _choosing(wide, name, value)
            counts[value] = sum(meets_filters(document, chosen) for document in documents)
        pairs = [pair for pair in counts.items() if pair[1]]
        return tuple(sorted(pairs, key=lambda pair: (-pair[1], hash_of(pair[0])))[:50])
