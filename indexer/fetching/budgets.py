"""Budgets: how often a domain, a block of addresses and all hosts together are asked. Pure; seconds are told."""

from __future__ import annotations

from typing import NamedTuple


class Rate(NamedTuple):
    """One visit every `interval` seconds, and up to `burst` at once after a pause."""

    interval: float
    burst: int


class Rates(NamedTuple):
    """A visit is up to three requests: the opt-out, and a card under two names."""

    domain: Rate = Rate(15.0, 6)
    block: Rate = Rate(1.0, 30)
    total: Rate = Rate(0.01, 500)
    trouble: float = 20.0
    """Seconds that a domain in trouble is left alone, doubled each time in a row."""
    longest: float = 600.0
    """At most that long: strangers may point at a part of a host that always fails, and must not silence the rest."""
    retry_after: float = 3_600.0
    """What a host itself may ask for at most."""
    stretch: int = 8
    """A block whose hosts do not answer is asked this many times less often at most; it is never left alone, since
    strangers share blocks."""


class Budget:
    """One budget: a bucket of visits that fills again (GCRA), and a pause on top."""

    __slots__ = ("_full_at", "_pause", "_rate", "failures", "stretch")

    def __init__(self, rate: Rate) -> None:
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
        """Whether this is as good as a new one."""
        return self._full_at <= now and self._pause <= now and self.failures == 0 and self.stretch == 1


class Budgets:
    """The budgets of everyone: of each registrable domain, of each address block, and of all together.

    Those that are full again are forgotten, so that at most as many are kept as visits were made within the longest
    pause: what all together may spend bounds the memory.
    """

    FORGET = 3_600.0
    SWEEP = 4_096

    def __init__(self, rates: Rates) -> None:
        self.rates = rates
        self.total = Budget(rates.total)
        self.domains: dict[str, Budget] = {}
        self.blocks: dict[str, Budget] = {}
        self._spent = 0
        self._forgive: dict[str, float] = {}

    def domain_free_at(self, domain: str) -> float:
        """When a domain may be asked next; 0 for one that was not asked lately."""
        return self.domains[domain].free_at() if domain in self.domains else 0.0

    def block_free_at(self, block: str | None) -> float:
        """When a block may be asked next; 0 for one that was not asked lately, or is not known."""
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
        """A host of this domain has trouble: leave it alone, twice as long each time, or as long as it asked for."""
        budget = self.domains.setdefault(domain, Budget(self.rates.domain))
        pause = min(self.rates.trouble * 2.0 ** min(budget.failures, 16), self.rates.longest)
        if retry_after is not None:
            pause = max(pause, min(retry_after, self.rates.retry_after))
        budget.failures += 1
        budget.pause(now + pause)
        self._forgive[domain] = now + pause + self.FORGET

    def unreached(self, block: str, now: float) -> None:
        """A host of this block did not answer: ask the block half as often, down to an eighth."""
        budget = self.blocks.setdefault(block, Budget(self.rates.block))
        budget.stretch = min(budget.stretch * 2, self.rates.stretch)
        self._forgive[block] = now + self.FORGET

    def well(self, domain: str, block: str | None) -> None:
        """A host of this domain, at this block, answered: what went wrong before is forgiven."""
        if domain in self.domains:
            self.domains[domain].failures = 0
        if block in self.blocks:
            self.blocks[block].stretch = 1
        self._forgive.pop(domain, None)
        self._forgive.pop(block or "", None)

    def sweep(self, now: float) -> None:
        """Forgive what failed long ago, and forget the budgets that are full again."""
        for key in [key for key, at in self._forgive.items() if at <= now]:
            del self._forgive[key]
            if key in self.domains:
                self.domains[key].failures = 0
            if key in self.blocks:
                self.blocks[key].stretch = 1
        self.domains = {key: budget for key, budget in self.domains.items() if not budget.idle(now)}
        self.blocks = {key: budget for key, budget in self.blocks.items() if not budget.idle(now)}
