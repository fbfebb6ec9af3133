"""Prometheus metrics: the route of every server, and the small server of a process that only indexes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import hdrs, web

from indexer.setting_values import ListenAddress
from overlay.api import status_api
from overlay.api.answers import PROCESS, ROUTE_PATHS, Answer
from overlay.api.middleware import handle_request
from overlay.api.request_context import CONTEXT, RequestContext
from overlay.api.routes import TEXT, Route
from overlay.api.server import close, create_runner, listen, refuse_others
from overlay.api.services import ProcessInfo
from overlay.app.metrics import exposition
from overlay.app.workers import CLEAN_SECONDS


async def metrics(request: web.Request) -> web.Response:
    """Heights, lag, listings, requests and times to answer, for Prometheus."""
    accept, paths = request.headers.get("Accept", ""), request.app[ROUTE_PATHS]
    text, content_type = await asyncio.to_thread(exposition, request.app[PROCESS], paths, accept)
    return Answer(body=text, headers={"Content-Type": content_type, "Cache-Control": "no-store"})


ROUTES = (Route(path="/metrics", handler=metrics, tag="operation", answer=None, media=(TEXT,)),)

_HANDLERS = {"/metrics": metrics, "/healthz": status_api.healthz, "/readyz": status_api.readyz}


def create_metrics_app(process: ProcessInfo) -> web.Application:
    """An application with metrics, health and readiness only."""
    app = web.Application(middlewares=[handle_request])
    app[PROCESS], app[ROUTE_PATHS] = process, list(_HANDLERS)
    app[CONTEXT] = RequestContext({}, (), process.counters, log_requests=process.log_requests)
    for number, (path, handler) in enumerate(_HANDLERS.items()):
        for method in (hdrs.METH_GET, hdrs.METH_HEAD):
            app[CONTEXT].add(app.router.add_route(method, path, handler), number, None, timed=True)
    refuse_others(app)
    return app


async def serve_metrics(address: ListenAddress, process: ProcessInfo, on_start: Callable[[str], None]) -> None:
    """Serve until cancelled; `on_start` gets the URL once it answers. Raises AddressError."""
    server = create_runner(create_metrics_app(process))
    on_start(await listen(server, *address))
    try:
        await asyncio.Event().wait()
    finally:
        await close(server, CLEAN_SECONDS)
