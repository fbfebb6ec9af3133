"""The status page; its URL answers JSON when Accept prefers that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from time import time
from typing import Any

from aiohttp import web

from overlay.api import status_api
from overlay.api.answers import SERVICES
from overlay.api.executors import report
from overlay.api.height_history import HeightHistory, HeightSample
from overlay.api.services import AppServices
from overlay.text.timestamps import timestamp
from overlay.web.line_chart import Drawing, Point, line_chart
from overlay.web.rendering import html_answer, moment, render, wants_json

POINTERS = {
    "new": "not fetched yet", "met": "that meet their hash", "unhashed": "without a hash", "mismatch": "that do not",
    "failed": "tried again later", "given-up": "given up",
}  # fmt: skip
"""The states of the cards that pointers name, in words."""

DEGRADED = {
    "database": "the database does not answer or cannot be written, and counts may be old",
    "search": "searches are not answered yet",
    "index-behind": "new listings cannot be searched yet",
    "failed": "some listings, rows or hosts failed and are left out",
}  # fmt: skip
"""The parts that do not work, in words."""

MAX_CHAINS = 6
"""The number of chains whose lines are drawn: two of 3 kB at most."""


async def status(request: web.Request) -> web.Response:
    """The state of every chain, counts and versions, or the same as JSON when Accept prefers that."""
    if wants_json(request):
        return await status_api.status(request)
    return html_answer(await report(_page, request.app[SERVICES]))


def _page(services: AppServices) -> bytes:
    members, metrics = services.process.status(), not services.site.metrics_elsewhere
    now, history = int(time()), services.process.history
    chains = enumerate(members["chains"][:MAX_CHAINS])
    lines = [line for number, chain in chains for line in drawings(history, chain, now, f"chain-{number}")]
    return render(
        "status.html", here="/status", status=members, tone=tone, degraded=degraded, words=POINTERS, metrics=metrics,
        lines=lines, most_chains=MAX_CHAINS,
    )  # fmt: skip


def degraded(word: str) -> str:
    """The description of a word of `degraded`."""
    kind, _, name = word.partition(":")
    if kind == "sources-disagree":
        return f"the sources of the chain {name} disagree"
    return DEGRADED.get(word) or f"the chain {name} is not followed"


def tone(state: str, error: str) -> str:
    """The tone of a chain's state: good, warn or bad."""
    return (
        "bad" if error or state in ("silent", "stopped", "unreachable") else "good" if state == "following" else "warn"
    )


def drawings(history: HeightHistory, chain: Mapping[str, Any], now: int, name: str) -> Iterator[Drawing]:
    """The lines of a chain's height and lag, from the first sample to its state now; only of values that are known."""
    samples = [*history.samples(chain["name"]), HeightSample(now, chain["height"], chain.get("lag"))]
    heights = [Point(sample.time, sample.height) for sample in samples]
    lags = [Point(sample.time, sample.lag) for sample in samples]
    for word, points, floor in (("Height", heights, None), ("Lag", lags, 0)):
        if len(points) > 1 and any(point.value is not None for point in points):
            yield _drawing(points, f"{word} of {chain['name']}", floor, f"{name}-{word.lower()}")


def _drawing(points: Sequence[Point], caption: str, floor: int | None, name: str) -> Drawing:
    values = [point.value for point in points if point.value is not None]
    high, low, since = max(values), min(values), moment(timestamp(points[0].time))
    text = f"From {values[0]:,} to {values[-1]:,} blocks; the least was {low:,}, the greatest {high:,}."
    if high == low:
        text = f"{high:,} blocks all the time."
    svg = line_chart(points, name=name, title=f"{caption} since {since}", text=text, floor=floor)
    bottom = "" if high == low else f"{low if floor is None else min(low, floor):,}"
    return Drawing(caption, svg, f"{high:,}", bottom, since, "now")
