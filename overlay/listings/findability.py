"""How would I be found? The rank of a listing in searches for its own words, its prices beside those of others, and
what would let more people find it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import islice
from statistics import median
from typing import NamedTuple

from indexer.check_verdict import CheckedState
from indexer.headers.networks import ticker_of
from indexer.model import RegistrationState
from overlay.answers.publishing import (
    HINTS,
    CheaperListing,
    Findability,
    FindabilityHint,
    FindabilitySearch,
    SkillPrice,
)
from overlay.answers.record import Amount
from overlay.listings.listing import Listing, Shown, listings_of
from overlay.listings.records import Registration
from overlay.search.facts import id_fact
from overlay.search.query import Hit, Hits, Query
from overlay.text.compact_json import decode
from overlay.text.safe_text import one_line
from parsers.bitcoin.tx import Outpoint
from parsers.cards import Card, McpServer, offer_filter
from parsers.cards.offer_filter import OfferFilter
from parsers.cards.offers import Offer, in_coin

MOST_SEARCHES = 20
LOOKED_AT = 100
"""Results of a search among which a listing is looked for."""
_SKILLS_PRICED, _LEAST_PRICES, _PRICES_READ = 4, 5, 500
_EXAMPLES, _NAMES, _LONGEST = 10, 6, 256
"""Examples, and then names of skills, that are searched for before tags and others; and the characters of one."""
_MOST_HINTS = 7
_DESCRIPTION_WORDS = 8
"""Words that a description has at least."""


class Searches(NamedTuple):
    """The searches that findability is of: `find` those of a person who types a text (None for one that cannot be
    searched for), `run` one of the index. `is_listed`: the listing is in the index; `ranks`: it is among the results of
    `find`. `rates` gives units of a currency for one of each other."""

    find: Callable[[str], Hits | None]
    run: Callable[[Query], Hits]
    is_listed: bool
    ranks: bool
    rates: Callable[[str], Mapping[str, Decimal]]


_UNLISTED = Outpoint(bytes(32), 0)


def unlisted(card: Card, chain: str, caip2: str) -> Listing:
    """The listing that a card, or the first server of one, would be on a chain: new, and without a badge."""
    state = RegistrationState.begun(str(_UNLISTED), card.kind, bytes(32), _UNLISTED, 0)
    record = Registration(state=state, chain=chain, caip2=caip2, updated_time=0, created_time=0)
    return listings_of(record, card)[0]


def findability(listing: Listing, searches: Searches) -> Findability:
    """How a listing, or one that is not listed yet (`unlisted`), is found. Raises EngineError."""
    offers = tuple(in_coin(offer, ticker_of(listing.caip2)) for offer in listing.card.offers)
    card: Shown = replace(listing.card, offers=offers)
    is_shown = not searches.is_listed or _is_shown(listing, searches)
    prices = list(_prices(card, listing, searches))
    left = MOST_SEARCHES - searches.is_listed - min(len(card.skills), _SKILLS_PRICED)
    answers = [_search(text, source, listing, card, searches) for text, source in islice(_texts(card), left)]
    results = [result for result in answers if result is not None]
    hints = dict(_hints(listing, card, results, is_shown=is_shown, ranks=searches.ranks))
    ordered = [FindabilityHint(code=code, detail=hints[code]) for code in HINTS if code in hints]
    return Findability(searches=tuple(results), prices=tuple(prices), hints=tuple(ordered[:_MOST_HINTS]))


def _is_shown(listing: Listing, searches: Searches) -> bool:
    return searches.run(Query(more_facts=((id_fact(listing.id),),), limit=1)).total > 0


def _texts(card: Shown) -> Iterator[tuple[str, str]]:
    """The texts to search for with their source, each one once: examples, names of skills, tags, and what is left."""
    examples = [(example, "example") for skill in card.skills for example in skill.examples]
    names = [(skill.name or skill.id, "skill") for skill in card.skills]
    keywords = card.keywords if isinstance(card, McpServer) else ()
    tags = [(tag, "tag") for tag in (*card.tags, *keywords, *(tag for skill in card.skills for tag in skill.tags))]
    seen = set[str]()
    for text, source in (
        *examples[:_EXAMPLES], *names[:_NAMES], *tags, *examples[_EXAMPLES:], *names[_NAMES:],
    ):  # fmt: skip
        folded = " ".join(text.split()).casefold()
        if folded and len(text) <= _LONGEST and folded not in seen and one_line(text) == text:
            seen.add(folded)
            yield text, source


def _search(text: str, source: str, listing: Listing, card: Shown, searches: Searches) -> FindabilitySearch | None:
    hits = searches.find(text)
    if hits is None:
        return None
    ids = [hit.id for hit in hits.hits]
    position = ids.index(listing.id) if searches.ranks and listing.id in ids else None
    if position is not None:
        lacks: Iterable[str] = hits.hits[position].lacks
    else:
        terms = listing.analysed.terms()
        alternatives = {group.word: {other.term for other in group.alternatives} for group in hits.plan.content}
        lacks = [word for word, others in alternatives.items() if others.isdisjoint(terms)]
    return FindabilitySearch(
        q=text, source=source, rank=None if position is None else position + 1, total=hits.total,
        at_least=hits.at_least, lacks=tuple(lacks),
        cheapest_before=_cheapest(hits.hits[:position], card) if position is not None else None,
    )  # fmt: skip


def price_of(card: Shown, skills: Sequence[str] = ()) -> Offer | None:
    """The cheapest offer of a card, for one of these skills (case-folded) where there are any."""
    least = offer_filter.cheapest(offer_filter.entries(card), OfferFilter(skills=skills))
    return least.offer if least is not None else None


def _cheapest(before: Iterable[Hit], card: Shown) -> CheaperListing | None:
    """The cheapest of some results, by prices in the currency and interval of the card's cheapest price."""
    offer = price_of(card)
    if offer is None:
        return None
    prices = [(price, hit) for hit in before if (price := _comparable(hit, offer)) is not None]
    if not prices:
        return None
    price, hit = min(prices, key=lambda pair: pair[0])
    return CheaperListing(
        id=hit.id, name=decode(bytes(hit.item)).get("name") or hit.id, amount=Amount(price), currency=offer.currency,
        interval=offer.interval_key,
    )  # fmt: skip


