"""The peers that an operator names: these and no others, at any address."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections import Counter
from collections.abc import Sequence
from ipaddress import ip_address

from indexer.chains.peers.messages import PeerAddress
from indexer.chains.peers.peer import PeerError
from indexer.errors import SourceError
from indexer.retries import Backoff

PAUSES = Backoff(1.0, 60.0)
"""Seconds until a peer is connected to again."""

LASTING_SECONDS = 60.0
"""A connection that lasted as long makes up for earlier failures."""

_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:@/\s]+))(?::([0-9]{1,5}))?")


class FixedAddresses:
    """The addresses of `hosts` (`host:port`, the port of the network by default), each connected to once at a time.
    Names are looked up before every connection."""

    keeps_learning = False

    def __init__(self, name: str, hosts: Sequence[str], port: int) -> None:
        self.name = name
        self._hosts = [self._parse(host, port) for host in hosts]
        self._due = dict.fromkeys(self._hosts, 0.0)
        self._failures: Counter[tuple[str, int]] = Counter()
        self._taken: dict[PeerAddress, tuple[str, int]] = {}
        self._began: dict[PeerAddress, float] = {}

    def _parse(self, text: str, port: int) -> tuple[str, int]:
        match = _HOST.fullmatch(text)
        number = int(match[3] or port) if match else 0
        if match is None or not 1 <= number <= 65_535:
            raise SourceError(f"{self.name}: connect={text[:80]!a} is not host:port")
        return match[1] or match[2], number

    async def take(self) -> PeerAddress:
        """The address of the host that is due first."""
        while True:
            free = [host for host in self._hosts if host not in self._taken.values()]
            host = min(free, key=self._due.__getitem__, default=None)
            if host is not None and self._due[host] <= time.monotonic():
                address = await self._resolve(host)
                if address is not None and address not in self._taken:
                    self._taken[address], self._began[address] = host, time.monotonic()
                    return address
                self._postpone(host)
            await asyncio.sleep(0.1 if host is not None else 1.0)

    @staticmethod
    async def _resolve(host: tuple[str, int]) -> PeerAddress | None:
        try:
            rows = await asyncio.get_running_loop().getaddrinfo(*host, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            return None
        return PeerAddress(ip_address(str(rows[0][4][0]).partition("%")[0]), host[1]) if rows else None

    def succeed(self, address: PeerAddress) -> None:
        """Nothing: how long a connection lasts counts."""

    def give_back(self, address: PeerAddress, error: PeerError | None) -> None:
        """Connect to the host again after a pause that grows with each failure in succession."""
        host, lasted = self._taken.pop(address), time.monotonic() - self._began.pop(address)
        if lasted >= LASTING_SECONDS and not (error is not None and error.is_violation):
            self._failures.pop(host, None)
        self._postpone(host)

    def _postpone(self, host: tuple[str, int]) -> None:
        self._failures[host] += 1
        self._due[host] = time.monotonic() + PAUSES.pause(self._failures[host])

    def learn(self, addresses: Sequence[PeerAddress], source: PeerAddress | None = None) -> None:
        """Addresses of others are not used."""

    async def close(self) -> None:
        """Nothing is stored."""
