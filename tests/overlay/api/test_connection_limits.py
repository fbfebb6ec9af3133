"""Connections: how many there may be, and how long they may be silent."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from overlay.api import connection_limits, server
from overlay.api.connection_limits import ClientAddresses, ConnectionLimits, room
from overlay.api.services import AppServices
from overlay.app.http_app import create_app
from tests.waiting import PATIENCE, until

HELLO = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
Opened = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def address(services: AppServices) -> AsyncIterator[tuple[web.AppRunner, Callable[[], asyncio.Future[Opened]]]]:
    runner = server.create_runner(create_app(services))
    await server.listen(runner, "127.0.0.1", 0)
    host, port = runner.addresses[0][:2]
    opened: list[asyncio.StreamWriter] = []

    async def connected() -> Opened:
        reader, writer = await asyncio.open_connection(host, port)
        opened.append(writer)
        return reader, writer

    yield runner, lambda: asyncio.ensure_future(connected())
    for writer in opened:
        writer.close()
    await runner.cleanup()


async def head(reader: asyncio.StreamReader) -> bytes:
    return (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)).partition(b"\r\n")[0]


@pytest.mark.parametrize("begun", [b"", HELLO, b"GET / HT", b"POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Le"])
async def test_a_silent_connection_is_closed(
    monkeypatch: pytest.MonkeyPatch, services: AppServices, begun: bytes
) -> None:
    monkeypatch.setattr(server, "IDLE_SECONDS", 3.0 if begun == HELLO else 0.5)
    runner = server.create_runner(create_app(services))
    await server.listen(runner, "127.0.0.1", 0)
    try:
        reader, writer = await asyncio.open_connection(*runner.addresses[0][:2])
        writer.write(begun)
        try:
            message = await asyncio.wait_for(reader.read(), PATIENCE)
        except ConnectionResetError:  # closed before the server has read what was sent
            message = b""
        assert message.startswith(b"HTTP/1.1 200 ") == (begun == HELLO)
        writer.close()
    finally:
        await runner.cleanup()


async def test_a_connection_that_reads_nothing_is_closed(address, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    runner, connect = address
    monkeypatch.setattr(server, "STUCK_SECONDS", 1.0)
    _, slow = await connect()
    slow.transport.pause_reading()
    slow.write(b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n" * 400)
    await until(lambda: any(connection.writing_paused for connection in runner.server.connections))
    await until(lambda: not runner.server.connections)
    reader, writer = await connect()
    writer.write(HELLO)
    assert await head(reader) == b"HTTP/1.1 200 OK"


async def test_connections_beyond_the_limit_are_refused_with_a_reason(address) -> None:  # type: ignore[no-untyped-def]
    runner, connect = address
    runner.server.limits = ConnectionLimits(ClientAddresses(), 2)
    stored = [await connect(), await connect()]
    for reader, writer in stored:
        writer.write(HELLO)
        assert await head(reader) == b"HTTP/1.1 200 OK"
    reader, writer = await connect()
    assert await head(reader) == b"HTTP/1.1 503 Service Unavailable"
    assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
    assert len(runner.server.connections) == 2
    stored[0][1].close()
    await until(lambda: len(runner.server.connections) == 1)
    reader, writer = await connect()
    writer.write(HELLO)
    assert await head(reader) == b"HTTP/1.1 200 OK"


STRANGER, NEIGHBOUR, PROXY = "2001:db8::1", "2001:db8::2", "10.0.0.1"


def test_one_client_takes_only_so_many_unless_it_is_a_proxy_or_this_machine() -> None:
    tried = ConnectionLimits(ClientAddresses(("10.0.0.0/8",)), 100, 2)
    assert [tried.take(item) for item in (STRANGER, NEIGHBOUR, STRANGER)] == ["2001:db8::/64"] * 2 + [None]
    for familiar in (PROXY, "127.0.0.1", "::1", ""):
        assert [tried.take(familiar) is not None for _ in range(5)] == [True] * 5
    tried.give_back("2001:db8::/64")
    assert tried.take(NEIGHBOUR) is not None
    assert tried.take(STRANGER) is None


def test_a_customer_of_ipv6_has_the_connections_of_sixteen_clients_however_many_addresses_it_uses() -> None:
    tried = ConnectionLimits(ClientAddresses(), 100, 2)
    names = [tried.take(f"2001:db8:1:{number:x}::1") for number in range(32)]
    assert None not in names
    assert tried.take("2001:db8:1:ffff::1") is None
    assert tried.take("2001:db8:2:ffff::1") is not None
    tried.give_back("2001:db8:1:3::/64")
    assert tried.take("2001:db8:1:ffff::1") is not None


@given(st.lists(st.sampled_from(["192.0.2.1", "192.0.2.2", "127.0.0.1", "-"]), max_size=60))
def test_no_more_are_let_in_than_there_are_places(requests: list[str]) -> None:
    tried, open_ = ConnectionLimits(ClientAddresses(), 7, 3), list[str]()
    for peer in requests:
        if peer == "-":
            if open_:
                tried.give_back(open_.pop(0))
            continue
        full = len(open_) == 7 or (peer != "127.0.0.1" and open_.count(peer) == 3)
        name = tried.take(peer)
        assert name == (None if full else peer)
        open_ += [name] if name else []


@pytest.mark.parametrize(
    ("soft", "hard", "set_to", "number"),
    [
        (1_024, 524_288, 65_536, connection_limits.MOST),
        (1_024, 4_096, 4_096, 4_096 - 384),
        (1_024, 1_024, None, 640),
        (100, 100, None, 16),
        (1_048_576, 1_048_576, None, connection_limits.MOST),
        (1_024, resource.RLIM_INFINITY, 65_536, connection_limits.MOST),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, None, connection_limits.MOST),
    ],
)
def test_there_is_room_for_as_many_as_files_may_be_open(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, set_to: int | None, number: int
) -> None:
    answers: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: answers.append(limits))
    assert room() == number
    assert answers == ([(set_to, hard)] if set_to else [])
