"""Fetches URLs from untrusted hosts: redirects, robots.txt, conditional requests, limits and errors."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import httpcore

from indexer.fetcher import robots
from indexer.fetcher.connections import Admit, Backend, Dial, dial
from indexer.fetcher.dns import Resolver, Table
from indexer.fetcher.limits import USER_AGENT, Limits, read_body
from indexer.fetcher.ports import HTTPS_PORT, PortRule, is_endpoint_port, is_https_port
from indexer.fetcher.reasons import PORT_LIMIT, PORT_SILENT, TROUBLE, FetchError, shown
from indexer.fetcher.target import Target, follow, target
from indexer.public_addresses import Address
from indexer.retries import retry_after

ROBOTS_SECONDS = 86_400
ROBOTS_KEPT = 10_000
"""Seconds and hosts for which the rules of robots.txt, or their absence, are cached."""

DRAIN_BYTES, DRAIN_SECONDS = 65_536, 1.0
MAX_VALIDATOR = 512
MAX_RETRY_AFTER = 86_400.0

_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_BUSY = frozenset((429, 503))
_NOT_THERE = frozenset((404, 410))

_NO_TLS = frozenset(("fetch-connect", "fetch-connect-slow", "fetch-tls"))
_NO_MORE = TROUBLE - {"fetch-busy", "fetch-server"} | {"fetch-address", "fetch-budget", PORT_SILENT, PORT_LIMIT}
"""Codes after which nothing else is fetched from a host either."""


@dataclass(frozen=True, slots=True)
class Validators:
    """The validators of a conditional fetch: the URL that answered, and its ETag and Last-Modified ("" without)."""

    url: str
    etag: str = ""
    last_modified: str = ""

    def __bool__(self) -> bool:
        return bool(self.etag or self.last_modified)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The answer of a URL: `body` is None when it was not modified. `url` is the last of the redirects, `address` the
    one that was connected to."""

    body: bytes | None
    validators: Validators
    address: str

    @property
    def url(self) -> str:
        """The URL of the answer."""
        return self.validators.url


class PostAnswer(NamedTuple):
    """The answer of a URL to one request, whatever its status; `retry_after` in seconds, None without one; headers by
    lower-case name."""

    status: int
    body: bytes
    retry_after: float | None
    headers: Mapping[str, str] = MappingProxyType({})


_Judged = TypeVar("_Judged")


def open_admit(host: str, address: Address, port: int) -> None:
    """Admit every connection: for fetches without budgets."""


