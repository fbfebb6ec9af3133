"""What a process that only indexes serves where it is asked to: metrics and whether it is well, nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import hdrs, web

from indexer.settings import Address
from overlay.api import metrics_api, status_api
from overlay.api.answers import EDGE, PATHS, WATCHED
from overlay.api.drain import close
from overlay.api.edge import Edge
from overlay.api.middleware import edge
from overlay.api.server import create_runner, listen, refuse_others
from overlay.ports import Watched

_HANDLERS = {"/metrics": metrics_api.metrics, "/healthz": status_api.healthz, "/readyz": status_api.readyz}


def create_app(watched: Watched) -> web.Application:
    """The application: as `api.app` makes it, but for the routes."""
    app = web.Application(middlewares=[edge])
    app[WATCHED], app[PATHS] = watched, list(_HANDLERS)
    app[EDGE] = Edge({}, (), watched.counters, log_requests=watched.log_requests)
    for number, (path, handler) in enumerate(_HANDLERS.items()):
        for method in (hdrs.METH_GET, hdrs.METH_HEAD):
            app[EDGE].add(app.router.add_route(method, path, handler), number, None, timed=True)
    refuse_others(app)
    return app


async def watch(address: Address, watched: Watched, telling: Callable[[str], None]) -> None:
    """Serve until cancelled; the URL is told once that is answered. Raises AddressError."""
    server = create_runner(create_app(watched))
    telling(await listen(server, *address))
    try:
        await asyncio.Event().wait()
    finally:
        await close(server)
