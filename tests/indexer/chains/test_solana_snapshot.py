"""Snapshots of the store of a chain on Solana: taken over with every kind of event, and followed on from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from indexer.store.source_store import SourceStore
from tests.chainkit import agent, tool
from tests.indexing import Indexing
from tests.snapshots import Empty, empty, exported
from tests.solana_server import SolanaServer

__all__ = ["empty"]

POINTER = {"uri": "https://echo.example/.well-known/agent.json", "hash": "ab" * 32}

STORY: list[Any] = [
    agent("One"), agent("Two"), b"broken", tool(), POINTER, {"uri": "x"}, agent("Three"), None, tool(), POINTER, b"no",
]  # fmt: skip
"""The data of an account, one look after the other; at None there is no account."""


async def test_a_snapshot_taken_over_holds_the_same_and_is_followed_on(empty: Empty, tmp_path: Path) -> None:
    async with SolanaServer() as server:
        with Indexing(f"sqlite:///{tmp_path}/source.db") as indexing:
            chain = server.chain(indexing.source_store)
            indexing.chains = (chain,)
            for body in STORY:
                if body is None:
                    server.shut("a")
                else:
                    server.put("a", body)
                server.put("b", POINTER | {"hash": f"{server.slot:064x}"})
                await indexing.catch_up()
            text = exported(indexing.store)
            kinds = {past.event.kind.value for past in indexing.store.history.select()}
            assert kinds == {"inscribed", "reinscribed", "invalid", "foreign_content", "burned", "pointed", "rejected"}
            await chain.close()
        empty.take(text.splitlines(keepends=True), trust=True)
        assert exported(empty.store) == text
        chain = server.chain(SourceStore(empty.writer))
        await chain.open()
        before = await chain.tip()
        assert before == empty.store.blocks.newest("sol"), "what the snapshot tells is not news"
        server.put("a", agent("Four"))
        tip = await chain.tip()
        assert tip is not None
        assert [len(message.events) async for _, message in chain.blocks(0, tip.height)] == [1]
        await chain.close()
