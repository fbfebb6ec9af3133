"""A hire that is interrupted after any write goes on, and pays once; agents that answer late, twice, never, with lies,
or with a broken stream cost nothing more."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from indexer.errors import RefusedTransactionError
from overlay.client import AsyncOverlayClient
from overlay.client.hire import hiring as steps
from overlay.client.hire.agent_link import EndpointError, UnreachableError
from overlay.client.hire.cancelling import cancel
from overlay.client.hire.hiring import HireError, HireRequest, Hiring
from overlay.client.hire.journal import Hire, HireState, Journal
from overlay.client.hire.wallet import Wallet
from overlay.publish.transactions import Draft
from tests.overlay.hire.test_hiring import POLICY, texts
from tests.overlay.hire.world import World, echo


class KilledError(BaseException):
    """The process ends here."""


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between calls are short."""
    pause = asyncio.sleep
    monkeypatch.setattr(steps.asyncio, "sleep", lambda seconds: pause(min(seconds, 0.01)))


async def hire(world: World, wallet: Wallet, need: str) -> Hire:
    """Hire, or go on with the hire that is open."""
    async with AsyncOverlayClient(world.overlay) as client:
        hiring = Hiring(client, wallet, allow_local=True, expected="bsv:regtest")
        if hires := wallet.journal.all():
            return await hiring.proceed(hires[0])
        return await hiring.hire(HireRequest(need=need, content=b"hello", within_policy=True))


@pytest.mark.parametrize("name", ["full", "deposit"])
async def test_a_hire_that_is_killed_after_any_write_pays_once(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    writes, save = 0, Journal.save
    for number in range(1, 20):
        world.agent.reset()
        wallet = world.wallet(tmp_path / str(number), POLICY, coins=3)
        before = len(world.agent.node.mempool)
        left = number

        def killing(journal: Journal, one: Hire, **members: Any) -> Hire:
            nonlocal left, writes
            saved = save(journal, one, **members)
            left, writes = left - 1, writes + 1
            if left == 0:
                raise KilledError
            return saved

        with monkeypatch.context() as patched:
            patched.setattr(Journal, "save", killing)
            try:
                await hire(world, wallet, world.ids[name])
                break
            except KilledError:
                pass
        done = await hire(world, Wallet(wallet.folder), world.ids[name])
        assert done.state is HireState.DONE
        assert len(world.agent.calls) == 1, f"the work is done once, killed after write {number}"
        assert len(world.agent.node.mempool) - before == len(done.claims) == (1 if name == "full" else 2)
        assert sum(coin.satoshis for coin in Wallet(wallet.folder).coins()) == 300_000 - done.satoshis - done.fee
    else:
        raise AssertionError("it writes more often than is killed here")
    assert number >= 5


async def test_a_late_agent_is_polled(world: World, tmp_path: Path) -> None:
    polls = 0

    async def late(params: Any) -> Any:
        nonlocal polls
        if "message" in params:
            return {"kind": "task", "id": "agent-task-0000002", "status": {"state": "working"}}
        polls += 1
        done = polls > 2
        parts = [{"kind": "text", "text": "late"}]
        state = {"state": "completed", "message": {"role": "agent", "parts": parts}} if done else {"state": "working"}
        return {"kind": "task", "id": params["id"], "status": state}

    world.agent.answer = late
    done = await hire(world, world.wallet(tmp_path / "w", POLICY), world.ids["full"])
    assert (texts(done), polls) == (["late"], 3)


async def test_an_agent_that_refuses_is_not_paid_again(world: World, tmp_path: Path) -> None:
    async def refuse(_request: web.Request) -> web.StreamResponse:
        return web.json_response(
            {"error": {"code": -32031, "data": {"reason": "duplicate", "detail": "no"}}}, status=402
        )

    world.agent.before = refuse
    wallet = world.wallet(tmp_path / "w", POLICY)
    with pytest.raises(HireError, match=r"refuses the payment \(duplicate\): no"):
        await hire(world, wallet, world.ids["full"])
    (refused,) = wallet.journal.all()
    assert (refused.state, len(refused.claims)) == (HireState.REFUSED, 1)
    assert sum(coin.satoshis for coin in wallet.coins()) == 300_000, "its coin stays reserved"


@pytest.mark.parametrize("form", ["failed", "error", "no-json", "final-twice"])
async def test_a_wrong_answer_ends_a_hire(world: World, tmp_path: Path, form: str) -> None:
    async def lie(request: web.Request) -> web.StreamResponse:
        await request.read()
        if form == "failed":
            return web.json_response({"result": {"id": "x", "status": {"state": "failed"}}})
        if form == "error":
            return web.json_response({"error": {"code": -32603, "message": "broken"}})
        if form == "no-json":
            return web.Response(text="<html>")
        return web.json_response({"error": {"code": -32033, "data": {"reason": "needs-final"}}}, status=402)

    world.agent.before = lie
    wallet = world.wallet(tmp_path / "w", POLICY)
    with pytest.raises(HireError):
        await hire(world, wallet, world.ids["deposit"])
    assert not any(tx.hex_id in world.agent.node.mempool for tx in wallet.journal.all()[0].transactions)
    assert wallet.journal.all()[0].satoshis <= 60_000


async def test_a_redirect_gets_no_claim(world: World, tmp_path: Path) -> None:
    async def away(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=307, headers={"Location": "http://127.0.0.1:9/"})

    world.agent.before = away
    with pytest.raises(EndpointError, match="redirects"):
        await hire(world, world.wallet(tmp_path / "w", POLICY), world.ids["full"])


async def test_a_connection_that_breaks_is_made_again_and_then_resumed(world: World, tmp_path: Path) -> None:
    breaks = 7

    async def break_off(request: web.Request) -> web.StreamResponse | None:
        nonlocal breaks
        breaks -= 1
        if breaks >= 0:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        return None

    world.agent.before = break_off
    wallet = world.wallet(tmp_path / "w", POLICY)
    with pytest.raises(UnreachableError):
        await hire(world, wallet, world.ids["full"])
    assert wallet.journal.get("").state is HireState.CALLED
    done = await hire(world, wallet, world.ids["full"])
    assert (done.state, len(done.claims), len(world.agent.calls)) == (HireState.DONE, 1, 1)


async def test_what_was_taken_back_pays_nobody(world: World, tmp_path: Path) -> None:
    async def refuse(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"code": -32031, "data": {"reason": "x", "detail": "no"}}}, status=402)

    node, sent = world.agent.node, list[bytes]()

    async def send(draft: Draft) -> None:
        node.accept(draft.tx)
        sent.append(draft.raw)

    world.agent.before = refuse
    wallet = world.wallet(tmp_path / "w", POLICY)
    with pytest.raises(HireError):
        await hire(world, wallet, world.ids["full"])
    gone = await cancel(wallet.journal.all()[0], wallet, send)
    assert (gone.state, len(sent)) == (HireState.CANCELLED, 1)
    assert sum(coin.satoshis for coin in wallet.coins()) > 399_900
    with pytest.raises(RefusedTransactionError):
        node.accept(gone.transactions[0])
    with pytest.raises(HireError, match="nothing to take back"):
        await cancel(gone, wallet, send)


