"""The status page; its URL answers JSON when Accept prefers that."""

from __future__ import annotations

from asyncio import to_thread

from aiohttp import web

from overlay.api import status_api
from overlay.api.answers import SERVICES
from overlay.web.rendering import html_answer, render, wants_json

POINTERS = {
    "new": "not fetched yet", "met": "that meet their hash", "unhashed": "without a hash", "mismatch": "that do not",
    "failed": "tried again later", "given-up": "given up",
}  # fmt: skip
"""What became of the cards that pointers name, in words."""


async def status(request: web.Request) -> web.Response:
    """The state of every chain, counts and versions, or the same as JSON when Accept prefers that."""
    if wants_json(request):
        return await status_api.status(request)
    services = request.app[SERVICES]
    members, metrics = await to_thread(services.process.status), not services.site.metrics_elsewhere
    page = render("status.html", here="/status", status=members, tone=tone, words=POINTERS, metrics=metrics)
    return html_answer(page)


def tone(state: str, error: str) -> str:
    """The tone of a chain's state: good, warn or bad."""
    return "bad" if error or state in ("stopped", "unreachable") else "good" if state == "following" else "warn"
