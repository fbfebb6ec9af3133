"""Asking where owners are: within a budget, the newest first, all in turn, and never one alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from indexer.errors import SourceUnavailableError
from indexer.model import BlockRef
from indexer.store import spend_checks
from indexer.sync.outpoint_monitor import RESERVED, OutpointMonitor, RequestBudget
from parsers.bitcoin.tx import Outpoint
from tests.chainkit import ChainKit, agent
from tests.databases import Cluster, database_url, postgresql
from tests.fakes import MemoryChain
from tests.indexing import Indexing

__all__ = ["Cluster", "database_url", "postgresql"]


class Source:
    """Answers as a test says, and remembers what it was asked."""

    name = "demo"

    def __init__(self) -> None:
        self.requests: list[Outpoint] = []
        self.says: dict[Outpoint, bool | None] = {}
        self.down = False

    async def is_spent(self, outpoint: Outpoint) -> bool | None:
        if self.down:
            raise SourceUnavailableError("no route")
        self.requests.append(outpoint)
        return self.says.get(outpoint, False)

    async def recheck(self, _newest: BlockRef) -> int | None:
        return None


class Watch:
    """Registrations in a database, and one that asks for them, at a time that a test sets."""

    def __init__(self, indexing: Indexing, per_minute: int = 100) -> None:
        self.indexing, self.source, self.now = indexing, Source(), 1_000_000.0
        self.outpoint_monitor = OutpointMonitor(
            self.source, indexing.store, indexing.writer, per_minute=per_minute, now=lambda: self.now
        )

    async def look(self, later: float = 0) -> list[Outpoint]:
        """The outpoints that a look requests, so many seconds later."""
        self.now += later
        self.source.requests.clear()
        tip = self.indexing.store.blocks.newest("demo")
        assert tip is not None
        assert await self.outpoint_monitor.look(tip) == (None, bool(self.changed_ids()))
        return list(self.source.requests)

    def changed_ids(self) -> list[str]:
        """The registrations that were written to the outbox since."""
        since, self.seq = getattr(self, "seq", 0), self.indexing.store.outbox.newest_seq()
        return [
            change.id for change in self.indexing.store.outbox.after(since, 1_000) if change.reason == "owner-checked"
        ]


def minted(count: int) -> tuple[ChainKit, list[Outpoint]]:
    kit = ChainKit()
    created = [kit.inscribe(agent(f"agent {number}")) for number in range(count)]
    for outpoint in created:
        kit.mine(outpoint)
    return kit, created


async def test_the_newest_are_requested_first_and_then_those_of_longest_ago(database_url: str) -> None:
    kit, created = minted(5)
    with Indexing(database_url, MemoryChain(*kit.blocks)) as indexing:
        await indexing.catch_up()
        watch = Watch(indexing)
        assert await watch.look() == created[::-1]
        assert await watch.look(100) == [], "all were seen just now"
        spend_checks.record(indexing.writer, "demo", int(watch.now), {created[3]: False})
        assert sorted(await watch.look(250)) == sorted(set(created) - {created[3]})
        assert indexing.store.spend_checks.unspent_at("demo", created) == {
            item: 1_000_350 - 250 * (item == created[3]) for item in created
        }
        kit.mine(newcomer := kit.inscribe(agent("newcomer")))
        indexing.chains[0].arrive(kit.tip)  # type: ignore[attr-defined]
        await indexing.catch_up()
        assert await watch.look(200) == [newcomer, created[3]]


async def test_what_moved_or_burned_is_not_requested_any_more(database_url: str) -> None:
    kit, created = minted(3)
    moved = kit.move(created[0])
    kit.mine(moved, kit.burn(created[1]))
    with Indexing(database_url, MemoryChain(*kit.blocks)) as indexing:
        await indexing.catch_up()
        assert set(await Watch(indexing).look()) == {moved, created[2]}


async def test_an_owner_nobody_can_tell_of_does_not_keep_others_waiting(database_url: str) -> None:
    kit, created = minted(4)
    with Indexing(database_url, MemoryChain(*kit.blocks)) as indexing:
        await indexing.catch_up()
        watch = Watch(indexing, per_minute=12)
        watch.source.says = {created[3]: None}
        assert await watch.look() == [created[3], created[2]], "the rest of the budget is kept back"
        assert indexing.store.spend_checks.unspent_at("demo", created) == {created[2]: 1_000_000}
        watch.outpoint_monitor.budget.left = 12.0
        assert await watch.look(60) == [created[1], created[0]]


async def test_a_source_that_fails_in_between_loses_no_answer(database_url: str) -> None:
    kit, created = minted(2)
    with Indexing(database_url, MemoryChain(*kit.blocks)) as indexing:
        await indexing.catch_up()
        watch = Watch(indexing)
        watch.source.down = True
        for _ in range(2):
            try:
                await watch.look(60)
            except SourceUnavailableError:
                continue
            raise AssertionError
        assert await watch.outpoint_monitor.still_unspent(created[0]) is None
        watch.source.down = False
        assert await watch.outpoint_monitor.still_unspent(created[0]) is True
        assert set(await watch.look(60)) == {created[1]}


async def test_checks_are_announced_now_and_then_and_not_every_time(database_url: str) -> None:
    kit, created = minted(2)
    with Indexing(database_url, MemoryChain(*kit.blocks)) as indexing:
        await indexing.catch_up()
        watch = Watch(indexing)
        received = []
        for _ in range(80):  # of 301 s each: a little more than 6 h 40 min
            watch.now += 301
            watch.outpoint_monitor.budget.left = 100.0
            tip = indexing.store.blocks.newest("demo")
            assert tip is not None
            await watch.outpoint_monitor.look(tip)
            received += watch.changed_ids()
        assert sorted(received) == sorted([str(item) for item in created] * 2)


async def test_requests_of_clients_have_a_share_of_the_budget(database_url: str) -> None:
    kit, created = minted(15)
    with Indexing(database_url, MemoryChain(*kit.blocks)) as indexing:
        await indexing.catch_up()
        watch = Watch(indexing, per_minute=12)
        assert len(await watch.look()) == 12 - RESERVED
        answers = [await watch.outpoint_monitor.still_unspent(created[0]) for _ in range(RESERVED + 2)]
        assert answers == [True] * RESERVED + [None, None]


@given(st.integers(1, 200), st.lists(st.tuples(st.floats(0, 90), st.integers(0, 50)), max_size=30))
def test_no_more_than_the_budget_is_ever_taken(per_minute: int, turns: list[tuple[float, int]]) -> None:
    now, taken = 0.0, 0
    budget = RequestBudget(per_minute, lambda: now)
    for pause, expected in turns:
        now += pause
        taken += sum(budget.take() for _ in range(expected))
        assert taken <= per_minute * (1 + now / 60) + 1e-6
    now += 60.001  # a full minute, whatever the sums of floats were rounded to
    assert sum(budget.take() for _ in range(per_minute + 5)) == per_minute
