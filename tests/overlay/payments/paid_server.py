"""A server behind a gate, with its payment store, node and clock. Also the forms of calls."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from overlay.systems.payments.gate import PaymentGate
from overlay.systems.payments.gate_answers import GateAnswer
from overlay.systems.payments.store import PaymentStore
from overlay.systems.payments.store_records import PaymentState, TaskState
from parsers.bitcoin.tx import Outpoint, Transaction
from tests.overlay.payments.fake_node import PAYER, SERVER, FakeNode, payment, price, script_of

TASK = "task-of-the-client-0001"
DEPOSIT = {"depositPct": "0.2"}


@dataclass
class PaidServer:
    """A server that answers paid calls behind a gate, with its payment store, node and clock."""

    payment_store: PaymentStore
    node: FakeNode = field(default_factory=FakeNode)
    time: float = 1_700_000_000.0
    done: int = 0
    fails: Exception | int = 0
    body: bytes | None = None
    prices: list[dict[str, Any]] = field(default_factory=lambda: [price()])

    def __post_init__(self) -> None:
        self.gate = self.new_gate()

    def new_gate(self) -> PaymentGate:
        return PaymentGate(self.prices, self.payment_store, self.node, clock=lambda: self.time)

    async def work(self) -> GateAnswer:
        self.done += 1
        if isinstance(self.fails, Exception):
            raise self.fails
        body = b"work %d" % self.done if self.body is None else self.body
        return GateAnswer(self.fails or 200, (("Content-Type", "text/plain"),), body)

    async def call(self, claim: Any = None, body: bytes = b"", skill: str | None = None, **headers: str) -> GateAnswer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        carried = {} if claim is None else {"A2B-Payment": json.dumps(claim)}
        return await self.gate.answer(carried | named, body, self.work, url="http://server.example/work", skill=skill)

    def with_prices(self, *prices: dict[str, Any]) -> PaidServer:
        """This server with other prices."""
        self.prices[:] = prices
        self.gate = self.new_gate()
        return self

    def pays(self, satoshis: int = 50_000, coin: Outpoint | None = None) -> Transaction:
        """A transaction that pays the server from a new coin."""
        return payment(
            [coin or self.node.mint(satoshis + 40_000)],
            [(satoshis, script_of(SERVER)), (30_000, script_of(PAYER))],
            self.node,
        )

    def state_of(self, tx: Transaction) -> PaymentState | None:
        entry = self.payment_store.payment("bsv:regtest", tx.txid)
        return entry.state if entry else None

    def task(self, id_: str = TASK) -> TaskState | None:
        task = self.payment_store.task(id_)
        return task.state if task else None


def header(answer: GateAnswer, name: str) -> str:
    return next((value for key, value in answer.headers if key == name), "")


def refusal(answer: GateAnswer) -> tuple[int, int, str]:
    body = json.loads(answer.body)
    return answer.status, body["code"], body["reason"]


def a2a(*parts: Any, method: str = "message/send", **message: Any) -> bytes:
    return json.dumps(
        {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"message": {"parts": parts} | message}}
    ).encode()


def mcp(name: str = "tool", **meta: Any) -> bytes:
    return json.dumps(
        {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": name, "_meta": meta}}
    ).encode()
