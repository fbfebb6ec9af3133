"""Resolves names to the addresses that may be connected to, and reads TXT records of domain badges."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import zip_longest
from threading import Thread
from typing import TYPE_CHECKING, Protocol

from indexer import public_addresses
from indexer.fetcher.limits import Limits
from indexer.fetcher.reasons import FetchError, shown
from indexer.public_addresses import Address
from parsers.pointers.locator import a_label

if TYPE_CHECKING:
    from dns.asyncresolver import Resolver as TxtResolver

Table = Mapping[tuple[str, int], tuple[str, int]]
"""(host, port) as written in a URL, to the (address, port) to connect to instead."""

_AddressInfo = tuple[object, object, object, str, tuple[object, ...]]

MAX_ANSWERS = 64
THREADS = 64
"""Names resolved at once, each in a dedicated thread: slow names never block the threads of the database."""

_ENTRY = re.compile(r"([^\s:=\[\]]+):([0-9]{1,5})=(\[[0-9A-Fa-f:.]+\]|[0-9.]+):([0-9]{1,5})\Z", re.ASCII)


class Resolver(Protocol):
    """A name resolver."""

    async def resolve(self, host: str) -> Sequence[str]:
        """The addresses of a name, as text. Raises OSError when it has none."""
        ...


class SystemResolver:
    """The operating system's resolver (getaddrinfo), at most `THREADS` names at once.

    Its threads are daemons: a look-up cannot be interrupted, and must not hold up the end of the process.
    """

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(THREADS)

    async def resolve(self, host: str) -> Sequence[str]:
        """The addresses of a name, in the system's order. Raises OSError."""
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[_AddressInfo]] = loop.create_future()
        # the dot at the end keeps the system's search domains out of it
        look_up = Thread(
            target=_look_up_for, args=(f"{host}.", loop, answer, self._free), name="a2b-resolve", daemon=True
        )
        try:
            look_up.start()
        except RuntimeError as error:  # the system allows no more threads now
            self._free.release()
            raise OSError(str(error)) from None
        return [str(entry[4][0]) for entry in (await answer)[:MAX_ANSWERS]]


def _look_up_for(
    host: str, loop: asyncio.AbstractEventLoop, answer: asyncio.Future[list[_AddressInfo]], free: asyncio.Semaphore
) -> None:
    """Resolve a name, and pass the result to the loop, if that still runs."""
    entries, error = list[_AddressInfo](), None
    try:
        entries = _look_up(host)
    except (OSError, UnicodeError) as caught:
        error = caught

    def deliver() -> None:
        free.release()
        if answer.done():  # given up
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(entries)

    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(deliver)


def _look_up(host: str) -> list[_AddressInfo]:
    return socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)  # type: ignore[return-value]


def table(text: str) -> dict[tuple[str, int], tuple[str, int]]:
    """Read `host:port=ip:port` entries separated by spaces (IPv6 in brackets). Raises ValueError naming a bad one."""
    entries: dict[tuple[str, int], tuple[str, int]] = {}
    for entry in text.split():
        parts = _ENTRY.match(entry)
        name = a_label(parts[1]) if parts else None
        address = public_addresses.read(parts[3].strip("[]")) if parts else None
        if (
            parts is None
            or name is None
            or address is None
            or not all(0 < int(parts[group]) < 65536 for group in (2, 4))
        ):
            raise ValueError(f"{shown(entry)} is not host:port=ip:port, as in agent.example:443=127.0.0.1:8443")
        entries[name, int(parts[2])] = str(address), int(parts[4])
    return entries


async def permitted(resolver: Resolver, host: str, limits: Limits) -> list[Address]:
    """The public addresses of a name, alternating between both families, at most `limits.addresses`.

    Special addresses are left out: only addresses returned here are connected to. Raises FetchError when the name has
    no public address, or does not resolve in time.
    """
    try:
        async with asyncio.timeout(limits.resolve):
            answers = await resolver.resolve(host)
    except TimeoutError:
        raise FetchError("fetch-resolve-slow", f"{limits.resolve:g} s") from None
    except (OSError, UnicodeError) as error:
        raise FetchError("fetch-resolve", shown(str(error)) or type(error).__name__) from None
    resolved = list(
        dict.fromkeys(address for text in answers[:MAX_ANSWERS] if (address := public_addresses.read(text)))
    )
    if not resolved:
        raise FetchError("fetch-resolve", "no address")
    usable = [address for address in resolved if public_addresses.kind_of(address) is None]
    if not usable:
        raise FetchError("fetch-address", public_addresses.refused(resolved[0]) or "")
    return _in_turns(usable)[: limits.addresses]


def _in_turns(resolved: Sequence[Address]) -> list[Address]:
    """Addresses alternating between the families, the resolver's first one first."""
    first = [address for address in resolved if address.version == resolved[0].version]
    other = [address for address in resolved if address.version != resolved[0].version]
    return [address for pair in zip_longest(first, other) for address in pair if address is not None]


TXT_LABEL = "_a2b"
TXT_SECONDS = 5.0
MAX_TXT_RECORDS = 64
MAX_TXT_TEXT = 4_096


class TxtRecords:
    """Reads TXT records by which a domain names registrations (law 11): `_a2b.<host>` with the text `id=<id>`.

    The name servers are those of the system, or `servers` (address and port). Nothing in a record is connected to, so
    no address is checked here.
    """

    def __init__(self, servers: Sequence[tuple[str, int]] = (), seconds: float = TXT_SECONDS) -> None:
        self._servers, self._seconds = servers, seconds

    async def ids(self, host: str) -> frozenset[str]:
        """The ids that `_a2b.<host>` names; empty without a record. Raises FetchError (`fetch-dns`)."""
        texts = await self.texts(f"{TXT_LABEL}.{host}.")
        return frozenset(text[3:].strip() for text in texts if text.startswith("id="))

    @cached_property
    def _resolver(self) -> TxtResolver:
        """Created at the first query: reading the system's configuration is slow. Raises DNSException."""
        from dns.asyncresolver import Resolver
        from dns.nameserver import Do53Nameserver

        resolver = Resolver(configure=not self._servers)
        if self._servers:
            resolver.nameservers = [Do53Nameserver(address, port) for address, port in self._servers]
        resolver.lifetime = self._seconds
        resolver.search = []
        return resolver

    async def texts(self, name: str) -> list[str]:
        """The TXT records of an absolute name, the strings of each joined; empty for an unknown name. Raises FetchError
        (`fetch-dns`)."""
        from dns.exception import DNSException
        from dns.name import LabelTooLong, NameTooLong
        from dns.resolver import NXDOMAIN, NoAnswer

        try:
            answer = await self._resolver.resolve(name, "TXT")
        except (NXDOMAIN, NoAnswer, LabelTooLong, NameTooLong):
            return []
        except (DNSException, OSError) as error:
            raise FetchError("fetch-dns", shown(str(error)) or type(error).__name__) from None
        joined = [b"".join(record.strings) for record in list(answer)[:MAX_TXT_RECORDS]]
        return [text[:MAX_TXT_TEXT].decode("ascii", "replace") for text in joined]
