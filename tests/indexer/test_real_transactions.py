"""Real mainnet transactions, mined into blocks of our own: among them the one A2B registration that is known."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.chainkit import ChainKit
from tests.chainkit_scripts import p2pkh
from tests.fakes import MemoryChain
from tests.indexing import Indexing

REGISTRATION = "b08538c963d2b88c7d26600a1c3c925a3388e942cdc5f903ecf0009f18c41ff3"


@pytest.fixture(scope="module")
def vectors(shared: Path) -> list[dict[str, Any]]:
    lines = (shared / "vectors/bsv/real_transactions.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def mainnet(kit: ChainKit) -> MemoryChain:
    chain = MemoryChain(*kit.blocks)
    chain.network = "mainnet"
    return chain


async def test_only_the_real_registration_is_one(vectors: list[dict[str, Any]], shared: Path, tmp_path: Path) -> None:
    kit = ChainKit(funds=1)
    kit.mine(*(bytes.fromhex(vector["hex"]) for vector in vectors))
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", mainnet(kit)) as indexing:
        answer = (await indexing.catch_up()).records()
    (registration,) = answer["registrations"]
    body = (shared / "vectors/bsv/real_a2b_mcp_b08538c9.json").read_bytes()
    assert registration["id"] == f"{REGISTRATION}_0"
    assert (registration["type"], registration["map"]) == ("tool", {"app": "bsv-mcp", "type": "a2b-mcp"})
    assert registration["owner"] == "1Cr5gSHf5tzFBvGuSa21VRoV9pRuRBmum9"
    assert registration["cardSha256"] == sha256(body).hexdigest()
    assert list(registration["card"]["mcpServers"]) == ["Bitcoin SV"]
    (revision,) = registration["revisions"]
    assert (revision["signer"], revision["txIndex"]) == (
        "1FdKLZsksDDRukRtUSwv8b2TVXEngdDHya",
        1 + [vector["txid"] for vector in vectors].index(REGISTRATION),
    )
    assert (answer["pointers"], answer["rejected"]) == ([], [])


async def test_the_real_registration_can_be_moved_on(vectors: list[dict[str, Any]], tmp_path: Path) -> None:
    kit = ChainKit(funds=2)
    raw = next(bytes.fromhex(vector["hex"]) for vector in vectors if vector["txid"] == REGISTRATION)
    kit.mine(raw)
    kit.mine(kit.spend([kit.tx(raw).outpoint(0), kit.fund()], [(1, p2pkh("bob"))]))
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", mainnet(kit)) as indexing:
        await indexing.catch_up()
        assert indexing.kinds(f"{REGISTRATION}_0") == ["inscribed", "moved"]
