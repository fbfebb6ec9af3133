"""A relay with its agents, their money and a node: what they ask of it, in few words."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import count
from typing import Any

from sqlalchemy import Engine, select

from overlay.systems.payments.store import PaymentStore
from overlay.systems.relay import agent_registration, tasks
from overlay.systems.relay.agent_registration import AgentRegistration
from overlay.systems.relay.bank import DEPTH, Bank
from overlay.systems.relay.store import RelayStore
from overlay.systems.relay.store_coins import relay_coins, relay_withdrawals
from overlay.systems.relay.store_ledger import CHAIN, agent_account, booking, post
from overlay.systems.relay.store_tasks import SubmittedTask
from overlay.systems.relay.task_relay import Relay
from overlay.systems.relay.tasks import TaskRequest
from parsers.bitcoin.script import OP_RETURN, push
from parsers.bitcoin.tx import Transaction, serialise
from parsers.claims import ed25519
from parsers.claims.motebit.bearer_token import SignedRequest
from tests.overlay.payments.crashing import Steps
from tests.overlay.payments.fake_node import PAYER, SERVER, FakeNode, address_of, payment, script_of
from tests.parsers.claims.motebit.signers import ALICE, BOB, CAROL, DAVE, NOW, Agent

SEED = b"\x2a" * 32
PRICE = 1_000
HOST = "relay.example"
AGENTS = (ALICE, BOB, CAROL, DAVE)
_numbers = count()


class World:
    """The parts, and a clock that begins when the agents sign; `database` is a world with the clock of the database, by
    default this one."""

    def __init__(
        self,
        engine: Engine,
        *,
        steps: Steps | None = None,
        node: FakeNode | None = None,
        database: World | None = None,
    ) -> None:
        self.engine, self.time = engine, NOW / 1_000
        database = database or self
        self.store, self.node = RelayStore(engine, lambda _: int(database.time)), node or FakeNode()
        self.steps = steps or Steps()
        wrapped = self.steps.wrap
        self.payment_store = PaymentStore(engine)
        self.bank = Bank(
            wrapped(self.store.cash), wrapped(self.node), address_of(SERVER), lambda: self.time, self.payment_store
        )
        self.relay = Relay(
            self.store, ed25519.public_key_of(SEED), lambda message: ed25519.sign(SEED, message), bank=self.bank,
            clock=lambda: self.time,
        )  # fmt: skip

    # -- tokens

    def token(self, agent: Agent, audience: str, body: bytes = b"", **more: Any) -> SignedRequest:
        """A request with a token of a Motebit client, which binds it to no request."""
        now = int(self.time * 1_000)
        fresh = {"jti": f"jti-{next(_numbers)}", "iat": now, "exp": now + 300_000, "aud": audience}
        return self.request(f"Bearer motebit:{agent.token(**fresh | more)}", body)

    def request(self, authorization: str, body: bytes = b"") -> SignedRequest:
        return SignedRequest(authorization, body, HOST, is_configured=True)

    # -- agents

    def register(self, *agents: Agent, price: int = PRICE, **more: Any) -> None:
        for agent in agents:
            registration = wanted_registration(agent, price) | more
            token = self.token(agent, "register-device")
            agent_registration.register(self.relay, token, AgentRegistration(**registration))

    def fund(self, agent: Agent, amount: int) -> None:
        """Book a deposit without a chain."""
        with booking(self.engine) as connection:
            amounts = {CHAIN: -amount, agent_account(agent.id): amount}
            post(connection, "deposit", f"test-{next(_numbers)}", int(self.time), amounts)

    def balance(self, agent: Agent) -> int:
        return self.store.ledger.balance(agent_account(agent.id))

    def balances(self, *agents: Agent) -> list[int]:
        return [self.balance(agent) for agent in agents]

    # -- tasks

    def submit(self, submitter: Agent, worker: Agent, key: str | None = None, **more: Any) -> SubmittedTask:
        members = {"worker": worker.id, "submitted_by": None, "required_capabilities": (), "max_budget": None,
                  "idempotency_key": key}  # fmt: skip
        return tasks.submit(self.relay, self.token(submitter, "task:submit"), TaskRequest(**members | more))

    def task(self, submitter: Agent, worker: Agent) -> str:
        return self.submit(submitter, worker).task.id

    def settle(self, by: Agent, worker: Agent, task: str, receipt: dict[str, Any]) -> dict[str, Any]:
        body = json.dumps(receipt).encode()
        return tasks.result(self.relay, self.token(by, "task:result", body), worker.id, task)

    # -- money

    def deposit(self, agent: Agent, amount: int) -> Transaction:
        """A transaction that pays the operator for an agent's account, accepted by the node."""
        coin = self.node.mint(amount + 1_000)
        tx = payment([coin], [(amount, script_of(SERVER)), (0, data_output(agent.id))], self.node, PAYER)
        self.node.accept(tx)
        return tx

    def mine(self, blocks: int = DEPTH) -> None:
        for _ in range(blocks):
            self.node.mine()

    # -- laws

    def check(self, *, may_owe: Iterable[Agent] = ()) -> None:
        """The books are in order, and nobody owes but who may."""
        assert self.store.ledger.faults() == []
        balances = self.store.ledger.balances()
        assert sum(balances.values()) == 0
        owing = {account for account, amount in balances.items() if amount < 0}
        assert owing <= {CHAIN, *(agent_account(agent.id) for agent in may_owe)}


def wanted_registration(agent: Agent, price: int = PRICE) -> dict[str, Any]:
    return {
        "motebit_id": agent.id, "public_key": agent.key.hex(), "endpoint_url": f"https://{agent.id}.example/mcp",
        "capabilities": ("web_search",), "succession": (), "name": "", "description": "",
        "pricing": [{"capability": "web_search", "unit_cost": price, "currency": "SAT", "per": "task"}],
    }  # fmt: skip


def coins_of(engine: Engine) -> int:
    """Satoshis that the operator has, what open withdrawals pay out included: every coin whose withdrawal is not
    signed, and the whole amount of those that are signed and not mined."""
    with engine.connect() as connection:
        states = {row.id: row for row in connection.execute(select(relay_withdrawals))}
        coins = connection.execute(select(relay_coins)).all()
    unspent = [coin for coin in coins if coin.withdrawal is None or states[coin.withdrawal].state == "pending"]
    leaving = [one.amount for one in states.values() if one.state == "processing"]
    return sum(coin.amount for coin in unspent) + sum(leaving)


def data_output(text: str) -> bytes:
    return bytes((0, OP_RETURN)) + push(text.encode())


def raw_of(tx: Transaction) -> bytes:
    return serialise(tx.inputs, tx.outputs, tx.version, tx.locktime)
