"""How would people find a listing? Its ranks, prices and hints as a page, or as JSON when Accept prefers that."""

from __future__ import annotations

from aiohttp import web

from overlay.answers.record import as_json
from overlay.api import listing_api
from overlay.api.answers import SERVICES
from overlay.api.base_url import base_url
from overlay.api.executors import PUBLISHING, run_in
from overlay.api.findability_searches import of_listing
from overlay.api.problems import listing_problem
from overlay.api.services import AppServices
from overlay.listings import lookup
from overlay.web.rendering import PAGE_BYTES, html_answer, problem_page, render_within, wants_json


async def findability(request: web.Request) -> web.Response:
    """How people find a listing, or that as JSON when Accept prefers it."""
    if wants_json(request):
        return await listing_api.findability(request)
    try:
        body = await run_in(request, PUBLISHING, _page, request.app[SERVICES], request.match_info["id"])
    except lookup.ListingNotFoundError as error:
        return problem_page(listing_problem(error, base_url(request)))
    return html_answer(body)


def _page(services: AppServices, id_: str) -> bytes:
    listing = lookup.single_listing(services.store, id_)
    findability = as_json(of_listing(services, listing))
    return render_within(
        "findability.html", PAGE_BYTES, name=listing.card.name or listing.id, id=listing.id, findability=findability
    )
