"""A whole overlay with prices of its own on a real node, in the one database it has in production: 429, claim, 200,
restart, and a payment that an earlier version left half done."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from aiohttp import ClientSession

from indexer.store import connect
from overlay.api import identity_key
from overlay.client.payment_claims import build_claim
from overlay.publish.coins import Coin
from overlay.publish.keys import PublisherKey
from overlay.systems.payments.checking import offers_in
from overlay.systems.payments.settlement import LEASE_SECONDS
from overlay.systems.payments.store import PaymentStore
from overlay.systems.payments.store_records import PaymentState, TaskState
from parsers.bitcoin.tx import Transaction
from tests import bitcoind
from tests.bitcoind import Bitcoind
from tests.conftest import missing
from tests.litecoind import Litecoind, binary
from tests.overlay.payments.test_litecoind_story import Wallet, claim
from tests.serving import built, serving
from tests.waiting import until

SERVER, CLIENT = PublisherKey(b"\x21" * 32, "regtest"), PublisherKey(b"\x22" * 32, "regtest")
TASKS = ("first-task-of-the-client", "later-task-of-the-client")


class Payer(Protocol):
    """A client with a node: the setting `chains` that names it, a price in its coin, claims that pay it."""

    chains: str
    price: dict[str, Any]

    def claim(self) -> tuple[dict[str, Any], str]:
        """A claim, and the id of its transaction."""
        ...

    def mempool(self) -> list[str]: ...


class LitecoinPayer:
    """A price of 0.099 LTC: most of a coin, so that the rest is the fee."""

    def __init__(self, node: Litecoind) -> None:
        self.node, self.wallet = node, Wallet(node)
        self.chains = f"ltc={node.cookie_url}"
        self.price = {"id": "p", "currency": "LTC", "amount": 0.099, "address": self.wallet.server}

    def claim(self) -> tuple[dict[str, Any], str]:
        tx: Transaction = self.wallet.pays(self.wallet.coin(), 9_900_000)
        return claim(self.wallet, tx), tx.hex_id

    def mempool(self) -> list[str]:
        return list(self.node.rpc("getrawmempool"))


class BitcoinSvPayer:
    """A price of 0.0005 BSV."""

    def __init__(self, node: Bitcoind) -> None:
        self.node, self.chains = node, f"bsv={node.cookie_url}"
        self.price = {"id": "p", "currency": "BSV", "amount": 0.0005, "address": SERVER.address}

    def claim(self) -> tuple[dict[str, Any], str]:
        coin = Coin(self.node.give([(100_000, CLIENT.script)]).outpoint(0), 100_000)
        paid = build_claim(offers_in(self.price)[0], CLIENT, [coin], most_satoshis=50_000, fee_rate=50)
        return dict(paid.value), paid.payment.tx.hex_id

    def mempool(self) -> list[str]:
        return list(self.node.rpc("getrawmempool"))


@pytest.fixture(params=["litecoind", "bitcoind"], scope="module")
def payer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Payer]:
    folder = tmp_path_factory.mktemp(request.param) / "node"
    if request.param == "bitcoind":
        bitcoind.installed()
        with Bitcoind(folder) as node:
            node.fund()
            yield BitcoinSvPayer(node)
        return
    if binary() is None:
        missing("litecoind")
    with Litecoind(folder) as node:
        node.fund()
        yield LitecoinPayer(node)


async def ask(client: ClientSession, task: str = "", paid: dict[str, Any] | None = None) -> tuple[int, Any]:
    headers = {} if paid is None else {"A2B-Task": task, "A2B-Payment": json.dumps(paid)}
    async with client.get("/v1/search", headers=headers) as response:
        return response.status, await response.json(content_type=None)


async def use_up(client: ClientSession) -> None:
    """Ask until the limit is reached."""
    while (status := (await ask(client))[0]) != 429:
        assert status == 200


async def test_a_claim_pays_for_a_request_beyond_the_limit_before_and_after_a_restart(
    payer: Payer, database_url: str, tmp_path: Path
) -> None:
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps([payer.price]))
    keys = tmp_path / "identity.json"
    identity_key.read_or_create(keys)
    flags = {"database": database_url, "prices": str(prices), "limits": "read=2/3600 ingest=20/3600",
             "identity_key": str(keys)}  # fmt: skip
    (first, txid), (second, later) = payer.claim(), payer.claim()
    async with serving(built(tmp_path, payer.chains, **flags)) as client:
        await use_up(client)
        status, answer = await ask(client, TASKS[0], first)
        assert (status, "items" in answer) == (200, True)
        assert payer.mempool() == [txid]
        assert (await ask(client))[0] == 429
    async with serving(built(tmp_path, payer.chains, **flags)) as client:
        await use_up(client)
        assert await ask(client, TASKS[0], first) == (status, answer), "an answer that got lost is given again"
        assert (await ask(client, TASKS[1], first))[0] == 402, "and pays for nothing else"
        assert (await ask(client, TASKS[1], second))[0] == 200
        assert sorted(payer.mempool()) == sorted([txid, later])
    _leave_half_done(database_url, TASKS[1])
    async with serving(built(tmp_path, payer.chains, **flags)) as client:
        payment_store = PaymentStore.open(database_url)
        await until(lambda: (task := payment_store.task(TASKS[1])) is not None and task.state is TaskState.COMPLETED)
        assert [one.state for task in TASKS for one in payment_store.payments_of(task)] == [PaymentState.SENT] * 2
        payment_store.close()
        await use_up(client)
        assert (await ask(client, TASKS[1], second))[0] == 200
        assert sorted(payer.mempool()) == sorted([txid, later])


def _leave_half_done(url: str, task: str) -> None:
    """The payment of a task as it is left where the table of paid intervals cannot be written."""
    engine = connect(url)
    with engine.begin() as connection:
        moved = f"state = 'sending', updated_at = updated_at - {LEASE_SECONDS}"
        connection.exec_driver_sql(f"UPDATE payments SET {moved} WHERE task = '{task}'")
        connection.exec_driver_sql(f"UPDATE paid_tasks SET state = 'running' WHERE id = '{task}'")
        connection.exec_driver_sql("DROP TABLE paid_intervals")
    engine.dispose()
