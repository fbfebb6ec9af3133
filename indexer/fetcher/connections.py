"""Connections of the fetcher: each resolves the name, checks the address, and connects to exactly that address.

httpcore, the lower half of httpx, opens every connection through its network backend. The check is only there: no
redirect, retry or second resolution can bypass it. There is no httpx client above it, and so there are no cookies,
environment, netrc and automatic redirects.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import httpcore
import httpx

from indexer import public_addresses
from indexer.fetcher.dns import Resolver, Table, permitted
from indexer.fetcher.limits import Limits
from indexer.fetcher.reasons import FetchError, shown
from indexer.public_addresses import Address

Admit = Callable[[str, Address, int], None]
"""Called with host, address and port before each connection; raises FetchError where a budget does not allow it."""

Dial = Callable[[str, int], Awaitable[httpcore.AsyncNetworkStream]]


async def dial(address: str, port: int) -> httpcore.AsyncNetworkStream:
    """Connect to an address (never a name)."""
    return await httpcore.AnyIOBackend().connect_tcp(address, port)


READ_BYTES = 8_192
"""Bytes read at once: they may hold 1,400 chunks, and parsing these blocks the loop (20 ms)."""


class UnreachedError(FetchError):
    """An address did not answer; another one of the same name may."""


class Backend(httpcore.AsyncNetworkBackend):
    """The network backend of one visit, with sequential requests. `address` is the one connected to last."""

    def __init__(self, resolver: Resolver, table: Table, limits: Limits, admit: Admit, dial: Dial = dial) -> None:
        self._resolver, self._table, self._limits, self._admit, self._dial = resolver, table, limits, admit, dial
        self.address = ""
        self.left = 0
        """Bytes of the current answer that may still be read, after TLS."""

    async def connect_tcp(self, host: str, port: int, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
        """Connect to a permitted address of `host`. Raises FetchError. The caller limits the time."""
        return _Stream(await self._connect(host, port), self)

    async def _connect(self, host: str, port: int) -> httpcore.AsyncNetworkStream:
        named = self._table.get((host, port))
        if named is not None:
            return await self._reach(named[0], named[1], self._limits.connect)
        resolved = await permitted(self._resolver, host, self._limits)
        for address in resolved[:-1]:
            self._admit(host, address, port)
            with suppress(UnreachedError):
                return await self._reach(str(address), port, self._limits.connect / len(resolved))
        self._admit(host, resolved[-1], port)
        return await self._reach(str(resolved[-1]), port, self._limits.connect)

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
        """Refused. Raises FetchError."""
        raise FetchError("fetch-url", "a local socket")

    async def sleep(self, seconds: float) -> None:
        """Required by httpcore for its retries, which are off."""
        await asyncio.sleep(seconds)


async def _same(stream: httpcore.AsyncNetworkStream, address: str) -> None:
    """Check that the socket is connected to the address that was checked."""
    peer = stream.get_extra_info("server_addr")
    if peer is not None and public_addresses.read(peer[0]) != public_addresses.read(address):
        await stream.aclose()
        raise FetchError("fetch-address", f"{address} was checked, and {shown(str(peer[0]))} answered")


class _Stream(httpcore.AsyncNetworkStream):
    """A connection that counts the bytes it reads, after TLS, against its backend's limit."""

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
        except BaseException:  # nothing else closes a handshake that is given up half-way
            await self._stream.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def tls_context(ca_file: str | None = None) -> ssl.SSLContext:
    """The TLS context for fetches: the certificates of httpx, and those of `ca_file` in addition.

    Raises OSError (ssl.SSLError included) when the file cannot be read or holds no certificate.
    """
    context = httpx.create_ssl_context(trust_env=False)
    if ca_file:
        context.load_verify_locations(cafile=ca_file)
    return context
