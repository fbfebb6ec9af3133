"""Reports of ARC: who may send them, and what becomes of the transaction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from parsers.bitcoin.tx import read
from tests.minting import Mint, forged, path_in
from tests.overlay.calls import get
from tests.serving import new_app, serving
from tests.waiting import until_told

TOKEN = "a token of 24 characters"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
TOPICS = {"X-Topics": "tm_a2b"}


async def report(session: ClientSession, headers: dict[str, str] = BEARER, **members: Any) -> tuple[int, Any]:
    async with session.post("/arc-ingest", json=members, headers=headers) as answer:
        return answer.status, await answer.json()


async def test_a_merkle_path_is_verified_with_our_own_headers(tmp_path: Path) -> None:
    mint = Mint()
    raw = mint.inscribed("Reported")
    txid = read(raw).hex_id
    async with serving(new_app(tmp_path, mint.chain, arc_callback_token=TOKEN)) as session:
        async with session.post("/submit", data=mint.package(raw), headers=TOPICS) as answer:
            assert answer.status == 200
        block = mint.kit.mine(raw)
        path = path_in(block, read(raw).txid)
        mined = {"txid": txid, "txStatus": "MINED", "blockHeight": 3, "merklePath": path.to_bytes().hex()}
        status, done = await report(session, **mined)
        assert (status, "not known here yet" in done["message"]) == (200, True)
        mint.chain.arrive(block)
        await until_told(session, "/v1/search", lambda page: [item["status"] for item in page["items"]] == ["live"])
        assert await report(session, **mined) == (200, {"status": "success", "message": "Transaction status updated"})
        assert (await report(session, {"X-Callback-Token": TOKEN}, **mined))[0] == 200
        for bad in (forged(path).to_bytes().hex(), "00", "zz", path_in(block, block.txids[0]).to_bytes().hex()[:-2]):
            status, problem = await report(session, **{**mined, "merklePath": bad})
            assert (status, problem["status"], problem["code"]) == (400, "error", "not-proved")
        status, problem = await report(session, **{**mined, "txid": "11" * 32})
        assert (status, problem["code"]) == (400, "not-proved")


async def test_a_rejected_transaction_is_deleted_with_its_descendants(tmp_path: Path) -> None:
    mint = Mint()
    first = mint.inscribed("First")
    second = mint.inscribed("First", 1, mint.coin_of(first, 0), version="2")
    other = mint.inscribed("Other", 2)
    async with serving(new_app(tmp_path, mint.chain, arc_callback_token=TOKEN)) as session:
        for package in (mint.package(first, second), mint.package(other)):
            async with session.post("/submit", data=package, headers=TOPICS) as answer:
                assert answer.status == 200
        await until_told(session, "/v1/search?status=undecided", lambda page: page["total"] == 2)
        for status in ("SEEN_ON_NETWORK", "SEEN_IN_ORPHAN_MEMPOOL", "DOUBLE_SPEND_ATTEMPTED"):
            answered = await report(session, txid=read(first).hex_id, txStatus=status)
            assert (answered[0], answered[1]["message"]) == (200, "nothing to do for this status")
        status, done = await report(session, txid=read(first).hex_id, txStatus="REJECTED", extraInfo="too cheap")
        assert (status, done["message"]) == (200, "2 submitted transactions deleted")
        page = await until_told(session, "/v1/search?status=undecided", lambda page: page["total"] == 1)
        assert page["items"][0]["name"] == "Other"
        assert (await report(session, txid=read(first).hex_id, txStatus="REJECTED"))[0] == 200
        mint.mine(other)
        await until_told(session, "/v1/search", lambda page: [item["status"] for item in page["items"]] == ["live"])
        status, done = await report(session, txid=read(other).hex_id, txStatus="REJECTED")
        assert (status, done["message"]) == (200, "0 submitted transactions deleted")
        assert (await get(session, "/v1/search"))["total"] == 1


@pytest.mark.parametrize("token", [TOKEN, ""])
async def test_only_reports_with_the_token_are_accepted(tmp_path: Path, token: str) -> None:
    mint = Mint()
    raw = mint.inscribed("Kept")
    rejected = {"txid": read(raw).hex_id, "txStatus": "REJECTED"}
    async with serving(new_app(tmp_path, mint.chain, arc_callback_token=token)) as session:
        async with session.post("/submit", data=mint.package(raw), headers=TOPICS) as answer:
            assert answer.status == 200
        await until_told(session, "/v1/search?status=undecided", lambda page: page["total"] == 1)
        wrong = ({}, {"Authorization": "Bearer "}, {"Authorization": f"Bearer {TOKEN}x"}, {"X-Callback-Token": "\xff"})
        for headers in (*wrong, *([] if token else [BEARER])):
            status, problem = await report(session, headers, **rejected)
            assert (status, problem["status"]) == (401, "error")
        async with session.post("/arc-ingest", data=b"{", headers=BEARER) as answer:
            assert answer.status == (400 if token else 401)
        assert (await get(session, "/v1/search?status=undecided"))["total"] == 1
