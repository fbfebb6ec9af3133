"""Streams that end early: once parts have gone out they are paid for, however the stream ends; before that they are
given back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from indexer.errors import SourceUnavailableError
from indexer.store.payment_records import TaskState
from overlay.systems.payments.asgi_gate import AsgiGate
from overlay.systems.payments.settlement import GRACE_SECONDS, LEASE_SECONDS, WORK_SECONDS
from tests.overlay.payments.crashing import Crash
from tests.overlay.payments.desk import TASK, Desk, refusal
from tests.overlay.payments.fake_node import PAYER, SERVER, address_of, claim_of, payment, price, script_of

PARTS = [b"data: one\n\n", b"data: two\n\n", b"data: three\n\n"]
CANCELED = b'data: {"jsonrpc":"2.0","id":1,"result":{"status":{"state":"canceled"}}}\n\n'
CALL = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": {"parts": []}}}
ENDINGS = ["cancelled", "error", "disconnect", "crash", "late"]


class Stream:
    """One streamed call at a desk. `delivered` are the parts that the client received."""

    def __init__(self, desk: Desk, **members: Any) -> None:
        desk.with_prices(price(depositPct="0.2"))
        self.desk, self.sent, self.members = desk, list[dict[str, Any]](), members
        self.satoshis = 10_000 if members.get("stage") == "deposit" else 50_000
        coin = desk.node.mint(90_000)
        self.tx = payment([coin], [(self.satoshis, script_of(SERVER)), (30_000, script_of(PAYER))], desk.node)
        self.coin = coin

    @property
    def delivered(self) -> list[bytes]:
        bodies = [message["body"] for message in self.sent if message["type"] == "http.response.body"]
        return [body for body in bodies if body.startswith(b"data: ")]

    async def run(self, app: Callable[[Any], Any]) -> None:
        """Answer the call by an application, which gets a function that sends a part."""
        claim = claim_of(self.tx, refundAddress=address_of(PAYER), **self.members)
        headers = [(b"a2b-payment", json.dumps(claim).encode()), (b"a2b-task", TASK.encode())]
        scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}

        async def streaming(_scope: Any, _receive: Any, send: Any) -> None:
            head = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": head})
            await app(lambda part: send({"type": "http.response.body", "body": part, "more_body": True}))

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": json.dumps(CALL).encode(), "more_body": False}

        async def send(message: Any) -> None:
            self.sent.append(dict(message))

        await AsgiGate(streaming, self.desk.gate, {"/": None})(scope, receive, send)

    async def end(self, ending: str, parts: list[bytes]) -> None:
        """Send parts, and end in some way; then let a day of maintenance pass, in a new process."""

        async def app(deliver: Any) -> None:
            for part in parts:
                await deliver(part)
            match ending:
                case "cancelled":
                    await deliver(CANCELED)
                case "error":
                    raise RuntimeError("the agent failed")
                case "disconnect":
                    raise asyncio.CancelledError
                case "crash":
                    raise Crash
                case _:
                    self.desk.time += WORK_SECONDS + 1
                    await self.desk.gate.maintain()
                    await deliver(PARTS[2])

        with suppress(RuntimeError, asyncio.CancelledError, Crash):
            await self.run(app)
        self.desk.gate = self.desk.new_gate()
        for seconds in (LEASE_SECONDS, WORK_SECONDS, GRACE_SECONDS + 1):
            self.desk.time += seconds
            await self.desk.gate.maintain()


@pytest.mark.parametrize("stage", ["full", "deposit"])
@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_stream_that_ends_after_parts_were_delivered_is_paid(desk: Desk, stage: str, ending: str) -> None:
    stream = Stream(desk, stage=stage)
    await stream.end(ending, PARTS[:2])
    assert stream.delivered[:1] == PARTS[:1]
    assert (desk.ledger.counted(), len(desk.node.sent)) == (stream.satoshis, 1)
    assert desk.ledger.refunds() == []
    assert desk.task() is (TaskState.COMPLETED if stage == "full" else TaskState.FAILED)


@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_stream_that_ends_before_a_part_was_delivered_gives_its_full_payment_back(
    desk: Desk, ending: str
) -> None:
    stream = Stream(desk)
    await stream.end(ending, [])
    if ending == "cancelled":
        assert stream.delivered == [CANCELED], "it was the only part, and of failed work"
    assert (desk.ledger.counted(), desk.node.sent, desk.task()) == (0, [], TaskState.FAILED)


@pytest.mark.parametrize("ending", [one for one in ENDINGS if one != "late"])
async def test_a_stream_that_ends_before_a_part_was_delivered_has_its_deposit_refunded(desk: Desk, ending: str) -> None:
    stream = Stream(desk, stage="deposit")
    await stream.end(ending, [])
    assert [task.id for task in desk.ledger.refunds()] == [TASK]


async def test_no_part_is_delivered_for_a_coin_that_was_spent_while_the_work_began(desk: Desk) -> None:
    stream = Stream(desk)

    async def app(deliver: Any) -> None:
        await deliver(PARTS[0])
        desk.node.double_spend(stream.coin)
        for part in PARTS[1:]:
            await deliver(part)

    await stream.run(app)
    assert (stream.sent[0]["status"], stream.delivered, desk.ledger.counted()) == (402, [], 0)


async def test_an_application_that_goes_on_after_a_refusal_delivers_nothing(desk: Desk) -> None:
    stream = Stream(desk)

    async def app(deliver: Any) -> None:
        await deliver(PARTS[0])
        desk.node.double_spend(stream.coin)
        for part in PARTS[1:]:
            try:
                await deliver(part)
            except Exception:  # noqa: S112 - as some applications do
                continue

    await stream.run(app)
    assert (stream.sent[0]["status"], stream.delivered, desk.ledger.counted()) == (402, [], 0)


async def test_while_the_node_does_not_answer_a_stream_is_withheld_and_there_later(desk: Desk) -> None:
    stream = Stream(desk)

    async def accept_without_answer(raw: bytes) -> None:
        await send(raw)
        desk.node.down = True
        raise SourceUnavailableError("no answer")

    async def app(deliver: Any) -> None:
        for part in PARTS:
            await deliver(part)

    send, desk.node.send = desk.node.send, accept_without_answer  # type: ignore[method-assign]
    await stream.run(app)
    assert (stream.sent[0]["status"], stream.delivered) == (503, [])
    desk.node.down, desk.node.send = False, send  # type: ignore[method-assign]
    desk.time += LEASE_SECONDS
    await desk.gate.maintain()
    answer = await desk.call(claim_of(stream.tx), A2B_Task=TASK)
    assert (answer.status, answer.body, desk.ledger.counted()) == (200, b"".join(PARTS), 50_000)


async def test_a_stream_that_ends_well_gives_its_last_part_again(desk: Desk) -> None:
    stream = Stream(desk)

    async def app(deliver: Any) -> None:
        for part in PARTS:
            await deliver(part)

    await stream.run(app)
    assert (stream.delivered, desk.ledger.counted()) == (PARTS, 50_000)
    answer = await desk.call(claim_of(stream.tx), A2B_Task=TASK)
    assert (answer.status, answer.body) == (200, PARTS[2])
    desk.time += 2 * 86_400
    await desk.gate.maintain()
    assert refusal(await desk.call(claim_of(stream.tx), A2B_Task=TASK)) == (402, -32032, "answer-gone")
