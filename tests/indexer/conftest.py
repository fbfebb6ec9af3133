"""Fixtures of story tests of the indexer: index the blocks that a mint has mined, and let an oracle read them too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.chainkit import ChainKit
from tests.fakes import MemoryChain
from tests.indexing import Indexing, empty, fresh
from tests.oracles.registry import Registry
from tests.oracles.witness import WitnessRegistry
from tests.proved import check_proofs

__all__ = ["empty"]

Look = Callable[[ChainKit], Awaitable[Indexing]]


@pytest.fixture
def look(empty: Path) -> Iterator[Look]:
    """Index the best chain of a mint; an independent reader must find the same, story by story."""
    with ExitStack() as stack:

        async def index(kit: ChainKit) -> Indexing:
            chain = MemoryChain(*kit.blocks, coin=kit.chain)
            indexing = stack.enter_context(fresh(empty, chain))
            await indexing.catch_up()
            compare(indexing, kit)
            return indexing

        yield index


def compare(indexing: Indexing, kit: ChainKit) -> None:
    """Registrations, revisions, pointers, near misses and state hashes are those of the oracle."""
    oracle = WitnessRegistry() if kit.coin.segwit else Registry()
    for block in kit.branch():
        oracle.add_block(block.raw)
    answer = indexing.records()
    for registration in answer["registrations"]:
        for revision in registration["revisions"]:
            del revision["signer"]  # the oracle leaves signatures to the parsers' own tests
    assert answer["registrations"] == oracle.registrations
    assert answer["pointers"] == oracle.pointers
    assert sorted(map(str, answer["rejected"])) == sorted(map(str, oracle.rejected))
    assert indexing.hashes(oracle.state_hashes) == oracle.state_hashes
    check_proofs(indexing.store, "demo", segwit=kit.coin.segwit)
