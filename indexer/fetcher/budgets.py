"""Budgets: how often a domain, an address block and all hosts together may be visited. Pure: time is an argument."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from indexer.retries import Backoff

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList


class VisitRate(NamedTuple):
    """One visit every `interval` seconds, and up to `burst` at once after a pause."""

    interval: float
    burst: int


class VisitRates(NamedTuple):
    """A visit is up to three requests: the opt-out, and a card under two names."""

    domain: VisitRate = VisitRate(15.0, 6)
    block: VisitRate = VisitRate(1.0, 30)
    total: VisitRate = VisitRate(0.01, 500)
    trouble: Backoff = Backoff(20.0, 600.0)
    """Pauses without a visit to a failing domain. The longest is short: anyone may publish a URL that always fails, and
    must not block other URLs of the host."""
    retry_after: float = 3_600.0
    """Longest Retry-After of a host that is obeyed."""
    stretch: int = 8
    """An address block of hosts that do not answer is visited at most this many times less often; it is never paused,
    since blocks are shared between owners."""


class Budget:
    """One budget: a token bucket of visits (GCRA), and a pause."""

    __slots__ = ("_full_at", "_pause", "_rate", "failures", "stretch")

    def __init__(self, rate: VisitRate) -> None:
        self._rate = rate
        self._full_at, self._pause = 0.0, 0.0
        self.failures, self.stretch = 0, 1

    def free_at(self) -> float:
        """When the next visit is allowed."""
        interval = self._rate.interval * self.stretch
        return max(self._full_at - (self._rate.burst - 1) * interval, self._pause)

    def spend(self, now: float) -> None:
        """Take one visit."""
        self._full_at = max(self._full_at, now) + self._rate.interval * self.stretch

    def give_back(self) -> None:
        """Put back a visit that was not made."""
        self._full_at -= self._rate.interval * self.stretch

    def pause(self, until: float) -> None:
        """Allow none before `until`."""
        self._pause = max(self._pause, until)

    def idle(self, now: float) -> bool:
        """Whether the budget equals a new one."""
        return self._full_at <= now and self._pause <= now and self.failures == 0 and self.stretch == 1


class PortDays:
    """The ports other than 443 that were visited within a day, of each host and of each address. Strangers name them:
    nobody's ports are scanned by this program, whatever names lead to an address.

    At most `MAX_NAMES` hosts and addresses are stored (some 300 bytes each); while there is no room, no other port is
    visited. Days begin with the first visit and end in the same order.
    """

    OF_HOST, OF_ADDRESS = 2, 8
    """An address has more: hosts of several owners may share it."""
    SECONDS = 86_400.0
    MAX_NAMES = 50_000

    def __init__(self) -> None:
        self.days: dict[str, tuple[float, tuple[int, ...]]] = {}

    def take(self, host: str, address: str, port: int, now: float) -> bool:
        """Whether a port may be visited now; it is counted where it may."""
        while self.days and (oldest := next(iter(self.days))) and self.days[oldest][0] <= now:
            del self.days[oldest]
        visited = {name: self.days.get(name, (now + self.SECONDS, ())) for name in (host, address)}
        if not self._has_room(visited, host, port):
            return False
        for name, (end, ports) in visited.items():
            self.days[name] = end, ports if port in ports else (*ports, port)
        return True

    def _has_room(self, visited: Mapping[str, tuple[float, tuple[int, ...]]], host: str, port: int) -> bool:
        """Whether a port was visited within the day, or may be in addition."""
        for name, (_, ports) in visited.items():
            if port not in ports and len(ports) >= (self.OF_HOST if name == host else self.OF_ADDRESS):
                return False
        return len(self.days) + sum(name not in self.days for name in visited) <= self.MAX_NAMES


class Budgets:
    """The budgets of each registrable domain, each address block, and all hosts together.

    Full budgets are dropped: memory is bounded by the visits that the total budget allows within the longest pause.
    """

    FORGET = 3_600.0
    SWEEP = 4_096

    def __init__(self, rates: VisitRates) -> None:
        self.rates = rates
        self.total = Budget(rates.total)
        self.domains: dict[str, Budget] = {}
        self.blocks: dict[str, Budget] = {}
        self.ports = PortDays()
        self._spent = 0
        self.forgive_at: dict[str, float] = {}

    def domain_free_at(self, domain: str) -> float:
        """When a domain may be visited next; 0 for one without recent visits."""
        return self.domains[domain].free_at() if domain in self.domains else 0.0

    def block_free_at(self, block: str | None) -> float:
        """When a block may be visited next; 0 for one without recent visits, or an unknown one."""
        return self.blocks[block].free_at() if block in self.blocks else 0.0

    def spend_domain(self, domain: str, now: float) -> None:
        """Take a visit from a domain's budget and from that of all."""
        self.total.spend(now)
        self.domains.setdefault(domain, Budget(self.rates.domain)).spend(now)
        self._spent += 1
        if self._spent % self.SWEEP == 0:
            self.sweep(now)

    def spend_block(self, block: str, now: float) -> None:
        """Take a visit from a block's budget."""
        self.blocks.setdefault(block, Budget(self.rates.block)).spend(now)

    def trouble(self, domain: str, now: float, retry_after: float | None = None) -> None:
        """Pause a domain after a failure of its host, longer each time, or as long as its Retry-After."""
        budget = self.domains.setdefault(domain, Budget(self.rates.domain))
        budget.failures += 1
        pause = self.rates.trouble.pause(budget.failures)
        if retry_after is not None:
            pause = max(pause, min(retry_after, self.rates.retry_after))
        budget.pause(now + pause)
        self.forgive_at[domain] = now + pause + self.FORGET

    def unreached(self, block: str, now: float) -> None:
        """Halve the rate of an address block after a host did not answer, down to an eighth."""
        budget = self.blocks.setdefault(block, Budget(self.rates.block))
        budget.stretch = min(budget.stretch * 2, self.rates.stretch)
        self.forgive_at[block] = now + self.FORGET

    def well(self, domain: str, block: str | None) -> None:
        """Reset the failures of a domain and an address block after a host answered."""
        if domain in self.domains:
            self.domains[domain].failures = 0
        if block in self.blocks:
            self.blocks[block].stretch = 1
        self.forgive_at.pop(domain, None)
        self.forgive_at.pop(block or "", None)

    def sweep(self, now: float) -> None:
        """Reset failures of long ago, and drop the budgets that are full."""
        for key in [key for key, time in self.forgive_at.items() if time <= now]:
            del self.forgive_at[key]
            if key in self.domains:
                self.domains[key].failures = 0
            if key in self.blocks:
                self.blocks[key].stretch = 1
        self.domains = {key: budget for key, budget in self.domains.items() if not budget.idle(now)}
        self.blocks = {key: budget for key, budget in self.blocks.items() if not budget.idle(now)}


@cache
def _suffixes() -> PublicSuffixList:
    """The Public Suffix List in the snapshot that its package brings (56 ms to read), private suffixes included."""
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList()


@lru_cache(maxsize=16_384)
def registrable(host: str) -> str:
    """The registrable domain of an A-label host: its public suffix and one label more, or the host itself where it is
    a public suffix. Names below it cost their owner nothing, so they share one budget."""
    return _suffixes().privatesuffix(host) or host
