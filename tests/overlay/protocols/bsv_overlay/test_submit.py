"""Submissions over HTTP: topics, answers and errors, and what the search shows of them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from threading import Event, Semaphore
from typing import Any

import pytest
from aiohttp import ClientSession

from indexer.admission.admission import Admission, Admissions
from parsers.bitcoin import beef
from parsers.bitcoin.tx import read, varint
from tests.bitcoind import pay
from tests.minting import Mint
from tests.overlay.calls import get
from tests.serving import new_app, running, serving
from tests.waiting import PATIENCE, until_told

TOPIC = "tm_agent_registry"
FRESH = {"outputsToAdmit": [0], "coinsToRetain": []}


async def send(session: ClientSession, beef: bytes, topics: str = f'["{TOPIC}"]', **headers: str) -> tuple[int, Any]:
    async with session.post("/submit", data=beef, headers={"X-Topics": topics, **headers}) as answer:
        return answer.status, await answer.json()


async def test_a_submission_is_listed_as_pending_until_it_is_mined(tmp_path: Path) -> None:
    mint = Mint()
    raw = mint.inscribed("Echo")
    async with serving(new_app(tmp_path, mint.chain)) as session:
        assert await send(session, mint.package(raw)) == (200, {TOPIC: FRESH})
        both = "tm_a2b, tm_agent_registry"  # as the Python client writes it
        assert await send(session, mint.package(raw, version=2), both) == (200, {"tm_a2b": FRESH, TOPIC: FRESH})
        mint.broadcast(raw)
        [item] = (await until_told(session, "/v1/search?q=echo", lambda page: page["items"]))["items"]
        assert (item["id"], item["status"]) == (f"{read(raw).hex_id}_0", "pending")
        mint.mine(raw)
        is_live = lambda page: page["items"][0]["status"] == "live"  # noqa: E731
        [item] = (await until_told(session, "/v1/search?q=echo", is_live))["items"]
        assert item["blockHeight"] == 3


@pytest.mark.parametrize("has_mempool", [True, False])
async def test_what_no_source_has_is_found_only_where_it_is_requested(tmp_path: Path, has_mempool: bool) -> None:
    mint = Mint()
    mint.chain.has_blocks_alone = not has_mempool
    raw = mint.inscribed("Echo")
    id_ = f"{read(raw).hex_id}_0"
    async with serving(new_app(tmp_path, mint.chain)) as session:
        assert await send(session, mint.package(raw)) == (200, {TOPIC: FRESH})
        unproved = "/v1/search?q=echo&status=undecided"
        [item] = (await until_told(session, unproved, lambda page: page["items"]))["items"]
        assert (item["id"], item["status"], item.get("blockHeight")) == (id_, "undecided", None)
        assert "unproved" in {warning["code"] for warning in item["warnings"]}
        assert (await get(session, "/v1/search?q=echo"))["items"] == []
        assert (await get(session, f"/v1/listings/{id_}"))["status"] == "undecided"
        for query, count in (({"id": id_}, 1), ({"q": "echo"}, 0)):
            question = {"service": "ls_agent_registry", "query": query}
            async with session.post("/lookup", json=question) as answer:
                assert len((await answer.json())["outputs"]) == count, query
        mint.mine(raw)
        [item] = (await until_told(session, "/v1/search?q=echo", lambda page: page["items"]))["items"]
        assert item["status"] == "live"
        assert "unproved" not in {warning["code"] for warning in item["warnings"]}


async def test_coins_that_others_have_spent_in_a_block_fill_no_search(tmp_path: Path) -> None:
    mint = Mint(coins=9)
    mint.mine(pay(mint.coins[1:], [(1_000, mint.key.lock)]))
    async with serving(new_app(tmp_path, mint.chain)) as session:
        for number in range(1, 9):
            await send(session, mint.package(mint.inscribed(f"Free {number}", number)))
        honest = mint.inscribed("Honest")
        assert (await send(session, mint.package(honest)))[0] == 200
        mint.broadcast(honest)
        page = await until_told(session, "/v1/search", lambda page: page["items"])
        assert [item["name"] for item in page["items"]] == ["Honest"]
        assert (await get(session, "/v1/search?status=all"))["total"] == 1


async def test_one_unspent_coin_makes_twenty_listings_that_are_not_sent_and_none_in_a_search(tmp_path: Path) -> None:
    """With transactions of forty inscriptions each, ten thousand were listed as pending."""
    mint = Mint()
    parts = [(1, mint.inscription(f"Free {number}")) for number in range(40)]
    one, two = (pay([mint.coins[0]], [*parts[:count], (50_000, mint.key.lock)]) for count in (40, 15))
    more = pay([mint.coin_of(two, 15)], [*parts[:6], (9_000, mint.key.lock)])
    async with serving(new_app(tmp_path, mint.chain)) as session:
        async with session.post("/submit", data=mint.package(one), headers={"X-Topics": TOPIC}) as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (429, "600")
            assert "40 listings of the owner of this coin: at most 20" in (await answer.json())["message"]
        assert (await send(session, mint.package(two)))[0] == 200
        assert (await send(session, mint.package(two, more)))[0] == 429
        await until_told(session, "/v1/search?status=undecided", lambda page: page["total"] == 15)
        assert (await get(session, "/v1/search"))["total"] == 0
        mint.broadcast(two)
        await until_told(session, "/v1/search", lambda page: page["total"] == 15)
        assert (await send(session, mint.package(two, more)))[0] == 200


async def test_two_processes_share_one_database(tmp_path: Path) -> None:
    mint = Mint()
    raw = mint.inscribed("Apart")
    index = new_app(tmp_path, mint.chain, serve=False)
    async with running(index), serving(new_app(tmp_path, follow=False)) as session:
        await until_told(session, "/v1/status", lambda status: status["chains"][0]["height"] == 2)
        assert await send(session, mint.package(raw)) == (200, {TOPIC: FRESH})
        mint.broadcast(raw)
        await until_told(session, "/v1/search?q=apart", lambda page: page["items"])


async def test_topics_and_bodies_are_refused_in_the_shape_of_overlay_express(tmp_path: Path) -> None:
    mint = Mint()
    beef = mint.package(mint.inscribed("Refused"))
    unknown = ('["tm_unknown"]', '["tm_a2b","tm_unknown"]', "tm_a2b tm_b")
    malformed = ("[]", "{}", "[1]", '["tm_a2b"', "[" * 4_000, ",", '["tm_a2b",""]', "tm_a2b," * 17)
    async with serving(new_app(tmp_path, mint.chain)) as session:
        for topics, code in [
            *((item, "unknown-topic") for item in unknown),
            *((item, "bad-topics") for item in malformed),
        ]:
            status, problem = await send(session, beef, topics)
            assert (status, problem["status"], problem["code"]) == (400, "error", code), topics
            assert problem["message"]
        async with session.post("/submit", data=beef) as answer:
            assert (answer.status, (await answer.json())["code"]) == (400, "missing-topics")
        status, problem = await send(session, beef[:-9])
        assert (status, problem["code"]) == (400, "not-a-beef")
        status, problem = await send(session, b"", **{"Content-Length": str(33 << 20)})
        assert (status, problem["status"]) == (413, "error")
        assert (await get(session, "/v1/search"))["items"] == []


async def test_off_chain_values_follow_the_beef(tmp_path: Path) -> None:
    mint = Mint()
    beef = mint.package(mint.inscribed("Aside"))
    framed = varint(len(beef)) + beef + b"anything"
    async with serving(new_app(tmp_path, mint.chain)) as session:
        assert (await send(session, framed))[0] == 400
        assert await send(session, framed, **{"x-includes-off-chain-values": "true"}) == (200, {TOPIC: FRESH})


async def test_submissions_do_not_hold_up_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mint, begun, done = Mint(), Semaphore(0), Event()
    submit = Admissions.submit

    def slow(admissions: Admissions, data: bytes, client: str) -> Admission:
        begun.release()
        done.wait(PATIENCE)
        return submit(admissions, data, client)

    monkeypatch.setattr(Admissions, "submit", slow)
    async with serving(new_app(tmp_path, mint.chain)) as session:
        beefs = [mint.package(mint.inscribed(f"Slow {coin}", coin)) for coin in range(2)]
        sent = [asyncio.create_task(send(session, beef)) for beef in beefs]
        try:
            for _ in beefs:
                assert await asyncio.to_thread(begun.acquire, timeout=PATIENCE)
            async with asyncio.timeout(PATIENCE / 2), session.post("/v1/check", data=b"{}") as answer:
                assert answer.status == 200
        finally:
            done.set()
        assert await asyncio.gather(*sent) == [(200, {TOPIC: FRESH})] * 2


async def test_lookups_return_submitted_outputs_with_their_ancestors(tmp_path: Path) -> None:
    mint = Mint()
    first = mint.inscribed("Parent")
    second = mint.inscribed("Offspring", 1, mint.coin_of(first, 1))
    async with serving(new_app(tmp_path, mint.chain)) as session:
        await send(session, mint.package(first, second))
        mint.broadcast(first, second)
        await until_told(session, "/v1/search?q=offspring", lambda page: page["items"])
        question = {"service": "ls_agent_registry", "query": {"q": "offspring"}}
        async with session.post("/lookup", json=question) as answer:
            assert answer.headers["X-Left-Out"] == "0"
            [output] = (await answer.json())["outputs"]
        id_ = f"{read(second).hex_id}_0"
        assert json.loads(bytes(output["context"])) == {"id": id_, "pending": True}
        package = beef.read(bytes(output["beef"]))
        assert [member.txid for member in package.members] == [read(raw).txid for raw in (mint.funding, first, second)]
        unproven = beef.verify(package, lambda height, root: (height, root) == (2, mint.path.merkle_root))
        assert [one.tx.txid for one in unproven] == [read(raw).txid for raw in (first, second, second)]
        mint.mine(first, second)
        is_live = lambda page: page["items"][0]["status"] == "live"  # noqa: E731
        await until_told(session, "/v1/search?q=offspring", is_live)
        async with session.post("/lookup", json=question) as answer:
            [output] = (await answer.json())["outputs"]
        assert json.loads(bytes(output["context"])) == {"id": id_}
