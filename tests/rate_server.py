"""A feed of exchange rates on this machine, with the rates that a test sets, signed or forged.

async with RateServer() as server:
    server.tell("/a", {"USD": 50}, timestamp=1000)
    feed = server.feed("BSV", "/a")
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from indexer.rates.feed_urls import RateFeed, rate_feeds
from tests.waiting import stop

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class RateServer:
    """`asked` counts requests by path; `key` signs, its public half is `public`. `release` ends answers that hang."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.requests: dict[str, int] = {}
        self.headers: list[dict[str, str]] = []
        self.key = Ed25519PrivateKey.generate()
        self.public = self.key.public_key().public_bytes_raw().hex()
        self.release = asyncio.Event()
        self.port = 0

    async def __aenter__(self) -> RateServer:
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release.set()
        await stop(self._runner)

    def feed(self, base: str, path: str, key: str = "") -> RateFeed:
        """The feed at a path."""
        return rate_feeds(f"{base}=http://127.0.0.1:{self.port}{path}{'#' + key if key else ''}")[0]

    def tell(self, path: str, rates: dict[str, Any], *, sign: bool = False, **more: Any) -> None:
        """Answer with a table."""
        self.send(path, json.dumps({"rates": rates, **more}).encode(), sign=sign)

    def send(self, path: str, body: bytes, *, status: int = 200, sign: bool = False, **headers: str) -> None:
        """Answer with these bytes."""
        answers = {name.replace("_", "-"): value for name, value in headers.items()}
        if sign:
            answers["X-Signature"] = self.key.sign(body).hex()

        async def answer(_: web.Request) -> web.Response:
            return web.Response(body=body, status=status, headers=answers)

        self.answers[path] = answer

    def hang(self, path: str, first: bytes = b"") -> None:
        """Begin an answer, perhaps, and never end it."""

        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            if first:
                await response.prepare(request)
                await response.write(first)
            await self.release.wait()
            return response

        self.answers[path] = answer

    def flood(self, path: str) -> None:
        """Answer without an end."""

        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            while not self.release.is_set():
                await response.write(b" " * 65_536)
            return response

        self.answers[path] = answer

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests[request.path] = self.requests.get(request.path, 0) + 1
        self.headers.append(dict(request.headers))
        answer = self.answers.get(request.path)
        return await answer(request) if answer else web.Response(status=404)
