"""The routes of anchors (BRC-136), as another overlay uses them: what it has is compared, what it lacks is fetched."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio
from aiohttp import ClientSession

from overlay.systems.bsv_overlay import anchor_api
from parsers.bitcoin.tx import Outpoint
from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.oracles.anchors import ZERO, admitted, anchors, twice
from tests.oracles.merkle import judge
from tests.oracles.registry import Registry, read_chain
from tests.serving import new_app, serving
from tests.waiting import until_told

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOPIC = {"X-BSV-Topic": "tm_agent_registry"}


class World(NamedTuple):
    """A served chain, and what the oracle says about it."""

    client: ClientSession
    raws: list[bytes]
    registry: Registry
    kit: ChainKit

    async def post(self, path: str, *, topic: str = "tm_agent_registry", **members: Any) -> Any:
        async with self.client.post(f"/{path}", json=members, headers={"X-BSV-Topic": topic}) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    async def refused(self, path: str, members: Any, headers: dict[str, str] = TOPIC) -> tuple[str, str]:
        """The code and message of an error in the protocol's shape."""
        async with self.client.post(f"/{path}", json=members, headers=headers) as answer:
            assert answer.status == 400
            body = await answer.json()
        assert body["status"] == "error"
        return body["code"], body["message"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    kit = ChainKit()
    created = [kit.inscribe(agent(f"Agent {number}")) for number in range(5)]
    kit.mine(*created, kit.pay("carol"))
    kit.mine_empty(2)
    moved = kit.move(created[0])
    kit.mine(moved, kit.burn(created[1], to="fee"), kit.point("agent.example"))
    raws = [block.raw for block in kit.blocks]
    folder = tmp_path_factory.mktemp("anchors")
    async with serving(new_app(folder, MemoryChain(*raws), limits="off")) as client:
        await until_told(client, "/v1/status", lambda status: status["chains"][0].get("height") == len(raws) - 1)
        yield World(client, raws, read_chain(raws), kit)


def shown(height: int, world: World) -> dict[str, Any]:
    anchor = next(anchor for anchor in anchors(world.registry, world.raws) if anchor.height == height)
    return {
        "topic": "tm_agent_registry", "blockHeight": height, "blockHash": anchor.block_hash, "basmRoot": anchor.root,
        "admittedCount": anchor.count, "tac": anchor.tac,
    }  # fmt: skip


async def test_the_tip_says_what_it_covers(world: World) -> None:
    tip = await world.post("requestTopicAnchorTip")
    height = len(world.raws) - 1
    assert tip == shown(height, world) | {"chain": "bsv:regtest", "complete": True, "genesisHeight": 1}
    assert (await world.post("requestTopicAnchorTip", topic="tm_a2b"))["topic"] == "tm_a2b"


async def test_ranges_hold_the_anchors_of_the_heights_that_there_are(world: World) -> None:
    height = len(world.raws) - 1
    answer = await world.post("requestTopicAnchorRange", fromHeight=0, toHeight=1_023)
    assert answer["topic"] == "tm_agent_registry"
    assert answer["anchors"] == [shown(number, world) for number in range(1, height + 1)]
    answer = await world.post("requestTopicAnchorRange", fromHeight=height, toHeight=height)
    assert answer["anchors"] == [shown(height, world)]
    assert (await world.post("requestTopicAnchorRange", fromHeight=999, toHeight=1_000))["anchors"] == []


async def test_what_a_block_admits_is_listed_proved_and_delivered(world: World) -> None:
    counts = {}
    for height in range(1, len(world.raws)):
        block = shown(height, world)["blockHash"]
        listed = await world.post("requestAdmittedList", blockHeight=height, blockHash=block)
        txids = [entry["txid"] for entry in listed["admitted"]]
        counts[height] = listed["admittedCount"]
        assert (listed["blockHash"], txids) == (block, admitted(world.registry, height))
        assert "nextOffset" not in listed
        if not txids:
            continue
        proof = await world.post("requestCompoundMerklePath", blockHeight=height, txids=txids)
        assert proof["txids"] == txids
        assert judge(bytes.fromhex(proof["merklePath"])) == world.raws[height][36:68]
        delivered = await world.post("requestRawTransactions", txids=txids[::-1])
        assert delivered["missing"] == []
        raws = {entry["txid"]: bytes.fromhex(entry["rawTx"]) for entry in delivered["transactions"]}
        assert {txid: twice(raw)[::-1].hex() for txid, raw in raws.items()} == {txid: txid for txid in txids}
    assert sorted(counts.values())[-2:] == [3, 5]


async def test_long_lists_come_in_pages(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    height = next(number for number in range(1, len(world.raws)) if len(admitted(world.registry, number)) == 5)
    monkeypatch.setattr(anchor_api, "MAX_ADMITTED", 2)
    txids, offset = [], 0
    while offset is not None:
        page = await world.post("requestAdmittedList", blockHeight=height, offset=offset)
        assert len(page["admitted"]) <= 2
        txids += [entry["txid"] for entry in page["admitted"]]
        offset = page.get("nextOffset")
    assert txids == admitted(world.registry, height)


async def test_transactions_that_are_not_here_or_have_no_room_are_missing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    height = next(number for number in range(1, len(world.raws)) if len(admitted(world.registry, number)) == 5)
    txids = admitted(world.registry, height)
    answer = await world.post("requestRawTransactions", txids=[ZERO, txids[0]])
    assert [entry["txid"] for entry in answer["transactions"]] == txids[:1]
    assert answer["missing"] == [ZERO]
    size = len(world.kit.raw(Outpoint(bytes.fromhex(txids[0])[::-1], 0)))
    monkeypatch.setattr(anchor_api, "MAX_RAW_BYTES", size)
    answer = await world.post("requestRawTransactions", txids=txids)
    assert len(answer["transactions"]) == 1
    assert {*answer["missing"], answer["transactions"][0]["txid"]} == set(txids)


@pytest.mark.parametrize(
    ("path", "members", "code", "names"),
    [
        ("requestTopicAnchorRange", {"fromHeight": 0, "toHeight": 1_024}, "out-of-range", "1024"),
        ("requestTopicAnchorRange", {"fromHeight": 5, "toHeight": 4}, "out-of-range", "toHeight"),
        ("requestTopicAnchorRange", {"fromHeight": -1, "toHeight": 4}, "wrong-type", "/fromHeight"),
        ("requestTopicAnchorRange", {"fromHeight": "1", "toHeight": 4}, "wrong-type", "/fromHeight"),
        ("requestTopicAnchorRange", {}, "missing", "/fromHeight"),
        ("requestTopicAnchorRange", [], "not-an-object", "fromHeight"),
        ("requestAdmittedList", {"blockHeight": 10**9}, "unknown-block", "1000000000"),
        ("requestAdmittedList", {"blockHeight": 2**31}, "wrong-type", "/blockHeight"),
        ("requestAdmittedList", {"blockHeight": 1, "blockHash": ZERO}, "another-block", "height 1"),
        ("requestCompoundMerklePath", {"blockHeight": 1, "txids": [ZERO]}, "not-proved", ZERO),
        ("requestCompoundMerklePath", {"blockHeight": 1, "txids": []}, "wrong-type", "/txids"),
        ("requestCompoundMerklePath", {"blockHeight": 1, "txids": ["zz"]}, "wrong-type", "/txids/0"),
        ("requestRawTransactions", {"txids": [ZERO] * 1_001}, "wrong-type", "/txids"),
    ],
)
async def test_wrong_requests_are_refused_by_name(world: World, path: str, members: Any, code: str, names: str) -> None:
    refused = await world.refused(path, members)
    assert refused[0] == code
    assert names in refused[1]


async def test_a_topic_is_named_and_served_here(world: World) -> None:
    path = "requestTopicAnchorTip"
    assert (await world.refused(path, {}, {}))[0] == "missing-topic"
    code, message = await world.refused(path, {}, {"X-BSV-Topic": "tm_other"})
    assert code == "unknown-topic"
    assert "tm_agent_registry" in message
    assert (await world.refused("requestRawTransactions", {"txids": []}, {}))[0] == "wrong-type"


async def test_without_a_bsv_chain_there_is_no_anchor(tmp_path: Path) -> None:
    kit = ChainKit("btc")
    async with (
        serving(new_app(tmp_path, MemoryChain(*kit.blocks, coin="btc"), limits="off")) as client,
        client.post("/requestTopicAnchorTip", json={}, headers=TOPIC) as answer,
    ):
        assert answer.status == 400
        assert (await answer.json())["code"] == "no-chain"


async def test_before_the_first_block_of_the_topic_the_tip_is_empty(tmp_path: Path) -> None:
    kit = ChainKit()
    async with (
        serving(new_app(tmp_path, MemoryChain(kit.blocks[0]), limits="off")) as client,
        client.post("/requestTopicAnchorTip", json={}, headers=TOPIC) as answer,
    ):
        tip = await answer.json()
    assert (tip["blockHeight"], tip["tac"]) == (-1, ZERO)
