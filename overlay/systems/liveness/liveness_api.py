"""The strip of 30 days that shows when a listing was visited, and when it answered."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from html import escape

from aiohttp import web

from overlay.api.answers import REVALIDATE, SERVICES, Answer
from overlay.api.problems import NotFoundError
from overlay.api.request_cost import in_thread
from overlay.api.routes import SVG, Route
from overlay.api.systems import SystemApi
from overlay.listings.lookup import single_listing
from overlay.listings.repository import ListingRepository
from overlay.systems.liveness.day_bits import DAYS, DayBits
from overlay.systems.liveness.store import HealthQueries, HealthState

WORDS = {
    HealthState.ANSWERS: "answers", HealthState.NEEDS_AUTH: "answers, and needs a key or login",
    HealthState.NEEDS_PAYMENT: "answers, and needs a payment", HealthState.FAILS: "does not answer as it should",
    HealthState.NOT_CHECKED: "was not checked lately",
}  # fmt: skip

_COLOURS = {True: "#2e8b57", False: "#c0392b", None: "#8888"}
_WIDTH, _HEIGHT = 8, 24
"""Units of a day in the box."""


async def strip(request: web.Request) -> web.Response:
    """The last 30 days of a listing as SVG: green with an answer, red without one, grey and low without a visit. 404
    where nobody looked."""
    drawn = await in_thread(_strip, request.app[SERVICES].store, request.match_info["id"])
    if not drawn:
        raise NotFoundError("nobody has looked whether this listing answers")
    headers = {"Content-Type": f"{SVG}; charset=utf-8", "Cache-Control": REVALIDATE}
    return Answer(body=drawn.encode(), headers=headers | {"Content-Security-Policy": "default-src 'none'"})


def _strip(repository: ListingRepository, text: str) -> str:
    """The drawing, "" where nobody looked. Raises ListingNotFoundError."""
    listing, now = single_listing(repository, text), time.time()
    states = HealthQueries(repository.store.engine).of_registrations([listing.state.id])
    health = states.get(listing.state.id, {}).get(listing.card.url)
    if health is None:
        return ""
    return drawing(health.days.moved_to(int(now * 1_000)), WORDS[health.state], datetime.fromtimestamp(now, UTC))


def drawing(days: DayBits, words: str, now: datetime) -> str:
    """A strip of these days, of which the last is today, with the state in words."""
    counted, answered = days.checked.bit_count(), days.answered.bit_count()
    since = (now - timedelta(days=DAYS - 1)).date()
    title = escape(
        f"It {words}. From {since} to {now.date()} it was visited on {counted} days, and answered on {answered}."
    )
    bars = "".join(
        f'<rect x="{number * _WIDTH}" y="{0 if has_answer is not None else _HEIGHT - 4}" width="{_WIDTH - 2}" '
        f'height="{_HEIGHT if has_answer is not None else 4}" fill="{_COLOURS[has_answer]}"/>'
        for number, has_answer in enumerate(days.strip())
    )
    box = f'viewBox="0 0 {DAYS * _WIDTH} {_HEIGHT}" role="img"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}><title>{title}</title>{bars}</svg>'


API = SystemApi(
    routes=(
        Route(
            "/v1/listings/{id}/health.svg", strip, None, tag="listings", media=(SVG,), errors=(404, 451),
            action="search",
        ),
    )
)  # fmt: skip
