"""The application over fakes, behind a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from aiohttp import ClientSession, DummyCookieJar, web

from overlay.api.server import create_runner
from overlay.api.services import AppServices
from overlay.app.http_app import create_app
from tests.overlay.fakes import sample_services

Serve = Callable[[AppServices], Awaitable[ClientSession]]


@pytest.fixture
def services(sample: Path) -> AppServices:
    return sample_services(sample)


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Serve an application on a free port of this machine and give a client that asks for no compression."""
    async with AsyncExitStack() as stack:

        async def start(services: AppServices) -> ClientSession:
            runner = create_runner(create_app(services))
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            client = ClientSession(
                f"http://{host}:{port}", auto_decompress=False, skip_auto_headers=["Accept-Encoding"],
                cookie_jar=DummyCookieJar(),
            )  # fmt: skip
            return await stack.enter_async_context(client)

        yield start


@pytest.fixture
async def client(serve: Serve, services: AppServices) -> ClientSession:
    return await serve(services)
