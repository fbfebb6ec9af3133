"""Results by meaning alone, over a real server: marked in every answer, counted in none, and offered by no router."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest_asyncio
from aiohttp import ClientSession

from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.overlay.calls import get, post
from tests.serving import new_app, serving

QUESTION = "will someone outdoors tomorrow afternoon get wet without umbrella"
NEAR = "Nothing contains these words. These are near to them in meaning"
TEXTS = {
    "Forecast": "Rain, wind and temperature of the next days for a city",
    "Darkroom": "Crop, rotate and colour photographs",
    "Ledger": "Send coins between wallets and read balances",
}


@pytest_asyncio.fixture
async def session(tmp_path: Path) -> AsyncIterator[ClientSession]:
    async with serving(new_app(tmp_path, listed(), search=f"native:{tmp_path}/index")) as client:
        yield client


def listed() -> MemoryChain:
    kit = ChainKit()
    kit.mine(*(kit.inscribe(agent(name, description=text)) for name, text in TEXTS.items()))
    chain = MemoryChain()
    chain.arrive(*kit.blocks)
    return chain


async def test_items_are_marked_and_not_counted(session: ClientSession) -> None:
    page = await get(session, f"/v1/search?explain=true&q={quote(QUESTION)}")
    assert (page["total"], page["matched"]) == (0, 0)
    assert page["nextCursor"] is None
    first = page["items"][0]
    assert (first["name"], first["byMeaning"]) == ("Forecast", True)
    assert first["explain"]["meaning"]["weight"] == 0.4
    by_words = await get(session, "/v1/search?q=rain+wind")
    assert [(item["name"], "byMeaning" in item) for item in by_words["items"]] == [("Forecast", False)]


async def test_where_nothing_is_near_the_answer_says_so_and_how_to_follow_the_search(session: ClientSession) -> None:
    page = await get(session, "/v1/search?type=agent&q=marry+a+dentist+in+my+city&limit=5")
    assert page["weak"] is True
    assert [item["name"] for item in page["items"]] == ["Forecast"]
    assert "nothing-here" in [note["code"] for note in page["notes"]]
    assert page["follow"]["webhook"] == "/v1/subscriptions"
    for name in ("atom", "json"):
        assert page["follow"][name].endswith("?type=agent&q=marry+a+dentist+in+my+city")
        async with session.get(page["follow"][name]) as feed:
            assert feed.status == 200
    by_words = await get(session, "/v1/search?q=rain+wind")
    assert not {"weak", "follow"} & by_words.keys()
    async with session.get("/?q=marry+a+dentist+in+my+city", headers={"Accept": "text/html"}) as answer:
        assert "No listing here seems to do this" in await answer.text()


async def test_words_near_to_one_that_no_listing_has_are_proposed(tmp_path: Path) -> None:
    kit = ChainKit()
    kit.mine(*(kit.inscribe(agent(f"Desk {n}", description="Currency exchange")) for n in range(3)))
    chain = MemoryChain()
    chain.arrive(*kit.blocks)
    async with serving(new_app(tmp_path, chain, search=f"native:{tmp_path}/index")) as session:
        page = await get(session, "/v1/search?q=euros")
    assert {"q": "currency", "total": 3} in page["didYouMean"]


async def test_the_page_says_that_no_words_matched(session: ClientSession) -> None:
    async with session.get(f"/?q={quote(QUESTION)}", headers={"Accept": "text/html"}) as answer:
        page = await answer.text()
    assert NEAR in page
    assert page.index(NEAR) < page.index("Forecast</a>") < page.index("near in meaning</span>")
    async with session.get("/?q=rain+wind", headers={"Accept": "text/html"}) as answer:
        assert "near in meaning" not in await answer.text()


async def test_the_status_says_whether_meaning_counts(session: ClientSession) -> None:
    assert (await get(session, "/v1/status"))["index"]["meaning"] is True


async def test_agents_see_the_mark_and_routers_get_no_offer(session: ClientSession) -> None:
    parts = [{"text": QUESTION}]
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage"}
    call["params"] = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": parts}}
    async with session.post("/a2a", json=call, headers={"A2A-Version": "1.0"}) as response:
        answer = await response.json()
    text, data = answer["result"]["message"]["parts"]
    assert text["text"].splitlines()[0].endswith("by words; by meaning:")
    assert "Forecast (agent, near in meaning)" in text["text"]
    assert data["data"]["items"][0]["byMeaning"] is True
    offers = await post(session, "/mrp/discover", envelope(QUESTION))
    assert offers["payload"]["offers"] == []


def envelope(intent: str) -> dict[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "mrp_version": "0.1", "msg_id": str(uuid4()), "msg_type": "DISCOVER", "timestamp": now,
        "sender": {"id": "agent:test/one"}, "payload": {"intent": intent, "constraints": {}},
    }  # fmt: skip


async def test_turned_off_nothing_is_found_by_meaning(tmp_path: Path) -> None:
    app = new_app(tmp_path, listed(), search=f"native:{tmp_path}/index", meaning="off")
    async with serving(app) as session:
        assert (await get(session, f"/v1/search?q={quote(QUESTION)}"))["items"] == []
        assert (await get(session, "/v1/status"))["index"]["meaning"] is False
