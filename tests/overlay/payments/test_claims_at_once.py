"""Equal claims for one task at the same time: the client pays once, and every call has the answer."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from overlay.systems.payments import paid_work
from overlay.systems.payments.gate_answers import GateAnswer
from overlay.systems.payments.store_records import TaskState
from tests.overlay.payments.fake_node import PAYER, SERVER, address_of, claim_of, payment, price, script_of
from tests.overlay.payments.paid_server import TASK, PaidServer, header, refusal
from tests.waiting import PATIENCE, until

CALLS = 8


class SlowWork:
    """Work that ends when a test says so, each time with one of these statuses, then with 200."""

    def __init__(self, server: PaidServer, *statuses: int) -> None:
        self.server, self.statuses, self.may_end = server, list(statuses), asyncio.Event()

    async def __call__(self) -> GateAnswer:
        self.server.done += 1
        number = self.server.done
        await self.may_end.wait()
        status = self.statuses.pop(0) if self.statuses else 200
        return GateAnswer(status, (("Content-Type", "text/plain"),), b"work %d" % number)

    async def call(self, claim: Any, task: str = TASK) -> GateAnswer:
        """Through a gate of its own, as another process has it."""
        carried = {"A2B-Payment": json.dumps(claim), "A2B-Task": task}
        return await self.server.new_gate().answer(carried, b"", self)

    async def at_once(self, claim: Any) -> list[GateAnswer]:
        """The answers of many calls, of which one began its work, and the others waited for a while."""
        before = self.server.done
        calls = [asyncio.create_task(self.call(claim)) for _ in range(CALLS)]
        await until(lambda: self.server.done > before)
        await asyncio.sleep(2 * paid_work.POLL_SECONDS)
        self.may_end.set()
        return await asyncio.gather(*calls)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paid_work, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(paid_work, "WAIT_SECONDS", 60.0)


async def test_all_have_the_answer_of_one_that_is_paid_once(server: PaidServer) -> None:
    answers = await SlowWork(server).at_once(claim_of(server.pays()))
    assert [(answer.status, answer.body) for answer in answers] == [(200, b"work 1")] * CALLS
    assert {header(answer, "A2B-Task") for answer in answers} == {TASK}
    assert (server.done, len(server.node.sent), server.payment_store.counted()) == (1, 1, 50_000)


async def test_both_stages_are_paid_once(server: PaidServer) -> None:
    server.with_prices(price(depositPct="0.2"))
    work = SlowWork(server)
    deposit = claim_of(server.pays(10_000), stage="deposit", refundAddress=address_of(PAYER))
    assert [refusal(answer) for answer in await work.at_once(deposit)] == [(402, -32033, "needs-final")] * CALLS
    final = claim_of(server.pays(40_000), stage="final")
    answers = await asyncio.gather(*(work.call(final) for _ in range(CALLS)))
    assert [(answer.status, answer.body) for answer in answers] == [(200, b"work 1")] * CALLS
    assert (server.done, len(server.node.sent), server.payment_store.counted()) == (1, 2, 50_000)


async def test_after_ten_seconds_they_are_to_come_back(server: PaidServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paid_work, "WAIT_SECONDS", 0.5)
    work, claim = SlowWork(server), claim_of(server.pays())
    calls = [asyncio.create_task(work.call(claim)) for _ in range(CALLS)]
    await until(lambda: sum(call.done() for call in calls) == CALLS - 1)
    ended = [call.result() for call in calls if call.done()]
    assert [answer.status for answer in ended] == [503] * (CALLS - 1)
    assert all(int(header(answer, "Retry-After")) > 0 for answer in ended)
    work.may_end.set()
    assert sorted(answer.status for answer in await asyncio.gather(*calls)) == [200, *[503] * (CALLS - 1)]
    again = await work.call(claim)
    assert (again.status, again.body, server.done) == (200, b"work 1", 1)


async def test_where_the_work_fails_the_next_one_does_it(server: PaidServer) -> None:
    answers = await SlowWork(server, 500).at_once(claim_of(server.pays()))
    statuses = sorted(answer.status for answer in answers)
    assert set(statuses) <= {200, 500, 503}, [answer.body for answer in answers if answer.status == 402]
    assert statuses.count(500) == 1
    assert {answer.body for answer in answers if answer.status == 200} <= {b"work 2"}
    assert all(int(header(answer, "Retry-After")) > 0 for answer in answers if answer.status == 503)
    assert server.payment_store.counted() == 50_000 * (200 in statuses)


async def test_other_claims_are_judged_at_once(server: PaidServer) -> None:
    coin = server.node.mint(90_000)
    first, rival = (payment([coin], [(amount, script_of(SERVER))], server.node) for amount in (50_000, 51_000))
    work = SlowWork(server)
    call = asyncio.create_task(work.call(claim_of(first)))
    await until(lambda: server.done == 1)
    async with asyncio.timeout(PATIENCE):
        assert refusal(await work.call(claim_of(first), "another-task-of-it-2")) == (402, -32031, "duplicate")
        assert refusal(await work.call(claim_of(rival), "another-task-of-it-2")) == (402, -32031, "duplicate")
        assert (await work.call(claim_of(rival))).status == 402
    assert server.task() is TaskState.RUNNING
    work.may_end.set()
    assert (await call).status == 200