async def test_coins_of_a_hire_that_was_killed_and_taken_back_pay_for_nothing(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = Journal.save

    def killing(journal: Journal, one: Hire, **members: Any) -> Hire:
        saved = save(journal, one, **members)
        if saved.state is HireState.SIGNED:
            raise KilledError
        return saved

    async def send(draft: Draft) -> None:
        world.agent.node.accept(draft.tx)

    wallet = world.wallet(tmp_path / "w", POLICY)
    with monkeypatch.context() as patched:
        patched.setattr(Journal, "save", killing)
        with pytest.raises(KilledError):
            await hire(world, wallet, world.ids["full"])
    killed = wallet.journal.get("")
    await cancel(killed, wallet, send)
    assert not {coin.outpoint for coin in wallet.coins()} & killed.spent
    assert sum(coin.satoshis for coin in wallet.coins()) > 399_900


async def test_nothing_is_taken_back_while_the_agent_may_work(world: World, tmp_path: Path) -> None:
    async def fall_silent(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async def send(draft: Draft) -> None:
        world.agent.node.accept(draft.tx)

    world.agent.before = fall_silent
    wallet = world.wallet(tmp_path / "w", POLICY)
    with pytest.raises(UnreachableError):
        await hire(world, wallet, world.ids["full"])
    with pytest.raises(HireError, match="would lose its work"):
        await cancel(wallet.journal.get(""), wallet, send)
    then = wallet.journal.now() + 1_801
    wallet.__dict__["journal"] = later = Journal(wallet.folder / "hires.db", lambda: then)
    assert (await cancel(later.get(""), wallet, send)).state is HireState.CANCELLED
    world.agent.answer = echo
