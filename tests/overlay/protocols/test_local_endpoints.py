"""Answers for machines that call endpoints name no loopback or link-local one, whatever a card names."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiohttp import ClientSession

from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.serving import new_app, serving
from tests.waiting import until_told

ENDPOINTS = ("http://127.0.0.1:6379/", "http://169.254.169.254/latest", "http://localhost:9/a2a", "http://[::1]:9/a2a")


def message(kind: str, payload: dict[str, str]) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {
        "mrp_version": "0.1", "msg_id": str(uuid4()), "msg_type": kind, "timestamp": now,
        "sender": {"id": "agent:test/one"}, "payload": payload,
    }  # fmt: skip


async def _text(client: ClientSession, path: str) -> str:
    async with client.get(path, headers={"Host": "registry.example"}) as response:
        assert response.status == 200, await response.text()
        return await response.text()


@pytest.mark.parametrize("endpoint", ENDPOINTS)
async def test_manifests_and_rows_of_a_listing_leave_its_local_endpoint_out(tmp_path: Path, endpoint: str) -> None:
    kit = ChainKit()
    chain = MemoryChain(*kit.blocks, name="live")
    async with serving(new_app(tmp_path, chain, limits="off")) as client:
        card = agent("Lantern", url=endpoint, skills=[{"id": "light", "name": "Light", "description": "x", "tags": []}])
        chain.arrive(kit.mine(kit.inscribe(card)))

        [item] = (await until_told(client, "/v1/search?q=lantern", lambda page: page["items"]))["items"]
        assert item["url"] == endpoint, "the registry says what the card says"
        for path in (f"/mrp/manifest/{item['id']}", "/mrp/registry/query", "/api/v1/agents/discover", "/agents",
                     "/discovery/resources"):  # fmt: skip
            text = await _text(client, path)
            assert f'"{endpoint}"' not in text.replace('"detail"', ""), path
        async with client.post("/mrp/discover", json=message("DISCOVER", {"intent": "lantern"})) as response:
            [offer] = (await response.json())["payload"]["offers"]
        assert "endpoint" not in offer
        execute = message("EXECUTE", {"route_id": offer["route_id"]})
        async with client.post("/mrp/execute", json=execute) as response:
            details = (await response.json())["payload"]["details"]
        assert (details["endpoint"], details["listing"]) == ("", item["id"])
