"""The order of fetches: budgets and back-off, with a clock of the test's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from ipaddress import ip_address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.fetcher import schedule
from indexer.fetcher.budgets import Budgets, VisitRate, VisitRates, registrable
from indexer.fetcher.reasons import FetchError
from indexer.fetcher.schedule import MAX_PER_DOMAIN, OTHER_PATH, Job, Priority, Schedule
from indexer.public_addresses import Address, block_of
from tests.clocks import Clock

ADDRESS = ip_address("93.184.216.34")
WIDE = VisitRates(VisitRate(0.0, 1_000_000), VisitRate(0.0, 1_000_000), VisitRate(0.0, 1_000_000))


class World:
    """A schedule, its clock, and where hosts are."""

    def __init__(self, rates: VisitRates | None = None) -> None:
        self.clock = Clock()
        self.schedule = Schedule(self.clock, rates)
        self.addresses: dict[str, Address] = {}
        self.waiting: dict[str, Job] = {}
        """Of each key, the job that is to come first."""

    def add(self, key: str, priority: Priority = Priority.NEW, after: float = 0.0, host: str | None = None) -> bool:
        named = key.partition("//")[2].partition("/")[0] if "//" in key else key
        job = Job(key, named if host is None else host, priority, self.clock.now + after)
        self.waiting[key] = min(self.waiting.get(key, job), job, key=lambda job: (job.rank, job.due))
        return self.schedule.add(job)

    def visit(self, job: Job, error: FetchError | None = None) -> FetchError | None:
        """Visit a host, which ends so; a budget that is used up at the door is what ended it."""
        try:
            self.schedule.admission(job)(job.host, self.addresses.get(job.host, ADDRESS), 443)
        except FetchError as refused:
            error = refused
        self.schedule.finish(job.key, error)
        return error

    def run(self, until: float) -> Iterator[tuple[float, Job]]:
        """Everything that is visited until then, with when; each visit takes no time, and what had no budget at the
        door comes again when it has."""
        while self.clock.now <= until:
            job = self.schedule.next()
            if job is None:
                wait = self.schedule.wait()
                if wait is None:
                    return
                self.clock.now += max(wait, 1e-6)
                continue
            error = self.visit(job)
            if error is None:
                yield self.clock.now, job
            else:
                again = Job(job.key, job.host, job.priority, self.clock.now + (error.retry_after or 0.0))
                assert self.schedule.add(again)


def trouble(code: str = "fetch-first-byte", retry_after: float | None = None) -> FetchError:
    return FetchError(code, "x", retry_after)


def test_new_anchors_go_before_what_is_tried_again() -> None:
    world = World(WIDE)
    for priority in reversed(Priority):
        world.add(f"{priority.name.lower()}.example", priority)
    assert [job.priority for _, job in world.run(10_000)] == [
        Priority.NEW,
        Priority.RECHECK,
        Priority.BADGE,
        Priority.LOGO,
        Priority.RETRY,
        Priority.WATCH,
    ]


def test_a_flood_of_new_anchors_delays_the_others_and_never_starves_them() -> None:
    world = World(VisitRates(total=VisitRate(1.0, 1)))
    world.add("watched.example", Priority.WATCH)
    for number in range(6_000):
        world.add(f"new{number}.example", after=number * 1.0)
    served = [job.key for _, job in world.run(world.clock.now + 6_000)]
    assert 3_500 < served.index("watched.example") < 3_700


def test_nothing_is_fetched_before_it_is_due() -> None:
    world = World()
    world.add("agent.example", after=30)
    assert world.schedule.next() is None
    assert world.schedule.wait() == 30
    world.clock.now += 30
    job = world.schedule.next()
    assert job is not None
    assert job.key == "agent.example"
    assert world.schedule.wait() is None


def test_a_job_is_open_once_and_the_earlier_word_counts() -> None:
    world = World(WIDE)
    world.add("agent.example", Priority.RETRY, after=100)
    world.add("agent.example", Priority.NEW)
    world.add("agent.example", Priority.WATCH, after=50)
    assert len(world.schedule) == 1
    assert [job.priority for _, job in world.run(10_000)] == [Priority.NEW]
    assert len(world.schedule) == 0


def test_what_is_in_flight_is_not_taken_twice() -> None:
    world = World(WIDE)
    world.add("agent.example")
    job = world.schedule.next()
    assert job is not None
    assert not world.add("agent.example")
    world.visit(job)
    assert world.add("agent.example")


def test_ten_thousand_pointers_to_one_host_are_one_visit_each_fifteen_seconds() -> None:
    world = World()
    for number in range(10_000):
        world.add(f"https://victim.example/{number}")
    world.add("agent.example")
    served = list(world.run(world.clock.now + 1_500))
    times = Counter(registrable(job.host) for _, job in served)
    assert times == {"victim.example": 6 + 1_500 // 15, "agent.example": 1}


def test_the_owners_own_pointer_does_not_stand_behind_a_strangers_ten_thousand() -> None:
    world = World()
    for number in range(10_000):
        world.add(f"https://victim.example/{number}")
    for _ in range(6):
        job = world.schedule.next()
        assert job is not None
        world.visit(job)
    world.clock.now += 5
    world.add("victim.example", Priority.NEW)
    served = next(world.run(world.clock.now + 100))
    assert served[1].key == "victim.example"
    assert OTHER_PATH > 0


def test_names_under_one_domain_share_its_budget() -> None:
    world = World()
    for number in range(100):
        world.add(f"a{number}.victim.co.uk")
    assert len(list(world.run(world.clock.now + 60))) == 6 + 4


def test_ten_thousand_names_of_one_address_are_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """And each slot of its budget costs a few steps, however many wait for it."""
    world = World(VisitRates(total=VisitRate(0.0, 1_000_000)))
    for number in range(10_000):
        world.add(f"name{number}.example")
        world.addresses[f"name{number}.example"] = ip_address(f"93.184.216.{number % 256}")
    looked = 0
    block_free_at = Budgets.block_free_at

    def counted(budgets: Budgets, block: str | None) -> float:
        nonlocal looked
        looked += 1
        return block_free_at(budgets, block)

    monkeypatch.setattr(Budgets, "block_free_at", counted)
    served = [when for when, _ in world.run(world.clock.now + 1_000)]
    assert len(served) == pytest.approx(30 + 1_000, abs=3)
    first = looked
    served = [when for when, _ in world.run(world.clock.now + 1_000)]
    assert len(served) == pytest.approx(1_000, abs=3)
    assert looked - first < 4_000


def test_one_visit_at_a_time_goes_to_a_domain() -> None:
    world = World(WIDE)
    world.add("https://agent.example/1")
    world.add("https://agent.example/2")
    first = world.schedule.next()
    assert first is not None
    assert world.schedule.next() is None
    world.visit(first)
    assert world.schedule.next() is not None


def test_a_domain_in_trouble_is_left_alone_for_longer_each_time() -> None:
    world = World(WIDE)
    pauses = []
    for _ in range(8):
        world.add("agent.example")
        before = world.clock.now
        while (job := world.schedule.next()) is None:
            world.clock.now += world.schedule.wait() or 1e-6
        pauses.append(round(world.clock.now - before))
        world.visit(job, trouble())
    assert pauses == [0, 20, 40, 80, 160, 320, 600, 600]
    world.clock.now += 600
    world.add("agent.example")
    job = world.schedule.next()
    assert job is not None
    world.visit(job)
    world.add("agent.example")
    assert world.schedule.next() is not None


def test_a_missing_or_wrong_card_is_no_trouble() -> None:
    world = World(WIDE)
    for code in ("fetch-missing", "fetch-mismatch", "fetch-size", "fetch-opt-out", "fetch-budget"):
        world.add("agent.example")
        job = world.schedule.next()
        assert job is not None
        world.visit(job, trouble(code))


def test_a_retry_after_of_a_host_is_respected_up_to_an_hour() -> None:
    world = World(WIDE)
    for query, waited in ((1_000.0, 1_000), (80_000.0, 3_600)):
        world.add("agent.example")
        job = world.schedule.next()
        assert job is not None
        world.visit(job, trouble("fetch-busy", query))
        world.add("agent.example")
        assert world.schedule.wait() == waited
        world.clock.now += 10_000


def test_a_dead_host_slows_its_block_and_never_stops_it() -> None:
    world = World(VisitRates(domain=VisitRate(0.0, 1_000_000), block=VisitRate(1.0, 1)))
    for number in range(10):
        world.clock.now += 10
        world.add(f"dead{number}.example")
        job = world.schedule.next()
        assert job is not None
        world.visit(job, trouble("fetch-connect"))
    assert world.schedule.budgets.blocks["93.184.216.0/24"].stretch == 8
    world.add("alive.example")
    began = world.clock.now
    [(when, job)] = world.run(began + 100)
    assert job.key == "alive.example"
    assert 0 < when - began <= 8
    assert world.schedule.budgets.blocks["93.184.216.0/24"].stretch == 1


def test_a_redirect_spends_of_the_domain_that_it_leads_to() -> None:
    world = World(VisitRates(domain=VisitRate(15.0, 2), block=VisitRate(0.0, 1_000)))
    refused = []
    for number in range(4):
        world.add(f"evil{number}.example")
        job = world.schedule.next()
        assert job is not None
        admit = world.schedule.admission(job)
        admit(job.host, ADDRESS, 443)
        try:
            for _ in range(3):  # connections of one visit count once
                admit("victim.example", ip_address("198.41.0.4"), 443)
        except FetchError as error:
            refused.append((number, error.refusal.code, error.retry_after))
        world.schedule.finish(job.key)
    assert refused == [(2, "fetch-budget", 15.0), (3, "fetch-budget", 15.0)]


def test_there_is_room_for_so_many_jobs_of_a_domain_and_no_more() -> None:
    world = World(WIDE)
    for number in range(MAX_PER_DOMAIN):
        assert world.add(f"https://victim.example/{number}", after=10)
    assert not world.add("https://victim.example/one-more")
    world.clock.now += 10
    job = world.schedule.next()
    assert job is not None
    world.visit(job)
    assert world.add("https://victim.example/one-more")
    assert not world.add("https://victim.example/two-more")
    assert world.add("agent.example")


def test_urls_of_a_domain_take_no_room_from_its_own_location_and_few_from_those_of_its_hosts() -> None:
    world = World(WIDE)
    for number in range(2 * MAX_PER_DOMAIN):
        world.add(f"https://victim.example/{number}", after=10)
    assert len(world.schedule) == MAX_PER_DOMAIN
    names = [f"name{number}.victim.example" for number in range(2 * MAX_PER_DOMAIN)]
    assert [world.add(name) for name in names] == [True] * MAX_PER_DOMAIN + [False] * MAX_PER_DOMAIN
    assert world.add("victim.example")


def test_a_flood_of_few_domains_leaves_room_for_a_job_of_each_other_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "MAX_JOBS", 100)
    world = World(WIDE)
    for number in range(100):
        assert world.add(f"https://evil{number % 5}.example/{number}")
    assert not world.add("https://evil1.example/one-more")
    assert [world.add(f"good{number}.example") for number in range(101)] == [True] * 100 + [False]
    assert not world.add("https://good1.example/card.json")


def test_gateways_of_the_operators_hold_no_job_back() -> None:
    world = World(VisitRates())
    for number in range(50):
        world.add(f"ipfs://cid{number}", host="")
    started = [world.schedule.next() for _ in range(50)]
    assert None not in started


def test_budgets_that_are_full_again_are_forgotten() -> None:
    budgets = Budgets(VisitRates())
    for number in range(10_000):
        budgets.spend_domain(f"name{number}.example", float(number))
        budgets.spend_block(f"block{number}", float(number))
        if number % 100 == 0:
            budgets.trouble(f"name{number}.example", float(number))
    assert len(budgets.domains) < 5_000
    budgets.sweep(20_000.0)
    assert (len(budgets.domains), len(budgets.blocks)) == (0, 0)


def test_what_failed_long_ago_is_forgiven() -> None:
    budgets = Budgets(VisitRates())
    budgets.trouble("agent.example", 0.0)
    budgets.unreached("93.184.216.0/24", 0.0)
    budgets.sweep(3_000.0)
    assert budgets.domains["agent.example"].failures == 1
    assert budgets.blocks["93.184.216.0/24"].stretch == 2
    budgets.sweep(3_700.0)
    assert (budgets.domains, budgets.blocks, budgets.forgive_at) == ({}, {}, {})
    budgets.well("agent.example", None)


def test_every_address_of_a_name_is_charged_to_its_own_block() -> None:
    world = World(VisitRates(block=VisitRate(10.0, 1)))
    victim = ip_address("198.41.0.4")
    refused = 0
    for number in range(3):
        world.add(f"evil{number}.example")
        job = world.schedule.next()
        assert job is not None
        admit = world.schedule.admission(job)
        admit(job.host, ip_address(f"203.0.{number}.1"), 443)
        try:
            admit(job.host, victim, 443)
        except FetchError as error:
            refused += error.refusal.code == "fetch-budget"
        world.schedule.finish(job.key)
    assert refused == 2


HOSTS = [f"{sub}{name}.example" for name in "abcd" for sub in ("", "x.", "y.")]
JOBS = st.lists(
    st.tuples(st.sampled_from(HOSTS), st.integers(0, 3), st.sampled_from(Priority), st.integers(0, 300)), max_size=40
)
SMALL = VisitRates(domain=VisitRate(10.0, 2), block=VisitRate(4.0, 3), total=VisitRate(1.0, 4))


def within(times: list[float], rate: VisitRate) -> bool:
    """The slow way: in every stretch of time at most a burst and what has filled up since."""
    return all(
        upto - index + 1 <= rate.burst + (times[upto] - times[index]) / rate.interval + 1e-3
        for index in range(len(times))
        for upto in range(index, len(times))
    )


@settings(deadline=None)
@given(JOBS, st.lists(st.integers(0, 2), min_size=len(HOSTS), max_size=len(HOSTS)))
def test_every_job_is_served_once_and_no_budget_is_exceeded(
    jobs: list[tuple[str, int, Priority, int]], blocks: list[int]
) -> None:
    world = World(SMALL)
    world.addresses = {host: ip_address(f"93.184.{block}.1") for host, block in zip(HOSTS, blocks, strict=True)}
    for host, path, priority, after in jobs:
        world.add(f"https://{host}/{path}" if path else host, priority, after)
    waiting = world.waiting
    served = list(world.run(world.clock.now + 100_000))
    assert Counter(job.key for _, job in served) == Counter(list(waiting))
    assert all(when >= waiting[job.key].due - 1e-9 for when, job in served)
    assert within([when for when, _ in served], SMALL.total)
    for key in {registrable(host) for host in HOSTS}:
        assert within([when for when, job in served if job.domain == key], SMALL.domain)
    for block in set(map(block_of, world.addresses.values())):
        assert within([when for when, job in served if block_of(world.addresses[job.host]) == block], SMALL.block)
    assert (world.schedule.lanes, world.schedule.sizes, world.schedule.flying) == ({}, {}, {})


@settings(deadline=None)
@given(JOBS)
def test_the_most_urgent_due_fetch_that_is_allowed_goes_first(
    jobs: list[tuple[str, int, Priority, int]],
) -> None:
    world = World(WIDE)
    for host, path, priority, after in jobs:
        world.add(f"https://{host}/{path}" if path else host, priority, after)
    while world.waiting:
        assert len(world.schedule) == len(world.waiting)
        job = world.schedule.next()
        due = [waiting for waiting in world.waiting.values() if waiting.due <= world.clock.now]
        if job is None:
            assert due == []
            world.clock.now += world.schedule.wait() or 1e-6
            continue
        assert job.rank == min(waiting.rank for waiting in due)
        del world.waiting[job.key]
        world.visit(job)
