"""From a JungleBus server to HTTP answers: found, checked where its owner is, proved, moved, and found there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from indexer.chains.junglebus import chain as junglebus
from indexer.settings import Settings
from overlay.runner import Runner
from overlay.services import build
from tests.chainkit import ChainKit, agent
from tests.junglebus_server import SUBSCRIPTION, JungleBus, bump_of

PATIENCE = 30


@asynccontextmanager
async def serving(server: JungleBus, folder: Path) -> AsyncIterator[str]:
    """The URL of `a2b up` on that server."""
    told = Settings.load(
        {
            "data": str(folder),
            "port": "0",
            "chains": f"bsv=junglebus:{SUBSCRIPTION}?url={server.url}&network=regtest",
            "junglebus_token": "sesame",
        }
    )
    house = build(told, follow=True, serve=True)
    urls: asyncio.Queue[str] = asyncio.Queue()
    task = asyncio.create_task(Runner(house, urls.put_nowait).run())
    try:
        yield await asyncio.wait_for(urls.get(), PATIENCE)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        house.close()


async def until(session: aiohttp.ClientSession, path: str, what: Any) -> Any:
    """The answer of a route, once it is as it should be."""
    async with asyncio.timeout(PATIENCE):
        while True:
            async with session.get(path) as answer:
                body = await answer.json()
            if what(body):
                return body
            await asyncio.sleep(0.05)


async def test_a_registration_is_searched_proved_and_followed_without_a_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(junglebus, "POLL_SECONDS", 0.05)
    kit = ChainKit()
    echo = kit.inscribe(agent("Echo"))
    block = kit.mine(kit.pay(), echo)
    kit.mine_empty(3)
    async with (
        JungleBus(kit) as server,
        serving(server, tmp_path) as url,
        aiohttp.ClientSession(url) as session,
    ):
        page = await until(
            session, "/v1/search?q=echo", lambda body: body["items"] and "ownerCheckedAt" in body["items"][0]
        )
        assert page["items"][0]["id"] == str(echo)
        item = await until(session, f"/v1/listings/{echo}", lambda body: "ownerCheckedAt" in body)
        assert item["owner"] == kit.address("alice")

        async with session.get(f"/v1/listings/{echo}/proof") as answer:
            proof = await answer.json()
        assert (proof["rawTx"], proof["bump"]) == (kit.raw(echo).hex(), bump_of(block, echo.txid).hex())
        assert proof["header"] == block.header.hex()
        assert proof["ownerCheckedAt"] >= item["ownerCheckedAt"]

        status = await until(session, "/v1/status", lambda body: body["stateHash"])
        assert status["stateHash"]["bsv"]["hash"] is None
        assert status["chains"][0]["complete"] is False
        assert "cannot be known" in status["chains"][0]["note"]
        assert status["chains"][0]["source"].endswith("network=regtest&token=***")
        assert server.tokens == {"sesame"}

        bob = kit.move(echo, "bob")
        kit.mine(bob)
        server.follow()
        await until(session, "/v1/status", lambda body: body["chains"][0]["height"] == 6)
        async with session.get(f"/v1/listings/{echo}/proof") as answer:
            assert answer.status == 503, "the owner is asked for before the proof is served, and has moved"
            assert "has just been found spent" in (await answer.json())["detail"]
        moved = await until(session, f"/v1/listings/{echo}", lambda body: body["owner"] == kit.address("bob"))
        assert moved["id"] == str(echo)
        async with session.get(f"/v1/listings/{echo}/proof") as answer:
            assert answer.status == 200
            assert (await answer.json())["after"] == [kit.raw(bob).hex()]
        changes = await until(session, "/v1/changes?since=0", lambda _: True)
        assert "owner-checked" in {change["reason"] for change in changes["changes"]}
