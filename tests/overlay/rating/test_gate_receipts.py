"""A gate with a signing key: its answers carry receipts over HTTP, A2A and MCP, which the client can check and an
overlay takes as evidence of paid work."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from aiohttp import ClientSession as HttpSession
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer

from overlay.api.services import AppServices
from overlay.systems.payments.aiohttp_gate import middleware
from overlay.systems.payments.asgi_gate import AsgiGate
from overlay.systems.payments.gate import PaymentGate
from overlay.systems.payments.store import PaymentStore
from overlay.systems.rating.receipt_api import INTAKE
from parsers.bitcoin.tx import Transaction, TxOutput, serialise
from parsers.claims import gate_receipts
from parsers.claims.canonical_json import DocumentError, jcs
from parsers.claims.motebit.receipts import ReceiptRules, verify_receipt
from tests.overlay.conftest import Serve
from tests.overlay.fakes import changed
from tests.overlay.payments.fake_node import PAYER, SERVER, FakeNode, address_of, claim_of, payment, price, script_of
from tests.overlay.rating.registry import Payer, Registry
from tests.parsers.claims.motebit.signers import ALICE, BOB

TASK = "task-of-the-client-0001"
SATOSHIS = 10_000
PRICE = {"amount": "0.0001"}


@pytest.fixture
async def registry(tmp_path: Path) -> AsyncIterator[Registry]:
    registry = Registry(f"sqlite:///{tmp_path}/a2b.db")
    with registry.indexing:
        yield registry


@pytest.fixture
async def overlay(registry: Registry, serve: Serve, services: AppServices) -> HttpSession:
    return await serve(changed(services, brought={INTAKE: registry.intake}))


class Agency:
    """An agent that answers over HTTP, A2A and MCP behind a gate, whose coins are those of a registry's chain."""

    def __init__(self, registry: Registry, payment_store: PaymentStore) -> None:
        self.registry, self.node, self.store = registry, FakeNode(), payment_store
        self.answer: Any = None
        self.prices = [price(**PRICE)]

    def gate(self, **more: Any) -> PaymentGate:
        return PaymentGate(
            self.prices, self.store, self.node, signing_key=ALICE.seed, clock=lambda: self.registry.now, **more
        )

    async def pay(self, satoshis: int = SATOSHIS) -> Transaction:
        coin = await self.registry.fund(Payer(PAYER[0]))
        self.node.coins[coin] = TxOutput(20_000, script_of(PAYER))
        return payment([coin], [(satoshis, script_of(SERVER)), (5_000, script_of(PAYER))], self.node)

    async def call(self, body: bytes, tx: Transaction | None = None, **members: Any) -> httpx.Response:
        """Call by HTTP, at `/` with JSON-RPC, or at `/text` without."""
        claim = {} if tx is None else {"A2B-Payment": json.dumps(claim_of(tx, **members))}
        app = AsgiGate(self._app, self.gate(), {"/": None, "/text": ""})
        transport = httpx.ASGITransport(app)
        path = "/" if body.startswith(b"{") else "/text"
        async with httpx.AsyncClient(transport=transport, base_url="http://agent.example") as client:
            return await client.post(path, content=body, headers={"A2B-Task": TASK, **claim})

    async def _app(self, _scope: Any, receive: Any, send: Any) -> None:
        await receive()
        kind, parts = (
            ("text/event-stream", self.answer) if isinstance(self.answer, list) else ("text/plain", [self.answer])
        )
        head = [(b"content-type", kind.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def agency(registry: Registry, tmp_path: Path) -> Iterator[Agency]:
    payment_store = PaymentStore.open(f"sqlite:///{tmp_path / 'payments.db'}")
    yield Agency(registry, payment_store)
    payment_store.close()


def check(receipt: Any, request: bytes, answer: bytes, tx: Transaction) -> None:
    """The receipt verifies, is that of this work, and holds no content."""
    assert not verify_receipt(receipt, ReceiptRules(keys={ALICE.id: ALICE.key})).error
    gate_receipts.check_receipt(receipt, TASK, request, answer, tx.hex_id)
    assert receipt["task_id"] == sha256(TASK.encode()).hexdigest()
    assert receipt["prompt_hash"] == sha256(TASK.encode() + b"\n" + request).hexdigest()
    assert receipt["result"] == f"sha256:{sha256(answer).hexdigest()}"
    assert receipt["relay_task_id"] == f"bsv:tx:{tx.hex_id}"
    text = json.dumps(receipt)
    assert len(text) <= gate_receipts.MAX_RECEIPT_BYTES
    assert not any(word in text for word in (TASK, "secret", "the answer"))


async def evidence(
    registry: Registry, overlay: HttpSession, listing: str, receipt: Any, tx: Transaction
) -> dict[str, Any]:
    """The answer of an overlay to the receipt, countersigned by the client, and the proof of its payment."""
    raw = serialise(tx.inputs, tx.outputs, tx.version, tx.locktime)
    block = await registry.mine(raw)
    _, proof = registry.proof(raw, tx.inputs[0].prevout, block)
    assert proof.parent is not None
    body = {
        "kind": "receipt", "document": registry.receipt(BOB, nested=[receipt]), "listing": listing,
        "bind": registry.token(ALICE, listing), "payment": {"beef": proof.beef.hex(), "parent": proof.parent.hex()},
    }  # fmt: skip
    async with overlay.post("/v1/evidence", json=body) as response:
        accepted: dict[str, Any] = await response.json()
        assert response.status == 200, accepted
    return accepted


async def inscribed(registry: Registry) -> str:
    offer = {"id": "p", "currency": "BSV", "address": address_of(SERVER), **PRICE}
    return await registry.inscribe(ALICE, **{"x-payment-config": [offer]})


def message(method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).encode()


PARTS = [{"kind": "text", "text": "a secret"}, {"kind": "data", "data": {"limit": 1.0}}]
A2A = message("message/send", {"message": {"parts": PARTS}})
MCP = message("tools/call", {"name": "find", "arguments": {"b": "a secret", "a": 1}, "_meta": {"progressToken": 1}})
RESULT = {"kind": "task", "id": "t", "status": {"state": "completed"}, "artifacts": [{"text": "the answer"}]}


async def test_a_receipt_of_a_call_by_http_is_evidence_of_paid_work(
    registry: Registry, overlay: HttpSession, agency: Agency
) -> None:
    listing, tx, agency.answer = await inscribed(registry), await agency.pay(), b"the answer"
    response = await agency.call(b"a secret", tx)
    assert (response.status_code, response.content) == (200, b"the answer")
    receipt = json.loads(b64decode(response.headers["A2B-Receipt"]))
    assert receipt == gate_receipts.from_header(response.headers["A2B-Receipt"])
    check(receipt, b"a secret", b"the answer", tx)
    assert (await agency.call(b"a secret", tx)).headers["A2B-Receipt"] == response.headers["A2B-Receipt"]
    accepted = await evidence(registry, overlay, listing, receipt, tx)
    assert accepted["new"] == 1
    rating = registry.rating(listing)
    assert rating is not None
    assert (rating.rung, rating.completed) == (2, 1)


@pytest.mark.parametrize(
    "result", [RESULT, RESULT | {"metadata": {"a": 1}}, {"task": RESULT}, {"message": {"kind": "x"}}]
)
async def test_a_receipt_of_a2a_is_in_the_metadata_of_the_task(
    registry: Registry, overlay: HttpSession, agency: Agency, result: dict[str, Any]
) -> None:
    listing, tx = await inscribed(registry), await agency.pay()
    agency.answer = json.dumps({"jsonrpc": "2.0", "id": 7, "result": result}, indent=1).encode()
    claimed = [*PARTS, {"kind": "data", "data": {"x-payment": claim_of(tx)}}]
    response = await agency.call(message("message/send", {"message": {"parts": claimed}}))
    answered = response.json()["result"]
    holder = answered.get("task") or answered.get("message") or answered
    receipt = holder["metadata"]["x-a2b-receipt"]
    assert receipt == gate_receipts.receipt_of(answered, "metadata")
    answer = gate_receipts.answer_bytes(answered, "metadata")
    assert answer == jcs(result)
    check(receipt, jcs(PARTS), answer, tx)
    assert gate_receipts.a2a_request(claimed) == jcs(PARTS)
    assert "a2b-receipt" not in response.headers
    assert (await evidence(registry, overlay, listing, receipt, tx))["new"] == 1


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_receipt_of_mcp_is_in_meta_also_of_the_last_event_of_a_stream(
    registry: Registry, overlay: HttpSession, agency: Agency, is_stream: bool
) -> None:
    listing, tx = await inscribed(registry), await agency.pay()
    result = {"content": [{"type": "text", "text": "the answer"}]}
    answer = json.dumps({"jsonrpc": "2.0", "id": 7, "result": result}).encode()
    progress = b'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress","params":{}}\n\n'
    agency.answer = [progress, b"event: message\r\ndata: " + answer + b"\r\n\r\n"] if is_stream else answer
    response = await agency.call(MCP, tx)
    if is_stream:
        *_, last = response.text.strip().split("data: ")
        assert response.text.startswith(progress.decode())
        answered = json.loads(last)["result"]
    else:
        answered = response.json()["result"]
    receipt = answered["_meta"]["x-a2b-receipt"]
    check(receipt, jcs({"a": 1, "b": "a secret"}), gate_receipts.answer_bytes(answered, "_meta"), tx)
    assert gate_receipts.answer_bytes(answered, "_meta") == jcs(result)
    assert (await evidence(registry, overlay, listing, receipt, tx))["new"] == 1


async def test_the_receipt_of_a_stream_is_its_last_event_and_covers_what_precedes_it(
    registry: Registry, overlay: HttpSession, agency: Agency
) -> None:
    listing, tx = await inscribed(registry), await agency.pay()
    agency.answer = [b"data: the answer\n\n", b"data: two\n\n", b"data: three"]
    body = message("message/stream", {"message": {"parts": PARTS}})
    response = await agency.call(body, tx)
    answer, receipt = gate_receipts.from_stream(response.content)
    assert answer == b"data: the answer\n\ndata: two\n\ndata: three\n\n"
    receipt_text = response.content.rpartition(b"data: ")[2]
    assert (receipt, gate_receipts.from_stream(answer)) == (json.loads(receipt_text), (answer, None))
    check(receipt, jcs(PARTS), answer, tx)
    again = await agency.call(body, tx)
    assert again.content == b"data: three\n\nevent: a2b-receipt\ndata: " + receipt_text
    assert (await evidence(registry, overlay, listing, receipt, tx))["new"] == 1


@pytest.mark.parametrize("is_stream", [False, True])
async def test_work_with_a_deposit_has_the_receipt_of_its_final_payment_and_of_its_first_request(
    agency: Agency, is_stream: bool
) -> None:
    agency.prices = [price(**PRICE, depositPct="0.2")]
    agency.answer = [b"data: the answer\n\n", b"data: two\n\n"] if is_stream else b"the answer"
    deposit, final = await agency.pay(2_000), await agency.pay(8_000)
    withheld = await agency.call(b"a secret", deposit, stage="deposit")
    assert "a2b-receipt" not in {*withheld.headers, *withheld.text.split()}
    response = await agency.call(b"nothing", final, stage="final")
    if is_stream:
        receipt = json.loads(response.text.rpartition("data: ")[2])
        check(receipt, b"a secret", b"".join(agency.answer), final)
    else:
        check(gate_receipts.from_header(response.headers["A2B-Receipt"]), b"a secret", b"the answer", final)


async def test_failed_work_free_calls_and_a_gate_without_a_key_give_no_receipt(agency: Agency) -> None:
    tx = await agency.pay()
    agency.answer = json.dumps({"jsonrpc": "2.0", "id": 7, "result": {"isError": True}}).encode()
    assert "receipt" not in (await agency.call(MCP, tx)).text
    agency.answer = json.dumps({"jsonrpc": "2.0", "id": 7, "result": {"tools": []}}).encode()
    assert "receipt" not in (await agency.call(message("tools/list", {}))).text
    with pytest.raises(ValueError, match="signing_key has 31 bytes"):
        PaymentGate(agency.prices, agency.store, agency.node, signing_key=bytes(31))
    with pytest.raises(DocumentError, match="task_id of the receipt"):
        gate_receipts.check_receipt({"task_id": "x"}, TASK, b"", b"", tx.hex_id)
    assert gate_receipts.from_header("no base64") is None


async def test_an_answer_that_has_no_form_of_rfc_8785_is_paid_for_without_a_receipt(agency: Agency) -> None:
    agency.answer = b'{"jsonrpc": "2.0", "id": 7, "result": {"number": 9007199254740993}}'
    response = await agency.call(MCP, await agency.pay())
    assert (response.status_code, response.content) == (200, agency.answer)


async def test_aiohttp_carries_receipts_too(agency: Agency) -> None:
    async def work(request: web.Request) -> web.Response:
        return web.Response(text=f"the answer to {len(await request.text())}")

    app = web.Application(middlewares=[middleware(agency.gate(), {"/paid": ""})])
    app.add_routes([web.post("/paid", work)])
    tx = await agency.pay()
    headers = {"A2B-Payment": json.dumps(claim_of(tx)), "A2B-Task": TASK}
    async with (
        TestClient(TestServer(app)) as client,
        client.post("/paid", data=b"a secret", headers=headers) as response,
    ):
        check(gate_receipts.from_header(response.headers["A2B-Receipt"]), b"a secret", await response.read(), tx)


@pytest.mark.parametrize("json_response", [False, True])
async def test_the_official_client_of_mcp_gets_the_receipt_from_the_official_server(
    agency: Agency, json_response: bool
) -> None:
    served = MCPServer("agent")
    served.add_tool(lambda text: f"the answer to {len(text)}", name="find", description="finds")
    app = served.streamable_http_app(host="127.0.0.1", json_response=json_response)
    config = uvicorn.Config(AsgiGate(app, agency.gate(), {"/mcp": None}), port=0, log_level="error", lifespan="on")
    listening = uvicorn.Server(config)
    task = asyncio.create_task(listening.serve())
    while not listening.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    port = listening.servers[0].sockets[0].getsockname()[1]
    tx = await agency.pay()
    try:
        async with (
            streamable_http_client(f"http://127.0.0.1:{port}/mcp") as streams, ClientSession(*streams) as session,
        ):  # fmt: skip
            await session.initialize()
            meta: Any = {"x-payment": claim_of(tx), "x-payment-task": TASK}
            result = await session.call_tool("find", {"text": "a secret"}, meta=meta)
    finally:
        listening.should_exit = True
        await task
    shown = result.model_dump(by_alias=True, mode="json", exclude_unset=True)
    receipt = shown["_meta"]["x-a2b-receipt"]
    gate_receipts.check_receipt(
        receipt, TASK, jcs({"text": "a secret"}), gate_receipts.answer_bytes(shown, "_meta"), tx.hex_id
    )
