"""What changed, where every chain stands, and whether this process is well."""

from __future__ import annotations

from asyncio import to_thread

from aiohttp import web

from overlay.api.answers import EDGE, WATCHED, json_answer
from overlay.api.problems import ProblemError


async def status(request: web.Request) -> web.Response:
    """Where every chain stands, counts, versions."""
    return json_answer(await to_thread(request.app[WATCHED].status))


async def healthz(request: web.Request) -> web.Response:
    """The process answers."""
    return json_answer({"status": "ok", "version": request.app[WATCHED].version})


async def readyz(request: web.Request) -> web.Response:
    """Questions can be answered, else 503 saying what is missing."""
    missing = "the server is shutting down" if request.app[EDGE].draining else None
    missing = missing or await to_thread(request.app[WATCHED].ready)
    if missing is not None:
        raise ProblemError(503, missing, headers={"Retry-After": "5"})
    return json_answer({"status": "ready", "version": request.app[WATCHED].version})


async def robots(request: web.Request) -> web.Response:  # noqa: ARG001 - the shape of a handler
    """What crawlers may read: the pages, not the endless combinations of filters."""
    text = "User-agent: *\nAllow: /$\nAllow: /listings/\nAllow: /docs\nDisallow: /v1/\nDisallow: /?\n"
    return web.Response(text=text, headers={"Cache-Control": "public, max-age=86400"})
