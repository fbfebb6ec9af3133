"""From a JungleBus server to HTTP answers: found, checked where its owner is, proved, moved, and found there."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexer.chains.junglebus import chain as junglebus
from tests.chainkit import ChainKit, agent
from tests.junglebus_server import SUBSCRIPTION, JungleBus, bump_of
from tests.serving import built, serving
from tests.waiting import until_told


def source(server: JungleBus) -> str:
    return f"bsv=junglebus:{SUBSCRIPTION}?url={server.url}&network=regtest"


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
        serving(built(tmp_path, source(server), junglebus_token="sesame")) as session,
    ):
        page = await until_told(
            session, "/v1/search?q=echo", lambda body: body["items"] and "ownerCheckedAt" in body["items"][0]
        )
        assert page["items"][0]["id"] == str(echo)
        item = await until_told(session, f"/v1/listings/{echo}", lambda body: "ownerCheckedAt" in body)
        assert item["owner"] == kit.address("alice")

        async with session.get(f"/v1/listings/{echo}/proof") as answer:
            proof = await answer.json()
        assert (proof["rawTx"], proof["bump"]) == (kit.raw(echo).hex(), bump_of(block, echo.txid).hex())
        assert proof["header"] == block.header.hex()
        assert proof["ownerCheckedAt"] >= item["ownerCheckedAt"]

        status = await until_told(session, "/v1/status", lambda body: body["stateHash"])
        assert status["stateHash"]["bsv"]["hash"] is None
        assert status["chains"][0]["complete"] is False
        assert "cannot be known" in status["chains"][0]["note"]
        assert status["chains"][0]["source"] == "junglebus"
        assert server.tokens == {"sesame"}

        bob = kit.move(echo, "bob")
        kit.mine(bob)
        server.follow()
        await until_told(session, "/v1/status", lambda body: body["chains"][0]["height"] == 6)
        async with session.get(f"/v1/listings/{echo}/proof") as answer:
            assert answer.status == 503, "the owner is asked for before the proof is served, and has moved"
            assert "has just been found spent" in (await answer.json())["detail"]
        moved = await until_told(session, f"/v1/listings/{echo}", lambda body: body["owner"] == kit.address("bob"))
        assert moved["id"] == str(echo)
        async with session.get(f"/v1/listings/{echo}/proof") as answer:
            assert answer.status == 200
            document = await answer.json()
        (hop,) = document["after"]
        assert (hop["rawTx"], hop["header"]) == (kit.raw(bob).hex(), kit.tip.raw[:80].hex())
        assert (document["current"]["outpoint"], document["current"]["bump"]) == (str(bob), hop["bump"])
        changes = await until_told(session, "/v1/changes?since=0", lambda _: True)
        assert "owner-checked" in {change["reason"] for change in changes["changes"]}
