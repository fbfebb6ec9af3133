"""How applications are served: one error shape also for what is no HTTP request, 405 for methods that a path does not
take, and an address to listen on."""

from __future__ import annotations

import os
import secrets

from aiohttp import hdrs, web
from aiohttp.web_protocol import RequestHandler
from aiohttp.web_request import BaseRequest
from aiohttp.web_urldispatcher import Resource

from overlay.api.answers import problem_answer
from overlay.api.dress import dress
from overlay.api.problems import ProblemError
from overlay.logs import REQUEST

MAX_LINE = 64 * 1024  # a URL of 8 kB, aiohttp's own limit, is too small for 64 repeated percent-encoded filters


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
