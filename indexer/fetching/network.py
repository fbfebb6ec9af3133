"""Connections of the fetcher: each one resolves, judges, and connects to the very address that was judged.

httpcore, the lower half of httpx, asks its network backend for every new connection. The check stands there and
nowhere else, so that no redirect, retry or second look at a name can pass it by. Above it there is no httpx client:
what is not there keeps no cookies, reads no environment, no netrc, and follows nothing.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import httpcore
import httpx

from indexer.fetching import addresses
from indexer.fetching.addresses import Address
from indexer.fetching.limits import Limits
from indexer.fetching.reasons import FetchError, shown
from indexer.fetching.resolving import Resolver, Table, permitted

Admit = Callable[[str, Address], None]
"""Told host and address before each connection; raises FetchError where a budget does not allow it."""

Dial = Callable[[str, int], Awaitable[httpcore.AsyncNetworkStream]]


async def dial(address: str, port: int) -> httpcore.AsyncNetworkStream:
    """Connect to an address (never a name)."""
    return await httpcore.AnyIOBackend().connect_tcp(address, port)


READ_BYTES = 8_192
"""Bytes read at once: they may hold 1,400 chunks, which are parsed before the loop goes on (20 ms)."""


class UnreachedError(FetchError):
    """An address does not answer; another one of the same name may."""


class Backend(httpcore.AsyncNetworkBackend):
    """Connects for one visit, one request after the other. `address` is the one connected to last."""

    def __init__(self, resolver: Resolver, table: Table, limits: Limits, admit: Admit, dial: Dial = dial) -> None:
        self._resolver, self._table, self._limits, self._admit, self._dial = resolver, table, limits, admit, dial
        self.address = ""
        self.left = 0
        """Bytes that may still be read, in clear, of the answer under way."""

    async def connect_tcp(self, host: str, port: int, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
        """Connect to what `host` may be asked at. Raises FetchError. How long it may take is the caller's timer."""
        return _Stream(await self._connect(host, port), self)

    async def _connect(self, host: str, port: int) -> httpcore.AsyncNetworkStream:
        named = self._table.get((host, port))
        if named is not None:
            return await self._reach(named[0], named[1], self._limits.connect)
        found = await permitted(self._resolver, host, self._limits)
        for address in found[:-1]:
            self._admit(host, address)
            with suppress(UnreachedError):
                return await self._reach(str(address), port, self._limits.connect / len(found))
        self._admit(host, found[-1])
        return await self._reach(str(found[-1]), port, self._limits.connect)

    async def _reach(self, address: str, port: int, seconds: float) -> httpcore.AsyncNetworkStream:
        self.address = address
        try:
            async with asyncio.timeout(seconds):
                stream = await self._dial(address, port)
        except (TimeoutError, httpcore.TimeoutException):
            raise UnreachedError("fetch-connect-slow", f"{seconds:g} s") from None
        except httpcore.NetworkError as error:
            raise UnreachedError("fetch-connect", shown(str(error))) from None
        await _same(stream, address)
        return stream

    async def connect_unix_socket(self, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
        """Never."""
        raise FetchError("fetch-url", "a local socket")

    async def sleep(self, seconds: float) -> None:
        """What httpcore waits with between tries, of which it makes none here."""
        await asyncio.sleep(seconds)


async def _same(stream: httpcore.AsyncNetworkStream, address: str) -> None:
    """Hold the socket to the address that was judged, whatever lies between."""
    peer = stream.get_extra_info("server_addr")
    if peer is not None and addresses.read(peer[0]) != addresses.read(address):
        await stream.aclose()
        raise FetchError("fetch-address", f"{address} was judged, and {shown(str(peer[0]))} answered")


class _Stream(httpcore.AsyncNetworkStream):
    """A connection that takes what it reads, in clear, from what its backend allows."""

    def __init__(self, stream: httpcore.AsyncNetworkStream, backend: Backend) -> None:
        self._stream, self._backend = stream, backend

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        data = await self._stream.read(min(max_bytes, READ_BYTES), timeout)
        self._backend.left -= len(data)
        if self._backend.left < 0:
            raise FetchError("fetch-framing")
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, *_: Any, **__: Any
    ) -> httpcore.AsyncNetworkStream:
        try:
            stream = await self._handshake(ssl_context, server_hostname)
        except (httpcore.NetworkError, OSError) as error:
            raise FetchError("fetch-tls", shown(str(error)) or "the connection ended") from None
        return _Stream(stream, self._backend)

    async def _handshake(self, context: ssl.SSLContext, name: str | None) -> httpcore.AsyncNetworkStream:
        try:
            return await self._stream.start_tls(context, name)
        except BaseException:  # a handshake given up half-way is closed by nobody else
            await self._stream.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def tls_context(ca_file: str | None = None) -> ssl.SSLContext:
    """What servers are verified with: the certificates that httpx brings, and those of `ca_file` beside them.

    Raises OSError (ssl.SSLError included) when the file cannot be read or holds no certificate.
    """
    context = httpx.create_ssl_context(trust_env=False)
    if ca_file:
        context.load_verify_locations(cafile=ca_file)
    return context
