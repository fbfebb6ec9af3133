"""The law of payments: no sequence of claims, also at once, of reorganisations, crashes and double spends counts a
satoshi twice, or grants an interval of a subscription that no counted payment paid for."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import example, given, settings
from hypothesis import strategies as st

from indexer.errors import RefusedTransactionError, SourceError
from overlay.systems.payments.gate import PaymentGate
from overlay.systems.payments.gate_answers import GateAnswer
from overlay.systems.payments.settlement import DEPTH, WORK_SECONDS
from overlay.systems.payments.store import PaymentStore
from overlay.systems.payments.store_records import COUNTED, GIVEN_BACK, TaskState
from parsers.bitcoin.tx import Outpoint, Transaction
from tests.overlay.payments.crashing import Crash, Steps
from tests.overlay.payments.fake_node import PAYER, SERVER, FakeNode, claim_of, payment, price, script_of

COINS = 2
TASKS = [f"task-of-some-client-{number}" for number in range(2)]

coins = st.integers(0, COINS - 1)
amounts = st.sampled_from([10_000, 40_000, 50_000, 51_000])
actions = st.one_of(
    st.tuples(
        st.just("claim"), coins, amounts, st.sampled_from(["full", "deposit", "final"]), st.sampled_from(TASKS),
        st.booleans(), st.none() | st.tuples(st.integers(0, 20), st.booleans()), st.sampled_from(["", *TASKS]),
    ),
    st.tuples(st.just("race"), coins, amounts, amounts, st.sampled_from(["", *TASKS])),
    st.tuples(st.just("broadcast"), coins, amounts),
    st.tuples(st.just("double-spend"), coins),
    st.tuples(st.sampled_from(["mine", "evict", "maintain", "wait"])),
    st.tuples(st.just("reorganise"), st.integers(1, DEPTH - 1)),
    st.tuples(st.just("down"), st.booleans()),
)  # fmt: skip


class World:
    """A server, its clients and their node."""

    def __init__(self, folder: str) -> None:
        self.payment_store = PaymentStore.open(f"sqlite:///{Path(folder) / 'payments.db'}")
        self.node, self.time = FakeNode(), 1_700_000_000.0
        self.coins = [self.node.mint(90_000) for _ in range(COINS)]
        self.claimed: dict[bytes, Transaction] = {}

    def paying(self, coin: int, satoshis: int) -> Transaction:
        tx = payment([self.coins[coin]], [(satoshis, script_of(SERVER)), (30_000, script_of(PAYER))], self.node)
        self.claimed[tx.txid] = tx
        return tx

    def gate(self, steps: Steps) -> PaymentGate:
        prices = [price(depositPct="0.2", interval="month")]
        return PaymentGate(prices, steps.wrap(self.payment_store), steps.wrap(self.node), clock=lambda: self.time)

    async def claim(
        self, coin: int, satoshis: int, stage: str, task: str, fails: bool, crash: tuple[int, bool] | None,
        renewed: str = "",
    ) -> None:  # fmt: skip
        async def work() -> GateAnswer:
            return GateAnswer(500 if fails else 200, (), b"done")

        steps = Steps(*crash[:1], after=crash[1]) if crash else Steps()
        claim = claim_of(self.paying(coin, satoshis), stage=stage)
        with suppress(Crash):
            headers = {"A2B-Payment": json.dumps(claim), "A2B-Task": task, "A2B-Subscription": renewed}
            await self.gate(steps).answer(headers, b"", work)

    async def race(self, coin: int, one: int, other: int, renewed: str) -> None:
        """Two claims at once, for one coin or for two, each in a separate process."""
        second = coin if one == other else (coin + 1) % COINS
        await asyncio.gather(
            self.claim(coin, one, "full", TASKS[0], False, None, renewed),
            self.claim(second, other + 1, "full", TASKS[1], False, None, renewed),
        )

    async def act(self, action: tuple[object, ...]) -> None:
        name, *arguments = action
        if name == "claim":
            await self.claim(*arguments)  # type: ignore[arg-type]
        elif name == "race":
            await self.race(*arguments)  # type: ignore[arg-type]
        elif name == "broadcast":
            with suppress(RefusedTransactionError):
                self.node.accept(self.paying(*arguments))  # type: ignore[arg-type]
        elif name == "double-spend":
            self.node.double_spend(self.coins[arguments[0]])  # type: ignore[call-overload]
        elif name == "reorganise":
            self.node.reorganise(arguments[0])  # type: ignore[arg-type]
        elif name == "down":
            self.node.down = bool(arguments[0])
        elif name in ("mine", "evict"):
            getattr(self.node, name)()
        else:
            self.time += WORK_SECONDS if name == "wait" else 0
            with suppress(SourceError):
                await self.gate(Steps()).maintain()

    def counted(self) -> list[Transaction]:
        """The transactions that are counted: no two of them spend the same coin."""
        entries = {txid: self.payment_store.payment("bsv:regtest", txid) for txid in self.claimed}
        counted = [self.claimed[txid] for txid, entry in entries.items() if entry and entry.state in COUNTED]
        spent: list[Outpoint] = [tx_input.prevout for tx in counted for tx_input in tx.inputs]
        assert len(spent) == len(set(spent))
        assert self.payment_store.counted() == sum(tx.outputs[0].satoshis for tx in counted)
        self.check_intervals()
        return counted

    def check_intervals(self) -> None:
        """Every interval of a subscription was paid for by a task whose payments are all counted."""
        subscriptions = [self.payment_store.paid_interval(task) for task in TASKS]
        granted = sum(subscription.periods for subscription in subscriptions if subscription)
        tasks = [task for task in map(self.payment_store.task, TASKS) if task and task.state is TaskState.COMPLETED]
        states = [
            {entry.state for entry in self.payment_store.payments_of(task.id)} - set(GIVEN_BACK) for task in tasks
        ]
        assert granted <= sum(paid_by <= set(COUNTED) for paid_by in states)


def paid(coin: int, satoshis: int, task: int) -> tuple[object, ...]:
    return "claim", coin, satoshis, "full", TASKS[task], False, None


@settings(max_examples=50)
@example([paid(0, 50_000, 0), ("evict",), paid(0, 51_000, 1)])
@example([paid(0, 50_000, 0), ("evict",), paid(0, 50_000, 1), ("double-spend", 0), ("evict",), ("wait",)])
@example([("race", 0, 50_000, 50_000, ""), ("double-spend", 0), ("maintain",)])
@example([("race", 0, 50_000, 51_000, TASKS[0]), ("double-spend", 0), ("maintain",), ("evict",), ("maintain",)])
@example([paid(0, 50_000, 0), ("mine",), ("reorganise", 1), ("double-spend", 0), ("wait",), paid(0, 51_000, 1)])
@given(st.lists(actions, max_size=10))
def test_no_history_counts_a_satoshi_twice(history: list[tuple[object, ...]]) -> None:
    async def live(world: World) -> None:
        for action in history:
            await world.act(action)
            world.counted()
        world.node.down = False
        for _ in range(2):
            await world.act(("wait",))
        present = {*world.node.mempool, *(tx.hex_id for block in world.node.blocks for tx in block)}
        assert {tx.hex_id for tx in world.counted()} <= present
        assert not world.payment_store.unfinished(int(world.time))

    with TemporaryDirectory() as folder:
        world = World(folder)
        try:
            asyncio.run(live(world))
        finally:
            world.payment_store.close()
