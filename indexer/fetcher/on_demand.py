"""Requests to strangers' hosts that clients cause: few at a time, and within budgets of hosts, as in the fetch loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from indexer.fetcher.budgets import Budgets, VisitRates, registrable
from indexer.fetcher.connections import Admit
from indexer.fetcher.http_fetcher import HttpFetcher
from indexer.fetcher.limits import Limits
from indexer.fetcher.reasons import FetchError, shown
from indexer.fetcher.target import Target, target
from indexer.public_addresses import Address, block_of
from parsers.pointers.locator import is_web_url

LIMITS = Limits(connect=5.0, first_byte=10.0, total=15.0, body=65_536, wire=262_144)

OF_CARDS = replace(LIMITS, body=1 << 20, wire=(1 << 20) + 131_072)
"""The limits for a card that is to be published (law 12)."""

AT_ONCE = 32
"""Visits under way."""


class OnDemandFetcher:
    """`open_fetcher` builds the fetcher, which takes a while, in a thread, before the first visit. `clock` gives Unix
    seconds."""

    def __init__(
        self,
        open_fetcher: Callable[[Limits], HttpFetcher],
        clock: Callable[[], float] = time.time,
        limits: Limits = LIMITS,
    ) -> None:
        self._open_fetcher, self.clock, self._limits = open_fetcher, clock, limits
        self._fetcher: HttpFetcher | None = None
        self._opening = asyncio.Lock()
        self._budgets = Budgets(VisitRates())
        self._visits = 0

    async def ready(self) -> HttpFetcher:
        """The fetcher."""
        async with self._opening:
            if self._fetcher is None:
                self._fetcher = await asyncio.to_thread(self._open_fetcher, self._limits)
            return self._fetcher

    async def target(self, url: str) -> Target:
        """A URL taken apart. Raises FetchError for a URL to which no request is sent."""
        destination = target(url, (await self.ready()).table)
        if not is_web_url(destination.url):
            raise FetchError("fetch-url", shown(url))
        return destination

    @asynccontextmanager
    async def visit(self, host: str) -> AsyncIterator[Admit]:
        """The admission of a visit to a host, which the fetcher needs. Raises FetchError (`fetch-budget`) where it was
        visited often lately."""
        domain, now = registrable(host), self.clock()
        if self._visits >= AT_ONCE or (wait := self._budgets.domain_free_at(domain) - now) > 0:
            wait = 5.0 if self._visits >= AT_ONCE else wait
            raise FetchError("fetch-budget", f"{wait:.0f} s", wait)
        self._budgets.spend_domain(domain, now)
        self._visits += 1
        try:
            yield self._admit
        finally:
            self._visits -= 1

    async def get(self, url: str) -> bytes:
        """Fetch a URL, following no redirect to another host. Raises FetchError."""
        async with self.visit((await self.target(url)).host) as admit:
            return (await (await self.ready()).get(url, same_host=True, admit=admit)).body or b""

    def _admit(self, _host: str, address: Address, _port: int) -> None:
        block, now = block_of(address), self.clock()
        if (wait := self._budgets.block_free_at(block) - now) > 0:
            raise FetchError("fetch-budget", f"{wait:.0f} s", wait)
        self._budgets.spend_block(block, now)
