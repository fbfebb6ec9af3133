"""From a source's mempool to answers over HTTP: announced, updated, mined."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import jsonschema

from overlay.api.schemas import SCHEMAS
from overlay.runner import Runner
from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.overlay.test_runner import house, until


def meets(value: Any, name: str) -> None:
    jsonschema.validate(value, {"$ref": f"#/components/schemas/{name}", "components": {"schemas": SCHEMAS}})


class Visitor:
    """Asks the service at a URL until it answers as expected."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url

    async def get(self, path: str) -> Any:
        async with self._session.get(f"{self._url}{path}") as answer:
            return json.loads(await answer.read())

    async def until(self, path: str, what: Any) -> Any:
        async with asyncio.timeout(30):
            while not what(found := await self.get(path)):  # noqa: ASYNC110 - HTTP tells nobody
                await asyncio.sleep(0.02)
        return found


async def test_a_registration_is_followed_from_the_mempool_into_blocks(tmp_path: Path) -> None:
    kit = ChainKit()
    chain = MemoryChain(*kit.blocks, name="live")
    told, urls = house(tmp_path, chain), list[str]()
    runner = Runner(told, urls.append)
    task = asyncio.create_task(runner.run())
    try:
        await until(lambda: urls and runner.standing.ready() is None)
        async with aiohttp.ClientSession() as session:
            await visit(Visitor(session, urls[0]), kit, chain)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        told.close()


async def visit(visitor: Visitor, kit: ChainKit, chain: MemoryChain) -> None:
    echo = kit.inscribe(agent("Echo"))
    update = kit.update(echo, agent("Echo 2", description="Louder."))
    chain.unconfirmed[echo.txid] = kit.raw(echo)
    page = await visitor.until("/v1/search?q=echo", lambda page: page["items"])
    meets(page, "Page")
    [item] = page["items"]
    assert (item["id"], item["status"], "blockHeight" in item) == (str(echo), "pending", False)
    meets(await visitor.get(f"/v1/listings/{echo}"), "Listing")
    assert (await visitor.get(f"/v1/listings/{echo}/card"))["name"] == "Echo"
    assert (await visitor.get(f"/v1/listings/{echo}/history"))["revisions"][0]["height"] is None
    status = await visitor.get("/v1/status")
    meets(status, "Status")
    assert (status["listings"]["pending"], status["chains"][0]["mempool"]) == (1, 1)
    assert (await visitor.get("/v1/search?asOfHeight=99"))["items"] == []

    chain.unconfirmed = {update.txid: kit.raw(update)}
    chain.arrive(kit.mine(echo))
    page = await visitor.until("/v1/search?q=echo", lambda page: "pending" in page["items"][0])
    meets(page, "Page")
    [item] = page["items"]
    assert (item["status"], item["blockHeight"], item["pending"]["summary"]) == ("live", 2, "Louder.")
    told = (await visitor.get(f"/v1/listings/{echo}/history"))["revisions"]
    assert [(each["height"], each["kind"]) for each in told] == [(None, "reinscribed"), (2, "inscribed")]

    chain.unconfirmed = {}
    chain.arrive(kit.mine(update))
    page = await visitor.until("/v1/search?q=louder", lambda page: page["items"])
    assert (page["items"][0]["blockHeight"], "pending" in page["items"][0]) == (3, False)
    changes = (await visitor.get("/v1/changes?since=0"))["changes"]
    assert [(each["op"], each["height"], each["reason"]) for each in changes][:2] == [
        ("upsert", None, "pending"), ("upsert", 2, "inscribed"),
    ]  # fmt: skip
    assert changes[-1]["reason"] == "reinscribed"
