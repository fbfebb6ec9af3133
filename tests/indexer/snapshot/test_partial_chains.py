"""Snapshots of chains of which only the blocks that said something are known."""

from __future__ import annotations

import base64
import json
from hashlib import sha256
from pathlib import Path

import pytest
import pytest_asyncio

from indexer.store import second_readings
from tests import chain_records as words
from tests.chainkit import ChainKit, agent
from tests.evm_server import EvmServer, says
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.snapshots import Empty, Line, empty, exported, parsed, rewritten

__all__ = ["empty"]


@pytest_asyncio.fixture
async def snapshot(tmp_path: Path) -> bytes:
    """A chain on which pointers, a card in full and a broken log stand far apart."""
    server = EvmServer()
    card = "data:application/json;base64," + base64.b64encode(json.dumps(agent()).encode()).decode()
    for uri in ("https://shop.example/card.json", card, "data:nothing", "gopher://shop.example"):
        server.mine(says(uri))
        server.mine_empty(50)
    chain = server.direct()
    with Indexing(f"sqlite:///{tmp_path}/source.db", chain) as indexing:
        await indexing.catch_up()
        second_readings.advance(indexing.writer, "demo", len(server.blocks) - 1)
        text = exported(indexing.store)
    await chain.close()
    return text


async def test_a_snapshot_taken_over_holds_the_same_facts(snapshot: bytes, empty: Empty, tmp_path: Path) -> None:
    empty.take(snapshot.splitlines(keepends=True), trust=True)
    assert exported(empty.store) == snapshot
    assert len(words.pointers(empty.store, "demo")) == 2
    assert len(words.registrations(empty.store, "demo")) == 1
    assert len(words.rejected(empty.store, "demo")) == 1


def changed(raw: bytes, block: int, **members: object) -> list[bytes]:
    """The snapshot, in which a block (the first is 0) has other members."""
    results: list[Line] = parsed(raw)
    blocks = [line for line in results if "block" in line]
    blocks[block]["block"] |= members
    return rewritten(results)


@pytest.mark.parametrize(
    ("block", "members", "why"),
    [
        (1, {"height": 0}, "does not continue the stored chain demo"),
        (2, {"height": 1}, "does not continue the stored chain demo"),
        (2, {"prev": "ab" * 32}, "does not continue the stored chain demo"),
        (1, {"hash": "ab" * 32}, "does not continue the stored chain demo"),
        (0, {"height": 0}, "is not the first of demo"),
    ],
)
async def test_blocks_that_do_not_follow_each_other_are_refused(
    snapshot: bytes, empty: Empty, block: int, members: dict[str, object], why: str
) -> None:
    assert why in empty.refuses(changed(snapshot, block, **members), trust=True)


async def test_a_chain_without_proof_of_work_is_left_out(
    snapshot: bytes, empty: Empty, caplog: pytest.LogCaptureFixture
) -> None:
    assert "nothing in the file can be verified: demo: eip155:1 has no proof of work" in empty.refuses(
        snapshot.splitlines(keepends=True)
    )


async def test_chains_that_can_be_verified_are_imported_without_those_that_cannot(
    snapshot: bytes, empty: Empty, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kit = ChainKit()
    kit.mine(kit.inscribe(agent()))
    with Indexing(f"sqlite:///{tmp_path}/mined.db", MemoryChain(*kit.blocks, name="mined")) as indexing:
        mined = exported((await indexing.catch_up()).store)
    one, other = parsed(snapshot), parsed(mined)
    lines = [one[0] | {"chains": one[0]["chains"] + other[0]["chains"]}]
    lines += sorted((line for line in one + other if "card" in line), key=card_digest)
    lines += [line for line in one[1:-1] + other[1:-1] if "card" not in line]
    lines.append({"end": {name: one[-1]["end"][name] + other[-1]["end"][name] for name in one[-1]["end"]}})
    report = empty.take(rewritten(lines))
    assert [(chain.name, chain.height) for chain in report.chains] == [("demo", None), ("mined", 2)]
    assert "demo is not imported, as the file proves no more" in caplog.text
    assert exported(empty.store) == mined
    assert empty.store.chains() == {"mined": "bsv:regtest"}


def card_digest(line: Line) -> bytes:
    return sha256(base64.b64decode(line["card"])).digest()


def without_header(raw: bytes) -> list[bytes]:
    lines = parsed(raw)
    del next(line for line in lines if "block" in line)["block"]["header"]
    return rewritten(lines)


async def test_a_block_of_a_mined_chain_without_its_header_is_refused(empty: Empty, tmp_path: Path) -> None:
    kit = ChainKit()
    kit.mine_empty(2)
    with Indexing(f"sqlite:///{tmp_path}/mined.db", MemoryChain(*kit.blocks)) as indexing:
        text = exported((await indexing.catch_up()).store)
    assert "is not the genesis block of bsv regtest" in empty.refuses(without_header(text))
