"""The HTTP application: the routes of the API, the metrics and the pages joined, behind one middleware."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from itertools import chain

from aiohttp import web

from overlay.api.answers import OPENAPI, PROCESS, ROUTE_PATHS, SERVICES
from overlay.api.change_broadcaster import BROADCASTER, ChangeBroadcaster
from overlay.api.executors import (
    LOOKUPS,
    PUBLISHING,
    READ_EXECUTOR,
    RECORDS,
    SEARCHES,
    ReadExecutor,
    bounded_executors,
)
from overlay.api.kept_pages import KEPT_PAGES, KeptPages
from overlay.api.middleware import handle_request
from overlay.api.openapi import document
from overlay.api.parameters import NONE, read_query
from overlay.api.request_context import CONTEXT, RequestContext, RouteInfo
from overlay.api.routes import ROUTES as API_ROUTES
from overlay.api.routes import STREAM, Handler
from overlay.api.server import refuse_others
from overlay.api.services import AppServices
from overlay.api.systems import SystemApi, load_api
from overlay.app.metrics import ROUTES as METRICS_ROUTES
from overlay.app.supervision import Supervisor
from overlay.installation import system
from overlay.web.page_routes import ROUTES as WEB_ROUTES
from overlay.web.rendering import for_people
from overlay.web.site_files import SITEMAP, SitemapRuns

ROUTES = (*API_ROUTES, *METRICS_ROUTES, *WEB_ROUTES)
"""Every route of the core: those of the systems are added to them."""


def create_app(services: AppServices) -> web.Application:
    """The application over `services`, which live as long as it does."""
    app = web.Application(middlewares=[handle_request])
    app[SERVICES], app[PROCESS] = services, services.process
    for service_key, service in services.brought.items():
        app[service_key] = service
    systems = load_systems(services.site.systems)
    # paths of systems first, as the id of a listing may contain slashes
    core = [route for route in ROUTES if not (services.site.metrics_elsewhere and route in METRICS_ROUTES)]
    routes = [*chain.from_iterable(api.routes for api in systems), *core]
    app[OPENAPI] = document(core, services.process.version, systems)
    app[CONTEXT] = RequestContext(
        services.site.limits,
        services.site.trusted_proxies,
        services.process.counters,
        page=for_people,
        access_log=services.process.access_log,
        guards=[api.guard for api in systems if api.guard is not None],
        beyond_limit=[api.beyond_limit for api in systems if api.beyond_limit is not None],
        damage=services.process.damage,
        links=services.site.links,
        tokens=services.tokens,
    )
    load = services.process.counters.load
    app[KEPT_PAGES], app[SITEMAP] = KeptPages(), SitemapRuns()
    executors = bounded_executors(load, here=services.store.is_here, slow=services.engine.is_slow_engine)
    for key, executor in executors.items():
        app[key] = executor
    app[READ_EXECUTOR] = ReadExecutor(here=services.store.is_here and not services.engine.is_slow_engine)
    app[BROADCASTER] = ChangeBroadcaster(services.store, services.notifier, services.process.counters)
    app[ROUTE_PATHS] = route_paths(systems)
    for route in routes:
        handler = _without_parameters(route.handler) if route.refuses_parameters else route.handler
        info = RouteInfo(
            app[ROUTE_PATHS].index(route.path), route.limit, STREAM not in route.media,
            route.error_response, route.action, route.resource if route.action else "", route.listing_in,
        )  # fmt: skip
        for method in (route.method, "HEAD") if route.method == "GET" else (route.method,):
            app[CONTEXT].add(app.router.add_route(method, route.pattern, handler), info)
    refuse_others(app)
    app.on_shutdown.append(_end_streams)
    app.on_cleanup.append(_end_reading)
    app.cleanup_ctx.append(_read_for_streams)
    app.cleanup_ctx.extend(api.run for api in systems if api.run is not None)
    return app


def route_paths(systems: Iterable[SystemApi]) -> list[str]:
    """The paths of the core and of these systems, each at the number under which its requests are counted."""
    routes = [*chain.from_iterable(api.routes for api in systems), *ROUTES]
    return list(dict.fromkeys(route.path for route in routes))


def load_systems(names: Iterable[str]) -> list[SystemApi]:
    """The parts that the systems of these names add."""
    return [load_api(member) for member in map(system, names) if member is not None]


def _without_parameters(handler: Handler) -> Handler:
    async def refuse_or_answer(request: web.Request) -> web.StreamResponse:
        if request.rel_url.raw_query_string:
            read_query(request, NONE)
        return await handler(request)

    return refuse_or_answer


async def _end_streams(app: web.Application) -> None:
    app[BROADCASTER].close()


async def _end_reading(app: web.Application) -> None:
    for executor_key in (SEARCHES, READ_EXECUTOR, PUBLISHING, LOOKUPS, RECORDS):
        app[executor_key].close()


async def _read_for_streams(app: web.Application) -> AsyncIterator[None]:
    supervisor = Supervisor(app[SERVICES].process.counters)
    reading = asyncio.create_task(supervisor.keep_running(app[BROADCASTER].run))
    yield
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
