"""What a Prometheus server reads."""

from __future__ import annotations

from asyncio import to_thread

from aiohttp import web

from overlay.api.answers import PATHS, WATCHED, Answer


async def metrics(request: web.Request) -> web.Response:
    """Heights, lag, listings, requests and times to answer, for Prometheus."""
    from overlay.metrics import exposition

    accept, paths = request.headers.get("Accept", ""), request.app[PATHS]
    text, content_type = await to_thread(exposition, request.app[WATCHED], paths, accept)
    return Answer(body=text, headers={"Content-Type": content_type, "Cache-Control": "no-store"})
