"""The aiohttp application: every route of the table behind the one middleware."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from aiohttp import web

from overlay.api.answers import COSTS, EDGE, HUB, OPENAPI, PATHS, SERVICES, WATCHED
from overlay.api.costs import Costs
from overlay.api.edge import Edge
from overlay.api.executor import LOOKUPS, PUBLISHING, RECORDS, lookups, publishing, records
from overlay.api.hub import Hub
from overlay.api.middleware import edge
from overlay.api.openapi import document
from overlay.api.params import NONE, taken
from overlay.api.reading import READERS, Readers
from overlay.api.routes import ROUTES, STREAM, Handler
from overlay.api.server import refuse_others
from overlay.pages.problems import for_people
from overlay.ports import Services


def create_app(services: Services) -> web.Application:
    """The application over `services`, which live as long as it does."""
    app = web.Application(middlewares=[edge])
    app[SERVICES] = app[WATCHED] = services
    app[OPENAPI] = document(ROUTES, services.version)
    app[EDGE] = Edge(
        services.limits,
        services.trusted_proxies,
        services.counters,
        page=for_people,
        log_requests=services.log_requests,
    )
    app[COSTS] = Costs(services.engine)
    app[PUBLISHING], app[LOOKUPS] = publishing(), lookups()
    app[RECORDS] = records(here=services.store.is_here)
    app[READERS] = Readers(here=services.store.is_here and not services.engine.slow)
    app[HUB] = Hub(services.store, services.news, services.counters)
    app[PATHS] = list(dict.fromkeys(route.path for route in ROUTES))
    for route in ROUTES:
        handler = _without_parameters(route.handler) if route.takes_none else route.handler
        for method in (route.method, "HEAD") if route.method == "GET" else (route.method,):
            added = app.router.add_route(method, route.pattern, handler)
            app[EDGE].add(added, app[PATHS].index(route.path), route.limit, timed=STREAM not in route.media)
    refuse_others(app)
    app.on_shutdown.append(_end_streams)
    app.on_cleanup.append(_end_reading)
    app.cleanup_ctx.append(_read_for_streams)
    return app


def _without_parameters(handler: Handler) -> Handler:
    async def refuse_or_answer(request: web.Request) -> web.StreamResponse:
        if request.rel_url.raw_query_string:
            taken(request.rel_url.raw_query_string, NONE)
        return await handler(request)

    return refuse_or_answer


async def _end_streams(app: web.Application) -> None:
    app[HUB].close()


async def _end_reading(app: web.Application) -> None:
    for each in (COSTS, READERS, PUBLISHING, LOOKUPS, RECORDS):
        app[each].close()


async def _read_for_streams(app: web.Application) -> AsyncIterator[None]:
    reading = asyncio.create_task(app[HUB].run())
    yield
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
