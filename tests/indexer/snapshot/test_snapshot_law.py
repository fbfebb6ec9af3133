"""The law of snapshots: after any history of forks, an import holds the facts of its source, gives the same bytes, and
follows on as its source does; also where the source begins late, and lacks earlier transactions."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.sync import follower as follow
from tests.chainkit_blocks import Block
from tests.fakes import MemoryChain
from tests.indexer.sync.test_late_start_law import lose
from tests.indexer.sync.test_reorg_law import EXAMPLES, law
from tests.indexing import Indexing
from tests.snapshots import Empty, exported
from tests.strategies import histories

COINS = {"bsv": histories(), "bch": histories(any_order=True)}
"""Only in blocks of Bitcoin Cash may a transaction be before its parent."""


@given(data=st.data(), coin=st.sampled_from(sorted(COINS)), first=st.sampled_from([0, 0, 2, 3, 5]))
@settings(law, max_examples=EXAMPLES // 3)
def test_an_imported_history_is_that_of_its_source(data: st.DataObject, coin: str, first: int) -> None:
    history = data.draw(COINS[coin])
    count = data.draw(st.integers(1, len(history.arrivals)))
    txids = sorted({txid for block in history.arrivals for txid in block.txids})
    lost = data.draw(st.one_of(st.just(set[bytes]()), st.sets(st.sampled_from(txids), max_size=4)))
    with pytest.MonkeyPatch.context() as patched, tempfile.TemporaryDirectory() as folder:
        patched.setattr(follow, "RETRY_SECONDS", 0.0)
        chain = MemoryChain(*history.arrivals[:count], coin=coin, first=first)
        lose(chain, lost if first else set())
        trust = first > 0 or data.draw(st.booleans())  # what begins late is not anchored: regtest has no checkpoints
        asyncio.run(compare(Path(folder), chain, history.arrivals[count:], trust=trust))


async def compare(folder: Path, chain: MemoryChain, later: Sequence[Block], *, trust: bool) -> None:
    with Indexing(f"sqlite:///{folder}/source.db", chain) as source:
        await source.catch_up()
        text = exported(source.store)
        copy = Empty(f"sqlite:///{folder}/copy.db")
        try:
            copy.take(text.splitlines(keepends=True), trust=trust)
        finally:
            copy.close()
        with Indexing(copy.url, chain) as target:
            assert target.facts() == source.facts()
            assert exported(target.store) == text
            lose(chain, set())
            chain.arrive(*later)
            for indexing in (source, target):
                for _ in range(4):
                    await indexing.catch_up()
            assert target.facts() == source.facts()
            assert exported(target.store) == exported(source.store)
