"""The law of a node out of its mind: whatever it answers, it is waited for, or stopped with words.

Once it answers as a node again, what is stored is what it has. `A2B_SLOW_TESTS=1` tries all answers.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from indexer.chains.node import create
from indexer.errors import SourceError
from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.nodes import Node
from tests.waiting import PATIENCE

CALLS = (
    "getbestblockhash", "getblock", "getblockchaininfo", "getblockcount", "getblockhash", "getblockheader",
    "getmempoolinfo", "getrawmempool", "getrawtransaction",
)  # fmt: skip
PATHS = ("/rest/block", "/rest/headers")

RESULTS = (
    None, True, -1, 2**70, 0.5, "", "00", "00" * 32, "00" * 80, "zz" * 32, [], ["00" * 32], [[1]], {}, {"size": [1]},
    {"blocks": "x"}, {"blocks": float("inf")}, {"blocks": 5, "pruned": True, "pruneheight": []},
    {"blocks": 5, "pruned": True, "pruneheight": 2**90},
)  # fmt: skip
ROWS = (
    *({"result": result, "error": None} for result in RESULTS),
    {"result": None, "error": 5}, {"result": None, "error": {"code": "x", "message": {}}},
    *({"id": number, "result": 1, "error": None} for number in ([1], {}, None, 2**70)),
)  # fmt: skip
BODIES = tuple((status, body) for status in (200, 204, 404, 500) for body in (b"", b"junk", bytes(80), b"\xff" * 200))


class MadNode(Node):
    """Answers some calls with a row of its own, and some requests with a body of its own, while it is `mad`."""

    def __init__(self, chain: MemoryChain) -> None:
        super().__init__(chain)
        self.mad: dict[str, Any] = {}

    def _row(self, query: dict[str, Any]) -> tuple[dict[str, Any], int]:
        row, status = super()._row(query)
        answer = self.mad.get(query["method"])
        return (row, status) if answer is None else ({"id": query["id"], **answer}, 200)

    async def _rest(self, request: web.Request) -> web.StreamResponse:
        answer = self.mad.get("/".join(request.path.split("/")[:3]))
        return await super()._rest(request) if answer is None else web.Response(status=answer[0], body=answer[1])


async def life(database: Path, mad: dict[str, Any], *, rest: bool, late: bool) -> None:
    """Follow a node that is mad from its start, or later on, and is well again in the end."""
    kit = ChainKit(funds=8)
    echo = kit.inscribe(agent("Echo"))
    kit.mine(echo)
    chain = MemoryChain(*kit.blocks)
    async with MadNode(chain) as node:
        node.rest = rest
        source = create("bsv", node.url)
        with Indexing(f"sqlite:///{database}", source) as indexing:
            if late:
                await indexing.refresh()
                chain.arrive(kit.mine(kit.inscribe(agent("Relay"))))
                update = kit.update(echo, agent("Echo 2"))
                chain.unconfirmed[update.txid] = kit.raw(update)
            node.mad = mad
            with suppress(SourceError):
                async with asyncio.timeout(PATIENCE):
                    await indexing.refresh()
            node.mad = {}
            await source.close()
        # what a person mends is followed by a start
        again = create("bsv", node.url)
        with Indexing(f"sqlite:///{database}", again) as indexing:
            await indexing.refresh()
            newest = indexing.store.blocks.newest("bsv")
            assert newest is not None
            assert newest.hash == chain.best[-1].hash
            assert {event.txid for event in indexing.store.pending.events("bsv")} == chain.unconfirmed.keys()
            await again.close()


MAD = [*itertools.product(CALLS, ROWS), *itertools.product(PATHS, BODIES)]
SOME = 1 if os.environ.get("A2B_SLOW_TESTS") == "1" else 12


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("rest", [False, True])
def test_whatever_a_node_answers_it_is_waited_for_or_stopped_with_words(
    rest: bool, late: bool, empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every twelfth of what may be answered, another twelfth for each kind of node."""
    monkeypatch.setattr("indexer.chains.node.client.PAUSES", (0.0,))
    monkeypatch.setattr("indexer.chains.node.block_download.PAUSES", (0.0,))
    for number, (query, answer) in enumerate(MAD[(2 * rest + late) % SOME :: SOME]):
        database = shutil.copy(empty, tmp_path / f"{number}.db")
        try:
            asyncio.run(life(database, {query: answer}, rest=rest, late=late))
        except Exception as error:
            raise AssertionError(f"{query} answered with {answer}") from error
