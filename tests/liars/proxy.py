"""A small program between a service and who listens to it, which changes some of the answers, or gives none.

async with Proxy(port) as proxy:
    proxy.lie("cut", 3)              # the next three answers are cut in the middle
    proxy.honest()
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from aiohttp import ClientSession, web

from tests.waiting import stop

PAGE = b"<!doctype html><title>502</title><h1>Bad gateway</h1>"
_FORWARDED = ("Authorization", "Content-Type", "X-BSV-Topic")
_DIGEST = re.compile(r"(?:0x)?[0-9a-f]{64}")
_QUANTITY = re.compile(r"0x[0-9a-f]{1,16}")


class Reply(NamedTuple):
    """An answer: the status, the headers that matter, and the body."""

    status: int
    headers: dict[str, str]
    body: bytes


def _status(status: int, **headers: str) -> Callable[[Reply, Reply | None], Reply]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _reply, _earlier: Reply(status, sent, PAGE)


def _changed(change: Callable[[Any], Any], change_bytes: Callable[[bytes], bytes]) -> Callable[..., Reply]:
    """A lie in the result of an answer of JSON-RPC, in a whole document of JSON, or in bytes. An error has no result,
    and stays."""

    def lie(reply: Reply, _earlier: Reply | None) -> Reply:
        try:
            answer = json.loads(reply.body)
        except ValueError:
            return reply._replace(body=change_bytes(reply.body))
        if not isinstance(answer, dict) or "result" not in answer:
            answer = change(answer)
        elif not answer.get("error"):
            answer["result"] = change(answer["result"])
        return reply._replace(body=json.dumps(answer).encode())

    return lie


def _recursively(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The change of every number and text in a JSON value."""

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: walk(member) for name, member in value.items()}
        return [walk(item) for item in value] if isinstance(value, list) else change(value)

    return walk


def _flipped(value: Any) -> Any:
    if isinstance(value, str) and _DIGEST.fullmatch(value):
        return value[:-1] + ("0" if value[-1] != "0" else "1")
    return value


def _flipped_bytes(raw: bytes) -> bytes:
    return raw[:-1] + bytes([raw[-1] ^ 1]) if raw else raw


def _numbers(quantity: str, number: int) -> Callable[[Any], Any]:
    """The change of all numbers to this one."""

    def change(value: Any) -> Any:
        if isinstance(value, str) and _QUANTITY.fullmatch(value):
            return quantity
        return number if isinstance(value, int) and not isinstance(value, bool) else value

    return _recursively(change)


def _emptied(value: Any) -> Any:
    if isinstance(value, list):
        return []
    return {name: _emptied(member) for name, member in value.items()} if isinstance(value, dict) else value


def _cut(reply: Reply, _earlier: Reply | None) -> Reply:
    return reply._replace(body=reply.body[: len(reply.body) // 2])


def _stale(reply: Reply, earlier: Reply | None) -> Reply:
    """The first answer of the same kind, with the number of the request."""
    if earlier is None:
        return reply
    try:
        old, new = json.loads(earlier.body), json.loads(reply.body)
        return earlier._replace(body=json.dumps(old | {"id": new["id"]}).encode())
    except (ValueError, KeyError, TypeError):
        return earlier


ALTERATIONS: dict[str, Callable[[Reply, Reply | None], Reply | None]] = {
    "no answer": lambda _reply, _earlier: None,
    "a page": lambda _reply, _earlier: Reply(200, {"Content-Type": "text/html"}, PAGE),
    "nothing": lambda reply, _earlier: reply._replace(body=b""),
    "cut": _cut,
    "moved": _status(301, Location="https://elsewhere.example/"),
    "no login": _status(401),
    "forbidden": _status(403),
    "missing": _status(404),
    "too many": _status(429, Retry_After="1"),
    "an error": _status(500),
    "null": _changed(lambda _result: None, lambda _raw: b""),
    "another type": _changed(
        lambda result: [result] if not isinstance(result, list) else {"list": result}, lambda raw: raw.hex().encode()
    ),
    "other hashes": _changed(_recursively(_flipped), _flipped_bytes),
    "vast numbers": _changed(_numbers("0xffffffffffff", 2**53), lambda raw: b"\xff" * len(raw)),
    "no numbers": _changed(_numbers("0x0", 0), lambda raw: bytes(len(raw))),
    "empty lists": _changed(_emptied, lambda _raw: b""),
    "stale": _stale,
}
"""Each changes an answer; `None` ends the connection. The second argument is the first answer of the same kind."""


class Proxy:
    """Listens on a port, and asks the service at another. `requests` and `altered` count requests, and answers that
    were changed."""

    def __init__(self, service: int) -> None:
        self._service, self.port = service, 0
        self._lie, self._left, self.requests, self.altered = "", 0, 0, 0
        self._earlier: dict[str, Reply] = {}

    def lie(self, name: str, answers: int) -> None:
        """Change the next answers."""
        self._lie, self._left = name, answers

    def honest(self) -> None:
        """Change nothing from now on."""
        self._left = 0

    async def __aenter__(self) -> Proxy:
        self._session = ClientSession(headers={"Accept-Encoding": "identity"})
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await stop(self._runner)
        await self._session.close()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        body = await request.read()
        url = f"http://127.0.0.1:{self._service}{request.path_qs}"
        headers = {name: request.headers[name] for name in _FORWARDED if name in request.headers}
        async with self._session.request(
            request.method, url, data=body, headers=headers, allow_redirects=False
        ) as answer:
            sent = {"Content-Type": answer.headers.get("Content-Type", "application/json")}
            reply: Reply | None = Reply(answer.status, sent, await answer.read())
        kind = f"{request.method} {request.path} {_method(body)}"
        earlier = self._earlier.setdefault(kind, reply) if reply else None
        if self._left and reply is not None:
            self._left -= 1
            self.altered += 1
            reply = ALTERATIONS[self._lie](reply, earlier)
        if reply is None:
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        return web.Response(status=reply.status, headers=reply.headers, body=reply.body)


def _method(body: bytes) -> str:
    try:
        call = json.loads(body)
        return str(call["method"]) if isinstance(call, dict) else "several"
    except (ValueError, KeyError):
        return ""
