"""The law of late starts: what an index begun at any height shows as live or burned is what a full index says of it.

Blocks fork and arrive in any order, the indexer is started again at any moment, and its source may lack any earlier
transactions for a while. The oracle reads the whole chain. `A2B_SLOW_TESTS=1` tries many times as many histories.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.sync import follower as follow
from parsers.bitcoin.tx import Outpoint
from tests.fakes import MemoryChain
from tests.indexer.sync.test_reorg_law import Look, law, live_through, looks
from tests.indexing import Indexing, fresh
from tests.oracles.registry import Registry, read_chain
from tests.strategies import History, histories

SAME = ("type", "map", "status", "outpoint", "owner", "card", "winner", "updatedHeight")


def lose(chain: MemoryChain, txids: set[bytes]) -> None:
    """The source has these transactions in blocks only."""
    chain.lost = txids
    chain.hidden = {Outpoint(txid, vout) for txid in txids for vout in range(40)}


def check(indexing: Indexing, oracle: Registry, first: int) -> list[dict[str, Any]]:
    """Check that live and burned registrations are those of the oracle; the others, which are undecided, are
    returned."""
    full = {registration["id"]: registration for registration in oracle.registrations}
    undecided = []
    for ours in indexing.records()["registrations"]:
        if ours["status"] == "undecided":
            undecided.append(ours)
            continue
        theirs = full[ours["id"]]
        assert {name: ours[name] for name in SAME} == {name: theirs[name] for name in SAME}
        since = [past for past in theirs["revisions"] if past["height"] >= first]
        existing = [{**past, "signer": None} for past in since[len(since) - len(ours["revisions"]) :]]
        assert [{**past, "signer": None} for past in ours["revisions"]] == existing
    return undecided


def is_card(revision: dict[str, Any]) -> bool:
    return revision["kind"] in ("inscribed", "reinscribed")


@given(data=st.data(), history=histories(any_order=True), first=st.integers(2, 6))
@law
def test_what_an_index_that_begins_late_shows_is_what_a_full_one_says(
    empty: Path, data: st.DataObject, history: History, first: int
) -> None:
    story = data.draw(looks(history))
    txids = sorted({txid for block in history.arrivals for txid in block.txids})
    lost = data.draw(st.one_of(st.just(set[bytes]()), st.sets(st.sampled_from(txids), max_size=4)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(follow, "RETRY_SECONDS", 0.0)
        asyncio.run(compare(empty, story, first, lost))


async def compare(empty: Path, story: list[Look], first: int, lost: set[bytes]) -> None:
    chain = MemoryChain(first=first)
    lose(chain, lost)
    with fresh(empty, chain) as indexing:
        await live_through(indexing, chain, story)
        oracle = read_chain(chain.raw(ref) for ref in chain.best)
        undecided = check(indexing, oracle, first)
        assert lost or not undecided
        assert set(indexing.hashes(range(first, len(chain.best))).values()) <= {None}
        lose(chain, set())
        while indexing.store.history.undecided("demo"):
            before = indexing.store.history.undecided("demo")
            await indexing.catch_up()
            assert indexing.store.history.undecided("demo") != before
        assert check(indexing, oracle, first) == []
        # whatever had a card since is known
        touched = {
            registration["id"]
            for registration in oracle.registrations
            if any(is_card(past) and past["height"] >= first for past in registration["revisions"])
        }
        assert touched <= {registration["id"] for registration in indexing.records()["registrations"]}
