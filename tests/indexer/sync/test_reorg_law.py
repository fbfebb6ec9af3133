"""The law of reorgs: any history of forks ends as a fresh replay of the final best chain, and as the oracle says.

Blocks arrive in any order and in batches of any size, the indexer is started again at any moment, and its writes may
be of one block or of many. `A2B_SLOW_TESTS=1` tries many times as many histories.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from indexer.store import topic_anchors
from indexer.sync import catchup
from tests.chainkit import Block
from tests.fakes import MemoryChain
from tests.indexing import Indexing, Reader, fresh, live_outpoints
from tests.oracles.anchors import anchors
from tests.oracles.registry import read_chain
from tests.strategies import History, histories

EXAMPLES = 2_000 if os.environ.get("A2B_SLOW_TESTS") == "1" else 40

law = settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],  # Phase.explain takes minutes here
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)


class Look(NamedTuple):
    """The events between two looks at the source: blocks arrive, and the indexer may be started again before."""

    arrivals: list[Block]
    restart: bool


@st.composite
def looks(draw: st.DrawFn, history: History) -> list[Look]:
    """A history's blocks in some order of arrival, cut into looks."""
    blocks = list(history.arrivals)
    if draw(st.booleans()):
        blocks = draw(st.permutations(blocks))
    results = []
    while blocks:
        size = draw(st.sampled_from([1, 1, 2, 3, len(blocks)]))
        results.append(Look(blocks[:size], draw(st.booleans())))
        blocks = blocks[size:]
    return results


async def live_through(indexing: Indexing, chain: MemoryChain, story: list[Look]) -> Reader:
    """Look at the source after each batch of arrivals, with a reader of the outbox that looks less often."""
    reader = Reader(indexing.store)
    for number, look in enumerate(story):
        if look.restart:
            indexing.restart()
            reader.store = indexing.store
        chain.arrive(*look.arrivals)
        await indexing.catch_up()
        if number % 3 == 0:
            reader.read(limit=4)
    reader.read()
    return reader


@given(
    data=st.data(),
    history=histories(any_order=True),
    blocks_a_write=st.sampled_from([1, 2, 256]),
    heights_an_anchor=st.sampled_from([1, 3, 256]),
)
@law
def test_any_history_of_forks_ends_as_a_fresh_replay_of_the_best_chain(
    empty: Path, data: st.DataObject, history: History, blocks_a_write: int, heights_an_anchor: int
) -> None:
    story = data.draw(looks(history))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(catchup, "BATCH_BLOCKS", blocks_a_write)
        patched.setattr(topic_anchors, "EVERY", heights_an_anchor)
        asyncio.run(compare(empty, history, story))


async def compare(empty: Path, history: History, story: list[Look]) -> None:
    lived = MemoryChain()
    with fresh(empty, lived) as indexing:
        reader = await live_through(indexing, lived, story)
        best = [lived.raw(ref) for ref in lived.best]
        assert len(best) == max(block.height for block in history.arrivals) + 1
        with fresh(empty, MemoryChain(*best)) as replay:
            await replay.catch_up()
            assert indexing.facts() == replay.facts()
        oracle = read_chain(best)
        answer = indexing.records()
        for registration in answer["registrations"]:
            for revision in registration["revisions"]:
                del revision["signer"]  # the oracle leaves signatures to the parsers' own tests
        assert answer["registrations"] == oracle.registrations
        assert answer["pointers"] == oracle.pointers
        assert answer["rejected"] == oracle.rejected
        assert indexing.hashes(oracle.state_hashes) == oracle.state_hashes
        assert indexing.anchors() == anchors(oracle, best)
        assert reader.state_hash() == oracle.state_hashes[max(oracle.state_hashes)]
        for which in ("live", "burned"):
            assert indexing.store.registrations.counts("demo")[which] == len(oracle.ids(which))


@given(data=st.data(), history=histories(max_blocks=6))
@settings(law, max_examples=EXAMPLES // 4)
def test_every_step_of_a_history_has_the_state_hash_of_its_chain(
    empty: Path, data: st.DataObject, history: History
) -> None:
    async def walk() -> None:
        chain = MemoryChain()
        with fresh(empty, chain) as indexing:
            for block in history.arrivals:
                chain.arrive(block)
                await indexing.catch_up()
                height = chain.best[-1].height
                oracle = read_chain(chain.raw(ref) for ref in chain.best)
                assert indexing.hashes([height]) == {height: oracle.state_hashes[height]}
                outpoints = {
                    registration["outpoint"] for registration in oracle.registrations if registration["outpoint"]
                }
                assert {str(outpoint) for outpoint in live_outpoints(indexing.store)} == outpoints

    asyncio.run(walk())
