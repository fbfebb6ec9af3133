"""Connections of the fetcher: each one resolves, judges, and connects to the very address that was judged.

httpcore, the lower half of httpx, asks its network backend for every new connection. The check stands there and
nowhere else, so that no redirect, retry or second look at a name can pass it by. Above it there is no httpx client:
what is not there keeps no cookies, reads no environment, no netrc, and follows nothing.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
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


class Backend(httpcore.AsyncNetworkBackend):
    """Connects for one visit. `address` is the one connected to last."""

    def __init__(self, resolver: Resolver, table: Table, limits: Limits, admit: Admit, dial: Dial = dial) -> None:
        self._resolver, self._table, self._limits, self._admit, self._dial = resolver, table, limits, admit, dial
        self.address = ""

    async def connect_tcp(self, host: str, port: int, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
        """Connect to what `host` may be asked at. Raises FetchError."""
        try:
            async with asyncio.timeout(self._limits.connect):
                stream = await self._connect(host, port)
        except TimeoutError:
            raise FetchError("fetch-connect-slow", f"{self._limits.connect:g} s") from None
        return _Stream(stream, self._limits)

    async def _connect(self, host: str, port: int) -> httpcore.AsyncNetworkStream:
        named = self._table.get((host, port))
        if named is not None:
            return await self._reach([named[0]], named[1])
        found = await permitted(self._resolver, host, self._limits)
        self._admit(host, found[0])
        return await self._reach([str(address) for address in found], port)

    async def _reach(self, found: list[str], port: int) -> httpcore.AsyncNetworkStream:
        """Connect to the first address that answers."""
        failure: Exception | None = None
        for address in found:
            self.address = address
            try:
                async with asyncio.timeout(self._limits.connect / len(found)):
                    stream = await self._dial(address, port)
            except (httpcore.NetworkError, httpcore.TimeoutException, TimeoutError) as error:
                failure = error
                continue
            await _same(stream, address)
            return stream
        if isinstance(failure, (TimeoutError, httpcore.TimeoutException)):
            raise FetchError("fetch-connect-slow", f"{self._limits.connect:g} s") from None
        raise FetchError("fetch-connect", shown(str(failure))) from None

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
    """A connection that counts what it reads, in clear, and refuses more than `limits.wire`."""

    def __init__(self, stream: httpcore.AsyncNetworkStream, limits: Limits) -> None:
        self._stream, self._limits, self._read = stream, limits, 0

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        data = await self._stream.read(max_bytes, timeout)
        self._read += len(data)
        if self._read > self._limits.wire:
            raise FetchError("fetch-framing", f"{self._limits.wire:,} bytes")
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, *_: Any, **__: Any
    ) -> httpcore.AsyncNetworkStream:
        limit = self._limits.connect
        try:
            stream = await self._handshake(ssl_context, server_hostname, limit)
        except httpcore.TimeoutException:
            raise FetchError("fetch-connect-slow", f"{limit:g} s") from None
        except (httpcore.NetworkError, OSError, ssl.CertificateError) as error:
            raise FetchError("fetch-tls", shown(str(error)) or "the connection ended") from None
        return _Stream(stream, self._limits)

    async def _handshake(self, context: ssl.SSLContext, name: str | None, limit: float) -> httpcore.AsyncNetworkStream:
        try:
            return await self._stream.start_tls(context, name, limit)
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
