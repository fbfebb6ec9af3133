"""The limits of what a gate sells at once: to one payer, and to all."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from overlay.systems.payments.gate import PaymentGate
from overlay.systems.payments.gate_limits import PAYERS, GateLimits
from tests.overlay.payments.fake_node import SERVER, claim_of, payment, price, script_of
from tests.overlay.payments.paid_server import PaidServer, header


def limited(server: PaidServer, limits: str) -> None:
    server.gate = PaymentGate(
        server.prices, server.payment_store, server.node, limits=limits, clock=lambda: server.time
    )


def paid_by(server: PaidServer, key: int, satoshis: int = 50_000) -> dict[str, Any]:
    coin = server.node.mint(satoshis + 40_000, bytes([key]) * 32)
    return claim_of(payment([coin], [(satoshis, script_of(SERVER))], server.node, bytes([key]) * 32))


async def test_a_payer_beyond_its_requests_waits_and_nothing_of_it_is_reserved_or_sent(server: PaidServer) -> None:
    limited(server, "requests=2/60")
    assert [(await server.call(paid_by(server, 1))).status for _ in range(2)] == [200, 200]
    claim = paid_by(server, 1)
    answer = await server.call(claim)
    assert (answer.status, header(answer, "Retry-After")) == (429, "30")
    assert "30 seconds" in json.loads(answer.body)["detail"]
    assert (server.done, len(server.node.sent), server.payment_store.counted()) == (2, 2, 100_000)
    assert (await server.call(paid_by(server, 2))).status == 200, "another payer"
    server.time += 29
    assert header(await server.call(claim), "Retry-After") == "1"
    server.time += 1
    assert (await server.call(claim)).status == 200, "the same claim, later"


async def test_a_json_rpc_call_beyond_the_limit_gets_an_error_and_429(server: PaidServer) -> None:
    limited(server, "requests=1/60")
    body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "t"}}).encode()
    server.body = b'{"jsonrpc":"2.0","id":7,"result":{}}'
    assert (await server.call(paid_by(server, 1), body)).status == 200
    answer = await server.call(paid_by(server, 1), body)
    error = json.loads(answer.body)
    assert (answer.status, error["id"], error["error"]["message"]) == (429, 7, "PaymentLimited")


async def test_all_payers_together_have_a_limit(server: PaidServer) -> None:
    limited(server, "requests=1/60")
    statuses = [(await server.call(paid_by(server, key))).status for key in range(1, PAYERS + 2)]
    assert statuses == [200] * PAYERS + [429]
    limited(server, "requests=1/60 all-requests=2/60")
    assert [(await server.call(paid_by(server, key))).status for key in (1, 2, 3)] == [200, 200, 429]


async def test_satoshis_are_limited_and_a_payment_above_the_limit_waits_for_a_full_bucket(server: PaidServer) -> None:
    limited(server, "satoshis=60000/10")
    assert (await server.call(paid_by(server, 1))).status == 200
    answer = await server.call(paid_by(server, 1))
    assert (answer.status, header(answer, "Retry-After")) == (429, "7")
    server.time += 9
    assert (await server.call(paid_by(server, 1, 120_000))).status == 200
    assert header(await server.call(paid_by(server, 1)), "Retry-After") == "19"


async def test_a_paid_interval_is_limited_by_its_calls(server: PaidServer) -> None:
    server.with_prices(price(interval="P1M"))
    limited(server, "requests=2/60")
    first = await server.call(paid_by(server, 1), A2B_Subscription="subscription-0001")
    id_ = header(first, "A2B-Subscription")
    statuses = [(await server.call(A2B_Subscription=id_)).status for _ in range(3)]
    assert (first.status, statuses) == (200, [200, 200, 429])


async def test_a_repeated_call_gets_its_answer_beyond_the_limit(server: PaidServer) -> None:
    limited(server, "requests=1/60")
    claim = paid_by(server, 1)
    answers = [await server.call(claim, A2B_Task="task-of-the-client-0001") for _ in range(3)]
    assert {(answer.status, answer.body) for answer in answers} == {(200, b"work 1")}


@pytest.mark.parametrize("text", ["requests=0/60", "requests=60", "calls=1/1", "requests=1/1 requests=2/2", "x"])
def test_a_limit_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a limit"):
        GateLimits(text, lambda: 0.0)


def test_buckets_that_are_full_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overlay.systems.payments.gate_limits.MAX_BUCKETS", 10)
    now = [0.0]
    clock: Callable[[], float] = lambda: now[0]  # noqa: E731
    limits = GateLimits("requests=1/1 all-requests=1000/1", clock)
    for number in range(100):
        now[0] += 0.5
        assert limits.take(f"payer {number}", 0) == 0
        assert limits.take(f"payer {number}", 0) == 1
