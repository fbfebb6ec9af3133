"""A client that is written from the specification alone: the A2A task id names the task whose final part it pays, and
the claim's `configId` names the price. It sends no member of our own."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from overlay.systems.payments.aiohttp_gate import PAID_CONFIG as IN_REQUEST
from overlay.systems.payments.aiohttp_gate import middleware
from overlay.systems.payments.asgi_gate import PAID_CONFIG as IN_SCOPE
from overlay.systems.payments.asgi_gate import AsgiGate
from overlay.systems.payments.gate_answers import GateAnswer, StreamDelivery
from parsers.bitcoin.tx import Transaction
from tests.overlay.payments.fake_node import claim_of, price
from tests.overlay.payments.paid_server import PaidServer

TWO_STAGES = price(depositPct="0.2")


def call(claim: Any, method: str = "message/send", id_: str | None = None, **message: Any) -> bytes:
    parts = [{"type": "text", "text": "watch channel 7"}]
    if claim is not None:
        parts.append({"type": "data", "data": {"x-payment": claim}})
    params = {"message": {"role": "user", "parts": parts} | message} | ({} if id_ is None else {"id": id_})
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def stage(server: PaidServer, name: str, **members: Any) -> dict[str, Any]:
    satoshis = {"deposit": 10_000, "final": 40_000, "full": 50_000}[name]
    tx: Transaction = server.pays(satoshis)
    return claim_of(tx, stage=name, **members)


def error(answer: GateAnswer) -> dict[str, Any]:
    assert answer.status == 402
    data: dict[str, Any] = json.loads(answer.body)["error"]["data"]
    return data


@pytest.mark.parametrize("method", ["tasks/send", "tasks/sendSubscribe"])
async def test_the_id_of_tasks_send_names_the_task_whose_final_part_is_paid(server: PaidServer, method: str) -> None:
    server.with_prices(TWO_STAGES)
    id_ = str(uuid4())
    waiting = error(await server.call(body=call(stage(server, "deposit"), method, id_)))
    assert (waiting["reason"], waiting["taskId"]) == ("needs-final", id_)
    due = error(await server.call(body=call(None, method, id_)))
    assert [one["extra"]["stage"] for one in due["accepts"]] == ["final"]
    answer = await server.call(body=call(stage(server, "final"), method, id_))
    assert (answer.status, answer.body, server.payment_store.counted()) == (200, b"work 1", 50_000)


@pytest.mark.parametrize(
    "form",
    [
        {"kind": "task", "id": "ID", "status": {"state": "completed"}},
        {"id": "ID", "status": {"state": "completed"}},
        {"task": {"id": "ID", "status": {"state": "TASK_STATE_COMPLETED"}}},
        {"kind": "status-update", "taskId": "ID", "status": {"state": "completed"}},
        {"kind": "message", "messageId": "1", "taskId": "ID", "parts": []},
    ],
)
async def test_the_id_that_the_agent_gave_its_task_names_it_too(server: PaidServer, form: dict[str, Any]) -> None:
    server.with_prices(TWO_STAGES)
    id_ = str(uuid4())
    server.body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": form}).replace('"ID"', f'"{id_}"').encode()
    waiting = error(await server.call(body=call(stage(server, "deposit"))))
    other = error(await server.call(body=call(stage(server, "final"), taskId=str(uuid4()))))
    assert other["reason"] == "stage", "no task has this id"
    answer = await server.call(body=call(stage(server, "final"), taskId=id_))
    assert (answer.status, answer.body) == (200, server.body)
    error(await server.call(body=call(stage(server, "deposit"))))
    assert (await server.call(body=call(stage(server, "final"), taskId=waiting["taskId"]))).status == 402
    assert server.done == 2


async def test_the_id_in_the_402_names_the_task_as_well(server: PaidServer) -> None:
    server.with_prices(TWO_STAGES)
    waiting = error(await server.call(body=call(stage(server, "deposit"))))
    assert (await server.call(body=call(stage(server, "final"), taskId=waiting["taskId"]))).status == 200


async def test_messages_of_one_a2a_task_are_paid_each_and_answered_again(server: PaidServer) -> None:
    id_ = str(uuid4())
    claims = [stage(server, "full") for _ in range(3)]
    answers = [await server.call(body=call(claim, taskId=id_)) for claim in claims]
    assert [answer.body for answer in answers] == [b"work 1", b"work 2", b"work 3"]
    again = [await server.call(body=call(claim, taskId=id_)) for claim in claims]
    assert [answer.body for answer in again] == [b"work 1", b"work 2", b"work 3"]
    assert (server.done, server.payment_store.counted()) == (3, 150_000)
    elsewhere = await server.call(body=call(claims[1], taskId=str(uuid4())))
    assert error(elsewhere)["reason"] == "duplicate", "who does not know the task gets no answer"


async def test_a_later_deposit_in_one_a2a_task_is_finished_by_its_id(server: PaidServer) -> None:
    server.with_prices(TWO_STAGES)
    id_ = str(uuid4())
    for number in (1, 2, 3):
        error(await server.call(body=call(stage(server, "deposit"), taskId=id_)))
        answer = await server.call(body=call(stage(server, "final"), taskId=id_))
        assert (answer.status, answer.body) == (200, b"work %d" % number)


async def test_an_id_that_is_easily_guessed_names_no_task(server: PaidServer) -> None:
    server.with_prices(TWO_STAGES)
    for _ in range(2):  # also of two clients
        waiting = error(await server.call(body=call(stage(server, "deposit"), "tasks/send", "1")))
        assert len(waiting["taskId"]) >= 16
        assert error(await server.call(body=call(stage(server, "final"), "tasks/send", "1")))["reason"] == "stage"
        assert (await server.call(body=call(stage(server, "final"), "tasks/send", waiting["taskId"]))).status == 200


SKILLS = price(id="cheap", amount="0.0001", skillIds=["one"]), price(id="dear", skillIds=["two"])


async def test_the_config_id_of_the_claim_names_the_price_at_a_card_with_several_skills(server: PaidServer) -> None:
    server.with_prices(*SKILLS)
    missing = error(await server.call(body=call(None)))
    assert {one["extra"]["configId"] for one in missing["accepts"]} == {"cheap", "dear"}
    configs: list[str] = []
    for config, satoshis in (("cheap", 10_000), ("dear", 50_000)):
        delivery = StreamDelivery()

        async def work(delivery: StreamDelivery = delivery) -> GateAnswer:
            configs.append(delivery.config)
            return GateAnswer(200, (), b"done")

        body = call(claim_of(server.pays(satoshis), configId=config))
        assert (await server.gate.answer({}, body, work, delivery=delivery)).status == 200
    assert configs == ["cheap", "dear"], "the agent does what was paid for"
    too_little = call(claim_of(server.pays(10_000), configId="dear"))
    assert error(await server.call(body=too_little))["reason"] == "amount"


async def test_the_application_is_given_the_price_that_was_paid(server: PaidServer) -> None:
    server.with_prices(*SKILLS)
    configs: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        configs.append(request[IN_REQUEST])
        return web.Response(text="done")

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        configs.append(scope[IN_SCOPE])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": call(claim_of(server.pays(), configId="dear")), "more_body": False}

    async def send(message: Any) -> None:
        assert message.get("status", 200) == 200

    served = web.Application(middlewares=[middleware(server.gate, {"/": None})])
    served.router.add_post("/", handle)
    async with TestClient(TestServer(served)) as client:
        body = call(claim_of(server.pays(10_000), configId="cheap"))
        async with client.post("/", data=body) as response:
            assert response.status == 200
    await AsgiGate(app, server.gate, {"/": None})(
        {"type": "http", "method": "POST", "path": "/", "headers": []}, receive, send
    )
    assert configs == ["cheap", "dear"]
