"""Every client of another machine against a server that sends it what no answer may be: each refuses with an error of
its own, and neither reads nor expands more than its bounds allow."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache
from typing import Any

import pytest

from indexer import http_body
from indexer.chains.jsonrpc import JsonRpc
from indexer.chains.junglebus.client import JungleBusClient as JungleBus
from indexer.chains.junglebus.violations import Violations
from indexer.chains.node.address import read as read_address
from indexer.chains.node.client import NodeClient as Node
from indexer.errors import SourceUnavailableError
from indexer.fetcher.dns import SystemResolver
from indexer.fetcher.gateway import Gateway
from indexer.fetcher.http_fetcher import HttpFetcher
from indexer.fetcher.limits import Limits
from indexer.fetcher.reasons import FetchError
from indexer.rates.feed_client import FeedClient, RatesRefusedError
from indexer.rates.feed_urls import RateFeed
from overlay.client import ClientLimits, OverlayClient, RemoteError, calls

pytestmark = pytest.mark.usefixtures("often_collected")

LIMIT = 1 << 20
"""Bytes of an answer that each client is set to take."""

PEAK = 24 << 20
"""Bytes of memory that a client may hold at once: its limit, and what it is copied and parsed into."""

SECONDS = 0.5
EXPANDED = 128 << 20
CID = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"


class Attacker:
    """A server that answers every request with the pieces of `attack`, pausing between them; `sent` counts bytes."""

    def __init__(self) -> None:
        self.attack: Callable[[], AsyncIterator[bytes]] = nothing
        self.sent = 0

    async def __aenter__(self) -> Attacker:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if b"/robots.txt" in head:
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            async for piece in self.attack():
                writer.write(piece)
                await writer.drain()
                self.sent += len(piece)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Attacker]:
    async with Attacker() as attacker:
        yield attacker


# -- what is sent


async def nothing() -> AsyncIterator[bytes]:
    yield b""


def answer(body: bytes, *headers: str, length: int | None = None, status: str = "200 OK") -> bytes:
    size = len(body) if length is None else length
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {size}", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@cache
def bomb() -> bytes:
    return gzip.compress(bytes(EXPANDED), 6, mtime=0)


def once(data: Callable[[], bytes]) -> Callable[[], AsyncIterator[bytes]]:
    async def attack() -> AsyncIterator[bytes]:
        yield data()

    return attack


def endless(head: bytes, then: bytes, pause: float = 0.0) -> Callable[[], AsyncIterator[bytes]]:
    async def attack() -> AsyncIterator[bytes]:
        yield head
        while True:
            yield then
            await asyncio.sleep(pause)

    return attack


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
UNTIL_CLOSED = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
CODED = "Content-Encoding: gzip"

BODIES = {
    "gzip in gzip": once(lambda: answer(gzip.compress(bomb()), "Content-Encoding: gzip, gzip")),
    "gzip in gzip, two headers": once(lambda: answer(gzip.compress(bomb()), CODED, CODED)),
    "gzip in gzip in identity": once(lambda: answer(gzip.compress(bomb()), "Content-Encoding: gzip, identity, x-gzip")),
    "gzip": once(lambda: answer(bomb(), CODED)),
    "brotli": once(lambda: answer(b"{}", "Content-Encoding: br")),
    "deflate": once(lambda: answer(b"{}", "Content-Encoding: deflate")),
    "endless": endless(UNTIL_CLOSED, b" " * 65_536),
    "endless chunks": endless(CHUNKED, b"8000\r\n" + b" " * 0x8000 + b"\r\n"),
    "endless gzip": endless(
        UNTIL_CLOSED.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n"), gzip.compress(b"", mtime=0)
    ),
    "endless headers": endless(b"HTTP/1.1 200 OK\r\n", b"X-More: 1\r\n" * 100),
    "a drip": endless(b"HTTP/1.1 200 OK\r\nContent-Length: 90000\r\n\r\n", b" ", 0.02),
    "a drip of headers": endless(b"HTTP/1.1 200 OK\r\nX: ", b"x", 0.02),
    "a length beyond all bounds": once(lambda: answer(b"{}", length=10**18)),
    "a length that is not reached": once(lambda: answer(b"{}", length=1000)),
    "two lengths": once(lambda: answer(b'{"result": 1}', "Content-Length: 5")),
}
JSON = {
    "deep": b"[" * 10**6,
    "deep objects": b'{"result":' * 10**5,
    "many values": b'{"error": null, "id": 1, "result": [' + b"[]," * 300_000 + b"[]]}",
    "a huge integer": b'{"error": null, "id": 1, "result": ' + b"9" * 10**6 + b"}",
    "a long integer": b'{"error": null, "id": 1, "result": ' + b"9" * 4_000 + b"}",
    "a huge exponent": b'{"error": null, "id": 1, "result": 1e999999999}',
    "no number": b'{"error": null, "id": 1, "result": NaN}',
    "a byte that is not UTF-8": b'{"error": null, "id": 1, "result": "\xff"}',
}

# -- who is sent it


async def node_call(server: Attacker) -> None:
    client = Node(read_address("bsv", server.url))
    client.pauses, client.whole_seconds = (), SECONDS
    try:
        await client.call("getblockcount", limit=LIMIT)
    finally:
        await client.close()


async def node_rest(server: Attacker) -> None:
    client = Node(read_address("bsv", server.url))
    client.pauses, client.whole_seconds = (), SECONDS
    try:
        await client.get("/rest/headers/1/00.bin", LIMIT)
    finally:
        await client.close()


async def node_stream(server: Attacker) -> None:
    client = Node(read_address("bsv", server.url))
    client.silence_seconds = client.whole_seconds = SECONDS
    try:
        async with client.stream("GET", "/rest/block/00.bin") as response:
            async for _ in client.pieces(response, LIMIT):
                pass
    finally:
        await client.close()


async def json_rpc(server: Attacker) -> None:
    client = JsonRpc("eth", server.url)
    client.pauses, client.whole_seconds = (), SECONDS
    try:
        await client.call("eth_blockNumber", limit=LIMIT)
    finally:
        await client.close()


async def junglebus(server: Attacker) -> None:
    client = JungleBus("bsv", server.url, Violations("bsv"))
    client.pauses, client.page_bytes, client.whole_seconds = (), LIMIT, SECONDS
    try:
        await client.json("/v1/block_header/tip")
    finally:
        await client.close()


async def gateway(server: Attacker) -> None:
    await Gateway(server.url, Limits(total=SECONDS, body=LIMIT)).fetch(f"ipfs://{CID}")


async def rates(server: Attacker) -> None:
    client = FeedClient(SECONDS)
    try:
        await client.ask(RateFeed("BSV", f"{server.url}/rates", ""))
    finally:
        await client.close()


async def command_line(server: Attacker) -> None:
    await asyncio.to_thread(status_of, server.url)


def status_of(url: str) -> Any:
    limits = ClientLimits(answer_bytes=LIMIT, whole_seconds=SECONDS)
    with OverlayClient(url, limits) as client:
        return client.ask(calls.status(), is_checked=False)


async def stranger(server: Attacker) -> None:
    table = {("agent.example", 80): ("127.0.0.1", server.port)}
    limits = Limits(total=SECONDS, body=LIMIT)
    fetcher = HttpFetcher(SystemResolver(), ssl.create_default_context(), table, limits)
    await fetcher.get("http://agent.example/card.json")


Ask = Callable[[Attacker], Awaitable[None]]
CLIENTS: dict[Ask, Any] = {
    node_call: SourceUnavailableError,
    node_rest: SourceUnavailableError,
    node_stream: SourceUnavailableError,
    json_rpc: SourceUnavailableError,
    junglebus: SourceUnavailableError,
    gateway: FetchError,
    rates: RatesRefusedError,
    command_line: RemoteError,
    stranger: FetchError,
}


@pytest.fixture
def memory() -> Any:
    bomb()  # made before it is measured
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


@pytest.mark.parametrize("ask", CLIENTS, ids=lambda ask: ask.__name__)
@pytest.mark.parametrize("name", BODIES)
async def test_a_body_is_refused_within_bounds(name: str, ask: Ask, server: Attacker, memory: Any) -> None:
    server.attack = BODIES[name]
    with pytest.raises(CLIENTS[ask]) as caught:
        await ask(server)
    assert memory() < PEAK
    assert server.sent < 8 * LIMIT  # what fits into buffers on the way is on top
    if name in ("brotli", "deflate") or name.startswith("gzip in gzip"):
        assert "coding" in str(caught.value) or "encoded" in str(caught.value)


@pytest.mark.parametrize("ask", [node_call, json_rpc, junglebus, rates, command_line], ids=lambda ask: ask.__name__)
@pytest.mark.parametrize("name", JSON)
async def test_json_is_refused_within_bounds(name: str, ask: Ask, server: Attacker, memory: Any) -> None:
    server.attack = once(lambda: answer(JSON[name], "Content-Type: application/json"))
    expected = Exception if ask is node_call else CLIENTS[ask]
    with pytest.raises(expected) as caught:
        await ask(server)
    assert not isinstance(caught.value, RecursionError)
    assert memory() < PEAK


async def test_a_redirect_is_followed_without_reading_its_body(server: Attacker, memory: Any) -> None:
    coded = gzip.compress(bomb())
    hops = iter([answer(coded, "Content-Encoding: gzip, gzip", "Location: /there", status="302 Found"), answer(b"{}")])
    server.attack = once(lambda: next(hops))
    assert await asyncio.to_thread(status_of, server.url) == {}
    assert memory() < PEAK


async def test_redirects_without_end_are_given_up(server: Attacker) -> None:
    server.attack = once(lambda: answer(b"", "Location: /again", status="302 Found"))
    with pytest.raises(RemoteError, match="more than 5 redirects"):
        await asyncio.to_thread(status_of, server.url)


@pytest.mark.parametrize("ask", [json_rpc, junglebus, command_line], ids=lambda ask: ask.__name__)
async def test_one_gzip_coding_is_undone(ask: Ask, server: Attacker) -> None:
    body = b'{"jsonrpc": "2.0", "id": 1, "result": "' + b"a" * 500_000 + b'"}'  # strangers' text may repeat itself
    server.attack = once(lambda: answer(gzip.compress(body), CODED))
    await ask(server)


# -- the reader itself


def body_of(chunks: list[bytes], *headers: tuple[str, str], **bounds: Any) -> bytes:
    body = http_body.BoundedBody(headers, http_body.Bounds(**{"size": 1000, **bounds}))
    for chunk in chunks:
        body.add(chunk)
    return body.finish()


def test_a_body_may_have_exactly_its_bound() -> None:
    coded = gzip.compress(bytes(1000))
    assert body_of([bytes(1000)]) == bytes(1000)
    assert body_of([coded], ("Content-Encoding", "GZIP, identity")) == bytes(1000)
    for chunks, *headers in ([bytes(1001)],), ([coded], ("content-encoding", "x-gzip")):
        with pytest.raises(http_body.BodyError) as caught:
            body_of(chunks, *headers, size=999)
        assert caught.value.code == "size"


@pytest.mark.parametrize(
    ("chunks", "headers", "code"),
    [
        ([], [("Content-Length", "1001")], "size"),
        ([], [("Content-Length", "2"), ("Content-Length", "1001")], "size"),
        ([b""] * 5_000, [], "framing"),
        ([gzip.compress(bytes(10))[:-1]], [("Content-Encoding", "gzip")], "coding"),
        ([gzip.compress(b""), gzip.compress(b"")], [("Content-Encoding", "gzip")], "coding"),
        ([], [("Content-Encoding", "gzip"), ("content-encoding", "gzip")], "coding"),
    ],
)
def test_what_breaks_a_bound_is_named(chunks: list[bytes], headers: list[tuple[str, str]], code: str) -> None:
    with pytest.raises(http_body.BodyError) as caught:
        body_of(chunks, *headers)
    assert caught.value.code == code


def test_expansion_is_bounded_where_strangers_choose_what_is_read() -> None:
    coded = [gzip.compress(bytes(200_000))], ("Content-Encoding", "gzip")
    assert len(body_of(*coded, size=200_000)) == 200_000
    with pytest.raises(http_body.BodyError) as caught:
        body_of(*coded, size=200_000, ratio=100)
    assert caught.value.code == "ratio"
