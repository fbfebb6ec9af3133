"""The gate in front of real servers: aiohttp, and any application of ASGI, whose streams lack their end until paid."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, MutableMapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestClient, TestServer

from overlay.systems.payments.aiohttp_gate import middleware
from overlay.systems.payments.asgi_gate import MAX_BODY_BYTES, AsgiGate
from overlay.systems.payments.gate import PaymentGate
from overlay.systems.payments.store import PaymentStore
from parsers.bitcoin.tx import read_exactly
from tests.overlay.payments.fake_node import SERVER, FakeNode, claim_of, payment, price, script_of
from tests.waiting import stop

TASK = "task-of-the-client-0001"


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


@pytest.fixture
def payment_store(tmp_path: Path) -> Iterator[PaymentStore]:
    payment_store = PaymentStore.open(f"sqlite:///{tmp_path / 'payments.db'}")
    yield payment_store
    payment_store.close()


def paying(node: FakeNode, satoshis: int = 50_000, **members: Any) -> dict[str, str]:
    tx = payment([node.mint(90_000)], [(satoshis, script_of(SERVER))], node)
    return {"A2B-Payment": json.dumps(claim_of(tx, **members)), "A2B-Task": TASK}


@pytest.fixture
async def client(node: FakeNode, payment_store: PaymentStore) -> AsyncIterator[ClientSession]:
    """A client of an aiohttp server with a paid path, a path that answers by exception, and a free one."""

    async def echo(request: web.Request) -> web.Response:
        return web.Response(text=f"echo {await request.text()}", headers={"X-Own": "1"})

    async def refuse(_request: web.Request) -> web.Response:
        raise web.HTTPNotFound(text="nothing here")

    gate = PaymentGate([price()], payment_store, node)
    app = web.Application(middlewares=[middleware(gate, {"/paid": None, "/none": None})])
    app.add_routes([web.post("/paid", echo), web.post("/none", refuse), web.post("/free", echo)])
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        async with ClientSession(f"http://{host}:{port}") as session:
            yield session
    finally:
        await stop(runner)


async def test_aiohttp_answers_what_is_paid_for(client: ClientSession, node: FakeNode) -> None:
    async with client.post("/free", data="a") as response:
        assert await response.text() == "echo a"
    async with client.post("/paid", data="a") as response:
        body = await response.json()
        assert (response.status, body["code"]) == (402, -32030)
        assert body["accepts"][0]["resource"].endswith("/paid")
    async with client.post("/paid", data="a", headers=paying(node)) as response:
        assert (response.status, await response.text(), response.headers["X-Own"]) == (200, "echo a", "1")
        assert response.headers["A2B-Task"] == TASK
    assert len(node.sent) == 1


async def test_aiohttp_gives_back_what_an_exception_did_not_earn(client: ClientSession, node: FakeNode) -> None:
    async with client.post("/none", headers=paying(node)) as response:
        assert (response.status, await response.text()) == (404, "nothing here")
    assert node.sent == []


PREFLIGHT = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}


async def test_aiohttp_lets_only_a_preflight_through(payment_store: PaymentStore, node: FakeNode) -> None:
    done: list[str] = []

    async def work(request: web.Request) -> web.Response:
        done.append(request.method)
        return web.Response(text="work")

    async def ask(client: ClientSession, method: str, path: str, **request: Any) -> int:
        async with client.request(method, path, **request) as response:
            return response.status

    for prefix in ("", "/api"):
        app = web.Application(middlewares=[middleware(PaymentGate([price()], payment_store, node), {"/paid": ""})])
        app.router.add_route("*", "/{any:.*}", work)
        outer = web.Application() if prefix else app
        if prefix:
            outer.add_subapp(prefix, app)
        async with TestClient(TestServer(outer)) as client:
            for path in (f"{prefix}/paid", f"{prefix}/paid/", f"{prefix}/paid/below"):
                for method in ("GET", "HEAD", "POST", "PUT", "OPTIONS", "TRACE"):
                    for headers in ({}, PREFLIGHT):
                        assert await ask(client, method, path, data="call", headers=headers) == 402
                assert await ask(client, "OPTIONS", path) == 402
                assert done == []
                assert await ask(client, "OPTIONS", path, headers=PREFLIGHT) == 200
                done.clear()


@pytest.mark.parametrize("prefix", ["", "/api"])
@pytest.mark.parametrize("path", ["/paid/../free", "/paid/%2e%2e/free", "/paid/..%2Fx/../free", "/paid/.."])
async def test_dots_leave_no_paid_path(payment_store: PaymentStore, node: FakeNode, prefix: str, path: str) -> None:
    async def work(_request: web.Request) -> web.Response:
        raise AssertionError("unpaid work")

    app = web.Application(middlewares=[middleware(PaymentGate([price()], payment_store, node), {"/paid": ""})])
    app.router.add_route("*", "/{any:.*}", work)
    outer = web.Application() if prefix else app
    if prefix:
        outer.add_subapp(prefix, app)
    async with TestServer(outer) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)  # clients resolve dots themselves
        writer.write(f"GET {prefix}{path} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n".encode())
        assert (await reader.read()).split(b"\r\n")[0] == b"HTTP/1.1 402 Payment Required"
        writer.close()


async def test_a_paid_path_of_a_sub_application_is_paid(payment_store: PaymentStore, node: FakeNode) -> None:
    async def echo(_request: web.Request) -> web.Response:
        return web.Response(text="work")

    below = web.Application(middlewares=[middleware(PaymentGate([price()], payment_store, node), {"/paid": ""})])
    below.add_routes([web.post("/paid", echo), web.post("/free", echo)])
    app = web.Application()
    app.add_subapp("/api", below)
    async with TestClient(TestServer(app)) as client:
        for path, status in (("/api/paid", 402), ("/api/free", 200)):
            async with client.post(path) as response:
                assert response.status == status
        async with client.post("/api/paid", headers=paying(node)) as response:
            assert (response.status, await response.text()) == (200, "work")
        async with client.get("/api/paid", headers={"Upgrade": "websocket", "Connection": "Upgrade"}) as response:
            assert response.status == 403


Message = MutableMapping[str, Any]


async def streaming(scope: Message, receive: Any, send: Any) -> None:
    """An ASGI application: three events, or one answer of what it got."""
    message = await receive()
    if scope["path"] == "/events":
        head = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        for number in range(3):
            await send({"type": "http.response.body", "body": b"data: %d\n\n" % number, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return
    body = b"echo " + message["body"]
    head = [(b"content-length", b"%d" % len(body)), (b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body[:3], "more_body": True})
    await send({"type": "http.response.body", "body": body[3:]})


def asgi(payment_store: PaymentStore, node: FakeNode, **members: Any) -> httpx.AsyncClient:
    gate = PaymentGate([price(**members)], payment_store, node)
    app = AsgiGate(streaming, gate, {"/paid": None, "/events": None})
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server.example")


async def test_asgi_answers_what_is_paid_for(payment_store: PaymentStore, node: FakeNode) -> None:
    async with asgi(payment_store, node) as client:
        assert (await client.post("/free", content=b"a")).text == "echo a"
        assert (await client.post("/paid", content=b"a")).status_code == 402
        paid = await client.post("/paid", content=b"a", headers=paying(node))
        assert (paid.status_code, paid.text, paid.headers["a2b-task"]) == (200, "echo a", TASK)
        assert (await client.post("/paid", content=b" " * (MAX_BODY_BYTES + 1))).status_code == 413


async def test_a_stream_ends_only_after_the_final_payment(payment_store: PaymentStore, node: FakeNode) -> None:
    async with asgi(payment_store, node, depositPct="0.2") as client:
        stream = await client.post("/events", headers=paying(node, 10_000, stage="deposit"))
        *events, last = stream.text.rstrip("\n").split("\n\n")
        assert (stream.status_code, events) == (200, ["data: 0", "data: 1"])
        kind, data = last.split("\n")
        body = json.loads(data.removeprefix("data: "))
        assert (kind, body["code"], body["reason"]) == ("event: payment", -32033, "needs-final")
        rest = await client.post("/events", headers=paying(node, 40_000, stage="final"))
        assert (rest.status_code, rest.text) == (200, "data: 2\n\n")
        assert rest.headers["content-type"] == "text/event-stream"
    assert [read_exactly(raw).outputs[0].satoshis for raw in node.sent] == [10_000, 40_000]


async def test_a_paid_stream_ends_after_its_payment_was_sent(payment_store: PaymentStore, node: FakeNode) -> None:
    async with asgi(payment_store, node) as client:
        stream = await client.post("/events", headers=paying(node))
        assert stream.text == "data: 0\n\ndata: 1\n\ndata: 2\n\n"
    assert len(node.sent) == 1
