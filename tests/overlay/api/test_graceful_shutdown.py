"""A server that ends loses no answer: in this process, and as the command with several workers."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientConnectionError, ClientSession, web

from overlay.api.request_context import CONTEXT
from overlay.api.server import create_runner, drain
from overlay.api.services import AppServices
from overlay.app.http_app import create_app
from overlay.app.workers import CLEAN_SECONDS
from tests.overlay.calls import problem
from tests.overlay.fakes import FakeEngine
from tests.ports import free_port
from tests.running import Running
from tests.waiting import PATIENCE, until

BODY = b'{"name": "Echo"}'


class Waiting(FakeEngine):
    """Answers a search in a thread, and not before it may."""

    slow = True
    began, may = threading.Event(), threading.Event()

    def search(self, query: Any) -> Any:
        self.began.set()
        assert self.may.wait(PATIENCE)
        return super().search(query)


@pytest.fixture
def waiting(services: AppServices) -> AppServices:
    services.engine.__class__ = Waiting
    Waiting.began.clear()
    Waiting.may.clear()
    return services


@asynccontextmanager
async def serving(services: AppServices) -> AsyncIterator[tuple[web.AppRunner, ClientSession]]:
    runner = create_runner(create_app(services))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        async with ClientSession(f"http://{host}:{port}") as session:
            yield runner, session
    finally:
        Waiting.may.set()
        await runner.cleanup()


async def until_searching() -> None:
    assert await asyncio.to_thread(Waiting.began.wait, PATIENCE)


async def is_refused(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return True
    writer.close()
    return False


async def test_what_is_under_way_is_finished_while_nothing_new_is_taken_in(waiting: AppServices) -> None:
    async with serving(waiting) as (runner, client), ClientSession(client._base_url) as client_session:
        port = runner.addresses[0][1]
        async with client_session.get("/readyz") as response:
            assert response.status == 200
        stream = await client.get("/v1/stream")
        search = asyncio.create_task(client.get("/v1/search?q=tower"))
        await until_searching()
        draining = asyncio.create_task(drain(runner, PATIENCE, asyncio.Event(), CLEAN_SECONDS))
        message = await asyncio.wait_for(stream.content.read(), PATIENCE)
        assert message.startswith(b"retry: 2000\n\n")
        assert message.rpartition(b"retry: ")[2].strip().isdigit()
        assert await is_refused(port)
        async with client_session.get("/readyz") as response:  # on the connection that was open already
            problem_body = await problem(response, 503)
            assert problem_body["detail"] == "the server is shutting down"
            assert response.headers["Connection"] == "close"
        assert not draining.done()
        Waiting.may.set()
        async with await search as response:
            assert response.status == 200
            assert (await response.json())["total"] == 2
        await asyncio.wait_for(draining, PATIENCE)


@pytest.mark.parametrize(("seconds", "hurried"), [(0.1, False), (PATIENCE, True)])
async def test_what_takes_too_long_is_given_up(waiting: AppServices, seconds: float, hurried: bool) -> None:
    hurry = asyncio.Event()
    async with serving(waiting) as (runner, client):
        search = asyncio.create_task(client.get("/v1/search?q=tower"))
        await until_searching()
        if hurried:
            hurry.set()
        await asyncio.wait_for(drain(runner, seconds, hurry, CLEAN_SECONDS), PATIENCE)
        with pytest.raises(ClientConnectionError):  # at once, or when it asks a second time
            await search


async def test_without_anything_under_way_it_ends_at_once(services: AppServices) -> None:
    async with serving(services) as (runner, client):
        async with client.get("/healthz") as response:
            assert response.status == 200
        await asyncio.wait_for(drain(runner, 10 * PATIENCE, asyncio.Event(), CLEAN_SECONDS), PATIENCE)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: 16\r\n\r\n{",
        b"POST /v1/check HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        b"GET /v1/search?q=tower HTTP/1.1\r\nHost: a\r\nContent-Length: 16\r\n\r\n{",
    ],
)
async def test_a_request_whose_body_does_not_arrive_is_not_waited_for(
    waiting: AppServices, request_bytes: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(waiting) as (runner, client):
        search = asyncio.create_task(client.get("/v1/search?q=tower"))
        await until_searching()
        host, port = runner.addresses[0][:2]
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(request_bytes)
        await until(lambda: len(runner.app[CONTEXT].under_way) == 2)
        draining = asyncio.create_task(drain(runner, PATIENCE, asyncio.Event(), CLEAN_SECONDS))
        with suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
        assert not draining.done(), "what has arrived is still answered"
        Waiting.may.set()
        async with await search as response:
            assert response.status == 200
        await asyncio.wait_for(draining, PATIENCE)
        writer.close()
    assert "given up" not in caplog.text


async def test_a_stream_whose_reader_takes_nothing_is_not_waited_for(
    services: AppServices, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("overlay.api.changes_api._GREETING", b":" * (64 << 20))
    monkeypatch.setattr("overlay.api.changes_api.SLOW_SECONDS", 10 * PATIENCE)
    async with serving(services) as (runner, _):
        host, port = runner.addresses[0][:2]
        _, writer = await asyncio.open_connection(host, port, limit=1_000)
        writer.write(b"GET /v1/stream HTTP/1.1\r\nHost: a\r\n\r\n")
        await until(lambda: runner.app[CONTEXT].under_way)
        await asyncio.wait_for(drain(runner, 10 * PATIENCE, asyncio.Event(), CLEAN_SECONDS), PATIENCE)
        writer.close()
    assert "given up" not in caplog.text


def begun(port: int) -> socket.socket:
    """A connection on which a request is half sent: the server has begun to answer when it says to go on."""
    created = socket.create_connection(("127.0.0.1", port), PATIENCE)
    head = f"POST /v1/check HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: {len(BODY)}\r\n\r\n"
    created.sendall(head.encode())
    assert created.recv(1_000).startswith(b"HTTP/1.1 100")
    created.sendall(BODY[:5])
    return created


def whole(connection: socket.socket) -> bytes:
    """All that the server sends until it closes."""
    received = b""
    while chunk := connection.recv(65_536):
        received += chunk
    connection.close()
    return received


def test_workers_finish_their_requests_when_the_first_of_them_is_stopped(tmp_path: Path) -> None:
    port = free_port()
    answers = {"A2B_DATA": str(tmp_path / "data"), "A2B_LIMITS": "off"}
    with Running("serve", "--workers", "2", "--port", str(port), cwd=tmp_path, **answers) as running:
        running.until(lambda: running.get("/healthz"))
        pid = running.process.pid
        (child,) = running.until(lambda: workers(pid))
        connections = [begun(port) for _ in range(2)]  # with the others as many as one client may have under way
        never = [begun(port) for _ in range(2)]
        stream = socket.create_connection(("127.0.0.1", port), PATIENCE)
        stream.sendall(b"GET /v1/stream HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"retry: 2000" in stream.recv(1_000) + stream.recv(1_000)
        for connection in connections:
            connection.sendall(BODY[5:])
        running.process.send_signal(signal.SIGTERM)
        assert b"retry: " in whole(stream)
        running.until(lambda: is_closed(port))
        for answer in map(whole, connections):
            assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert running.process.wait(PATIENCE) == 0, "those who send no more are not waited for"
        assert "given up" not in running.err
        for connection in never:
            connection.close()
        assert not Path(f"/proc/{child}").exists()


def workers(pid: int) -> list[str]:
    """The other workers of a group: beside them there is, for a while, a process that compiles."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [child for child in children if b"--workers" in Path(f"/proc/{child}/cmdline").read_bytes()]


def is_closed(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), PATIENCE).close()
    except ConnectionRefusedError:
        return True
    return False
