"""A payment gate as middleware of ASGI 3. The last part of an event stream is withheld until it is paid (A2B §7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from overlay.systems.payments.gate import PaymentGate
from overlay.systems.payments.gate_answers import MAX_ANSWER_BYTES, GateAnswer, StreamDelivery
from overlay.systems.payments.paid_paths import AmbiguousPathError, covering, is_preflight

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

MAX_BODY_BYTES = 2 << 20
"""Bytes of a request's body."""

PAID_CONFIG = "a2b.config"
"""Member of the scope that the application gets: the id of the price that was paid, "" where none was."""

_STREAM = "text/event-stream"
_LENGTH = "content-length"
_TEXT = (("Content-Type", "text/plain"),)


class AsgiGate:
    """`app` behind a gate that demands payment for `paths` and all below them, by every method, with or without the
    `root_path` of a mount. The value of each path is its skill, "" for any, None for a JSON-RPC server of A2A or MCP:
    there each call names the skill. Only preflights of browsers are free."""

    def __init__(self, app: App, gate: PaymentGate, paths: Mapping[str, str | None]) -> None:
        self._app, self._gate, self._paths = app, gate, paths

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one connection. A WebSocket on a paid path is refused, as nothing of it could be withheld."""
        try:
            path = self._paid_path(scope) if scope["type"] != "lifespan" else None
        except AmbiguousPathError as error:
            if scope["type"] != "http":
                raise
            await _send_whole(send, GateAnswer(400, _TEXT, str(error).encode()))
            return
        if path is None:
            await self._app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "paid calls are not made by WebSocket"})
            return
        if scope["type"] != "http":
            raise ValueError(f"a paid path is not served over {scope['type']}: nothing of it could be withheld")
        try:
            body = await _body(receive)
        except ConnectionAbortedError:
            return  # nobody waits for an answer, and what arrived is not the whole call
        if body is None:
            detail = f"the body is larger than {MAX_BODY_BYTES:,} bytes".encode()
            await _send_whole(send, GateAnswer(413, _TEXT, detail))
            return
        headers = _FoldedHeaders()
        for name, value in scope["headers"]:
            headers.add(name.decode("latin-1").lower(), value.decode("latin-1"))
        exchange = _Exchange(self._app, scope, body, receive, send)
        if is_preflight(scope["method"], headers, body):
            await exchange.pass_on()
            return
        url = f"{scope.get('scheme', 'http')}://{headers.get('host', '')}{scope['path']}"
        answer = await self._gate.answer(
            headers, body, exchange.work, url=url, skill=self._paths[path], delivery=exchange.delivery
        )
        await exchange.finish(answer)

    def _paid_path(self, scope: Mapping[str, Any]) -> str | None:
        """The paid path of a connection. Servers differ: `path` begins with `root_path` in some of them."""
        full, root = scope["path"], scope.get("root_path", "")
        inner = full[len(root) :] if full.startswith(f"{root}/") else full
        return next(filter(None, (covering(path, self._paths) for path in (inner, full))), None)


class _FoldedHeaders(dict[str, str]):
    """Headers by their names in lower case, found in any case."""

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name.lower(), default)

    def add(self, name: str, value: str) -> None:
        """Add a header; a header that is sent twice counts as a list of its values, as an application may read either
        (RFC 9110 §5.3)."""
        self[name] = f"{self[name]}, {value}" if name in self else value


class _Exchange:
    """One run of the application: its answer is held back, of an event stream only the last part."""

    def __init__(self, app: App, scope: MutableMapping[str, Any], body: bytes, receive: Receive, send: Send) -> None:
        self._app, self._scope, self._body, self._rest, self._send = app, scope, body, receive, send
        self._status, self._headers = 500, tuple[tuple[str, str], ...]()
        self._held = bytearray()
        self._is_stream = self._is_started = self._is_delivered = False
        self.delivery = StreamDelivery()

    async def pass_on(self) -> None:
        """Pass the answer of the application on unchanged."""
        await self._app(self._scope, self._receive, self._send)

    async def work(self) -> GateAnswer:
        """Run the application; its answer, or the rest of it that is still to be sent."""
        self._scope[PAID_CONFIG] = self.delivery.config
        await self._app(self._scope, self._receive, self._take)
        return GateAnswer(self._status, self._headers, bytes(self._held), streamed=self._is_started)

    async def finish(self, answer: GateAnswer) -> None:
        """Send an answer, or its body as the last part of a stream that has begun."""
        if not self._is_started:
            await _send_whole(self._send, answer)
            return
        body = answer.body if answer.status < 400 else b"event: payment\ndata: " + answer.body + b"\n\n"
        await self._send({"type": "http.response.body", "body": body})

    async def _receive(self) -> Message:
        if self._is_delivered:
            return await self._rest()
        self._is_delivered = True
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def _take(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message.get("headers", ())]
            self._status = message["status"]
            self._headers = tuple((name, value) for name, value in headers if name.lower() != _LENGTH)
            kinds = [value for name, value in headers if name.lower() == "content-type"]
            self._is_stream = self._status < 400 and any(kind.lower().startswith(_STREAM) for kind in kinds)
        elif message["type"] == "http.response.body" and message.get("body"):
            if self._is_stream and self._held and await self.delivery.may_begin():
                await self._flush()
            self._held += message["body"]
            if len(self._held) > MAX_ANSWER_BYTES:
                raise ValueError(f"a paid answer is larger than {MAX_ANSWER_BYTES:,} bytes")

    async def _flush(self) -> None:
        """Send everything before the last part."""
        if not self._is_started:
            self._is_started = True
            await self._send(_start(self._status, self._headers))
        await self._send({"type": "http.response.body", "body": bytes(self._held), "more_body": True})
        self.delivery.sent.update(self._held)
        self._held.clear()


async def _body(receive: Receive) -> bytes | None:
    """The body of a request, None if it is too large. Raises ConnectionAbortedError where it does not end."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionAbortedError
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            return None
        if not message.get("more_body"):
            return bytes(body)


def _start(status: int, headers: tuple[tuple[str, str], ...]) -> Message:
    encoded = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    return {"type": "http.response.start", "status": status, "headers": encoded}


async def _send_whole(send: Send, answer: GateAnswer) -> None:
    headers = (*answer.headers, (_LENGTH, str(len(answer.body))))
    await send(_start(answer.status, headers))
    await send({"type": "http.response.body", "body": answer.body})
