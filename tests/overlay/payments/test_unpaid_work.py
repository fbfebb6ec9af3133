"""No work without its payment: whatever a request says, wherever a gate is mounted, and after a double spend."""

from __future__ import annotations

import json
from typing import Any

import pytest

from overlay.systems.payments.asgi_gate import AsgiGate
from overlay.systems.payments.gate import PaymentGate
from overlay.systems.payments.gate_answers import MAX_ANSWER_BYTES
from overlay.systems.payments.paid_paths import AmbiguousPathError, covering
from overlay.systems.payments.store_records import PaymentState
from overlay.text.timestamps import timestamp
from tests.overlay.payments.fake_node import claim_of, price
from tests.overlay.payments.paid_server import TASK, PaidServer, a2a, header, mcp, refusal

WATCH = "watchChannels"
DAY, YEAR = price(id="day", amount="0.00001", interval="day"), price(id="year", amount="0.1", interval="year")

BODIES = [
    b'{"channel":7}',
    b'{"channel":7,"method":"x"}',
    b'{"channel":7,"method":"tools/list"}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
    b'{"method":"tools/call","params":{"name":"zzz"}}',
    mcp("zzz"),
    a2a({"text": "do"}, metadata={"skillId": "nope"}),
]


@pytest.mark.parametrize("skill", [WATCH, "", "of no price"])
@pytest.mark.parametrize("body", BODIES)
async def test_the_body_of_a_plain_http_call_does_not_make_it_free(server: PaidServer, body: bytes, skill: str) -> None:
    server.with_prices(price(skillIds=[WATCH]))
    assert (await server.call(body=body, skill=skill)).status == 402
    assert server.done == 0


@pytest.mark.parametrize("prices", [[price()], [price(skillIds=[WATCH])], [price(skillIds=[WATCH]), price(id="q")]])
@pytest.mark.parametrize("body", [*BODIES[:3], *BODIES[4:], b'{"jsonrpc":"2.0","id":1,"method":"x"}'])
async def test_a_skill_that_nobody_prices_is_paid_like_any_other(
    server: PaidServer, body: bytes, prices: list[dict[str, Any]]
) -> None:
    server.with_prices(*prices)
    assert (await server.call(body=body)).status == 402
    paid = claim_of(server.pays(), configId=prices[-1]["id"])
    assert (await server.call(paid, body=body)).status == 200


async def test_a_call_that_may_be_for_any_of_several_prices_must_say_which(server: PaidServer) -> None:
    server.with_prices(price(id="cheap", amount="0.00001", skillIds=["one"]), price(id="dear", skillIds=["two"]))
    assert refusal_of_rpc(await server.call(body=a2a())) == (402, -32030, "missing")
    cheap = claim_of(server.pays(1_000), configId="cheap")
    assert refusal_of_rpc(await server.call(body=mcp("three", **{"x-payment": cheap}))) == (402, -32031, "skill")
    two = mcp("two", **{"x-payment": cheap})
    assert refusal_of_rpc(await server.call(body=two)) == (402, -32031, "unknown-config")
    by_header = {"A2B_Payment": json.dumps(cheap)}
    call = {"method": "tools/call", "params": {"name": "two"}}
    assert refusal(await server.call(body=json.dumps(call).encode(), **by_header)) == (402, -32031, "skill")
    unnamed = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "two"}).encode()
    assert refusal_of_rpc(await server.call(body=unnamed, **by_header)) == (402, -32031, "skill")
    dear = a2a({"data": {"x-payment": cheap}}, metadata={"skillId": "two"})
    assert refusal_of_rpc(await server.call(body=dear)) == (402, -32031, "unknown-config")
    nowhere = a2a({"data": {"x-payment": cheap | {"configId": "of-no-price"}}})
    assert refusal_of_rpc(await server.call(body=nowhere)) == (402, -32031, "unknown-config")
    assert server.done == 0


def refusal_of_rpc(answer: Any) -> tuple[int, int, str]:
    error = json.loads(answer.body)["error"]
    return answer.status, error["code"], error["data"]["reason"]


def test_a_card_without_a_price_guards_nothing_and_is_refused(server: PaidServer) -> None:
    with pytest.raises(ValueError, match="no price"):
        PaymentGate({"name": "An agent"}, server.payment_store, server.node)


@pytest.mark.parametrize("stage", ["full", "deposit"])
async def test_an_answer_that_is_too_large_to_be_withheld_is_neither_delivered_nor_charged(
    server: PaidServer, stage: str
) -> None:
    server.with_prices(price(depositPct="1"))
    server.body, tx = b"x" * (MAX_ANSWER_BYTES + 1), server.pays()
    answer = await server.call(claim_of(tx, stage=stage), A2B_Task=TASK)
    assert (answer.status, len(answer.body) < 500) == (500, True)
    assert server.payment_store.counted() == (0 if stage == "full" else 50_000)


