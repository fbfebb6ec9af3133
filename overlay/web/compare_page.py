"""Two to four listings side by side, or that as JSON when Accept prefers it."""

from __future__ import annotations

from aiohttp import web

from overlay.api import listing_api
from overlay.api.answers import SERVICES, weak_etag
from overlay.api.base_url import base_url
from overlay.api.executors import RECORDS, run_in
from overlay.api.parameters import COMPARE, pairs, read
from overlay.api.problems import BadRequestError, ProblemError, listing_problem
from overlay.listings.lookup import ListingNotFoundError
from overlay.web.rendering import html_answer, problem_page, render, wants_json

TITLES = {
    "does": "What it does", "skills": "Skills", "answers": "Does it answer?", "price": "Price", "cost": "For my use",
    "use": "How it is reached", "access": "Runs", "credentials": "Credentials", "protocol": "Protocol",
    "rating": "Rated by those who paid", "beware": "Beware of", "domain": "Domain", "registered": "Registered",
    "owner": "Owner",
}  # fmt: skip
"""The facts of `overlay.listings.comparison` as headings of rows."""


async def compare(request: web.Request) -> web.Response:
    """Two to four listings side by side, or their items and facts as JSON when Accept prefers that."""
    if wants_json(request):
        return await listing_api.compare(request)
    filled = [pair for pair in pairs(request.rel_url.raw_query_string) if pair[1].strip()]
    parameters, faults = read(filled, COMPARE)
    try:
        if faults:
            raise BadRequestError(faults)
        shown = await run_in(request, RECORDS, listing_api.comparison, request.app[SERVICES], parameters)
    except ListingNotFoundError as error:
        return problem_page(listing_problem(error, base_url(request)))
    except ProblemError as problem:
        return problem_page(problem)
    terms = {name: next((value for key, value in filled if key == name), "") for name in ("calls", "priceCurrency")}
    body = render("compare.html", titles=TITLES, terms=terms, **shown)
    return html_answer(body, etag=weak_etag(body))
