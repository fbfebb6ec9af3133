"""The mempool of a real node: what litecoind holds is pending, until it mines it or gives a block up again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from indexer.chains.node import create
from indexer.store import RegistrationHistory
from parsers.bitcoin.tx import Outpoint
from tests.chainkit import agent
from tests.conftest import missing
from tests.indexing import Indexing
from tests.litecoind import Litecoind, binary
from tests.waiting import PATIENCE


class Followed:
    """A node and what follows it."""

    def __init__(self, node: Litecoind, folder: Path) -> None:
        self.node, self.chain = node, create("ltc", node.cookie_url)
        self.indexing = Indexing(f"sqlite:///{folder}/a2b.db", self.chain)

    def kinds(self, id_: Outpoint) -> tuple[list[str], list[str]]:
        story = self.indexing.store.history.with_pending([str(id_)]).get(str(id_), RegistrationHistory())
        return [past.event.kind.value for past in story.confirmed], [item.event.kind.value for item in story.pending]

    async def until(self, id_: Outpoint, confirmed: list[str], pending: list[str]) -> None:
        """Look until it is so."""
        end = time.monotonic() + PATIENCE
        while (now := self.kinds(id_)) != (confirmed, pending):
            assert time.monotonic() < end, f"{now} at {self.indexing.store.blocks.newest('ltc')}"
            await self.indexing.refresh()
            await asyncio.sleep(0.02)


@pytest.fixture
async def followed(tmp_path: Path) -> AsyncIterator[Followed]:
    if binary() is None:
        missing("litecoind")
    with Litecoind(tmp_path / "node") as node:
        node.fund()
        created = Followed(node, tmp_path)
        with created.indexing:
            yield created
            await created.chain.close()


async def test_a_node_mines_what_was_pending_and_gives_it_back_in_a_reorg(followed: Followed) -> None:
    node = followed.node
    first = node.inscribe(agent("First"))
    await followed.until(first, [], ["inscribed"])
    node.mine()
    await followed.until(first, ["inscribed"], [])
    node.update(first, agent("Second"))
    await followed.until(first, ["inscribed"], ["moved", "reinscribed"])
    node.mine()
    await followed.until(first, ["inscribed", "moved", "reinscribed"], [])
    height = node.rpc("getblockcount")
    node.rpc("invalidateblock", node.rpc("getblockhash", height))
    node.mine_empty()
    await followed.until(first, ["inscribed"], ["moved", "reinscribed"])
    node.rpc("invalidateblock", node.rpc("getblockhash", height - 1))
    node.mine_empty(3)
    await followed.until(first, [], ["inscribed", "moved", "reinscribed"])
    node.mine()
    await followed.until(first, ["inscribed", "moved", "reinscribed"], [])
