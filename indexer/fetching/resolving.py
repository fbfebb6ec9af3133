"""From a name to the addresses that may be asked: the operator's table, or a resolver whose every answer is judged."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from threading import Thread
from typing import Protocol

from indexer.fetching import addresses
from indexer.fetching.addresses import Address
from indexer.fetching.limits import Limits
from indexer.fetching.reasons import FetchError, shown
from parsers.locator import a_label

Table = Mapping[tuple[str, int], tuple[str, int]]
"""(host, port) as written in a URL, to the (address, port) to connect to in its place."""

_Found = tuple[object, object, object, str, tuple[object, ...]]

MAX_ANSWERS = 64
THREADS = 64
"""Names that are looked up at once: a thread of our own each, so that slow names never hold up the database's."""

_ENTRY = re.compile(r"([^\s:=\[\]]+):([0-9]{1,5})=(\[[0-9A-Fa-f:.]+\]|[0-9.]+):([0-9]{1,5})\Z", re.ASCII)


class Resolver(Protocol):
    """Where names are looked up."""

    async def resolve(self, host: str) -> Sequence[str]:
        """The addresses of a name, as text. Raises OSError when there are none."""
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
        told: asyncio.Future[list[_Found]] = loop.create_future()
        # the dot at the end keeps the system's search domains out of it
        Thread(target=_look_up_for, args=(f"{host}.", loop, told, self._free), name="a2b-resolve", daemon=True).start()
        return [str(each[4][0]) for each in (await told)[:MAX_ANSWERS]]


def _look_up_for(
    host: str, loop: asyncio.AbstractEventLoop, told: asyncio.Future[list[_Found]], free: asyncio.Semaphore
) -> None:
    """Look a name up, and tell the loop, if that still runs."""
    found, error = list[_Found](), None
    try:
        found = _look_up(host)
    except (OSError, UnicodeError) as caught:
        error = caught

    def tell() -> None:
        free.release()
        if told.done():  # given up
            return
        if error is not None:
            told.set_exception(error)
        else:
            told.set_result(found)

    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(tell)


def _look_up(host: str) -> list[_Found]:
    return socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)  # type: ignore[return-value]


def table(text: str) -> dict[tuple[str, int], tuple[str, int]]:
    """Read `host:port=ip:port` entries separated by spaces (IPv6 in brackets). Raises ValueError naming a bad one."""
    found: dict[tuple[str, int], tuple[str, int]] = {}
    for entry in text.split():
        parts = _ENTRY.match(entry)
        name = a_label(parts[1]) if parts else None
        address = addresses.read(parts[3].strip("[]")) if parts else None
        if parts is None or name is None or address is None or not all(0 < int(parts[at]) < 65536 for at in (2, 4)):
            raise ValueError(f"{shown(entry)} is not host:port=ip:port, as in agent.example:443=127.0.0.1:8443")
        found[name, int(parts[2])] = str(address), int(parts[4])
    return found


async def permitted(resolver: Resolver, host: str, limits: Limits) -> list[Address]:
    """The addresses of a name that may be asked, in turns of both families, at most `limits.addresses`.

    Special addresses are left out: what is connected to is what was judged here, so that one of them beside a public
    one gains nothing. Raises FetchError when the name has no other.
    """
    try:
        async with asyncio.timeout(limits.resolve):
            told = await resolver.resolve(host)
    except TimeoutError:
        raise FetchError("fetch-resolve-slow", f"{limits.resolve:g} s") from None
    except (OSError, UnicodeError) as error:
        raise FetchError("fetch-resolve", shown(str(error)) or type(error).__name__) from None
    found = list(dict.fromkeys(address for text in told[:MAX_ANSWERS] if (address := addresses.read(text))))
    if not found:
        raise FetchError("fetch-resolve", "no address")
    usable = [address for address in found if addresses.kind_of(address) is None]
    if not usable:
        raise FetchError("fetch-address", addresses.refused(found[0]) or "")
    return _in_turns(usable)[: limits.addresses]


def _in_turns(found: Sequence[Address]) -> list[Address]:
    """One of each family after the other, the resolver's first choice first."""
    first = [each for each in found if each.version == found[0].version]
    other = [each for each in found if each.version != found[0].version]
    return [each for pair in zip_longest(first, other) for each in pair if each is not None]