async def test_a_renewal_by_another_price_does_not_lengthen_a_subscription(server: PaidServer) -> None:
    server.with_prices(DAY, YEAR)
    year = await server.call(claim_of(server.pays(10_000_000), configId="year"))
    named = {"A2B_Subscription": header(year, "A2B-Subscription")}
    day = await server.call(claim_of(server.pays(1_000), configId="day"), **named)
    assert header(day, "A2B-Paid-Until") < header(year, "A2B-Paid-Until")
    assert header(day, "A2B-Subscription") not in ("", header(year, "A2B-Subscription"))
    days = header(day, "A2B-Subscription")
    for _ in range(4):
        await server.call(claim_of(server.pays(1_000), configId="day"), A2B_Subscription=days)
    again = await server.call(claim_of(server.pays(10_000_000), configId="year"), A2B_Subscription=days)
    assert header(again, "A2B-Paid-Until") == header(year, "A2B-Paid-Until")  # one year, not five


async def test_a_double_spend_takes_back_the_interval_that_it_paid_for(server: PaidServer) -> None:
    server.with_prices(price(interval="month"))
    first, coin = await server.call(claim_of(server.pays())), server.node.mint(90_000)
    subscription = header(first, "A2B-Subscription")
    renewed = await server.call(claim_of(server.pays(coin=coin)), A2B_Subscription=subscription)
    server.node.double_spend(coin)
    await server.gate.maintain()
    stored = server.payment_store.paid_interval(subscription)
    assert stored is not None
    assert (stored.periods, timestamp(stored.paid_until)) == (1, header(first, "A2B-Paid-Until"))
    assert (await server.call(A2B_Subscription=subscription)).status == 200
    server.node.evict()  # the other one is gone
    await server.gate.maintain()
    restored = server.payment_store.paid_interval(subscription)
    assert restored is not None
    assert (restored.periods, timestamp(restored.paid_until)) == (2, header(renewed, "A2B-Paid-Until"))


async def test_a_subscription_whose_only_payment_was_double_spent_is_over(server: PaidServer) -> None:
    server.with_prices(price(interval="month"))
    coin = server.node.mint(90_000)
    tx = server.pays(coin=coin)
    subscription = header(await server.call(claim_of(tx), A2B_Task=TASK), "A2B-Subscription")
    server.node.double_spend(coin)
    await server.gate.maintain()
    assert server.state_of(tx) is PaymentState.CONFLICTED
    assert (await server.call(A2B_Subscription=subscription)).status == 402
    # nor does the client get the answer once more
    assert refusal(await server.call(claim_of(tx), A2B_Task=TASK)) == (402, -32031, "input-spent")


async def run_asgi(
    server: PaidServer, scope: dict[str, Any], *messages: dict[str, Any], paths: dict[str, str | None] | None = None
) -> list[Any]:
    """The messages that an application behind the gate sends for one connection."""
    sent: list[Any] = []
    arriving = iter(messages or ({"type": "http.request", "body": b"", "more_body": False},))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        server.done += 1
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            return
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"work"})

    async def receive() -> Any:
        return next(arriving)

    async def send(message: Any) -> None:
        sent.append(message)

    base = {"type": "http", "method": "POST", "headers": [], "path": "/paid"}
    await AsgiGate(app, server.gate, paths or {"/paid": ""})(base | scope, receive, send)
    return sent


@pytest.mark.parametrize(
    "scope", [{}, {"root_path": "/api"}, {"root_path": "/api", "path": "/api/paid"}, {"root_path": "/paid"}]
)
async def test_a_paid_path_is_paid_behind_any_root(server: PaidServer, scope: dict[str, Any]) -> None:
    assert (await run_asgi(server, scope))[0]["status"] == 402
    assert server.done == 0


async def test_other_paths_are_free_behind_any_root(server: PaidServer) -> None:
    for scope in ({"path": "/free"}, {"path": "/api/free", "root_path": "/api"}, {"path": "/apipaid", "root_path": ""}):
        assert (await run_asgi(server, scope))[0]["status"] == 200


PREFLIGHT = [(b"origin", b"https://a.example"), (b"access-control-request-method", b"POST")]


