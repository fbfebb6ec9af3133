"""A paid agent that pays for a tool of its own (A2B §7): each gate settles its own call, and rates reach both."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from time import time
from typing import Any

import pytest

from indexer.store import connect
from indexer.store.rates import Quote, Quotes
from overlay.client.payment_claims import SignedPayment, build_claim
from overlay.pricing.exchange_rates import ExchangeRates
from overlay.publish.coins import Coin
from overlay.publish.keys import PublisherKey
from overlay.systems.payments.carriers import read_call
from overlay.systems.payments.checking import offers_in
from overlay.systems.payments.gate import PaymentGate
from overlay.systems.payments.gate_answers import GateAnswer
from overlay.systems.payments.store import PaymentStore
from parsers.bitcoin.tx import Outpoint
from parsers.cards.rate_table import RateTable
from parsers.claims.amount_due import PaymentRefusedError
from tests.overlay.payments.fake_node import FakeNode, claim_of, price
from tests.overlay.payments.paid_server import TASK, PaidServer, a2a, mcp, refusal

AGENT = PublisherKey(b"\x03" * 32, "regtest")
TOOL = price(id="tool", amount="0.0002", skillIds=["chart"])


@pytest.fixture
def tool(tmp_path: Path, server: PaidServer) -> Iterator[PaidServer]:
    """The tool's own server, on the same chain."""
    payment_store = PaymentStore.open(f"sqlite:///{tmp_path / 'tool.db'}")
    yield PaidServer(payment_store, node=server.node).with_prices(TOOL)
    payment_store.close()


def agent_pays(node: FakeNode) -> SignedPayment:
    """The agent's claim for the tool, from a coin of its own."""
    coin = node.mint(60_000, AGENT.private)
    assert node.coins[coin].script == AGENT.script
    return build_claim(offers_in(TOOL)[0], AGENT, [Coin(coin, 60_000)], most_satoshis=25_000)


async def agent(tool: PaidServer, claim: SignedPayment) -> GateAnswer:
    """The agent's work: a call of the tool, whose refusal or error is its own failure."""
    answer = await tool.call(body=mcp("chart", **claim.meta(TASK)))
    is_done = answer.status == 200 and b"isError" not in answer.body
    return answer if is_done else GateAnswer(502, (), b"the tool did not answer")


async def test_a_paid_agent_pays_for_its_tool(server: PaidServer, tool: PaidServer) -> None:
    paid, hop = server.pays(), agent_pays(server.node)
    body = a2a({"data": {"x-payment": claim_of(paid)}})
    answer = await server.gate.answer({}, body, lambda: agent(tool, hop))
    assert (answer.status, answer.body, tool.done) == (200, b"work 1", 1)
    assert (server.payment_store.counted(), tool.payment_store.counted()) == (50_000, 20_000)
    assert {hop.payment.tx.hex_id, paid.hex_id} <= server.node.mempool.keys()
    # who repeats the hop, because its answer got lost, pays once
    assert (await agent(tool, hop)).body == b"work 1"
    assert (tool.done, tool.payment_store.counted()) == (1, 20_000)


@pytest.mark.parametrize("why", ["the tool fails", "the tool is not paid enough"])
async def test_neither_is_paid_where_the_tool_does_not_answer(server: PaidServer, tool: PaidServer, why: str) -> None:
    paid, hop = server.pays(), agent_pays(server.node)
    if why == "the tool fails":
        tool.body = b'{"jsonrpc":"2.0","id":7,"result":{"isError":true}}'
    else:
        tool.with_prices(TOOL | {"amount": "0.0003"})
    body = a2a({"data": {"x-payment": claim_of(paid)}})
    assert (await server.gate.answer({}, body, lambda: agent(tool, hop))).status == 502
    assert (server.payment_store.counted(), tool.payment_store.counted(), server.node.sent) == (0, 0, [])


