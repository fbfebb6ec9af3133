"""Two agents on a real node, one honest, one that takes the deposit and delivers nothing: three hires, one of them
killed, ratings and a complaint. They are paid on a litecoind, and where `BITCOIND` names one on a Bitcoin SV node, on
which they are registered, too."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web

from indexer.chains.node.payment_node import nodes_of
from overlay.client import AsyncOverlayClient, calls
from overlay.client.calls import Call
from overlay.client.hire import outcome
from overlay.client.hire.hiring import HireError, HireRequest, Hiring
from overlay.client.hire.journal import Hire, HireState, Journal
from overlay.client.hire.wallet import Wallet, new_wallet
from overlay.systems.payments.store import PaymentStore
from tests.bitcoind import Bitcoind, installed
from tests.chainkit import ChainKit, agent
from tests.conftest import missing
from tests.litecoind import Litecoind, binary
from tests.overlay.hire.world import AgentServer, agent_server
from tests.parsers.claims.motebit.signers import ALICE
from tests.running import Running
from tests.waiting import PATIENCE

POLICY = """
max_satoshis_per_call = 3000000
max_satoshis_per_day = 9000000
max_satoshis_per_agent = 9000000
newest_unchecked_satoshis = 3000000
unverified_domains = true
currencies = ["LTC", "BSV"]
"""


class KilledError(BaseException):
    """The process ends here."""


@dataclass
class Market:
    """The node, the overlay, the wallet, and the two agents with their listings."""

    node: Litecoind
    coin: str
    url: str
    wallet: Wallet
    honest: AgentServer
    ids: dict[str, str]
    store: Path

    async def hire(self, name: str, hired: Hire | None = None) -> Hire:
        """Hire an agent, or go on with a hire."""
        async with AsyncOverlayClient(self.url) as client:
            hiring = Hiring(client, self.wallet, allow_local=True, expected="bsv:regtest")
            if hired is not None:
                return await hiring.proceed(hired)
            return await hiring.hire(HireRequest(need=self.ids[name], content=b"hello", within_policy=True))


def coins_of(node: Litecoind, wallet: Wallet, number: int) -> list[dict[str, Any]]:
    """Confirmed coins of a wallet, 0.05 of the coin each."""
    if isinstance(node, Bitcoind):
        tx = node.give([(5_000_000, wallet.key.script)] * number)
        return [{"txid": tx.hex_id, "vout": vout, "satoshis": 5_000_000} for vout in range(number)]
    address = wallet.address("ltc", "regtest")
    coins = []
    for _ in range(number):
        txid = node.rpc("sendtoaddress", address, 0.05)
        outputs = node.rpc("gettransaction", txid, True, True)["decoded"]["vout"]
        vout = next(output["n"] for output in outputs if address in str(output["scriptPubKey"]))
        coins.append({"txid": txid, "vout": vout, "satoshis": 5_000_000})
    node.mine()
    return coins


def started(stack: ExitStack, folder: Path, coin: str) -> Litecoind:
    """A node of a coin, with funds."""
    if coin == "bsv":
        installed()
    elif binary() is None:
        missing("litecoind")
    node = stack.enter_context((Bitcoind if coin == "bsv" else Litecoind)(folder))
    node.fund()
    return node


def enlist(node: Litecoind, coin: str, cards: dict[str, Any], folder: Path) -> tuple[dict[str, str], str]:
    """Register cards, on a Bitcoin SV node itself, else in block files of their own: their ids, and the chains to
    follow."""
    bodies = {name: json.dumps(card, default=float).encode() for name, card in cards.items()}
    if coin == "bsv":
        listed = {name: node.inscribe(body) for name, body in bodies.items()}
        node.mine()
        chains = f"bsv={node.cookie_url}"
    else:
        kit, blocks = ChainKit(), folder / "blocks"
        listed = {name: kit.inscribe(body, owner=name) for name, body in bodies.items()}
        kit.mine(*listed.values())
        blocks.mkdir()
        kit.write(blocks)
        chains = f"live=files:{blocks}?chain=bsv&network=regtest ltc={node.cookie_url}"
    return {name: str(outpoint) for name, outpoint in listed.items()}, chains


@pytest.fixture(params=["ltc", "bsv"])
async def market(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Market]:
    coin = request.param
    with ExitStack() as stack:
        node = started(stack, tmp_path / "node", coin)
        tills = [new_wallet(tmp_path / f"till{number}", "testnet").address(coin, "regtest") for number in range(2)]
        price = {"currency": coin.upper(), "amount": Decimal("0.02"), "depositPct": Decimal("0.5")}
        prices = [{"id": f"p{number}", "address": till, **price} for number, till in enumerate(tills)]
        nodes = [nodes_of({coin: [f"{node.cookie_url}&chain={coin}"]})[coin.upper()] for _ in prices]
        honest = stack.enter_context(agent_server(tmp_path, prices[0], node=nodes[0], signing_key=ALICE.seed))
        other = tmp_path / "other"
        other.mkdir()
        thief = stack.enter_context(agent_server(other, prices[1], node=nodes[1]))

        async def take(request: web.Request) -> web.StreamResponse:
            parts = (await request.json())["params"]["message"]["parts"]
            claim = next(part["data"]["x-payment"] for part in parts if "data" in part)
            await asyncio.to_thread(node.rpc, "sendrawtransaction", claim["rawTx"])
            return web.json_response({"error": {"code": -32603, "message": "sorry"}})

        thief.before = take
        motebit = {"motebit_id": ALICE.id, "public_key": ALICE.key.hex(), "did": "", "spec": "x"}
        cards = {
            "honest": agent("Honest", url=honest.url, **{"x-payment-config": prices[:1], "x-motebit": motebit}),
            "thief": agent("Thief", url=thief.url, **{"x-payment-config": prices[1:]}),
        }
        wallet = new_wallet(tmp_path / "wallet", "testnet")
        (wallet.folder / "policy.toml").write_text(POLICY)
        wallet.coins_path(coin.upper()).write_text(json.dumps(coins_of(node, wallet, 5)))
        ids, chains = enlist(node, coin, cards, tmp_path)
        home = tmp_path / "home"
        home.mkdir()
        running = stack.enter_context(Running("up", "--port", "0", "--limits", "off", cwd=home, A2B_CHAINS=chains))
        running.until_ready()
        yield Market(node, coin, running.url, wallet, honest, ids, tmp_path / "payments.db")


async def test_honest_work_is_rated_and_a_taken_deposit_complained_of(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = await market.hire("honest")
    assert (done.state, done.receipt_fault, bool(done.receipt)) == (HireState.DONE, "", True)
    save, writes = Journal.save, 0

    def killing(journal: Journal, hire: Hire, **members: Any) -> Hire:
        nonlocal writes
        saved, writes = save(journal, hire, **members), writes + 1
        if writes == 4:
            raise KilledError
        return saved

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "save", killing)
        with pytest.raises(KilledError):
            await market.hire("honest")
    market.wallet = Wallet(market.wallet.folder)
    killed = await market.hire("honest", market.wallet.journal.get(""))
    assert (killed.state, len(killed.claims), len(market.honest.calls)) == (HireState.DONE, 2, 2)
    with pytest.raises(HireError, match="sorry"):
        await market.hire("thief")
    taken = market.wallet.journal.all()[0]
    assert taken.state is HireState.FAILED

    pool = set(market.node.rpc("getrawmempool"))
    assert pool == {tx.hex_id for hire in (done, killed, taken) for tx in hire.transactions}
    with closing(PaymentStore.open(f"sqlite:///{market.store}")) as payments:
        assert all(
            payments.payment(f"{market.coin}:regtest", tx.txid) for hire in (done, killed) for tx in hire.transactions
        )
    paid = sum(hire.satoshis + hire.fee for hire in (done, killed))
    spent = sum(taken.spends[0].values())
    assert sum(coin.satoshis for coin in market.wallet.coins(market.coin.upper())) == 25_000_000 - paid - spent

    market.node.mine(6)
    tip = market.node.rpc("getblockcount")
    async with AsyncOverlayClient(market.url) as client:
        await until_answered(client, calls.status(), lambda status: height(status, market.coin) == tip)
        for node in (f"http://{market.node.cookie.read_text().strip()}@127.0.0.1:{market.node.port}", None):
            assert await outcome.is_sent(done, client, node)
        await bind(market)
        for hire in (done, killed):
            assert (await outcome.rate(hire, market.wallet, client, None)).new == 1
        assert (await outcome.complain(taken, market.wallet, client, "nothing-delivered", None)).new == 1
        counts = {"honest": (2, 1, 0), "thief": (0, 0, 1)}
        for name, expected in counts.items():
            await until_answered(client, calls.get(market.ids[name]), partial(is_rated, expected))


def is_rated(expected: tuple[int, int, int], item: Any) -> bool:
    """Whether an item has these counts of paid tasks, customers and complaints."""
    rating = item["rating"] or {}
    return tuple(rating.get(name) for name in ("paidTasks", "customers", "complaints")) == expected


def height(status: Any, name: str) -> int:
    return next(int(chain["height"]) for chain in status["chains"] if chain["name"] == name)


async def until_answered(client: AsyncOverlayClient, call: Call[Any], what: Callable[[Any], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not what(await client.ask(call, is_checked=False)):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.1)


async def bind(market: Market) -> None:
    """Bind the key of the honest agent to its listing."""
    now = int(time.time() * 1_000)
    listing = market.ids["honest"]
    token = ALICE.token(aud="custom:a2b-bind", origin=listing, iat=now, exp=now + 300_000)
    async with httpx.AsyncClient() as http:
        bound = await http.post(f"{market.url}/v1/evidence", json={"listing": listing, "bind": token})
    assert bound.status_code == 200, bound.text
