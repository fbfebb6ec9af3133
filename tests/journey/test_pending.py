"""From a source's mempool to answers over HTTP: announced, updated, mined."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aiohttp import ClientSession

from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.overlay.answer_models import fits
from tests.overlay.calls import get
from tests.serving import new_app, serving
from tests.waiting import until_told


def meets(value: Any, name: str) -> None:
    fits(value, name)


async def test_a_registration_is_followed_from_the_mempool_into_blocks(tmp_path: Path) -> None:
    kit = ChainKit()
    chain = MemoryChain(*kit.blocks, name="live")
    async with serving(new_app(tmp_path, chain)) as session:
        await visit(session, kit, chain)


async def visit(session: ClientSession, kit: ChainKit, chain: MemoryChain) -> None:
    echo = kit.inscribe(agent("Echo"))
    update = kit.update(echo, agent("Echo 2", description="Louder."))
    chain.unconfirmed[echo.txid] = kit.raw(echo)
    page = await until_told(session, "/v1/search?q=echo", lambda page: page["items"])
    meets(page, "Page")
    [item] = page["items"]
    assert (item["id"], item["status"], "blockHeight" in item) == (str(echo), "pending", False)
    meets(await get(session, f"/v1/listings/{echo}"), "Listing")
    assert (await get(session, f"/v1/listings/{echo}/card"))["name"] == "Echo"
    assert (await get(session, f"/v1/listings/{echo}/history"))["revisions"][0]["height"] is None
    status = await get(session, "/v1/status")
    meets(status, "Status")
    assert (status["listings"]["pending"], status["chains"][0]["mempool"]) == (1, 1)
    assert (await get(session, "/v1/search?asOfHeight=1"))["items"] == []

    chain.unconfirmed = {update.txid: kit.raw(update)}
    chain.arrive(kit.mine(echo))
    page = await until_told(session, "/v1/search?q=echo", lambda page: "pending" in page["items"][0])
    meets(page, "Page")
    [item] = page["items"]
    assert (item["status"], item["blockHeight"], item["pending"]["changes"]) == ("live", 2, [])
    revisions = (await get(session, f"/v1/listings/{echo}/history"))["revisions"]
    assert [(entry["height"], entry["kind"]) for entry in revisions] == [(None, "reinscribed"), (2, "inscribed")]

    chain.unconfirmed = {}
    chain.arrive(kit.mine(update))
    page = await until_told(session, "/v1/search?q=louder", lambda page: page["matched"])
    assert (page["items"][0]["blockHeight"], "pending" in page["items"][0]) == (3, False)
    changes = (await get(session, "/v1/changes?since=0"))["changes"]
    assert [(change["op"], change["height"], change["reason"]) for change in changes][:2] == [
        ("upsert", None, "pending"), ("upsert", 2, "inscribed"),
    ]  # fmt: skip
    assert changes[-1]["reason"] == "reinscribed"