def test_a_claim_is_carried_as_servers_read_it() -> None:
    coin = Coin(Outpoint(b"\1" * 32, 0), 60_000)
    claim = build_claim(offers_in(TOOL)[0], AGENT, [coin], most_satoshis=25_000)
    by_header = read_call(claim.headers(TASK), b"")
    by_meta = read_call({}, mcp("chart", **claim.meta(TASK)))
    by_part = read_call({}, a2a(claim.data_part()))
    assert by_header.claim == by_meta.claim == by_part.claim == claim.value
    assert by_header.task == by_meta.task == TASK
    assert (claim.headers().keys(), claim.meta().keys()) == ({"A2B-Payment"}, {"x-payment"})


CHEAP, DEAR = mcp("chart"), mcp("report")


@pytest.mark.parametrize(
    "body",
    [
        DEAR.decode().encode("utf-16"), DEAR.decode().encode("utf-16-be"), DEAR.decode().encode("utf-32"),
        DEAR.decode().encode("utf-8-sig"), b"\n[" + DEAR + b"]", DEAR[:-1] + b"," + CHEAP[1:],
        DEAR[:-1] + b',"x":NaN}', DEAR[:-1] + b',"x":1e500}', DEAR[:-1] + b',"x":"\\ud800"}',
    ],
    ids=["utf-16", "utf-16-be", "utf-32", "utf-8-sig", "batch", "keys twice", "NaN", "infinite", "surrogate"],
)  # fmt: skip
def test_a_call_that_servers_read_differently_is_refused_before_it_is_paid(body: bytes) -> None:
    with pytest.raises(PaymentRefusedError) as refused:
        read_call({}, body)
    assert refused.value.reason == "request-malformed"


def test_a_compressed_call_is_refused_before_it_is_paid() -> None:
    for coding in ("gzip", "br", " GZIP"):
        with pytest.raises(PaymentRefusedError):
            read_call({"Content-Encoding": coding}, gzip.compress(DEAR))
    assert read_call({"Content-Encoding": "identity"}, DEAR).skill == "report"
    assert read_call({"Content-Encoding": "gzip"}, b"").claim is None


@pytest.mark.parametrize("first", ["params", "params.metadata", "params.message.metadata"])
@pytest.mark.parametrize("second", ["params", "params.metadata", "params.message.metadata"])
def test_a_call_that_names_two_skills_is_refused_before_it_is_paid(first: str, second: str) -> None:
    def call(second_skill: str) -> bytes:
        message: dict[str, Any] = json.loads(a2a({"text": "x"}))
        for path, skill in ((first, "cheap"), (second, second_skill)):
            inner = message
            for step in path.split("."):
                inner = inner.setdefault(step, {})
            inner["skillId"] = skill
        return json.dumps(message).encode()

    assert read_call({}, call("cheap")).skill == "cheap"
    if first != second:
        with pytest.raises(PaymentRefusedError) as refused:
            read_call({}, call("dear"))
        assert refused.value.reason == "request-malformed"


@pytest.mark.parametrize("text", ['{"rawTx": "00", "rawTx": "01"}', "eyJhIjoxLCJhIjoyfQ==", '{"a": NaN}', "7", "\xff"])
def test_a_claim_in_a_header_that_readers_read_differently_is_refused(text: str) -> None:
    with pytest.raises(PaymentRefusedError) as refused:
        read_call({"A2B-Payment": text}, b"")
    assert refused.value.reason == "claim-malformed"


async def test_a_gate_of_its_own_reads_the_stored_rates(server: PaidServer, tmp_path: Path) -> None:
    engine = connect(f"sqlite:///{tmp_path / 'rates.db'}")
    exchange, now = ExchangeRates(Quotes(engine).newest), int(time())
    in_usd = price(currency="USD", amount="0.05", acceptedCurrencies=["USD", "BSV"])
    gate = PaymentGate(in_usd, server.payment_store, server.node, exchange=exchange, clock=lambda: server.time)
    carried = {"A2B-Payment": json.dumps(claim_of(server.pays(100_000)))}
    assert refusal(await gate.answer(carried, b"", server.work))[2] == "no-rate"
    table = RateTable(base="BSV", rates={"BSV": Decimal(1), "USD": Decimal(50)}, source="", quoted_at=now,
                      until=now + 3600)  # fmt: skip
    Quotes(engine).store([Quote(feed="f!alone", rank=0, since=0, table=table)])
    await gate.maintain()
    assert (await gate.answer(carried, b"", server.work)).status == 200
    engine.dispose()
