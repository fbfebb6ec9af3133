"""The law of the mempool: whatever happened, pending is what a fresh reader finds, and what the oracle says.

Blocks arrive in any order and fork, what they hold was unconfirmed before or becomes so after, the source may list its
mempool as it was a while ago, and the indexer is started again at any moment. `A2B_SLOW_TESTS=1` tries more of them.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from indexer.model import Event
from indexer.store import RegistrationHistory, Store
from indexer.sync import mempool
from parsers.bitcoin.tx import Outpoint, Transaction
from tests.chainkit import Block
from tests.fakes import MemoryChain
from tests.indexing import Indexing, fresh, unconfirmed_ids
from tests.oracles.registry import read_chain
from tests.oracles.wire import Tape, read_tx
from tests.strategies import History, histories

EXAMPLES = 1_500 if os.environ.get("A2B_SLOW_TESTS") == "1" else 30

law = settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)


class Look(NamedTuple):
    """The events between two looks at the source. `chance` decides what its mempool holds, 0 for nothing. It reports
    the mempool of `now`, or what it held or will hold at the look `before` or `after`, as lists and tips arrive one
    after the other. `hurried`: blocks are read and the mempool is not looked at."""

    arrivals: list[Block]
    restart: bool
    chance: int
    of: str
    hurried: bool


@st.composite
def looks(draw: st.DrawFn, history: History) -> list[Look]:
    blocks = list(history.arrivals)
    blocks = blocks[: draw(st.integers(min(2, len(blocks)), len(blocks)))]  # the others stay unconfirmed
    results = []
    while blocks:
        size = draw(st.sampled_from([1, 1, 2, 3]))
        restart, hurried = (draw(st.sampled_from([False, False, False, True])) for _ in range(2))
        of = draw(st.sampled_from(["now", "now", "before", "after"]))
        results.append(Look(blocks[:size], restart, draw(st.integers(0, 999)), of, hurried))
        blocks = blocks[size:]
    return results


class Node:
    """The mempool of a node that knows all transactions of a history: any of them that could be mined next."""

    def __init__(self, history: History) -> None:
        self.kit = history.kit
        mined = (txid for block in history.arrivals for txid in block.txids[1:])
        self.mined: list[Transaction] = [self.kit._txs[txid] for txid in dict.fromkeys(mined)]

    def mempool(self, best: list[bytes], chance: int) -> dict[bytes, bytes]:
        """Some of what fits on this chain, by txid."""
        coins = self._coins(best)
        pick = random.Random(chance)
        results: dict[bytes, bytes] = {}
        waiting = [item for item in self.mined if chance and pick.random() < 0.9]
        while ready := [item for item in waiting if all(spent.prevout in coins for spent in item.inputs)]:
            chosen = pick.choice(ready)
            waiting.remove(chosen)
            self._spend(chosen, coins)
            results[chosen.txid] = self.kit.raw(chosen.outpoint(0))
        return results

    def _coins(self, best: list[bytes]) -> set[Outpoint]:
        coins: set[Outpoint] = set()
        branch = {block.hash: block for block in self.kit.blocks}
        for hash_ in best:
            for txid in branch[hash_].txids:
                self._spend(self.kit._txs[txid], coins)
        return coins

    @staticmethod
    def _spend(transaction: Transaction, coins: set[Outpoint]) -> None:
        coins.difference_update(spent.prevout for spent in transaction.inputs)
        coins.update(transaction.outpoint(vout) for vout in range(len(transaction.outputs)))


def seen(story: RegistrationHistory) -> tuple[list[Any], list[Any]]:
    """The history of a registration as a reader shows it; pending revisions without the positions of others."""
    return story.confirmed, [comparable(item.event) for item in story.pending]


def comparable(event: Event) -> tuple[Any, ...]:
    state = event.state
    assert state is not None
    now = (state.status, state.outpoint, state.offset, state.owner, state.card, state.winner, sorted(state.map.items()))
    return event.kind, event.txid, event.outpoint, event.spent, event.card, event.reasons, event.owner, now


class Reader:
    """A reader of the outbox that looks again at what is named there, and at nothing else."""

    def __init__(self, store: Store) -> None:
        self.store, self.seq = store, 0
        self.copy: dict[str, Any] = {}

    def read(self) -> None:
        while news := self.store.outbox.after(self.seq, 50):
            self.seq = news[-1].seq
            ids = {change.id for change in news}
            scripts = self.store.history.with_pending(ids)
            for id_ in ids:
                self.copy.pop(id_, None)
                if id_ in scripts:
                    self.copy[id_] = seen(scripts[id_])

    def everything(self) -> dict[str, Any]:
        """The histories of all registrations."""
        ids = {id_ for _, id_ in self.store.registrations.ids(None, 1_000_000)} | set(unconfirmed_ids(self.store))
        return {id_: seen(story) for id_, story in self.store.history.with_pending(ids).items()}


@given(data=st.data(), history=histories(max_blocks=6), batch=st.sampled_from([1, 3, 1_000]))
@law
def test_whatever_happened_pending_is_what_a_fresh_reader_finds(
    empty: Path, data: st.DataObject, history: History, batch: int
) -> None:
    story, last = data.draw(looks(history)), data.draw(st.integers(0, 999))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(mempool, "BATCH", batch)
        patched.setattr(mempool, "RETRY_SECONDS", 0.0)
        asyncio.run(compare(empty, history, story, last))


async def compare(empty: Path, history: History, story: list[Look], last: int) -> None:
    node, chain = Node(history), MemoryChain()
    with fresh(empty, chain) as indexing:
        reader = await live_through(indexing, chain, node, story)
        chain.unconfirmed = node.mempool([ref.hash for ref in chain.best], last)
        await indexing.refresh()
        reader.read()
        assert reader.copy == reader.everything()
        best = [chain.raw(ref) for ref in chain.best]
        pending = indexing.store.pending.events("demo")
        again = MemoryChain(*best)
        again.unconfirmed = dict(reversed(chain.unconfirmed.items()))
        with fresh(empty, again) as replay:
            await replay.refresh()
            assert pending == replay.store.pending.events("demo")
            assert indexing.facts() == replay.facts()
        assert pending_states(indexing.store) == expected(best, list(chain.unconfirmed.values()))


async def live_through(indexing: Indexing, chain: MemoryChain, node: Node, story: list[Look]) -> Reader:
    reader, pools = Reader(indexing.store), mempools(node, story)
    for number, look in enumerate(story):
        if look.restart:
            indexing.restart()
            reader.store = indexing.store
        chain.arrive(*look.arrivals)
        of = {"now": number, "before": max(0, number - 1), "after": min(number + 1, len(story) - 1)}[look.of]
        chain.unconfirmed = pools[of]
        await (indexing.catch_up() if look.hurried else indexing.refresh())
        assert all(map(hangs_together, indexing.store.history.with_pending(unconfirmed_ids(indexing.store)).values()))
        assert not (look.restart and look.hurried and indexing.store.pending.events("demo"))
        if of == number and not look.hurried:
            assert pending_states(indexing.store) == expected(
                [chain.raw(ref) for ref in chain.best], list(pools[of].values())
            )
        if number % 3 == 0:
            reader.read()
            assert reader.copy == reader.everything()
    return reader


def mempools(node: Node, story: list[Look]) -> list[dict[bytes, bytes]]:
    """The contents of the mempool at each look."""
    chain, results = MemoryChain(), []
    for look in story:
        chain.arrive(*look.arrivals)
        results.append(node.mempool([ref.hash for ref in chain.best], look.chance))
    return results


def hangs_together(story: RegistrationHistory) -> bool:
    """Whether each pending revision goes on from the one before, and the first from the newest block's."""
    states = [past.event.state for past in (*story.confirmed, *story.pending)]
    outpoints = [state.outpoint for state in states if state]
    first = len(story.confirmed)
    return all(item.event.spent == (outpoints[first + index - 1] if first + index else None) for index, item in
               enumerate(story.pending))  # fmt: skip


def pending_states(store: Store) -> dict[str, Any]:
    """Every registration of which something is pending, as it would be if that were mined."""
    results = {}
    for id_, story in store.history.with_pending(unconfirmed_ids(store)).items():
        state = story.pending[-1].event.state
        assert state is not None
        results[id_] = (
            [(item.event.kind.value, str(item.event.outpoint or None)) for item in story.pending],
            state.status.value, str(state.outpoint), state.owner, state.card.hex(), state.map,
        )  # fmt: skip
    return results


def expected(best: list[bytes], raws: list[bytes]) -> dict[str, Any]:
    """The histories of all registrations, by the oracle."""
    ahead = read_chain(best)
    before = {item["id"]: len(item["revisions"]) for item in ahead.registrations}
    ahead.add([read_tx(Tape(raw), segwit=False) for raw in raws])
    results = {}
    for registration in ahead.registrations:
        if more := registration["revisions"][before.get(registration["id"], 0) :]:
            results[registration["id"]] = (
                [(revision["kind"], str(revision["outpoint"])) for revision in more],
                registration["status"],
                str(registration["outpoint"]),
                registration["owner"],
                registration["cardSha256"],
                registration["map"],
            )
    return results
