"""The addresses of peers that are learned: from the DNS seeds of a network and from peers, stored in the database.

Strangers fill it: public addresses with the port of the network alone are taken, few of a network of addresses, and of
one peer no more than a table holds. Connected to is at most one address of each /16 (of IPv6, /32).
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from indexer.chains.peers.messages import PeerAddress
from indexer.chains.peers.peer import PeerError
from indexer.chains.source import PeerStore
from indexer.model import PeerRecord
from indexer.public_addresses import kind_of, read
from indexer.retries import Backoff

log = logging.getLogger(__name__)

MAX_ADDRESSES = 2_000
"""Addresses of a network of peers that are kept."""

MAX_IN_NETWORK, MAX_OF_SOURCE = 8, 500
"""Addresses of a /16 that are kept, and those that are taken from the peers of a /16 until the next start."""

PAUSES, VIOLATION_PAUSES = Backoff(60.0, 3_600.0), Backoff(3_600.0, 7 * 86_400.0)
"""Seconds until an address is connected to again after a failure, and after a violation."""

LASTING_SECONDS = 600.0
"""A connection that lasted as long makes up for earlier failures."""

SEEDS_SECONDS, SAVE_SECONDS, LOOK_SECONDS = 600.0, 60.0, 1.0
"""Seconds between two look-ups of the DNS seeds, between two writes, and between two looks for an address."""

FEW = 50
"""Addresses that could be connected to, below which the DNS seeds are looked up again."""

Resolve = Callable[[str], Awaitable[Sequence[str]]]


class AddressGroup(NamedTuple):
    """A network of addresses with one operator, presumably: a /16 of IPv4, a /32 of IPv6."""

    version: int
    prefix: int


def group_of(address: PeerAddress) -> AddressGroup:
    """The network that an address is in."""
    return AddressGroup(address.ip.version, int(address.ip) >> (16 if address.ip.version == 4 else 96))


class AddressBook:
    """The addresses of the chain `name`, with the port of its network. `seeds` are the DNS names that are looked up
    where addresses are few."""

    keeps_learning = True

    def __init__(
        self,
        name: str,
        port: int,
        seeds: Sequence[str],
        store: PeerStore | None,
        resolve: Resolve | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name, self._port, self._seeds, self._store, self._clock = name, port, seeds, store, clock
        self._resolve = resolve if resolve is not None else _resolve
        self._records: dict[PeerAddress, PeerRecord] = {}
        self._groups: Counter[AddressGroup] = Counter()
        self._learned: Counter[AddressGroup] = Counter()
        self._used: dict[PeerAddress, float] = {}
        self._is_loaded = self._is_changed = False
        self._saved_at = self._looked_up_at = float("-inf")
        self._turn = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._records)

    async def take(self) -> PeerAddress:
        """An address in a network that no connected peer is in; waits until there is one."""
        async with self._turn:
            if not self._is_loaded:
                await self._load()
            while True:
                candidates = self._candidates()
                if len(candidates) < FEW and self._clock() - self._looked_up_at >= SEEDS_SECONDS:
                    await self._look_up()
                    candidates = self._candidates()
                await self._save()
                if candidates:
                    address = self._choose(candidates)
                    self._used[address] = self._clock()
                    return address
                await asyncio.sleep(LOOK_SECONDS)

    def _candidates(self) -> list[PeerAddress]:
        now, used = self._clock(), set(map(group_of, self._used))
        return [
            address
            for address, record in self._records.items()
            if record.away_until <= now and group_of(address) not in used
        ]

    def _choose(self, candidates: Sequence[PeerAddress]) -> PeerAddress:
        """A good one half of the time, so that those that peers named are tried, too."""
        good = [address for address in candidates if self._records[address].is_good]
        return random.choice(good if good and random.random() < 0.5 else candidates)  # noqa: S311 - no secret

    # -- what came of it

    def succeed(self, address: PeerAddress) -> None:
        """The peer sent the headers that were requested of it."""
        self._change(address, self._records[address]._replace(is_good=True))

    def give_back(self, address: PeerAddress, error: PeerError | None) -> None:
        """The connection ended: the address is kept away for a while that grows with each failure in succession."""
        now = self._clock()
        lasted, record = now - self._used.pop(address), self._records[address]
        if error is None:
            return
        failures = 1 if lasted >= LASTING_SECONDS and not error.is_violation else min(record.failures + 1, 100)
        pause = (VIOLATION_PAUSES if error.is_violation else PAUSES).pause(failures)
        self._change(address, record._replace(failures=failures, away_until=int(now + pause)))

    def learn(self, addresses: Sequence[PeerAddress], source: PeerAddress | None = None) -> None:
        """Take the addresses that a peer, or a DNS seed, named: public ones with the port of the network."""
        origin = group_of(source) if source is not None else None
        weak: list[PeerAddress] | None = None
        for address in addresses:
            if origin is not None and self._learned[origin] >= MAX_OF_SOURCE:
                return
            if address.port != self._port or kind_of(address.ip) is not None or address in self._records:
                continue
            if self._groups[group_of(address)] >= MAX_IN_NETWORK:
                continue
            if len(self._records) >= MAX_ADDRESSES:
                weak = self._weak() if weak is None else weak
                if not weak:
                    return
                self._drop(weak.pop())
            if origin is not None:
                self._learned[origin] += 1
            self._groups[group_of(address)] += 1
            self._change(address, PeerRecord(str(address.ip), 0, 0, is_good=False))

    def _weak(self) -> list[PeerAddress]:
        """Addresses that never worked, in random order: others may take their room."""
        weak = [item for item, record in self._records.items() if not record.is_good and item not in self._used]
        random.shuffle(weak)
        return weak

    def _drop(self, address: PeerAddress) -> None:
        del self._records[address]
        self._groups[group_of(address)] -= 1

    def _change(self, address: PeerAddress, record: PeerRecord) -> None:
        self._records[address] = record
        self._is_changed = True

    # -- DNS and database

    async def _look_up(self) -> None:
        self._looked_up_at = self._clock()
        for seed in self._seeds:
            try:
                texts = await self._resolve(seed)
            except (OSError, UnicodeError) as error:
                log.info("%s: the DNS seed %s does not answer: %s", self.name, seed, error)
                continue
            addresses = [PeerAddress(ip, self._port) for text in texts if (ip := read(text)) is not None]
            self.learn(addresses)
            log.info("%s: the DNS seed %s names %d addresses", self.name, seed, len(addresses))

    async def _load(self) -> None:
        records = await asyncio.to_thread(self._store.load_peers, self.name) if self._store is not None else []
        for record in records:
            ip = read(record.address)
            if ip is not None and kind_of(ip) is None:
                address = PeerAddress(ip, self._port)
                self._records[address] = record
                self._groups[group_of(address)] += 1
        self._is_loaded = True

    async def _save(self, *, at_once: bool = False) -> None:
        if not self._is_changed or not (at_once or self._clock() - self._saved_at >= SAVE_SECONDS):
            return
        self._is_changed, self._saved_at = False, self._clock()
        if self._store is not None:
            await asyncio.to_thread(self._store.save_peers, self.name, list(self._records.values()))

    async def close(self) -> None:
        """Write what changed."""
        await self._save(at_once=True)


async def _resolve(host: str) -> list[str]:
    """The addresses of a name by the system's resolver. Raises OSError."""
    rows = await asyncio.get_running_loop().getaddrinfo(f"{host}.", None, type=socket.SOCK_STREAM)
    return [str(row[4][0]) for row in rows]
