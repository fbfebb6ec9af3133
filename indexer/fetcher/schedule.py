"""Decides what to fetch next: new anchors before retries, within the budgets of domains, address blocks and all. Pure.

Due jobs are queued in one lane per registrable domain. A domain is in exactly one state: `ready` to be visited,
`waking` at the time of its next visit, parked at an address block without budget, or in flight. So each slot of a
budget costs one step, however many jobs wait for it: 10,000 pointers to one host are one domain, and 10,000 names of
one address are parked at one block.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import count

from indexer.fetcher.budgets import Budgets, VisitRates, registrable
from indexer.fetcher.ports import is_https_port
from indexer.fetcher.reasons import OFF_PORT, PORT_LIMIT, TROUBLE, UNREACHED, FetchError
from indexer.public_addresses import Address, block_of

MAX_JOBS = 100_000
"""Jobs in memory, at some 700 bytes each; the others wait in the database. Beyond, as many again are taken for domains
without a job: pointers to a few hosts, each visited at most four times a minute, hold up no other host."""

MAX_PER_DOMAIN = 128
"""Jobs of a domain in memory: more than its budget allows before the database is looked through again."""

HOSTS_KEPT = 100_000
"""Hosts with a cached address block, to park their jobs without resolving their names again."""


class Priority(IntEnum):
    """Why something is fetched, the most urgent first. The value is a penalty in seconds, added to the due time: a
    flood of new anchors delays the others, and never starves them."""

    NEW = 0
    RECHECK = 60
    BADGE = 600
    LOGO = 900
    RETRY = 1_800
    WATCH = 3_600


OTHER_PATH = 300
"""Penalty of a URL that is not the well-known location of its host: anyone can publish any number of those, and the
owner's own pointer must not wait for them."""


@dataclass(frozen=True, slots=True)
class Job:
    """Something to fetch: `key` identifies it (one open job each), `host` is visited ("" for the operator's gateway,
    which has no budget). `due` in seconds of the schedule's clock."""

    key: str
    host: str
    priority: Priority
    due: float

    @property
    def domain(self) -> str:
        """The registrable domain that it takes budget from."""
        return registrable(self.host) if self.host else self.key

    @property
    def rank(self) -> float:
        """The rank of the job in the order: the lowest is first."""
        return self.due + self.priority + (0 if self.key == self.host else OTHER_PATH)


@dataclass(slots=True)
class _Lane:
    """The jobs of a domain that are due: a heap of (rank, number, key)."""

    jobs: list[tuple[float, int, str]] = field(default_factory=list)
    flying: bool = False
    turn: int = 0
    """A new number whenever the domain changes its state: entries with an older one are void."""


