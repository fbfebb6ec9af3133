"""Routes for operators: status, health, readiness, robots.txt."""

from __future__ import annotations

from asyncio import to_thread
from time import time

from aiohttp import web

from overlay.api.answers import PROCESS, SERVICES, conditional, json_answer
from overlay.api.base_url import base_url
from overlay.api.executors import read_json, report
from overlay.api.hidden_list import hidden_list
from overlay.api.problems import NotFoundError, ProblemError
from overlay.api.request_context import CONTEXT
from overlay.text.compact_json import encode
from overlay.text.timestamps import timestamp

SECURITY_PATH = "/.well-known/security.txt"
DAY, EXPIRES_DAYS = 86_400, 90
"""Seconds of a day, and the days after which the contact is to be read again."""


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
        raise ProblemError(503, missing, headers={"Retry-After": str(process.wait())})
    members = {"behind": process.unread(), "degraded": process.degraded()}
    return json_answer({"status": "ready", "version": process.version} | members)


async def robots(request: web.Request) -> web.Response:
    """The paths that crawlers may read: pages, but not the endless combinations of filters; and the sitemap."""
    allowed, others = "Allow: /$\nAllow: /listings/\nAllow: /docs\n", "Disallow: /v1/\nDisallow: /?\n"
    rules = f"User-agent: *\n{allowed}Disallow: /listings/*/findability\n{others}"
    text = f"{rules}Sitemap: {base_url(request)}/sitemap.xml\n"
    return web.Response(text=text, headers={"Cache-Control": "public, max-age=86400"})


async def security_txt(request: web.Request) -> web.Response:
    """Where weaknesses of this server are reported (RFC 9116); 404 without A2B_CONTACT."""
    links = request.app[SERVICES].site.links
    if not links.contact:
        raise NotFoundError("this server names no contact")
    expires = timestamp((int(time()) // DAY + EXPIRES_DAYS) * DAY)
    lines = [f"Contact: {links.contact}", f"Expires: {expires}", f"Canonical: {base_url(request)}{SECURITY_PATH}"]
    return web.Response(text="\n".join([*lines, ""]), headers={"Cache-Control": "public, max-age=86400"})


async def hidden(request: web.Request) -> web.Response:
    """The cards that this server hides by law, by their SHA-256, each statement signed with the Ed25519 key of this
    server over its canonical form (RFC 8785). Cards with personal data and illegal content are left out. 404 unless the
    operator publishes them."""
    services = request.app[SERVICES]
    if not services.site.publishes_hidden:
        raise NotFoundError("this server does not publish what it hides")
    return conditional(await read_json(request, hidden_list, services.store, services.identity))
