"""How applications are served: one error shape also for what is no HTTP request, 405 for methods that a path does not
take, and an address to listen on."""

from __future__ import annotations

import asyncio
import os
import secrets
from typing import Any

from aiohttp import hdrs, web
from aiohttp.web_protocol import RequestHandler
from aiohttp.web_request import BaseRequest
from aiohttp.web_urldispatcher import Resource

from overlay.api.answers import EDGE, problem_answer
from overlay.api.dress import dress
from overlay.api.places import Places, room
from overlay.api.problems import ProblemError
from overlay.logs import REQUEST

MAX_LINE = 64 * 1024  # a URL of 8 kB, aiohttp's own limit, is too small for 64 repeated percent-encoded filters

IDLE_SECONDS = 75.0
"""How long a connection may take for the next request, head and all. Proxies usually close theirs after 60 s."""

LINGER_SECONDS = 2.0
"""How long the rest of a body is read that nobody wants, so that the client sees the answer."""

STUCK_SECONDS = 30.0
"""How long a client may take nothing of an answer."""

_FULL = (
    b"\r\n".join(
        (
            b"HTTP/1.1 503 Service Unavailable",
            b"Server: a2b",
            b"Connection: close",
            b"Retry-After: 5",
            b"Content-Length: 0",
        )
    )
    + b"\r\n\r\n"
)


class AddressError(Exception):
    """The address to serve on cannot be had: the message says which and why."""


def refuse_others(app: web.Application) -> None:
    """Answer 405 to what the paths added so far do not take. Without this a path counts as an id with slashes, where
    such may stand."""
    for resource in app.router.resources():
        if isinstance(resource, Resource):
            resource.add_route(hdrs.METH_ANY, _refuse)


async def _refuse(request: web.Request) -> web.StreamResponse:
    methods = {route.method for route in request.match_info.route.resource or ()}
    raise web.HTTPMethodNotAllowed(request.method, methods - {hdrs.METH_ANY})


async def listen(server: web.AppRunner, host: str, port: int, *, share: bool = False) -> str:
    """Serve at an address, the port 0 being any that is free; the URL. Other processes of this user may `share` the
    port. Raises AddressError, and then the server is closed."""
    await server.setup()
    try:
        await web.TCPSite(server, host, port, reuse_port=share or None).start()
    except (OSError, OverflowError) as error:
        await server.cleanup()
        raise AddressError(f"cannot serve on {host} port {port}: {_reason(error)}") from None
    host, port = server.addresses[0][:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _reason(error: Exception) -> str:
    """asyncio's own text repeats the address; names that cannot be resolved have negative numbers."""
    number = getattr(error, "errno", None) or 0
    return os.strerror(number) if number > 0 else str(getattr(error, "strerror", None) or error)


def create_runner(app: web.Application) -> web.AppRunner:
    """A runner for `app`: no access log, and problem details also for what is no HTTP request. Bodies arrive as they
    were sent, since one that is thrown away unread would be inflated, too."""
    return _Runner(
        app,
        access_log=None,
        max_line_size=MAX_LINE,
        max_field_size=16 * 1024,
        auto_decompress=False,
        keepalive_timeout=IDLE_SECONDS,
        lingering_time=LINGER_SECONDS,
    )


class _Protocol(RequestHandler):
    """A connection that answers malformed requests as the application answers bad ones, is refused where there are
    too many, and given up when nothing of an answer is taken."""

    __slots__ = ("_place", "_places", "_stuck")

    def __init__(self, places: Places, manager: web.Server, **given: Any) -> None:
        super().__init__(manager, **given)
        self._places, self._place = places, ""
        self._stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername")
        place = self._places.take(peer[0] if isinstance(peer, tuple) else "")
        if place is not None:
            self._place = place
            super().connection_made(transport)
        elif isinstance(transport, asyncio.Transport):
            transport.write(_FULL)
            transport.close()

    def data_received(self, data: bytes) -> None:
        if self._place:
            super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
        if self._place:
            self._places.give_back(self._place)
            super().connection_lost(exc)
            self._place = ""

    def pause_writing(self) -> None:
        super().pause_writing()
        self._look_again()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _look_again(self) -> None:
        if self.transport is not None:
            waiting = self.transport.get_write_buffer_size()
            self._stuck = self._loop.call_later(STUCK_SECONDS, self._give_up_unless_fewer, waiting)

    def _give_up_unless_fewer(self, waiting: int) -> None:
        if self.transport is not None and self.transport.get_write_buffer_size() >= waiting:
            self.transport.abort()
        else:
            self._look_again()

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

    places: Places

    def __call__(self) -> RequestHandler:
        return _Protocol(self.places, self, loop=self._loop, **self._kwargs)


class _Runner(web.AppRunner):
    """A runner whose server is a `_Server`."""

    __slots__ = ()

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        server = _Server(made.request_handler, request_factory=made.request_factory, loop=made._loop, **made._kwargs)  # noqa: SLF001 - aiohttp has no other place to say which protocol a server speaks
        server.places = Places(self.app[EDGE].clients, room())
        return server
