"""A crash after every step of a payment: nothing is sent twice, lost or counted twice. Between the effect of one step
and that of the next nothing else has any."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from overlay.systems.payments.gate import PaymentGate
from overlay.systems.payments.gate_answers import GateAnswer
from overlay.systems.payments.settlement import WORK_SECONDS
from overlay.systems.payments.store import PaymentStore
from overlay.systems.payments.store_records import PaymentState, TaskState
from parsers.bitcoin.tx import Transaction
from tests.overlay.payments.crashing import Crash, Steps
from tests.overlay.payments.fake_node import PAYER, SERVER, FakeNode, address_of, claim_of, payment, price, script_of

TASK = "task-of-the-client-0001"


class Story:
    """One client and a server that may crash; what it repeats is what it did not receive an answer to."""

    def __init__(self, file: Path, **members: Any) -> None:
        self.url, self.node, self.time, self.members = f"sqlite:///{file}", FakeNode(), 1_700_000_000.0, members
        self.works = 0

    def pays(self, satoshis: int) -> Transaction:
        return payment([self.node.mint(90_000)], [(satoshis, script_of(SERVER)), (30_000, script_of(PAYER))], self.node)

    async def process(
        self, steps: Steps, run: Callable[[PaymentGate], Awaitable[GateAnswer | None]]
    ) -> GateAnswer | None:
        """One run of the server's process; None where it crashed, or has no answer."""
        payment_store = PaymentStore.open(self.url)
        try:
            with suppress(Crash):
                gate = PaymentGate(
                    [price(**self.members)], steps.wrap(payment_store), steps.wrap(self.node), clock=lambda: self.time
                )
                return await run(gate)
            return None
        finally:
            payment_store.close()

    async def call(self, gate: PaymentGate, claim: Any) -> GateAnswer:
        async def work() -> GateAnswer:
            self.works += 1
            return GateAnswer(200, (), b"done")

        return await gate.answer({"A2B-Payment": json.dumps(claim), "A2B-Task": TASK}, b"", work)

    async def recovered(self) -> None:
        """A new process, after every lease has ended."""

        async def maintain(gate: PaymentGate) -> None:
            await gate.maintain()

        self.time += WORK_SECONDS
        for _ in range(2):
            await self.process(Steps(), maintain)

    def once(self, *txs: Transaction) -> int:
        """Satoshis counted; nothing was sent twice, and what is counted is what the node has."""
        assert len(self.node.sent) == len(set(self.node.sent))
        payment_store = PaymentStore.open(self.url)
        try:
            entries = [payment_store.payment("bsv:regtest", tx.txid) for tx in txs]
            for tx, entry in zip(txs, entries, strict=True):
                is_counted = entry is not None and entry.state is PaymentState.SENT
                assert is_counted == (tx.hex_id in self.node.mempool)
            return payment_store.counted()
        finally:
            payment_store.close()

    def task_state(self) -> TaskState | None:
        payment_store = PaymentStore.open(self.url)
        try:
            task = payment_store.task(TASK)
            return task.state if task else None
        finally:
            payment_store.close()


async def test_a_full_payment_survives_a_crash_at_every_step(tmp_path: Path) -> None:
    for step in count():
        story = Story(tmp_path / f"{step}.db")
        tx, steps = story.pays(50_000), Steps(step, after=True)
        answer = await story.process(steps, lambda gate: story.call(gate, claim_of(tx)))  # noqa: B023
        await story.recovered()
        assert story.once(tx) in (0, 50_000)
        again = await story.process(Steps(), lambda gate: story.call(gate, claim_of(tx)))  # noqa: B023
        assert again is not None
        assert (again.status, again.body) == (200, b"done"), f"step {step}"
        assert story.once(tx) == 50_000
        assert story.works <= 2
        if not steps.is_over:
            assert answer is not None
            assert answer.status == 200
            assert step > 8
            return


async def test_a_deposit_survives_a_crash_at_every_step(tmp_path: Path) -> None:
    for step in count():
        story = Story(tmp_path / f"{step}.db", depositPct="0.2")
        deposit, steps = story.pays(10_000), Steps(step, after=True)
        claim = claim_of(deposit, stage="deposit", refundAddress=address_of(PAYER))
        await story.process(steps, lambda gate: story.call(gate, claim))  # noqa: B023
        await story.recovered()
        counted = story.once(deposit)
        payment_store = PaymentStore.open(story.url)
        task = payment_store.task(TASK)
        payment_store.close()
        # a deposit that was sent waits for its final payment, or is refunded; one that was not can be sent again
        if counted:
            assert task is not None
            assert task.state is TaskState.NEEDS_FINAL or task.refund is not None, f"step {step}"
        else:
            again = await story.process(Steps(), lambda gate: story.call(gate, claim))  # noqa: B023
            assert again is not None
            assert json.loads(again.body)["reason"] == "needs-final", f"step {step}"
            assert story.once(deposit) == 10_000
        if not steps.is_over:
            assert step > 8
            return


async def test_a_final_payment_survives_a_crash_at_every_step(tmp_path: Path) -> None:
    for step in count():
        story = Story(tmp_path / f"{step}.db", depositPct="0.2")
        deposit, final, steps = story.pays(10_000), story.pays(40_000), Steps(step, after=True)
        await story.process(Steps(), lambda gate: story.call(gate, claim_of(deposit, stage="deposit")))  # noqa: B023
        await story.process(steps, lambda gate: story.call(gate, claim_of(final, stage="final")))  # noqa: B023
        await story.recovered()
        assert story.task_state() in (TaskState.NEEDS_FINAL, TaskState.COMPLETED)
        again = await story.process(Steps(), lambda gate: story.call(gate, claim_of(final, stage="final")))  # noqa: B023
        assert again is not None
        assert (again.status, again.body, story.works) == (200, b"done", 1), f"step {step}"
        assert story.once(deposit, final) == 50_000
        if not steps.is_over:
            assert step > 8
            return


async def test_maintenance_survives_a_crash_at_every_step(tmp_path: Path) -> None:
    for step in count():
        story = Story(tmp_path / f"{step}.db")
        waiting, lost = story.pays(50_000), story.pays(50_000)
        crashed = Steps(7, after=True)  # while it is being sent
        await story.process(crashed, lambda gate: story.call(gate, claim_of(waiting)))  # noqa: B023
        assert crashed.is_over

        async def maintain(gate: PaymentGate) -> None:
            await gate.maintain()

        story.time += WORK_SECONDS
        steps = Steps(step, after=True)
        await story.process(steps, maintain)
        await story.recovered()
        assert story.once(waiting, lost) in (0, 50_000)
        if not steps.is_over:
            assert step > 3
            return