def _comparable(hit: Hit, offer: Offer) -> Decimal | None:
    """The price of a result in the unit of an offer."""
    price = hit.cheapest
    if price is None or price.interval != offer.interval_key:
        return None
    amount, currency = price.converted or (price.amount, price.currency)
    return Decimal(amount) if currency == offer.currency else None


def _prices(card: Shown, listing: Listing, searches: Searches) -> Iterator[SkillPrice]:
    """The prices for the first skills beside the median of others, from five prices on."""
    for skill in card.skills[:_SKILLS_PRICED]:
        offer = price_of(card, (skill.id.casefold(),))
        if offer is None:
            continue
        query = Query(
            skills=(skill.id.casefold(),), intervals=(offer.interval_key,), min_price=Decimal(0),
            price_currency=offer.currency, rates=searches.rates(offer.currency), sort="updated", limit=_PRICES_READ,
        )  # fmt: skip
        others = [hit for hit in searches.run(query).hits if hit.id != listing.id]
        prices = [price for hit in others if (price := _comparable(hit, offer)) is not None]
        if len(prices) >= _LEAST_PRICES:
            yield SkillPrice(
                skill_id=skill.id, amount=Amount(offer.amount), currency=offer.currency, interval=offer.interval_key,
                median=Amount(median(prices)), prices=len(prices),
            )  # fmt: skip


def _hints(
    listing: Listing, card: Shown, results: Sequence[FindabilitySearch], *, is_shown: bool, ranks: bool
) -> Iterator[tuple[str, str]]:
    """The hints that apply, by code."""
    skills, offers = card.skills, card.offers
    if listing.status not in ("live", "pending"):
        yield "not-live", f"It is {listing.status}: searches leave it out."
    elif not is_shown:
        yield "shown-elsewhere", "Another listing with the same text is shown instead; let your domain name this one."
    if listing.badge is not None and listing.badge.verdict.state is CheckedState.REFUSED:
        yield "not-served", f"{listing.host} does not name it: serve the card there, with its id as x-a2b-id."
    if len(card.description.split()) < _DESCRIPTION_WORDS:
        yield (
            "no-description",
            f"Its description has fewer than {_DESCRIPTION_WORDS} words: say what it does, for whom.",
        )
    if not skills:
        yield "no-skill", "It names no skill or tool: each one is found by its name and description."
    if skills and not isinstance(card, McpServer) and not any(skill.examples for skill in skills):
        yield "no-example", "No skill has an example: questions as people would ask them are found best."
    if bare := [skill.id for skill in skills if not skill.description]:
        yield "skill-not-described", f"These have no description: {_some(bare)}."
    if bare := [offer.id or offer.currency for offer in offers if offer.interval is None and not offer.description]:
        detail = "These prices have neither an interval nor a description, and are read as prices per call"
        yield "price-without-unit", f"{detail}: {_some(bare)}."
    if not offers:
        yield "no-price", "It has no price: an amount of 0 says that it is free."
    if not card.tags and not any(skill.tags for skill in skills) and not getattr(card, "keywords", ()):
        yield "no-tag", "It has no tag: people filter by them."
    if ranks and is_shown and (far := [result.q for result in results if result.rank is None]):
        yield "not-found", f"It is not among the first {LOOKED_AT} results for {_some(far)}."


def _some(texts: Sequence[str]) -> str:
    """The first three of some texts."""
    named = ", ".join(one_line(text)[:60] for text in texts[:3])
    return f"{named} and {len(texts) - 3} more" if len(texts) > 3 else named