@pytest.mark.parametrize(
    "path",
    ["/paid", "/paid/", "/paid/below", "//paid", "/paid//x", "/x/../paid", "/paid/.", "/paid/../free", "/paid/.."],
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "options", "X"])
async def test_every_method_on_a_paid_path_and_below_is_paid(server: PaidServer, method: str, path: str) -> None:
    body = {"type": "http.request", "body": b'{"jsonrpc":"2.0","id":1,"method":"message/send"}', "more_body": False}
    for messages in ((), (body,)):
        sent = await run_asgi(server, {"method": method, "path": path}, *messages)
        assert sent[0]["status"] == 402
    for headers in ([], PREFLIGHT[:1], PREFLIGHT[1:], PREFLIGHT):
        sent = await run_asgi(server, {"method": method, "path": path, "headers": headers}, body)
        assert sent[0]["status"] == 402
    assert server.done == 0


async def test_only_a_preflight_is_free_on_a_paid_path(server: PaidServer) -> None:
    assert (await run_asgi(server, {"method": "OPTIONS", "headers": PREFLIGHT}))[0]["status"] == 200
    assert (await run_asgi(server, {"method": "POST", "headers": PREFLIGHT}))[0]["status"] == 402
    assert server.done == 1


async def test_a_header_that_is_sent_twice_counts_with_all_its_values(server: PaidServer) -> None:
    claim, other = (json.dumps(claim_of(server.pays())).encode() for _ in range(2))
    body = {"type": "http.request", "body": b"call", "more_body": False}
    twice = [(b"content-encoding", b"gzip"), (b"content-encoding", b"identity"), (b"a2b-payment", claim)]
    for headers in (twice, [(b"a2b-payment", other), (b"A2B-Payment", claim)]):
        sent = await run_asgi(server, {"headers": headers}, body, paths={"/paid": None})
        assert (sent[0]["status"], server.done) == (402, 0)


async def test_connections_of_other_types_do_not_reach_a_paid_path(server: PaidServer) -> None:
    with pytest.raises(ValueError, match="webtransport"):
        await run_asgi(server, {"type": "webtransport"})
    assert server.done == 0


@pytest.mark.parametrize(
    ("path", "paid"),
    [("/a", "/a"), ("/a/", "/a"), ("/a/b/c", "/a/b"), ("/ab", None), ("/", None), ("/b/a", None), ("/a/../b", "/a"),
     ("/b/../c/x", "/c"), ("/b/./..", None)],
)  # fmt: skip
def test_the_longest_path_that_covers_a_request_is_its_price(path: str, paid: str | None) -> None:
    assert covering(path, ["/a", "/a/b/", "/c"]) == (f"{paid}/" if paid == "/a/b" else paid)
    assert covering(path, ["/"]) == "/"


@pytest.mark.parametrize("path", ["/a/../c", "/c/x/../../a/b", "/a/./b", "/a//b"])
def test_a_path_that_routers_may_read_as_of_another_price_has_none(path: str) -> None:
    with pytest.raises(AmbiguousPathError, match="more than one price"):
        covering(path, ["/a", "/a/b/", "/c"])


async def test_a_path_of_two_prices_is_no_call(server: PaidServer) -> None:
    sent = await run_asgi(server, {"path": "/paid/../dear"}, paths={"/paid": "", "/dear": ""})
    assert (sent[0]["status"], server.done) == (400, 0)


async def test_no_work_is_done_over_a_websocket(server: PaidServer) -> None:
    sent = await run_asgi(server, {"type": "websocket", "root_path": "/api", "path": "/api/paid"})
    assert [message["type"] for message in sent] == ["websocket.close"]
    assert server.done == 0


async def test_half_a_call_is_neither_done_nor_charged(server: PaidServer) -> None:
    claim = json.dumps(claim_of(server.pays())).encode()
    half = {"type": "http.request", "body": b"half", "more_body": True}
    sent = await run_asgi(server, {"headers": [(b"a2b-payment", claim)]}, half, {"type": "http.disconnect"})
    assert (sent, server.done, server.node.sent) == ([], 0, [])


@pytest.mark.parametrize("text", ["\0", "\ud800", "of-another-server\0", "x" * 300])
async def test_no_text_of_a_stranger_is_an_error_of_the_database(server: PaidServer, text: str) -> None:
    server.with_prices(price(interval="month", depositPct="0.2"))
    meta = {"x-payment-task": text, "x-payment-subscription": text}
    for claim in (
        None,
        claim_of(server.pays(), refundAddress=text),
        claim_of(server.pays(), configId=text),
        {"stage": text},
    ):
        body = mcp(text, **meta, **{"x-payment": claim})
        answer = await server.call(body=body, A2B_Subscription=text, A2B_Task=text)
        assert (answer.status, server.done) == (402, 0), claim
