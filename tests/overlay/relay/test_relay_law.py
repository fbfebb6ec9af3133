"""The law of the relay: whatever its agents and the chain do, the books sum to zero and only a reversal makes an
account owe."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.store import connect
from overlay.systems.relay import accounts
from overlay.systems.relay.bank import DEPTH
from overlay.systems.relay.store_ledger import agent_account
from overlay.systems.relay.task_relay import RelayRefusedError
from overlay.systems.relay.tasks import LOCK_SECONDS
from parsers.bitcoin.tx import Transaction
from parsers.claims.motebit.settlement import RelayTaskState
from tests.overlay.payments.fake_node import PAYER, address_of
from tests.overlay.relay.kit import World, raw_of
from tests.parsers.claims.motebit.signers import ALICE, BOB, CAROL

PARTIES = (ALICE, BOB, CAROL)
parties = st.integers(0, len(PARTIES) - 1)
actions = st.one_of(
    st.tuples(st.just("deposit"), parties, st.sampled_from([600, 5_000, 20_000])),
    st.tuples(st.just("task"), parties, parties),
    st.tuples(
        st.just("settle"), st.integers(0, 5), st.none() | st.integers(0, 5), st.sampled_from(["completed", "failed"])
    ),
    st.tuples(st.just("withdraw"), parties, st.sampled_from([1_000, 4_000, 20_000])),
    st.tuples(st.sampled_from(["mine", "watch", "wait", "evict"])),
    st.tuples(st.just("reorganise"), st.integers(1, DEPTH)),
)  # fmt: skip


class History:
    """A relay, the tasks and the deposits that there were."""

    def __init__(self, folder: str) -> None:
        self.world = World(connect(f"sqlite:///{Path(folder) / 'relay.db'}"))
        self.world.register(*PARTIES)
        for agent in PARTIES:
            self.world.fund(agent, 3_000)
        self.tasks: list[tuple[int, int, str]] = []
        self.deposits: list[Transaction] = []

    def act(self, action: tuple[object, ...]) -> None:
        name, *arguments = action
        with suppress(RelayRefusedError):
            getattr(self, f"do_{name}")(*arguments)

    def do_deposit(self, party: int, amount: int) -> None:
        world, agent = self.world, PARTIES[party]
        tx = world.deposit(agent, amount)
        self.deposits.append(tx)
        token = world.token(agent, "account:deposit")
        asyncio.run(accounts.deposit(world.relay, token, agent.id, raw_of(tx)))

    def do_task(self, submitter: int, worker: int) -> None:
        self.tasks.append((submitter, worker, self.world.task(PARTIES[submitter], PARTIES[worker])))

    def do_settle(self, number: int, nested: int | None, status: str) -> None:
        if number >= len(self.tasks):
            return
        _, worker, id_ = self.tasks[number]
        children = []
        if nested is not None and nested < len(self.tasks):
            _, child, below = self.tasks[nested]
            children = [PARTIES[child].receipt("nested", relay_task_id=below)]
        now = int(self.world.time * 1_000)
        receipt = PARTIES[worker].receipt(
            nested=children, relay_task_id=id_, status=status, submitted_at=now, completed_at=now
        )
        self.world.settle(PARTIES[worker], PARTIES[worker], id_, receipt)

    def do_withdraw(self, party: int, amount: int) -> None:
        world, agent = self.world, PARTIES[party]
        token = world.token(agent, "account:withdraw")
        asyncio.run(accounts.withdraw(world.relay, token, agent.id, amount, address_of(PAYER), None))

    def do_mine(self) -> None:
        self.world.mine(DEPTH - 1)

    def do_watch(self) -> None:
        asyncio.run(self.world.bank.watch())

    def do_wait(self) -> None:
        self.world.time += LOCK_SECONDS
        self.world.store.tasks.expire(int(self.world.time))

    def do_evict(self) -> None:
        self.world.node.evict()

    def do_reorganise(self, depth: int) -> None:
        self.world.node.reorganise(depth)

    def check(self) -> None:
        ledger = self.world.store.ledger
        kinds = {row["kind"] for agent in PARTIES for row in ledger.entries_of(agent_account(agent.id), 1_000)}
        self.world.check(may_owe=PARTIES if "reversal" in kinds else ())
        locked = [amount for account, amount in ledger.balances().items() if account.startswith("locked:") and amount]
        stored = self.world.store.tasks.tasks([id_ for *_, id_ in self.tasks], 0).values()
        assert sum(locked) == sum(task.locked for task in stored if task.state is RelayTaskState.PENDING)


@settings(max_examples=40, deadline=None)
@given(st.lists(actions, max_size=14))
def test_no_history_makes_money(history: list[tuple[object, ...]]) -> None:
    with TemporaryDirectory() as folder:
        past = History(folder)
        try:
            for action in history:
                past.act(action)
                past.check()
        finally:
            past.world.engine.dispose()
