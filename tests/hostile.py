"""A TLS server that misbehaves byte by byte, and a fetcher that believes it to be at public addresses.

    async with Hostile(authority) as server:
        server.say("/.well-known/agent.json", ok(b"{}"))
        net = Net(server, authority)              # names, addresses and what was dialled
        await net.fetcher().get("https://agent.example/.well-known/agent.json")
        net.dialled                               # [("93.184.216.34", 443)]

Nothing is ever sent anywhere but to the local server: `Net.dial` notes the address that would have been connected to.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import httpcore
import pytest
import trustme

from indexer.fetcher.connections import dial as really_dial
from indexer.fetcher.http_fetcher import HttpFetcher
from indexer.fetcher.limits import Limits
from tests.waiting import PATIENCE

PUBLIC = "93.184.216.34"
HOSTS = ("agent.example", "other.example", "sub.agent.example", "xn--bcher-kva.example")

Behave = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

QUICK = Limits(
    resolve=0.5,
    connect=4.0,
    first_byte=0.8,
    total=2.0,
    body=20_000,
    head_wire=120_000,
    wire=50_000,
    pieces=500,
    ratio=20,
    header_bytes=4_096,
    header_count=50,
    robots=4_096,
)
"""Short enough to wait for, long enough for a busy machine."""


def answer(status: str, body: bytes = b"", *headers: str, length: bool = True) -> bytes:
    lines = [f"HTTP/1.1 {status}", *headers, *([f"Content-Length: {len(body)}"] if length else [])]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def raw(data: bytes, *, close: bool = False) -> Behave:
    """Send these bytes; then close, or leave the connection to the next request."""

    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        if close:
            writer.close()

    return behave


def ok(body: bytes = b"{}", *headers: str) -> Behave:
    return raw(answer("200 OK", body, *headers))


def redirect(location: str, status: str = "302 Found") -> Behave:
    return raw(answer(status, b"", f"Location: {location}"))


def forever(data: bytes, then: bytes, pause: float = 0.0) -> Behave:
    """Send `data`, then `then` for ever, every `pause` seconds."""

    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        while not writer.is_closing():
            writer.write(then)
            await writer.drain()
            await asyncio.sleep(pause)

    return behave


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Say nothing until the other side gives up."""
    await reader.read()


async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Tear the connection down without a goodbye."""
    writer.transport.abort()


class Request:
    """A request as it came: method, path, and headers by lower-case name."""

    def __init__(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        self.method, self.path = first.split(" ")[:2]
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}


class Hostile:
    """The server. `requests` holds what was asked, `sni` the names that handshakes asked for."""

    def __init__(
        self, authority: trustme.CA, hosts: Sequence[str] = HOSTS, *, tls: bool = True, serve: Behave | None = None
    ) -> None:
        self.requests: list[Request] = []
        self.sni: list[str] = []
        self.connections = 0
        self._instead = serve
        self._behaviours: dict[str, Behave] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.context: ssl.SSLContext | None = None
        if tls:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            authority.issue_cert(*hosts).configure_cert(self.context)
            self.context.sni_callback = lambda _, name, __: self.sni.append(name)

    def say(self, path: str, behave: Behave) -> None:
        """How a path answers from now on."""
        self._behaviours[path] = behave

    async def __aenter__(self) -> Hostile:
        self._server = await asyncio.start_server(self._instead or self._serve, "127.0.0.1", 0, ssl=self.context)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        async with asyncio.timeout(PATIENCE):
            while self._open():  # noqa: ASYNC110 - no event tells of a connection that ends in its handshake
                await asyncio.sleep(0.005)

    def _open(self) -> int:
        """Connections that are not torn down yet, those in the middle of a handshake included."""
        clients = getattr(self._server, "_clients", None)  # Python 3.13 on
        return int(getattr(self._server, "_active_count", 0)) if clients is None else len(clients)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while not writer.is_closing():
                request = Request((await reader.readuntil(b"\r\n\r\n"))[:-2])
                self.requests.append(request)
                behave = self._behaviours.get(request.path) or raw(answer("404 Not Found"))
                await behave(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()
            self._tasks.discard(task)
            await asyncio.sleep(0)

    def paths(self) -> list[str]:
        """The requested paths, without the opt-out."""
        return [request.path for request in self.requests if request.path != "/robots.txt"]


class Net:
    """Names and addresses as a test says: `names` to a list of addresses, or a list of such lists, one per look-up."""

    def __init__(self, server: Hostile, authority: trustme.CA, names: Mapping[str, Any] | None = None) -> None:
        self.server = server
        self.names: dict[str, Any] = dict(names or {})
        self.looked_up: list[str] = []
        self.dialled: list[tuple[str, int]] = []
        self.dead: set[str] = set()
        self.closed: set[int] = set()
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        authority.configure_trust(self.tls)

    async def resolve(self, host: str) -> Sequence[str]:
        self.looked_up.append(host)
        body = self.names.get(host, [PUBLIC])
        if isinstance(body, Exception):
            raise body
        if body and isinstance(body[0], list):
            return list(body.pop(0) if len(body) > 1 else body[0])
        return list(body)

    async def dial(self, address: str, port: int) -> httpcore.AsyncNetworkStream:
        self.dialled.append((address, port))
        if address in self.dead or port in self.closed:
            raise httpcore.ConnectError("All connection attempts failed")
        return _Disguised(await really_dial("127.0.0.1", self.server.port), address)

    def fetcher(self, limits: Limits = QUICK, **more: Any) -> HttpFetcher:
        return HttpFetcher(self, self.tls, limits=limits, dial=self.dial, **more)


class _Disguised(httpcore.AsyncNetworkStream):
    """A stream to the local server that claims to be connected to another address."""

    def __init__(self, stream: httpcore.AsyncNetworkStream, address: str) -> None:
        self._stream, self.address = stream, address
        self.read, self.write = stream.read, stream.write  # type: ignore[method-assign]
        self.start_tls, self.aclose = stream.start_tls, stream.aclose  # type: ignore[method-assign]

    def get_extra_info(self, info: str) -> Any:
        return (self.address, 443) if info == "server_addr" else self._stream.get_extra_info(info)


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """Who vouches for the server's names."""
    return trustme.CA()


@pytest.fixture
async def server(authority: trustme.CA) -> AsyncIterator[Hostile]:
    """The server, with nothing to say yet."""
    async with Hostile(authority) as served:
        yield served


@pytest.fixture
def net(server: Hostile, authority: trustme.CA) -> Net:
    """A net in which every name leads to that server."""
    return Net(server, authority)
