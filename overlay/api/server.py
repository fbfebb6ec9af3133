"""HTTP servers: connections with limits, one error shape also for malformed requests, 405 for methods that a path does
not take, an address to listen on, and a shutdown that loses no answer."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from aiohttp import hdrs, web
from aiohttp.web_protocol import RequestHandler
from aiohttp.web_request import BaseRequest
from aiohttp.web_urldispatcher import Resource

from indexer.setting_values import ListenAddress
from overlay.api.answers import add_common_headers, problem_answer
from overlay.api.change_broadcaster import BROADCASTER
from overlay.api.connection_limits import ConnectionLimits, room
from overlay.api.problems import ProblemError
from overlay.api.request_context import CONTEXT
from overlay.api.request_id import REQUEST_ID

MAX_LINE = 64 * 1024  # a URL of 8 kB, aiohttp's own limit, is too small for 64 repeated percent-encoded filters

IDLE_SECONDS = 75.0
"""How long a connection may take for the next request, head and all. Proxies usually close theirs after 60 s."""

LINGER_SECONDS = 2.0
"""How long the remainder of an unused body is read before the connection is closed, so that the client receives the
answer."""

STUCK_SECONDS = 30.0
"""How long a client may take nothing of an answer."""

_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nServer: a2b\r\nConnection: close\r\nRetry-After: 5\r\n"
    b"Content-Length: 0\r\n\r\n"
)


class AddressError(Exception):
    """The server cannot listen on its address; the message names it and the reason."""


def refuse_others(app: web.Application) -> None:
    """Answer 405 to methods that a path does not take, which aiohttp would match as an id with slashes: in the error
    shape of the path's routes."""
    for resource in app.router.resources():
        if isinstance(resource, Resource):
            routes = list(resource)
            app[CONTEXT].add_refusal(resource.add_route(hdrs.METH_ANY, _refuse), routes)


async def _refuse(request: web.Request) -> web.StreamResponse:
    methods = {route.method for route in request.match_info.route.resource or ()}
    raise web.HTTPMethodNotAllowed(request.method, methods - {hdrs.METH_ANY})


async def listen(server: web.AppRunner, host: str, port: int, *, share: bool = False) -> str:
    """Listen on an address (port 0: any free one) and return the URL. With `share`, other processes of this user may
    use the same port. Raises AddressError, after closing the server."""
    await server.setup()
    try:
        await web.TCPSite(server, host, port, reuse_port=share or None).start()
    except (OSError, OverflowError) as error:
        await server.cleanup()
        raise AddressError(
            f"cannot serve on {host} port {port}: {_reason(error)}; name another (--host, --port, --metrics)"
        ) from None
    host, port = server.addresses[0][:2]
    return ListenAddress(host, port).url


def _reason(error: Exception) -> str:
    """The system's own text: asyncio's repeats the address. Names that cannot be resolved have negative numbers."""
    number = getattr(error, "errno", None) or 0
    return os.strerror(number) if number > 0 else str(getattr(error, "strerror", None) or error)


def create_runner(app: web.Application) -> web.AppRunner:
    """A runner for `app`, without an access log, and with problem details also for malformed HTTP. Bodies are not
    decompressed, as a discarded one would be, too."""
    return _LimitedRunner(
        app,
        access_log=None,
        max_line_size=MAX_LINE,
        max_field_size=16 * 1024,
        auto_decompress=False,
        keepalive_timeout=IDLE_SECONDS,
        lingering_time=LINGER_SECONDS,
    )


