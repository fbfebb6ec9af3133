"""A state machine: nodes, their mempools, forks, faults, crashes and restarts at random end as a fresh index does.

Nodes learn of blocks at different times, prefer branches of less work, go down, serve spoiled blocks, and hold
different mempools; the indexer looks, is cancelled in the middle of it, and is started again. In the end all nodes are
well and agree, and what is stored, confirmed and pending, must be what a fresh index reads and what the oracle says.
`A2B_SLOW_TESTS=1` tries many times as many lives.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from indexer.chains.failover import FailoverChain
from indexer.errors import SourceUnavailableError
from indexer.sync import catchup, mempool
from parsers.bitcoin.tx import Outpoint
from tests.chainkit import Block
from tests.clocks import Clock
from tests.indexer.sync.test_mempool_law import Reader, expected, pending_states
from tests.indexing import Indexing
from tests.living import PACE, Node, World
from tests.oracles.registry import read_chain
from tests.strategies import Dig, PlannedOutput, Spend, digs, spends

SLOW = os.environ.get("A2B_SLOW_TESTS") == "1"
LOOKS = 200
"""Looks after which all must have come together in the end."""

_T = TypeVar("_T")
which = st.integers(0, 2)
some = st.frozensets(which)
plans = st.lists(digs(any_order=True, most=3), min_size=1, max_size=3)
REGISTERED = Dig(0, (Spend((0,), (PlannedOutput(1, "agent", 0),), change=True),), again=False, backwards=False, run=0)
MOVED = Dig(0, (Spend((1, 0), (PlannedOutput(1, "plain", 1),), change=True),), again=False, backwards=False, run=2)
OTHERWISE = Spend((1, 0), (PlannedOutput(1, "plain", 2),), change=True)


class LivingChain(RuleBasedStateMachine):
    """One life. `which` numbers a node, counted round."""

    empty: ClassVar[Path]

    def __init__(self) -> None:
        super().__init__()
        self.world, self.clock = World(), Clock()
        self.nodes: list[Node] = []
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.patched = pytest.MonkeyPatch()
        self.patched.setattr(mempool, "RETRY_SECONDS", 0.0)

    @initialize(
        count=st.sampled_from([2, 3, 1]), blocks_a_write=st.sampled_from([1, 2, 256]), plans=plans,
        transactions_a_look=st.sampled_from([1_000, 1]),
    )  # fmt: skip
    def begin(self, count: int, blocks_a_write: int, plans: list[Dig], transactions_a_look: int) -> None:
        for plan in plans:
            self.world.dig(plan)
        self.patched.setattr(catchup, "BATCH_BLOCKS", blocks_a_write)
        if transactions_a_look == 1:
            self.patched.setattr(mempool, "BATCH", 1)
            self.patched.setattr(mempool, "LOOK_SECONDS", -1.0)
        self.nodes = [Node(*self.world.kit.blocks) for _ in range(count)]
        self.failover = FailoverChain("demo", list(zip("abc", self.nodes, strict=False)), PACE, self.clock)
        path = Path(self.folder.name, "a2b.db")
        shutil.copy(self.empty, path)
        self.indexing = Indexing(f"sqlite:///{path}", self.failover if count > 1 else self.nodes[0])
        self.reader = Reader(self.indexing.store)

    def node(self, number: int) -> Node:
        return self.nodes[number % len(self.nodes)]

    def run(self, what: Coroutine[Any, Any, _T]) -> _T:
        return self.runner.run(what)

    # -- what happens in the world

    def arrive(self, blocks: list[Block], late: frozenset[int]) -> None:
        """All nodes but the late ones learn of blocks."""
        for number, node in enumerate(self.nodes):
            if number not in late or len(late) >= len(self.nodes):
                node.arrive(*blocks)
                self.world.settle(node)

    @rule(plans=plans, late=some, spoiled=st.one_of(st.just(frozenset()), some), look=st.booleans())
    def blocks_are_mined(self, plans: list[Dig], late: frozenset[int], spoiled: frozenset[int], look: bool) -> None:
        for plan in plans:
            blocks = self.world.dig(plan)
            for number in spoiled:
                self.node(number).spoiled.add(blocks[0].hash)
            self.arrive(blocks, late)
        if look:
            self.the_indexer_looks()

    @rule(number=which, late=some)
    def a_mempool_is_mined(self, number: int, late: frozenset[int]) -> None:
        block = self.world.mine(self.node(number))
        self.arrive([block], late)

    @rule(number=which)
    def a_node_learns_of_all_blocks(self, number: int) -> None:
        self.node(number).arrive(*self.world.kit.blocks)
        self.world.settle(self.node(number))

    @rule(number=which, back=st.integers(0, 6))
    def a_node_is_told_to_prefer_a_branch(self, number: int, back: int) -> None:
        later = self.world.kit.blocks[1:]
        node, target = self.node(number), later[max(0, len(later) - 1 - back)]
        node.arrive(*self.world.kit.blocks)
        node.prefer(target)
        self.world.settle(node)

    @rule(number=which, plan=spends(), conflicting=st.booleans(), everywhere=st.booleans())
    def a_transaction_is_announced(self, number: int, plan: Spend, conflicting: bool, everywhere: bool) -> None:
        self.world.announce(self.node(number), plan, conflicting=conflicting)
        for node in self.nodes if everywhere else ():
            node.unconfirmed = self.node(number).unconfirmed | node.unconfirmed
            self.world.settle(node)

    @rule(number=which, pick=st.integers(0, 5))
    def a_transaction_is_evicted(self, number: int, pick: int) -> None:
        node = self.node(number)
        if node.unconfirmed:
            node.evicted.add(list(node.unconfirmed)[pick % len(node.unconfirmed)])
            self.world.settle(node)

    @rule(numbers=some)
    def nodes_go_down_and_others_come_back(self, numbers: frozenset[int]) -> None:
        for number, node in enumerate(self.nodes):
            node.down = "gone" if number in numbers else ""

    @rule(numbers=some, after=st.integers(0, 2), look=st.booleans())
    def nodes_fail_in_the_middle_of_their_blocks(self, numbers: frozenset[int], after: int, look: bool) -> None:
        for number in numbers:
            self.node(number).cut = after
        if look:
            self.the_indexer_looks()

    @rule(first=which, after=st.integers(1, 2))
    def all_nodes_fail_behind_a_block_that_moves_a_registration(self, first: int, after: int) -> None:
        """The read block with the move is not written, and has to be noticed again at a later look of this process,
        though nothing in it names a registration."""
        self.arrive(self.world.dig(REGISTERED), frozenset())
        self.the_indexer_looks()
        self.arrive(self.world.dig(MOVED), frozenset())
        for node in self.nodes:
            node.cut = 0
        self.node(first).cut = after
        self.the_indexer_looks()

    @rule(
        back=st.integers(1, 2), otherwise=st.sampled_from(["", "mined", "unconfirmed"]), evicted=st.booleans(),
        goes_on=st.booleans(),
    )  # fmt: skip
    def what_was_said_is_taken_back(self, back: int, otherwise: str, evicted: bool, goes_on: bool) -> None:
        """A registration, or what moved it, is left on a branch, and perhaps moves otherwise on the other one, in a
        block that does not speak of it. When something unconfirmed goes on from it, nodes do not tell that it left."""
        for plan in (REGISTERED, MOVED._replace(run=0)):
            blocks = self.world.dig(plan)
            self.arrive(blocks, frozenset())
            self.the_indexer_looks()
        for node in self.nodes if evicted else ():
            node.evicted.update(blocks[0].txids)
        if goes_on:
            self.announce_everywhere(OTHERWISE)
            self.the_indexer_looks()
        for node in self.nodes:
            node.busy = goes_on
        spends = (OTHERWISE,) if otherwise == "mined" else ()
        self.arrive(self.world.dig(Dig(back, spends, again=False, backwards=False, run=back)), frozenset())
        for node in self.nodes if otherwise == "unconfirmed" else ():
            self.world.announce(node, OTHERWISE, conflicting=True)
        self.the_indexer_looks()
        for node in self.nodes:
            node.busy = False

    @rule(listed_late=st.booleans(), busy=st.booleans(), looks=st.booleans())
    def what_was_announced_is_mined_and_taken_back(self, listed_late: bool, busy: bool, looks: bool) -> None:
        """A newcomer is unconfirmed, then in a block, and unconfirmed again; nodes list their mempool as it was."""
        self.announce_everywhere(REGISTERED.spends[0])
        self.the_indexer_looks()
        for node in self.nodes:
            node.listed, node.busy = dict(node.unconfirmed) if listed_late else None, busy
        before = self.nodes[0].best[-1]
        self.arrive([self.world.mine(self.nodes[0])], frozenset())
        self.the_indexer_looks()
        for node in self.nodes:
            node.busy = False
        if looks:
            self.the_indexer_looks()
        parent = next(block for block in self.world.kit.blocks if block.hash == before.hash)
        branch = [self.world.kit.mine(parent=parent)]
        branch.append(self.world.kit.mine(parent=branch[0]))
        for block in branch:
            self.world.scribe.views[block.hash] = self.world.scribe.views[parent.hash]
        self.arrive(branch, frozenset())
        self.the_indexer_looks()
        for node in self.nodes:
            node.listed = None

    def announce_everywhere(self, plan: Spend) -> None:
        self.world.announce(self.nodes[0], plan, conflicting=True)
        for node in self.nodes[1:]:
            node.unconfirmed = self.nodes[0].unconfirmed | node.unconfirmed
            self.world.settle(node)

    @rule(number=which, late=st.booleans(), busy=st.booleans())
    def a_node_lists_its_mempool_as_it_was(self, number: int, late: bool, busy: bool) -> None:
        node = self.node(number)
        node.listed, node.busy = dict(node.unconfirmed) if late else None, busy

    @rule(plan=digs(any_order=True, most=2), moves=st.booleans())
    def a_block_arrives_between_two_questions(self, plan: Dig, moves: bool) -> None:
        """After the mempool was listed, before anything else was asked."""
        for node in self.nodes:
            node.then = lambda: self.arrive(self.world.dig(MOVED if moves else plan), frozenset())
        self.the_indexer_looks()
        for node in self.nodes:
            node.then = lambda: None

    @rule(seconds=st.sampled_from([1, 40, 1_000]))
    def time_passes(self, seconds: float) -> None:
        self.clock.now += seconds

    # -- what the indexer does

    @rule()
    def the_indexer_looks(self) -> None:
        self.run(self.look())

    async def look(self) -> None:
        try:
            await self.indexing.refresh()
        except SourceUnavailableError:
            if not self.indexing.followers:
                assert not self.indexing.store.pending.events("demo"), "nobody has seen it since the process started"
            return  # in the end, it has to be found that they are back
        for node in self.nodes:
            self.world.settle(node)  # a refused block changes what is unspent
        self.reader.read()

    @rule(steps=st.integers(0, 40), alone=st.booleans())
    def the_indexer_is_stopped_in_the_middle_and_started_again(self, steps: int, alone: bool) -> None:
        """Perhaps while no node answers."""
        down = [node.down for node in self.nodes]
        for node in self.nodes if alone else ():
            node.down = "gone"
        self.run(self.crash(steps))
        if alone:
            self.the_indexer_looks()
        for node, why in zip(self.nodes, down, strict=True):
            node.down = why

    async def crash(self, steps: int) -> None:
        threads = ThreadPoolExecutor(4)
        asyncio.get_running_loop().set_default_executor(threads)
        looking = asyncio.create_task(self.indexing.refresh())
        for _ in range(steps):
            await asyncio.sleep(0.0002)
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        await self.close()
        threads.shutdown()  # a write that was under way is done, or was never begun, when the next process looks
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(4))
        self.indexing.restart()
        self.reader.store = self.indexing.store
        for node in self.nodes:
            self.world.settle(node)

    async def close(self) -> None:
        await self.failover.close()

    @rule()
    def somebody_reads_the_change_feed(self) -> None:
        self.reader.read()
        assert self.reader.copy == self.reader.everything()

    @precondition(lambda self: self.nodes)
    @invariant()
    def what_is_stored_is_one_branch(self) -> None:
        newest = self.indexing.store.blocks.newest("demo")
        existing = {block.hash: block for block in self.world.kit.blocks}
        if newest is not None:
            branch = self.world.kit.branch(existing[newest.hash])
            stored = [self.indexing.store.blocks.get("demo", height) for height in range(newest.height + 1)]
            assert [ref and ref.hash for ref in stored] == [block.hash for block in branch]

    @precondition(lambda self: self.nodes)
    @invariant()
    def what_is_pending_goes_on_from_what_is_stored(self) -> None:
        store = self.indexing.store
        positions: dict[str, Outpoint | None] = {}
        for event in store.pending.events("demo"):
            if event.state is None:
                continue
            id_ = event.state.id
            if id_ not in positions:
                confirmed = [item.event.state for item in store.history.of(id_)]
                positions[id_] = confirmed[-1].outpoint if confirmed and confirmed[-1] else None
            assert event.spent == positions[id_], f"{event} does not spend where {id_} is"
            positions[id_] = event.state.outpoint

    # -- the end

    def teardown(self) -> None:
        try:
            if self.nodes:
                self.run(self.end())
                self.run(self.close())
                self.indexing.__exit__()
        finally:
            self.patched.undo()
            self.runner.close()
            self.folder.cleanup()

    async def end(self) -> None:
        """All nodes are well and agree; what the indexer holds is what a fresh one reads."""
        last = self.world.kit.mine(parent=self.world.kit.tip)
        self.world.scribe.views[last.hash] = self.world.scribe.views[last.prev]
        for node in self.nodes:
            node.down = ""
            node.spoiled.clear()
            node.cut, node.busy, node.listed = None, False, None
            node.arrive(*self.world.kit.blocks)
            assert node.best[-1].hash == last.hash
            node.unconfirmed = self.nodes[0].unconfirmed
            node.evicted = self.nodes[0].evicted
            self.world.settle(node)
        await self.come_together(last)
        await self.compare()

    async def come_together(self, last: Block) -> None:
        for _ in range(LOOKS):
            self.clock.now += 1_000
            await self.look()
            newest = self.indexing.store.blocks.newest("demo")
            if newest is not None and newest.hash == last.hash:
                break
            await asyncio.sleep(0.002)
        else:
            raise AssertionError(f"not at the tip after {LOOKS} looks: {self.failover.sources}")
        for _ in range(2 + 2 * len(self.nodes[0].unconfirmed)):  # what was refused is asked for again
            await self.look()

    async def compare(self) -> None:
        best = [block.raw for block in self.world.kit.branch()]
        again = Node(*self.world.kit.branch())
        again.unconfirmed = dict(reversed(self.nodes[0].unconfirmed.items()))
        path = Path(self.folder.name, "again.db")
        shutil.copy(self.empty, path)
        with Indexing(f"sqlite:///{path}", again) as fresh:
            for _ in range(1 + len(again.unconfirmed)):  # a look may take in one transaction only
                await fresh.refresh()
            assert self.indexing.facts() == fresh.facts()
            assert self.indexing.store.pending.events("demo") == fresh.store.pending.events("demo")
        oracle = read_chain(best)
        assert self.indexing.hashes(oracle.state_hashes) == oracle.state_hashes
        assert pending_states(self.indexing.store) == expected(best, list(again.unconfirmed.values()))
        self.reader.read()
        assert self.reader.copy == self.reader.everything()


def test_any_life_ends_as_a_fresh_index(empty: Path) -> None:
    LivingChain.empty = empty
    run_state_machine_as_test(
        LivingChain,
        settings=settings(
            max_examples=1_000 if SLOW else 10,
            stateful_step_count=40 if SLOW else 18,
            deadline=None,
            phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
        ),
    )
