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
from overlay.systems.payments.asgi_gate import AsgiGate
from overlay.systems.payments.carriers import PaidCall
from overlay.systems.payments.gate_answers import GateAnswer, is_failed
from overlay.systems.payments.settlement import GRACE_SECONDS, LEASE_SECONDS, WORK_SECONDS
from overlay.systems.payments.store_records import TaskState
from tests.overlay.payments.crashing import Crash
from tests.overlay.payments.fake_node import PAYER, SERVER, address_of, claim_of, payment, price, script_of
from tests.overlay.payments.paid_server import TASK, PaidServer, refusal

PARTS = [b"data: one\n\n", b"data: two\n\n", b"data: three\n\n"]
CANCELED = b'data: {"jsonrpc":"2.0","id":1,"result":{"status":{"state":"canceled"}}}\n\n'
CALL = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": {"parts": []}}}
ENDINGS = ["cancelled", "error", "disconnect", "crash", "late"]


class Stream:
    """One streamed call at a server. `delivered` are the parts that the client received."""

    def __init__(self, server: PaidServer, **members: Any) -> None:
        server.with_prices(price(depositPct="0.2"))
        self.server, self.sent, self.members = server, list[dict[str, Any]](), members
        self.satoshis = 10_000 if members.get("stage") == "deposit" else 50_000
        coin = server.node.mint(90_000)
        self.tx = payment([coin], [(self.satoshis, script_of(SERVER)), (30_000, script_of(PAYER))], server.node)
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

        await AsgiGate(streaming, self.server.gate, {"/": None})(scope, receive, send)

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
                    self.server.time += WORK_SECONDS + 1
                    await self.server.gate.maintain()
                    await deliver(PARTS[2])

        with suppress(RuntimeError, asyncio.CancelledError, Crash):
            await self.run(app)
        self.server.gate = self.server.new_gate()
        for seconds in (LEASE_SECONDS, WORK_SECONDS, GRACE_SECONDS + 1):
            self.server.time += seconds
            await self.server.gate.maintain()


@pytest.mark.parametrize("stage", ["full", "deposit"])
@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_stream_that_ends_after_parts_were_delivered_is_paid(
    server: PaidServer, stage: str, ending: str
) -> None:
    stream = Stream(server, stage=stage)
    await stream.end(ending, PARTS[:2])
    assert stream.delivered[:1] == PARTS[:1]
    assert (server.payment_store.counted(), len(server.node.sent)) == (stream.satoshis, 1)
    assert server.payment_store.refunds() == []
    assert server.task() is (TaskState.COMPLETED if stage == "full" else TaskState.FAILED)


@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_stream_that_ends_before_a_part_was_delivered_gives_its_full_payment_back(
    server: PaidServer, ending: str
) -> None:
    stream = Stream(server)
    await stream.end(ending, [])
    if ending == "cancelled":
        assert stream.delivered == [CANCELED], "it was the only part, and of failed work"
    assert (server.payment_store.counted(), server.node.sent, server.task()) == (0, [], TaskState.FAILED)


@pytest.mark.parametrize("ending", [one for one in ENDINGS if one != "late"])
async def test_a_stream_that_ends_before_a_part_was_delivered_has_its_deposit_refunded(
    server: PaidServer, ending: str
) -> None:
    stream = Stream(server, stage="deposit")
    await stream.end(ending, [])
    assert [task.id for task in server.payment_store.refunds()] == [TASK]


async def test_no_part_is_delivered_for_a_coin_that_was_spent_while_the_work_began(server: PaidServer) -> None:
    stream = Stream(server)

    async def app(deliver: Any) -> None:
        await deliver(PARTS[0])
        server.node.double_spend(stream.coin)
        for part in PARTS[1:]:
            await deliver(part)

    await stream.run(app)
    assert (stream.sent[0]["status"], stream.delivered, server.payment_store.counted()) == (402, [], 0)


async def test_an_application_that_goes_on_after_a_refusal_delivers_nothing(server: PaidServer) -> None:
    stream = Stream(server)

    async def app(deliver: Any) -> None:
        await deliver(PARTS[0])
        server.node.double_spend(stream.coin)
        for part in PARTS[1:]:
            try:
                await deliver(part)
            except Exception:  # noqa: S112 - as some applications do
                continue

    await stream.run(app)
    assert (stream.sent[0]["status"], stream.delivered, server.payment_store.counted()) == (402, [], 0)


async def test_while_the_node_does_not_answer_a_stream_is_withheld_and_there_later(server: PaidServer) -> None:
    stream = Stream(server)

    async def accept_without_answer(raw: bytes) -> None:
        await send(raw)
        server.node.down = True
        raise SourceUnavailableError("no answer")

    async def app(deliver: Any) -> None:
        for part in PARTS:
            await deliver(part)

    send, server.node.send = server.node.send, accept_without_answer  # type: ignore[method-assign]
    await stream.run(app)
    assert (stream.sent[0]["status"], stream.delivered) == (503, [])
    server.node.down, server.node.send = False, send  # type: ignore[method-assign]
    server.time += LEASE_SECONDS
    await server.gate.maintain()
    answer = await server.call(claim_of(stream.tx), A2B_Task=TASK)
    assert (answer.status, answer.body, server.payment_store.counted()) == (200, b"".join(PARTS), 50_000)


async def test_a_stream_that_ends_well_gives_its_last_part_again(server: PaidServer) -> None:
    stream = Stream(server)

    async def app(deliver: Any) -> None:
        for part in PARTS:
            await deliver(part)

    await stream.run(app)
    assert (stream.delivered, server.payment_store.counted()) == (PARTS, 50_000)
    answer = await server.call(claim_of(stream.tx), A2B_Task=TASK)
    assert (answer.status, answer.body) == (200, PARTS[2])
    server.time += 2 * 86_400
    await server.gate.maintain()
    assert refusal(await server.call(claim_of(stream.tx), A2B_Task=TASK)) == (402, -32032, "answer-gone")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_failed_work_is_seen_in_a_stream_with_any_ends_of_lines(end: str) -> None:
    body = (PARTS[0] + CANCELED).decode().replace("\n", end).encode()
    assert is_failed(GateAnswer(200, (), body), PaidCall(rpc=[1]))
    assert not is_failed(GateAnswer(200, (), body.replace(b"canceled", b"completed")), PaidCall(rpc=[1]))