class _Protocol(RequestHandler):
    """A connection that answers malformed requests with problem details, is refused above the limits, and is aborted
    when the client reads nothing of a response."""

    __slots__ = ("_client", "_limits", "_stuck")

    def __init__(self, limits: ConnectionLimits, manager: web.Server, **options: Any) -> None:
        super().__init__(manager, **options)
        self._limits, self._client = limits, ""
        self._stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername")
        client = self._limits.take(peer[0] if isinstance(peer, tuple) else "")
        if client is not None:
            self._client = client
            super().connection_made(transport)
        elif isinstance(transport, asyncio.Transport):
            transport.write(_FULL)
            transport.close()

    def data_received(self, data: bytes) -> None:
        if self._client:
            super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
        if self._client:
            self._limits.give_back(self._client)
            super().connection_lost(exc)
            self._client = ""

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_writing()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _watch_writing(self) -> None:
        if self.transport is not None:
            waiting = self.transport.get_write_buffer_size()
            self._stuck = self._loop.call_later(STUCK_SECONDS, self._abort_unless_progress, waiting)

    def _abort_unless_progress(self, waiting: int) -> None:
        if self.transport is not None and self.transport.get_write_buffer_size() >= waiting:
            self.transport.abort()
        else:
            self._watch_writing()

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """aiohttp answers with HTML or plain text here, and logs a traceback for every malformed request."""
        request_id = secrets.token_hex(8)
        REQUEST_ID.set(request_id)
        if status >= 500:
            self.log_exception("a request from %s failed outside the application", request.remote, exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer was begun, another cannot be sent")
        line = (message or "").partition("\n")[0].strip(" :")
        detail = f"the request is not well-formed HTTP: {line[:200]!a}" if status < 500 else "the server failed"
        response = problem_answer(ProblemError(status, detail), request_id)
        add_common_headers(response.headers, request_id)
        response.force_close()
        return response


class _LimitedServer(web.Server):
    """A server with `_Protocol`s as connections."""

    limits: ConnectionLimits

    def __call__(self) -> RequestHandler:
        return _Protocol(self.limits, self, loop=self._loop, **self._kwargs)


class _LimitedRunner(web.AppRunner):
    """A runner of a `_LimitedServer`."""

    __slots__ = ()

    async def _make_server(self) -> web.Server:
        base = await super()._make_server()
        # aiohttp has no other way to set the protocol of a server
        options = {"loop": base._loop, **base._kwargs}  # noqa: SLF001
        server = _LimitedServer(base.request_handler, request_factory=base.request_factory, **options)
        server.limits = ConnectionLimits(self.app[CONTEXT].clients, room())
        return server


_LOOK_SECONDS = 0.02

CLIENT_SECONDS = 0.2
"""The time that clients have, once the server ends, to send the remainder of a request or to read the remainder of a
stream."""

log = logging.getLogger(__name__)


async def drain(server: web.AppRunner, seconds: float, hurry: asyncio.Event, close_seconds: float) -> None:
    """Close the port, end the streams, and wait until nothing is under way, at most so many seconds, or until
    `hurry`. Open connections are still answered, each for the last time: `/readyz` with 503. A slow client is given
    CLIENT_SECONDS."""
    context, broadcaster = server.app[CONTEXT], server.app[BROADCASTER]
    context.draining = True
    for site in list(server.sites):
        await site.stop()
    broadcaster.close()
    cutting = asyncio.get_running_loop().time() + CLIENT_SECONDS
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while context.under_way and not hurry.is_set():
                await asyncio.sleep(_LOOK_SECONDS)
                if asyncio.get_running_loop().time() >= cutting:
                    _cut(context.under_way.values())
    if context.under_way:
        log.warning("%d requests were not answered within %g s, and are given up", len(context.under_way), seconds)
    await close(server, close_seconds)


def _cut(requests: Iterable[web.Request]) -> None:
    """Abort connections that wait for their client: for the remainder of a body, or for a reader that does not read."""
    for request in requests:
        transport = request.transport
        if transport is not None and (not request.content.is_eof() or transport.get_write_buffer_size()):
            transport.abort()


async def close(server: web.AppRunner, seconds: float) -> None:
    """Close the port and all connections, also those with a response under way after so many seconds."""
    try:
        await asyncio.wait_for(server.cleanup(), seconds)
    except TimeoutError:
        for connection in server.server.connections if server.server else ():
            connection.force_close()
