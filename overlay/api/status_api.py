"""Routes for operators: status, health, readiness, robots.txt."""

from __future__ import annotations

from asyncio import to_thread

from aiohttp import web

from overlay.api.answers import PROCESS, conditional, json_answer
from overlay.api.executors import report
from overlay.api.problems import ProblemError
from overlay.api.request_context import CONTEXT
from overlay.text.compact_json import encode


async def status(request: web.Request) -> web.Response:
    """The state of every chain, counts, versions."""
    return conditional(encode(await report(request.app[PROCESS].status)))


async def healthz(request: web.Request) -> web.Response:
    """The process answers."""
    return json_answer({"status": "ok", "version": request.app[PROCESS].version})


async def readyz(request: web.Request) -> web.Response:
    """Whether this server answers searches, how many changes its index is behind, and the degraded parts; else 503 with
    the missing part, also where the index is behind for more than ten minutes."""
    missing = "the server is shutting down" if request.app[CONTEXT].draining else None
    process = request.app[PROCESS]
    missing = missing or await to_thread(process.ready)
    if missing is not None:
        raise ProblemError(503, missing, headers={"Retry-After": "5"})
    members = {"behind": process.unread(), "degraded": process.degraded()}
    return json_answer({"status": "ready", "version": process.version} | members)


async def robots(request: web.Request) -> web.Response:  # noqa: ARG001 - the shape of a handler
    """The paths that crawlers may read: pages, but not the endless combinations of filters."""
    text = "User-agent: *\nAllow: /$\nAllow: /listings/\nAllow: /docs\nDisallow: /v1/\nDisallow: /?\n"
    return web.Response(text=text, headers={"Cache-Control": "public, max-age=86400"})
