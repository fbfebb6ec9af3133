"""One request of aiohttp answered by an ASGI application that does not stream."""

from __future__ import annotations

from asyncio import Event
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from aiohttp import web

REQUEST = "aiohttp.request"
"""The member of the scope with the request."""

_Message = MutableMapping[str, Any]
AsgiApp = Callable[
    [_Message, Callable[[], Awaitable[_Message]], Callable[[_Message], Awaitable[None]]], Awaitable[None]
]


async def respond(app: AsgiApp, request: web.Request, body: bytes, instead: Mapping[str, str]) -> web.Response:
    """The response of an ASGI 3 application to a request whose body has been read, with these headers (in lower case)
    instead of its own."""
    messages: list[_Message] = [{"type": "http.request", "body": body, "more_body": False}]
    status, headers, sent = 500, [], bytearray()

    async def receive() -> _Message:
        if not messages:
            await Event().wait()  # the client stays connected, as far as the application needs to know
        return messages.pop()

    async def send(message: _Message) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status, headers = message["status"], message["headers"]
        else:
            sent.extend(message.get("body", b""))

    replaced = {"content-length", *instead}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": request.path,
        "raw_path": request.rel_url.raw_path.encode(),
        "query_string": request.rel_url.raw_query_string.encode(),
        "root_path": "",
        "headers": [
            *(
                (name.lower(), value)
                for name, value in request.raw_headers
                if name.lower().decode("latin-1") not in replaced
            ),
            *((name.encode(), value.encode()) for name, value in instead.items()),
        ],
        "client": None,
        "server": None,
        REQUEST: request,
    }
    await app(scope, receive, send)
    response = web.Response(body=bytes(sent) or None, status=status)
    for name, value in headers:
        if name.lower() != b"content-length":
            response.headers[name.decode("latin-1")] = value.decode("latin-1")
    return response
