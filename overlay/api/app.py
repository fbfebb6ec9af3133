"""The aiohttp application: every route of the table behind the one middleware, and a runner with one error shape."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator

from aiohttp import hdrs, web
from aiohttp.web_protocol import RequestHandler
from aiohttp.web_request import BaseRequest
from aiohttp.web_urldispatcher import Resource

from overlay.api.answers import COSTS, EDGE, HUB, OPENAPI, SERVICES, problem_answer
from overlay.api.costs import Costs
from overlay.api.dress import dress
from overlay.api.edge import Edge
from overlay.api.hub import Hub
from overlay.api.middleware import edge
from overlay.api.openapi import document
from overlay.api.problems import ProblemError
from overlay.api.routes import ROUTES, STREAM
from overlay.logs import REQUEST
from overlay.ports import Services

MAX_LINE = 64 * 1024  # a URL of 8 kB, aiohttp's own limit, is too small for 64 repeated percent-encoded filters


def create_app(services: Services) -> web.Application:
    """The application over `services`, which live as long as it does."""
    app = web.Application(middlewares=[edge])
    app[SERVICES] = services
    app[OPENAPI] = document(ROUTES, services.version)
    app[EDGE] = Edge(services.limits, services.trusted_proxies, services.counters, log_requests=services.log_requests)
    app[COSTS] = Costs(services.engine)
    app[HUB] = Hub(services.store, services.news, services.counters)
    for number, route in enumerate(ROUTES):
        for method in (route.method, "HEAD") if route.method == "GET" else (route.method,):
            added = app.router.add_route(method, route.pattern, route.handler)
            app[EDGE].add(added, number, route.limit, timed=STREAM not in route.media)
    for resource in app.router.resources():
        if isinstance(resource, Resource):
            resource.add_route(hdrs.METH_ANY, _refuse)
    app.on_shutdown.append(_end_streams)
    app.on_cleanup.append(_end_searches)
    app.cleanup_ctx.append(_read_for_streams)
    return app


async def _refuse(request: web.Request) -> web.StreamResponse:
    """What the path does not take. Without this the path would count as an id with slashes, where such may stand."""
    methods = {route.method for route in request.match_info.route.resource or ()}
    raise web.HTTPMethodNotAllowed(request.method, methods - {hdrs.METH_ANY})


async def _end_streams(app: web.Application) -> None:
    app[HUB].close()


async def _end_searches(app: web.Application) -> None:
    app[COSTS].close()


async def _read_for_streams(app: web.Application) -> AsyncIterator[None]:
    reading = asyncio.create_task(app[HUB].run())
    yield
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)


def create_runner(app: web.Application) -> web.AppRunner:
    """A runner for `app`: no access log, and problem details also for what is no HTTP request."""
    return _Runner(app, access_log=None, max_line_size=MAX_LINE, max_field_size=16 * 1024)


class _Protocol(RequestHandler):
    """A connection that answers malformed requests as the application answers bad ones."""

    __slots__ = ()

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """aiohttp answers with HTML or plain text here, and logs a traceback for every malformed request."""
        request_id = secrets.token_hex(8)
        REQUEST.set(request_id)
        if status >= 500:
            self.log_exception("a request from %s failed outside the application", request.remote, exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer was begun, another cannot be sent")
        line = (message or "").partition("\n")[0].strip(" :")
        detail = f"the request is not well-formed HTTP: {line[:200]!a}" if status < 500 else "the server failed"
        response = problem_answer(ProblemError(status, detail), request_id)
        dress(response.headers, request_id)
        response.force_close()
        return response


class _Server(web.Server):
    """A server whose connections are `_Protocol`s."""

    def __call__(self) -> RequestHandler:
        return _Protocol(self, loop=self._loop, **self._kwargs)


class _Runner(web.AppRunner):
    """A runner whose server is a `_Server`."""

    __slots__ = ()

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        return _Server(made.request_handler, request_factory=made.request_factory, loop=made._loop, **made._kwargs)  # noqa: SLF001 - aiohttp has no other place to say which protocol a server speaks
