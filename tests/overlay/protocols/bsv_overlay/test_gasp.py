"""GASP as other overlays speak it: `@bsv/gasp` and the Engine of `@bsv/overlay`, unmodified, and what they sent."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from parsers.bitcoin import bump
from parsers.bitcoin.tx import read_exactly
from tests.minting import Mint
from tests.overlay.protocols.bsv_overlay.overlay_clients import engine
from tests.overlay.protocols.vectors import recorded
from tests.serving import new_app, serving
from tests.waiting import PATIENCE, until_told

TOPIC = {"X-BSV-Topic": "tm_agent_registry"}


@pytest.fixture(scope="module")
def live(sample: Path) -> dict[str, dict[str, Any]]:
    """The live registrations of the sample chain by outpoint."""
    registrations = json.loads((sample / "expected.json").read_text())["registrations"]
    return {entry["outpoint"]: entry for entry in registrations if entry["status"] == "live"}


async def post(client: ClientSession, path: str, body: Any, headers: dict[str, str] = TOPIC) -> tuple[int, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with client.post(path, data=data, headers=headers) as answer:
        return answer.status, await answer.json()


async def outputs(client: ClientSession, since: float = 0, **more: Any) -> list[dict[str, Any]]:
    status, answer = await post(client, "/requestSyncResponse", {"version": 1, "since": since, **more})
    assert (status, answer["since"]) == (200, since)
    listed: list[dict[str, Any]] = answer["UTXOList"]
    return listed


async def node(client: ClientSession, root: str, txid: str, vout: int = 0) -> tuple[int, Any]:
    question = {"graphID": root, "txid": txid, "outputIndex": vout, "metadata": True}
    return await post(client, "/requestForeignGASPNode", question, {})


@pytest.mark.parametrize("limit", [1, 7, 1_000])
async def test_pages_of_any_size_hold_every_output_and_end(overlay_url: str, live: dict[str, Any], limit: int) -> None:
    seen, since = list[tuple[str, int]](), 0
    async with ClientSession(overlay_url) as client:
        while page := await outputs(client, since, limit=limit):
            assert len(page) <= limit
            seen += [(f"{output['txid']}_{output['outputIndex']}", output["score"]) for output in page]
            since = page[-1]["score"]
    assert {outpoint for outpoint, _ in seen} == set(live)
    scores = [score for _, score in seen]
    assert scores == sorted(set(scores))


async def test_the_engine_synchronises_what_its_topic_manager_admits(
    overlay_url: str, live: dict[str, dict[str, Any]]
) -> None:
    """Its topic manager needs an envelope of the registry: the inputs of a mined transfer are not part of its proof."""
    roots = {}
    async with ClientSession(overlay_url) as client:
        for output in await outputs(client):
            _, answer = await node(client, f"{output['txid']}.{output['outputIndex']}", output["txid"])
            path = bump.read(bytes.fromhex(answer["proof"]))
            roots[str(path.height)] = path.merkle_root[::-1].hex()
        newest = max(output["score"] for output in await outputs(client))
    inscribed = {
        outpoint
        for outpoint, entry in live.items()
        if entry["revisions"][-1]["kind"] in ("inscribed", "reinscribed", "invalid")
    }
    assert len(inscribed) > 10
    first, again = await engine(roots=roots, gasp=overlay_url, rounds=2)
    assert inscribed <= set(first["outpoints"]) <= live.keys()
    assert first["since"] == newest
    assert again["outpoints"] == first["outpoints"]
    paged, repeated = await engine(roots=roots, gasp=overlay_url, rounds=2, limit=5)
    assert paged["outpoints"] == first["outpoints"]
    assert paged["questions"] == sorted(set(paged["questions"]))
    assert repeated["questions"] == [newest]


async def test_a_submitted_transaction_is_proved_by_its_ancestors(tmp_path: Path) -> None:
    mint = Mint()
    first = mint.inscribed("First")
    second = mint.inscribed("Second", 1, mint.coin_of(first, 1))
    txids = [read_exactly(raw).hex_id for raw in (first, second)]
    async with serving(new_app(tmp_path, mint.chain, limits="off")) as session:
        async with session.post("/submit", data=mint.package(first, second), headers={"X-Topics": "tm_a2b"}) as answer:
            assert answer.status == 200
        mint.broadcast(first, second)
        await until_told(session, "/v1/search", lambda page: page["total"] == 2)
        assert {output["txid"] for output in await outputs(session)} == set(txids)
        for txid, raw in zip(txids, (first, second), strict=True):
            status, answer = await node(session, f"{txid}.0", txid)
            assert (status, answer) == (200, {"graphID": f"{txid}.0", "rawTx": raw.hex(), "outputIndex": 0})
            funding = read_exactly(mint.funding).hex_id
            status, answer = await node(session, f"{txid}.0", funding, 7)
            assert (status, answer["rawTx"]) == (200, mint.funding.hex())
            assert bump.read(bytes.fromhex(answer["proof"])).merkle_root == mint.path.merkle_root
        height = str(mint.path.height)
        roots = {height: mint.path.merkle_root[::-1].hex()}
        url = str(session._base_url).rstrip("/")
        [synchronised] = await engine(roots=roots, gasp=url, rounds=1)
        assert synchronised["outpoints"] == sorted(f"{txid}_0" for txid in txids)
        since = max(output["score"] for output in await outputs(session))
        mint.mine(first, second)
        await until_told(session, "/v1/search", lambda page: {item["status"] for item in page["items"]} == {"live"})
        assert {output["txid"] for output in await outputs(session, since)} == set(txids)
        _, answer = await node(session, f"{txids[1]}.0", txids[0])
        assert bump.read(bytes.fromhex(answer["proof"])).height == 3


async def test_an_unconfirmed_transaction_is_offered_once_it_can_be_proved(tmp_path: Path) -> None:
    mint = Mint()
    raw = mint.inscribed("Unproved")
    mint.chain.unconfirmed[read_exactly(raw).txid] = raw
    async with serving(new_app(tmp_path, mint.chain)) as session:
        await until_told(session, "/v1/search", lambda page: page["total"] == 1)
        assert await outputs(session) == []
        status, answer = await node(session, f"{read_exactly(raw).hex_id}.0", read_exactly(raw).hex_id)
        assert (status, answer["code"]) == (400, "unknown-transaction")
        async with session.post("/submit", data=mint.package(raw), headers={"X-Topics": "tm_a2b"}) as submitted:
            assert submitted.status == 200
        async with asyncio.timeout(PATIENCE):
            while True:
                if listed := await outputs(session):
                    break
                await asyncio.sleep(0.02)
        assert [output["txid"] for output in listed] == [read_exactly(raw).hex_id]


@pytest.mark.parametrize(
    ("path", "body", "headers", "code"),
    [
        ("/requestSyncResponse", {"version": 1, "since": 0}, {}, "missing-topic"),
        ("/requestSyncResponse", {"version": 1, "since": 0}, {"X-BSV-Topic": "tm_ship"}, "unknown-topic"),
        ("/requestSyncResponse", {"version": 2, "since": 0}, TOPIC, "ERR_GASP_VERSION_MISMATCH"),
        ("/requestSyncResponse", {"since": 0}, TOPIC, "missing"),
        ("/requestSyncResponse", {"version": 1, "since": -1}, TOPIC, "wrong-type"),
        ("/requestSyncResponse", {"version": 1, "since": "0"}, TOPIC, "wrong-type"),
        ("/requestSyncResponse", b'{"version": 1, "since": NaN}', TOPIC, "wrong-type"),
        ("/requestSyncResponse", b'{"version": 1, "since": 1e999}', TOPIC, "wrong-type"),
        ("/requestSyncResponse", {"version": 1, "since": 0, "limit": 0}, TOPIC, "wrong-type"),
        ("/requestSyncResponse", b"", TOPIC, "not-json"),
        ("/requestForeignGASPNode", {}, {}, "missing"),
        ("/requestForeignGASPNode", {"graphID": "x", "txid": "00" * 32, "outputIndex": 0}, {}, "not-an-outpoint"),
        ("/requestForeignGASPNode", {"graphID": "x", "txid": "0" * 63, "outputIndex": 0}, {}, "not-hex"),
        (
            "/requestForeignGASPNode", {"graphID": f"{'00' * 32}.0", "txid": "00" * 32, "outputIndex": 0}, {},
            "unknown-transaction",
        ),
        ("/requestForeignGASPNode", {}, {"X-BSV-Topic": "tm_ship"}, "unknown-topic"),
    ],
)  # fmt: skip
async def test_questions_that_are_none_are_refused_by_name(
    overlay_url: str, path: str, body: Any, headers: dict[str, str], code: str
) -> None:
    async with ClientSession(overlay_url) as client:
        status, answer = await post(client, path, body, headers)
    assert (status, answer["status"], answer["code"]) == (400, "error", code)


async def test_numbers_of_any_size_are_answered(overlay_url: str, live: dict[str, Any]) -> None:
    async with ClientSession(overlay_url) as client:
        txid = next(iter(live))[:64]
        status, answer = await node(client, f"{txid}.0", txid, 10**30)
        assert (status, answer["code"]) == (400, "unknown-output")
        for since in (1e300, 0.5, 2**70):
            assert len(await outputs(client, since)) == (len(live) if since < 1 else 0)
        assert len(await outputs(client, 0, limit=10**30)) == len(live)


async def test_what_clients_sent_is_answered(overlay_url: str, shared: Path) -> None:
    """Replays a synchronisation by `@bsv/gasp` with the sample chain."""
    answered = []
    async with ClientSession(overlay_url) as client:
        for request in recorded(shared, "gasp_sync"):
            if request.target == "/requestSyncResponse" or request.target == "/requestForeignGASPNode":
                status, answer = await post(client, request.target, request.body.encode(), request.headers)
                assert status == 200, answer
                answered.append(request.target)
    assert len(set(answered)) == 2
