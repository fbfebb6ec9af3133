"""Snapshots of chains of which only the blocks that said something are known."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
import pytest_asyncio

from tests import told as words
from tests.chainkit import ChainKit, agent
from tests.evm_server import EvmServer, says
from tests.fakes import MemoryChain
from tests.indexer.test_snapshot import Empty, Line, empty, exported, parsed, rewritten
from tests.indexing import Indexing

__all__ = ["empty"]


@pytest_asyncio.fixture
async def told(tmp_path: Path) -> bytes:
    """A chain on which pointers, a card in full and a broken log stand far apart."""
    server = EvmServer()
    card = "data:application/json;base64," + base64.b64encode(json.dumps(agent()).encode()).decode()
    for uri in ("https://shop.example/card.json", card, "data:nothing", "gopher://shop.example"):
        server.mine(says(uri))
        server.mine_empty(50)
    chain = server.direct()
    with Indexing(f"sqlite:///{tmp_path}/source.db", chain) as indexing:
        text = exported((await indexing.catch_up()).store)
    await chain.close()
    return text


async def test_a_snapshot_taken_over_holds_the_same_facts(told: bytes, empty: Empty, tmp_path: Path) -> None:
    empty.take(told.splitlines(keepends=True))
    assert exported(empty.store) == told
    assert len(words.pointers(empty.store, "demo")) == 2
    assert len(words.registrations(empty.store, "demo")) == 1
    assert len(words.rejected(empty.store, "demo")) == 1


def changed(told: bytes, block: int, **members: object) -> list[bytes]:
    """The snapshot, in which a block (the first is 0) has other members."""
    found: list[Line] = parsed(told)
    blocks = [line for line in found if "block" in line]
    blocks[block]["block"] |= members
    return rewritten(found)


@pytest.mark.parametrize(
    ("block", "members", "why"),
    [
        (1, {"header": "00" * 80}, "has a header, as blocks of eip155:1 have not"),
        (1, {"height": 0}, "does not continue the chain demo"),
        (2, {"height": 1}, "does not continue the chain demo"),
        (2, {"prev": "ab" * 32}, "does not continue the chain demo"),
        (1, {"hash": "ab" * 32}, "does not continue the chain demo"),
        (0, {"height": 0}, "does not continue the chain demo"),
    ],
)
async def test_blocks_that_do_not_follow_each_other_are_refused(
    told: bytes, empty: Empty, block: int, members: dict[str, object], why: str
) -> None:
    assert why in empty.refuses(changed(told, block, **members))


async def test_a_block_of_a_mined_chain_without_its_header_is_refused(empty: Empty, tmp_path: Path) -> None:
    kit = ChainKit()
    kit.mine_empty(2)
    with Indexing(f"sqlite:///{tmp_path}/mined.db", MemoryChain(*kit.blocks)) as indexing:
        text = exported((await indexing.catch_up()).store)
    assert "the header of block 0 does not hash to" in empty.refuses(changed(text, 0, header=""))