class HttpFetcher:
    """Fetches from untrusted hosts. One for the program: it holds the certificates and cached opt-outs, no
    connection. `endpoint_ports`: visits to MCP endpoints also reach ports from 1024 up."""

    def __init__(
        self,
        resolver: Resolver,
        tls: ssl.SSLContext,
        table: Table | None = None,
        limits: Limits | None = None,
        *,
        endpoint_ports: bool = False,
        dial: Dial = dial,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._resolver, self._tls, self._dial = resolver, tls, dial
        self.table: Table = table or {}
        self.limits = limits or Limits()
        self.endpoint_ports = endpoint_ports
        self.clock = clock
        self.opt_outs: OrderedDict[tuple[str, str, int], tuple[float, robots.RobotsRules]] = OrderedDict()

    @asynccontextmanager
    async def visit(self, admit: Admit = open_admit, *, is_endpoint: bool = False) -> AsyncIterator[Visit]:
        """Connections for a few related URLs, closed at the end; `admit` is called before each connection.
        `is_endpoint`: to an MCP endpoint, which may have another port than 443."""
        backend = Backend(self._resolver, self.table, self.limits, admit, self._dial)
        async with httpcore.AsyncConnectionPool(
            ssl_context=self._tls, max_connections=4, retries=0, network_backend=backend
        ) as pool:
            is_permitted = is_endpoint_port if is_endpoint and self.endpoint_ports else is_https_port
            yield Visit(self, pool, backend, is_permitted)

    async def get(
        self, url: str, validators: Validators | None = None, *, same_host: bool = False, admit: Admit = open_admit
    ) -> HttpAnswer:
        """Fetch one URL on a separate connection. Raises FetchError."""
        async with self.visit(admit) as visit:
            return await visit.get(url, validators, same_host=same_host)


class Visit:
    """A few URLs fetched together."""

    def __init__(
        self, fetcher: HttpFetcher, pool: httpcore.AsyncConnectionPool, backend: Backend, is_permitted: PortRule
    ) -> None:
        self._fetcher, self._pool, self._backend, self._is_permitted = fetcher, pool, backend, is_permitted
        self._limits = fetcher.limits

    @property
    def address(self) -> str:
        """The address that was connected to last, "" for none."""
        return self._backend.address

    async def get(self, url: str, validators: Validators | None = None, *, same_host: bool = False) -> HttpAnswer:
        """Fetch a URL, following at most three redirects, each checked like the first. Raises FetchError.

        `validators` makes it conditional where the same URL answers again. `same_host`: a redirect to another host is
        refused (law 11).
        """
        destination = self._target(url)
        try:
            async with asyncio.timeout(self._limits.total):
                return await self._follow(destination, validators, self._limits.body, same_host=same_host)
        except TimeoutError:
            raise FetchError("fetch-slow", f"{self._limits.total:g} s") from None

    def _target(self, url: str) -> Target:
        return target(url, self._fetcher.table, self._is_permitted)

    async def _follow(
        self,
        destination: Target,
        validators: Validators | None,
        most: int,
        *,
        same_host: bool,
        check_robots: bool = True,
    ) -> HttpAnswer:
        first = destination.host
        for _ in range(self._limits.redirects + 1):
            if check_robots:
                await self._check_robots(destination)
            condition = validators if validators and validators.url == destination.url else None
            answer = await self._request(destination, condition, most)
            if isinstance(answer, HttpAnswer):
                return answer
            destination = follow(destination, answer, self._fetcher.table)
            if same_host and destination.host != first:
                raise FetchError("fetch-redirect-host", destination.host)
        raise FetchError("fetch-redirects", str(self._limits.redirects))

    def redirected(self, url: str, location: str) -> str:
        """The URL on the same host to which a redirect leads. Raises FetchError."""
        visited = self._target(url)
        destination = follow(visited, location, self._fetcher.table)
        if destination.host != visited.host:
            raise FetchError("fetch-redirect-host", destination.host)
        return destination.url

    async def check_opt_out(self, url: str) -> None:
        """Raise FetchError when the host's robots.txt disallows a URL that is posted to. The caller limits the time."""
        await self._check_robots(self._target(url))

    async def _check_robots(self, destination: Target) -> None:
        """Raise FetchError when the host's robots.txt disallows the path; it is fetched once a day."""
        opt_outs, now = self._fetcher.opt_outs, self._fetcher.clock()
        key = (destination.scheme, *destination.host_and_port)
        expires, rules = opt_outs.get(key, (0.0, robots.RobotsRules()))
        if expires <= now:
            rules = await self._robots(destination)
            opt_outs[key] = now + ROBOTS_SECONDS, rules
            opt_outs.move_to_end(key)
            while len(opt_outs) > ROBOTS_KEPT:
                opt_outs.popitem(last=False)
        if not rules.allow(destination.path):
            raise FetchError("fetch-opt-out", shown(destination.path))

    async def _robots(self, destination: Target) -> robots.RobotsRules:
        """The rules of robots.txt; none, when it is missing or invalid. Raises FetchError when the host cannot be
        reached, as the fetch of the card would."""
        robots_txt = Target(destination.scheme, destination.host, destination.port, "/robots.txt")
        try:
            answer = await self._follow(robots_txt, None, self._limits.robots, same_host=True, check_robots=False)
        except FetchError as error:
            if error.refusal.code in _NO_MORE:
                raise
            return robots.RobotsRules()
        return robots.read(answer.body or b"")

    async def _request(self, destination: Target, validators: Validators | None, most: int) -> HttpAnswer | str:
        """Send one request: the answer, or the Location of a redirect."""

        async def judge(response: httpcore.Response, headers: dict[str, str]) -> HttpAnswer | str:
            return await self._judge(destination, response, headers, validators, most)

        return await self._exchange(_build_request(destination, validators, self._limits), judge)

    async def post(self, url: str, content: bytes, headers: Mapping[str, str], most: int = 0) -> PostAnswer:
        """Send JSON to a URL, without reading robots.txt; redirects are not followed. Reads at most `most` bytes of the
        answer, by default none. Raises FetchError, but not for a status."""

        async def judge(response: httpcore.Response, headers: dict[str, str]) -> PostAnswer:
            wait = _wait(headers, self._fetcher.clock())
            if most:
                body = await read_body(response.aiter_stream(), headers, self._limits, most)
                return PostAnswer(response.status, body, wait, headers)
            await _drain(response)
            return PostAnswer(response.status, b"", wait, headers)

        request = _build_request(self._target(url), None, self._limits, content, headers)
        try:
            async with asyncio.timeout(self._limits.total):
                return await self._exchange(request, judge)
        except TimeoutError:
            raise FetchError("fetch-slow", f"{self._limits.total:g} s") from None

    async def look(self, url: str, headers: Mapping[str, str], method: str = "HEAD", most: int = 0) -> PostAnswer:
        """Send a request without a body to a URL, without reading robots.txt; redirects are not followed. At most
        `most` bytes of the answer are read, in a second: of a longer or slower one its beginning. Raises FetchError,
        but not for a status."""

        async def judge(response: httpcore.Response, headers: dict[str, str]) -> PostAnswer:
            body = await _beginning(response, most)
            return PostAnswer(response.status, body, _wait(headers, self._fetcher.clock()), headers)

        request = _build_request(self._target(url), None, self._limits, more=headers, method=method)
        try:
            async with asyncio.timeout(self._limits.total):
                return await self._exchange(request, judge)
        except TimeoutError:
            raise FetchError("fetch-slow", f"{self._limits.total:g} s") from None

    async def _exchange(
        self, request: httpcore.Request, judge: Callable[[httpcore.Response, dict[str, str]], Awaitable[_Judged]]
    ) -> _Judged:
        """Send a request, and judge the answer by its headers. Raises FetchError."""
        try:
            response = await self._send_to_port(request)
            try:
                return await judge(response, _headers(response.headers, self._limits))
            finally:
                await response.aclose()
        except httpcore.ReadTimeout:
            raise FetchError("fetch-slow", f"{self._limits.first_byte:g} s after the last bytes") from None
        except httpcore.ProtocolError as error:
            raise FetchError("fetch-protocol", shown(str(error))) from None
        except (httpcore.NetworkError, httpcore.TimeoutException, OSError) as error:
            raise FetchError("fetch-protocol", shown(str(error)) or "the connection broke") from None

    async def _send_to_port(self, request: httpcore.Request) -> httpcore.Response:
        """Send a request as `_send` does; on another port than 443 each failure of TLS has one code, after one time.
        Strangers choose these ports, and must not learn which are closed, filtered, or of another protocol."""
        host, port = request.url.host.decode(), request.url.port or HTTPS_PORT
        if is_https_port(port) or (host, port) in self._fetcher.table:
            return await self._send(request)
        loop = asyncio.get_running_loop()
        end = loop.time() + self._limits.connect
        try:
            return await self._send(request)
        except FetchError as error:
            if error.refusal.code not in _NO_TLS:
                raise
        await asyncio.sleep(end - loop.time())
        raise FetchError(PORT_SILENT, str(port))

    async def _send(self, request: httpcore.Request) -> httpcore.Response:
        """Send a request and wait for the headers of the answer: connecting and waiting each have a time limit, however
        slowly bytes arrive."""
        sent = False
        self._backend.left = self._limits.head_wire

        async def phase(name: str, _: dict[str, object]) -> None:
            nonlocal sent
            if name == "http11.send_request_headers.started":
                sent = True
                limit.reschedule(asyncio.get_running_loop().time() + self._limits.first_byte)

        request.extensions["trace"] = phase
        try:
            async with asyncio.timeout(self._limits.connect) as limit:
                response = await self._pool.handle_async_request(request)
        except (TimeoutError, httpcore.ReadTimeout, httpcore.WriteTimeout):
            if sent:
                raise FetchError("fetch-first-byte", f"{self._limits.first_byte:g} s") from None
            raise FetchError("fetch-connect-slow", f"{self._limits.connect:g} s") from None
        except httpcore.ProtocolError as error:
            if "too long" in str(error):  # what h11 raises for headers that do not end within 100 kB
                raise FetchError("fetch-headers", "more than 100,000 bytes") from None
            raise
        self._backend.left = self._limits.wire
        return response

    async def _judge(
        self,
        destination: Target,
        response: httpcore.Response,
        headers: dict[str, str],
        previous: Validators | None,
        most: int,
    ) -> HttpAnswer | str:
        status = response.status
        if status != 200:
            await _drain(response)
        if status in _REDIRECTS:
            return headers.get("location", "")
        validators = Validators(destination.url, *(_validator(headers, name) for name in ("etag", "last-modified")))
        if status == 304 and previous is not None:
            current = Validators(
                destination.url, validators.etag or previous.etag, validators.last_modified or previous.last_modified
            )
            return HttpAnswer(None, current, self._backend.address)
        if status != 200:
            raise _refused(status, headers, self._fetcher.clock())
        body = await read_body(response.aiter_stream(), headers, self._limits, most)
        return HttpAnswer(body, validators, self._backend.address)


def _build_request(
    destination: Target,
    validators: Validators | None,
    limits: Limits,
    content: bytes | None = None,
    more: Mapping[str, str] = MappingProxyType({}),
    method: str = "GET",
) -> httpcore.Request:
    """A request without a body, or a POST of JSON where there is `content`."""
    standard = destination.port == (443 if destination.scheme == "https" else 80)
    headers = {
        "Host": destination.host if standard else f"{destination.host}:{destination.port}",
        "User-Agent": USER_AGENT,
        "Accept": "application/json, */*;q=0.1",
        "Accept-Encoding": "identity",
    }
    if validators and validators.etag:
        headers["If-None-Match"] = validators.etag
    if validators and validators.last_modified:
        headers["If-Modified-Since"] = validators.last_modified
    if content is not None:
        headers |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
    headers |= more
    return httpcore.Request(
        method if content is None else "POST",
        httpcore.URL(scheme=destination.scheme, host=destination.host, port=destination.port, target=destination.path),
        headers=[(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
        content=content,
        extensions={"timeout": {"read": limits.first_byte, "write": limits.first_byte}},
    )


async def _drain(response: httpcore.Response) -> None:
    """Read the remainder of a small unused answer: its connection can serve the next request."""
    left = DRAIN_BYTES
    with suppress(TimeoutError, httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError):
        async with asyncio.timeout(DRAIN_SECONDS):
            async for chunk in response.aiter_stream():
                left -= len(chunk)
                if left < 0:
                    return


async def _beginning(response: httpcore.Response, most: int) -> bytes:
    """The first bytes of an answer."""
    body = bytearray()
    with suppress(TimeoutError, httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError):
        async with asyncio.timeout(DRAIN_SECONDS):
            async for chunk in response.aiter_stream():
                body += chunk
                if len(body) >= most:
                    break
    return bytes(body[:most])


def _headers(raw: Sequence[tuple[bytes, bytes]], limits: Limits) -> dict[str, str]:
    """Headers by lower-case name, repeated ones joined. Raises FetchError when there are too many."""
    size = sum(len(name) + len(value) for name, value in raw)
    if size > limits.header_bytes:
        raise FetchError("fetch-headers", f"{size:,} bytes")
    if len(raw) > limits.header_count:
        raise FetchError("fetch-headers", f"{len(raw):,} headers")
    joined: dict[str, str] = {}
    for name, value in raw:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        joined[key] = f"{joined[key]}, {text}" if key in joined else text
    return joined


def _validator(headers: dict[str, str], name: str) -> str:
    value = headers.get(name, "")
    return value if len(value) <= MAX_VALIDATOR and value.isprintable() else ""


def _refused(status: int, headers: dict[str, str], now: float) -> FetchError:
    if status in _BUSY:
        return FetchError("fetch-busy", str(status), _wait(headers, now))
    if status in _NOT_THERE:
        return FetchError("fetch-missing", str(status))
    return FetchError("fetch-server" if status >= 500 else "fetch-status", str(status))


def _wait(headers: dict[str, str], now: float) -> float | None:
    return retry_after(headers.get("retry-after", ""), MAX_RETRY_AFTER, now)
