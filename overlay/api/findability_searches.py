"""How would I be found? Searches as a person types them for the words of a listing, or of a card that is not listed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from overlay.answers.publishing import Findability
from overlay.api.problems import BadRequestError
from overlay.api.search_request import from_pairs
from overlay.api.services import AppServices
from overlay.listings.findability import LOOKED_AT, Searches, findability, unlisted
from overlay.listings.listing import Listing
from overlay.projection.documents import document
from overlay.search.query import Hits, Query
from parsers.cards import Kind, examine


def of_listing(services: AppServices, listing: Listing) -> Findability:
    """How a listing is found. Raises EngineError."""
    return findability(listing, _searches(services, services.engine.search, is_listed=True, ranks=True))


def of_card(services: AppServices, body: bytes, kind: str | None, id_: str = "") -> Findability | None:
    """How a card, or the first server of one, would be found, instead of the listing `id_` that it updates; None
    without a card. Raises EngineError."""
    card = None if kind == "prices" else examine(body, None if kind is None else Kind(kind)).card
    if card is None:
        return None
    name, caip2 = next(iter(services.chains().items()), ("", ""))
    listing = unlisted(card, name, caip2)
    search = services.engine.with_document(document(listing))
    without = (f"registration:{id_.partition('#')[0]}",) if id_ else ()

    def run(search: Callable[[Query], Hits], query: Query) -> Hits:
        return search(query._replace(not_facts=(*query.not_facts, *without)))

    ranking = partial(run, search or services.engine.search)
    return findability(listing, _searches(services, ranking, is_listed=False, ranks=search is not None))


def _searches(services: AppServices, run: Callable[[Query], Hits], *, is_listed: bool, ranks: bool) -> Searches:
    chains, exchange, systems = services.chains(), services.exchange, services.site.systems
    quotes = exchange.quotes()

    def find(text: str) -> Hits | None:
        try:
            parameters = [("q", text), ("limit", str(LOOKED_AT))]
            return run(from_pairs(parameters, chains, exchange, services.heights(), systems).query)
        except BadRequestError:
            return None

    return Searches(find, run, is_listed, ranks, quotes or (lambda _: {}))
