"""A payment gate as middleware of aiohttp."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from overlay.systems.payments.gate import PaymentGate
from overlay.systems.payments.gate_answers import GateAnswer, StreamDelivery
from overlay.systems.payments.paid_paths import AmbiguousPathError, covering, is_preflight

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Middleware = Callable[[web.Request, Handler], Awaitable[web.StreamResponse]]

PAID_CONFIG: web.RequestKey[str] = web.RequestKey("a2b.config", str)
"""Member of the request that the handler gets: the id of the price that was paid, "" where none was."""

_CONNECTION_HEADERS = frozenset({"content-length", "transfer-encoding", "connection", "date", "server"})
"""Headers that aiohttp itself adds to a response."""


def middleware(gate: PaymentGate, paths: Mapping[str, str | None]) -> Middleware:
    """Demand payment for these paths and all below them, by every method, in a sub-application with or without its
    prefix. The value of each path is its skill, "" for any, None for a JSON-RPC server of A2A or MCP: there each call
    names the skill. Only preflights of browsers are free.

    The work must answer with a whole `web.Response`: a stream cannot be withheld here, see the gate for ASGI.
    """

    @web.middleware
    async def demand(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            path = covering(request.path, paths, mounted=len(request.match_info.apps) > 1)
        except AmbiguousPathError as error:
            raise web.HTTPBadRequest(text=str(error)) from None
        if path is None:
            return await handler(request)
        if request.headers.get("Upgrade", "").strip().lower() == "websocket":
            raise web.HTTPForbidden(text="paid calls are not made by WebSocket")

        delivery = StreamDelivery()

        async def work() -> GateAnswer:
            request[PAID_CONFIG] = delivery.config
            try:
                response = await handler(request)
            except web.HTTPException as error:
                response = error
            withheld = withheld_answer(response)
            if withheld is None:
                raise TypeError(f"a paid answer on {request.path} is streamed: it could not be withheld")
            return withheld

        body = await request.read()
        if is_preflight(request.method, request.headers, body):
            return await handler(request)
        answer = await gate.answer(
            request.headers, body, work, url=str(request.url), skill=paths[path], delivery=delivery
        )
        return response_of(answer)

    return demand


def withheld_answer(response: web.StreamResponse) -> GateAnswer | None:
    """A response as the answer of a gate; None for a stream, which cannot be withheld."""
    body = response.body if isinstance(response, web.Response) else False
    if body is not None and not isinstance(body, bytes | memoryview):
        return None
    headers = ((name, value) for name, value in response.headers.items() if name.lower() not in _CONNECTION_HEADERS)
    return GateAnswer(response.status, tuple(headers), bytes(body or b""))


def response_of(answer: GateAnswer) -> web.Response:
    """The answer of a gate as a response."""
    return web.Response(status=answer.status, headers=list(answer.headers), body=answer.body)