class Schedule:
    """Decides which job is next. `clock` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float], rates: VisitRates | None = None) -> None:
        self._clock = clock
        self.budgets = Budgets(rates or VisitRates())
        self._open: dict[str, Job] = {}
        self.flying: dict[str, Job] = {}
        self.lanes: dict[str, _Lane] = {}
        self.sizes: dict[str, int] = {}
        self._later: list[tuple[float, int, str]] = []
        self._ready: list[tuple[float, int, str, int]] = []
        self._waking: list[tuple[float, int, str, int]] = []
        self._parked: dict[str, list[tuple[float, int, str, int]]] = {}
        self._unpark: list[tuple[float, int, str]] = []
        self._blocks: OrderedDict[str, str] = OrderedDict()
        self._numbers = count(1)

    def __len__(self) -> int:
        """Jobs that wait."""
        return len(self._open)

    def add(self, job: Job) -> bool:
        """Add a job; an open one with the same key stays when it comes first. False when there is no room, or it is in
        flight: add it again later."""
        waiting = self._open.get(job.key)
        if waiting is not None:
            if (job.rank, job.due) < (waiting.rank, waiting.due):
                self._add_job(job)
            return True
        domain = job.domain
        if job.key in self.flying or not self._has_room(job):
            return False
        self.sizes[domain] = self.sizes.get(domain, 0) + 1
        self._add_job(job)
        return True

    def _has_room(self, job: Job) -> bool:
        """Whether a job may be added. Anyone may name any URL of a domain: the well-known location of the domain always
        has room there, and those of its hosts have as much again as other URLs."""
        size = self.sizes.get(job.domain, 0)
        if len(self._open) >= (MAX_JOBS if size else 2 * MAX_JOBS):
            return False
        return job.key == job.domain or size < (2 if job.key == job.host else 1) * MAX_PER_DOMAIN

    def next(self) -> Job | None:
        """The job to start now; its budgets are spent. None when no job can start. Call `finish` with its outcome."""
        now = self._clock()
        self._wake(now)
        while self._ready and self.budgets.total.free_at() <= now:
            _, _, domain, turn = heapq.heappop(self._ready)
            lane = self.lanes.get(domain)
            if lane is None or lane.turn != turn:
                continue
            job = self._first(lane)
            if job is None:
                del self.lanes[domain]
            elif self._may(job, domain, lane, now):
                return self._start(job, domain, lane, now)
        return None

    def wait(self) -> float | None:
        """Seconds until `next` may return a job, unless one is added or finished before; None without any."""
        times = [heap[0][0] for heap in (self._later, self._waking, self._unpark) if heap]
        if self._ready:
            times.append(self.budgets.total.free_at())
        return max(min(times) - self._clock(), 0.0) if times else None

    def admission(self, job: Job) -> Callable[[str, Address, int], None]:
        """The check before each connection of a job's visit: it takes from the budget of the block, of the domain of a
        redirect, once each, and of other ports. It raises FetchError (`fetch-budget` with the seconds to wait, or
        `fetch-port-limit`)."""
        paid = {job.domain, self._blocks.get(job.host, "")}

        def admit(host: str, address: Address, port: int) -> None:
            now, block, domain = self._clock(), block_of(address), registrable(host)
            self._learn(host, block)
            blocked = 0.0 if block in paid else self.budgets.block_free_at(block)
            if domain not in paid:
                blocked = max(blocked, self.budgets.domain_free_at(domain))
            if blocked > now:
                raise FetchError("fetch-budget", f"{blocked - now:.0f} s", blocked - now)
            if not is_https_port(port) and not self.budgets.ports.take(host, str(address), port, now):
                raise FetchError(PORT_LIMIT, str(port))
            if block not in paid:
                self.budgets.spend_block(block, now)
            if domain not in paid:
                self.budgets.spend_domain(domain, now)
            paid.update((block, domain))

        return admit

    def finish(self, key: str, error: FetchError | None = None) -> None:
        """Note the end of a job from `next`, which updates the budgets of its domain and block; the caller adds
        retries. A job refused by a budget made no connection, and returns what it took from the total budget: many
        names of one address cost other hosts nothing but name resolution."""
        job, now = self.flying.pop(key), self._clock()
        domain, block = job.domain, self._blocks.get(job.host)
        code = error.refusal.code if error else ""
        if error is not None and code in TROUBLE:
            self.budgets.trouble(domain, now, error.retry_after)
            if block is not None and code in UNREACHED:
                self.budgets.unreached(block, now)
        elif code == "fetch-budget":
            self.budgets.total.give_back()
        elif code not in OFF_PORT:
            self.budgets.well(domain, block)
        lane = self.lanes[domain]
        lane.flying = False
        self._queue(domain, lane, now)

    # -- states of domains

    def _add_job(self, job: Job) -> None:
        self._open[job.key] = job
        heapq.heappush(self._later, (job.due, next(self._numbers), job.key))
        if job.due <= self._clock():
            self._wake(self._clock())

    def _leave(self, domain: str) -> None:
        left = self.sizes[domain] - 1
        if left:
            self.sizes[domain] = left
        else:
            del self.sizes[domain]

    def _wake(self, now: float) -> None:
        """Move the jobs and domains that have become due: jobs into lanes, domains to `ready`, one domain of each block
        that is free."""
        while self._later and self._later[0][0] <= now:
            due, number, key = heapq.heappop(self._later)
            job = self._open.get(key)
            if job is not None and job.due == due:
                self._enter(job, number, now)
        while self._waking and self._waking[0][0] <= now:
            _, number, domain, turn = heapq.heappop(self._waking)
            self._offer(domain, turn, number)
        while self._unpark and self._unpark[0][0] <= now:
            _, _, block = heapq.heappop(self._unpark)
            self._release(block, now)

    def _enter(self, job: Job, number: int, now: float) -> None:
        domain = job.domain
        lane = self.lanes.setdefault(domain, _Lane())
        heapq.heappush(lane.jobs, (job.rank, number, job.key))
        if lane.jobs[0][1] == number and not lane.flying:
            self._queue(domain, lane, now)

    def _queue(self, domain: str, lane: _Lane, now: float) -> None:
        """Set the state of a domain by its budget; remove it when it has no jobs."""
        lane.turn = next(self._numbers)
        if self._first(lane) is None:
            del self.lanes[domain]
            return
        free_at = self.budgets.domain_free_at(domain)
        if free_at > now:
            heapq.heappush(self._waking, (free_at, next(self._numbers), domain, lane.turn))
        else:
            heapq.heappush(self._ready, (*lane.jobs[0][:2], domain, lane.turn))

    def _offer(self, domain: str, turn: int, number: int) -> None:
        lane = self.lanes.get(domain)
        if lane is not None and lane.turn == turn:
            heapq.heappush(self._ready, (lane.jobs[0][0] if lane.jobs else 0.0, number, domain, turn))

    def _first(self, lane: _Lane) -> Job | None:
        """The first job of a lane that is still open and unchanged."""
        while lane.jobs:
            rank, _, key = lane.jobs[0]
            job = self._open.get(key)
            if job is not None and job.rank == rank and job.due <= self._clock():
                return job
            heapq.heappop(lane.jobs)
        return None

    def _may(self, job: Job, domain: str, lane: _Lane, now: float) -> bool:
        """Whether a ready domain may be visited for this job; otherwise its state is changed to the one to wait in."""
        if self.budgets.domain_free_at(domain) > now:
            self._queue(domain, lane, now)
            return False
        block = self._blocks.get(job.host)
        free_at = self.budgets.block_free_at(block)
        if block is None or free_at <= now:
            return True
        parked = self._parked.get(block)
        if parked is None:
            parked = self._parked[block] = []
            heapq.heappush(self._unpark, (free_at, next(self._numbers), block))
        lane.turn = next(self._numbers)
        heapq.heappush(parked, (*lane.jobs[0][:2], domain, lane.turn))
        return False

    def _release(self, block: str, now: float) -> None:
        """Release the first domain parked at a block; the others wait for the next slots."""
        parked, free_at = self._parked[block], self.budgets.block_free_at(block)
        if free_at <= now:
            while parked:
                _, number, domain, turn = heapq.heappop(parked)
                lane = self.lanes.get(domain)
                if lane is not None and lane.turn == turn:
                    self._offer(domain, turn, number)
                    break
        if not parked:
            del self._parked[block]
            return
        heapq.heappush(
            self._unpark, (max(free_at, now + self.budgets.rates.block.interval), next(self._numbers), block)
        )

    def _start(self, job: Job, domain: str, lane: _Lane, now: float) -> Job:
        heapq.heappop(lane.jobs)
        del self._open[job.key]
        self._leave(domain)
        self.flying[job.key] = job
        lane.flying = True
        lane.turn = next(self._numbers)
        self.budgets.spend_domain(domain, now)
        block = self._blocks.get(job.host)
        if block is not None:
            self.budgets.spend_block(block, now)
        return job

    def _learn(self, host: str, block: str) -> None:
        self._blocks[host] = block
        self._blocks.move_to_end(host)
        while len(self._blocks) > HOSTS_KEPT:
            self._blocks.popitem(last=False)
