"""Transports that answer the client in this process, with what a test says."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import httpx

from overlay.client import AsyncOverlayClient, ClientLimits

BASE = "https://overlay.example"
SHORT = ClientLimits(pause_seconds=5.0)


class Script(httpx.MockTransport):
    """Answers requests with responses in turn, the last one again and again; `requests` are what was sent."""

    def __init__(self, *responses: httpx.Response | Exception) -> None:
        self.requests: list[httpx.Request] = []
        self._responses = list(responses)
        super().__init__(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        response = self._responses.pop(0) if len(self._responses) > 1 else self._responses[0]
        if isinstance(response, Exception):
            raise response
        return httpx.Response(response.status_code, headers=response.headers, stream=httpx.ByteStream(response.content))


def answer(value: Any, status: int = 200, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return httpx.Response(status, headers=named, content=json.dumps(value).encode())


def events(*lines: str) -> httpx.Response:
    """A stream of server-sent events that ends after these lines."""
    content = "".join(f"{line}\n" for line in lines).encode()
    return httpx.Response(200, headers={"Content-Type": "text/event-stream"}, content=content)


def event(epoch: str, seq: int, op: str = "upsert", **more: Any) -> str:
    """A change as an event."""
    change = {"seq": seq, "epoch": epoch, "op": op, "id": f"id{seq}", "height": 7, "reason": "", **more}
    return f"id: {epoch}-{seq}\ndata: {json.dumps(change)}\n"


def client(transport: httpx.AsyncBaseTransport, limits: ClientLimits = SHORT) -> AsyncOverlayClient:
    return AsyncOverlayClient(BASE, limits, transport=transport)


def paths(script: Script) -> list[str]:
    return [request.url.raw_path.decode() for request in script.requests]


def seqs(changes: Iterable[Any]) -> list[int]:
    return [change.seq for change in changes]
