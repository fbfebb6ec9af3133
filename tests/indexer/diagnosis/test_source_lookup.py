"""Diagnosis of what is in no indexed block: pending in a mempool, or known to a source and stored by nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from indexer.diagnosis import source_lookup as asking
from indexer.diagnosis.diagnoser import Diagnoser
from indexer.diagnosis.source_lookup import SourceLookup, SourceTransaction, find_transaction
from indexer.headers.networks import by_caip2
from indexer.sync.request_loop import TransactionSource
from parsers.bitcoin.tx import Outpoint
from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.waiting import PATIENCE

BSV = {"demo": by_caip2("bsv:regtest")}


class DiagnosedRegistry:
    """A mint, its chain with a mempool, an indexer, and a diagnoser that may ask the chain."""

    def __init__(self, url: str) -> None:
        self.kit = ChainKit()
        self.chain = SourceOfTransactions(*self.kit.blocks)
        self.indexing = Indexing(url, self.chain)
        self.sources = [source(self.chain)]

    def announce(self, outpoint: Outpoint) -> None:
        self.chain.unconfirmed[outpoint.txid] = self.kit.raw(outpoint)

    def mine(self, *outpoints: Outpoint) -> None:
        self.chain.arrive(self.kit.mine(*outpoints))

    async def diagnose(self, what: str | bytes) -> dict[str, Any]:
        """As the server does: in a thread, while the loop of the sources runs."""
        ask = SourceLookup(self.sources, asyncio.get_running_loop())
        diagnoser = Diagnoser(self.indexing.store, BSV, ask)
        return await asyncio.to_thread(diagnoser.by_name if isinstance(what, str) else diagnoser.by_raw, what)


class SourceOfTransactions(MemoryChain):
    """A source that also has the transactions of its blocks, once they are put into `raw_by_txid`."""

    def __init__(self, *blocks: Any) -> None:
        super().__init__(*blocks)
        self.raw_by_txid: dict[bytes, bytes] = {}

    async def transactions(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        requested = list(txids)
        return await super().transactions(requested) | {
            txid: self.raw_by_txid[txid] for txid in requested if txid in self.raw_by_txid
        }


class Hung(MemoryChain):
    """A source that never answers."""

    async def transactions(self, _txids: Iterable[bytes]) -> dict[bytes, bytes]:
        await asyncio.Event().wait()
        raise AssertionError


def source(chain: MemoryChain, *, usable: bool = True) -> TransactionSource:
    return TransactionSource(chain, lambda: usable, lambda _: None)


@pytest_asyncio.fixture
async def registry(tmp_path: Path) -> AsyncIterator[DiagnosedRegistry]:
    opened = DiagnosedRegistry(f"sqlite:///{tmp_path}/a2b.db")
    with opened.indexing:
        yield opened


def hex_id(outpoint: Outpoint) -> str:
    return outpoint.txid[::-1].hex()


def steps(answer: dict[str, Any]) -> list[tuple[str, bool]]:
    return [(step["step"], step["ok"]) for step in answer["steps"]]


async def test_a_pending_registration_passes_every_step_but_being_mined(registry: DiagnosedRegistry) -> None:
    first = registry.kit.inscribe(agent())
    registry.announce(first)
    await registry.indexing.refresh()
    for what in (hex_id(first), str(first), registry.kit.raw(first)):
        diagnosis = await registry.diagnose(what)
        assert steps(diagnosis) == [
            ("seen", True), ("mined", False), ("envelope", True), ("map", True), ("json", True), ("card", True),
            ("satoshi", True), ("listed", True),
        ]  # fmt: skip
        assert (diagnosis["found"], diagnosis["where"], diagnosis["source"], diagnosis["confirmations"]) == (
            True,
            "mempool",
            "demo",
            0,
        )
        assert diagnosis["listed"] == [str(first)]
        assert [record["outcome"] for record in diagnosis["records"]] == ["inscribed"]


async def test_a_pending_update_that_is_broken_says_at_which_step(registry: DiagnosedRegistry) -> None:
    first = registry.kit.inscribe(agent())
    registry.mine(first)
    update = registry.kit.update(first, b'{"name":')
    registry.announce(update)
    await registry.indexing.refresh()
    diagnosis = await registry.diagnose(hex_id(update))
    assert diagnosis["where"] == "mempool"
    assert ("json", False) in steps(diagnosis)
    assert next(step["detail"] for step in diagnosis["steps"] if not step["ok"] and step["step"] == "json").endswith(
        " at line 1, column 9"
    )
    assert diagnosis["listed"] == []
    assert diagnosis["records"][0]["id"] == str(first)


async def test_once_it_is_mined_the_block_is_shown(registry: DiagnosedRegistry) -> None:
    first = registry.kit.inscribe(agent())
    registry.announce(first)
    await registry.indexing.refresh()
    registry.chain.unconfirmed.clear()
    registry.mine(first)
    await registry.indexing.refresh()
    diagnosis = await registry.diagnose(hex_id(first))
    assert (diagnosis["where"], diagnosis["height"], diagnosis["confirmations"]) == ("block", 2, 1)


async def test_an_unconfirmed_transaction_that_nobody_has_stored_is_fetched_and_read_alone(
    registry: DiagnosedRegistry,
) -> None:
    await registry.indexing.catch_up()
    first = registry.kit.inscribe(agent())
    registry.announce(first)
    diagnosis = await registry.diagnose(hex_id(first))
    assert (diagnosis["found"], diagnosis["where"], diagnosis["source"], diagnosis["listed"]) == (
        True,
        "mempool",
        "demo",
        [],
    )
    assert steps(diagnosis)[:3] == [("seen", True), ("mined", False), ("envelope", True)]
    assert [record["id"] for record in diagnosis["records"]] == [str(first)]
    assert registry.indexing.store.pending.events("demo") == []


async def test_a_mined_transaction_that_says_nothing_to_the_registry_is_explained_all_the_same(
    registry: DiagnosedRegistry,
) -> None:
    plain = registry.kit.pay()
    registry.mine(plain)
    await registry.indexing.refresh()
    registry.chain.raw_by_txid[plain.txid] = registry.kit.raw(plain)
    diagnosis = await registry.diagnose(hex_id(plain))
    assert (diagnosis["found"], diagnosis["where"], diagnosis["source"]) == (True, "block", "demo")
    assert steps(diagnosis) == [("seen", True), ("mined", True), ("envelope", False)]
    assert diagnosis["steps"][2]["code"] == "no-envelope"


async def test_a_source_that_answers_with_something_else_is_not_believed(registry: DiagnosedRegistry) -> None:
    await registry.indexing.catch_up()
    looked_up, other = registry.kit.inscribe(agent("Wanted")), registry.kit.inscribe(agent("Other"))
    for raw in (registry.kit.raw(other), b"", registry.kit.raw(looked_up) + b"\x00"):
        registry.chain.raw_by_txid[looked_up.txid] = raw
        diagnosis = await registry.diagnose(hex_id(looked_up))
        assert (diagnosis["found"], diagnosis["where"]) == (False, "nowhere")


async def test_sources_that_fail_hang_or_are_not_open_are_not_waited_for(
    registry: DiagnosedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "SECONDS", 1.0)
    await registry.indexing.catch_up()
    down, first = MemoryChain(*registry.kit.blocks), registry.kit.inscribe(agent())
    down.down = "no route"
    registry.announce(first)
    registry.sources = [source(Hung()), source(down), source(Unopened(), usable=False), source(registry.chain)]
    assert (await registry.diagnose(hex_id(first)))["where"] == "mempool"
    registry.sources.pop()
    assert (await registry.diagnose(hex_id(first)))["where"] == "nowhere"
    registry.sources = [source(Unopened(), usable=False)]
    assert (await registry.diagnose(hex_id(first)))["where"] == "nowhere"


class Unopened(MemoryChain):
    """A source that may not be asked yet."""

    async def transactions(self, _txids: Iterable[bytes]) -> dict[bytes, bytes]:
        raise AssertionError("it was asked")


async def test_a_chain_that_is_not_indexed_yet_has_no_answer(registry: DiagnosedRegistry) -> None:
    first = registry.kit.inscribe(agent())
    diagnosis = Diagnoser(
        registry.indexing.store, {}, lambda _: SourceTransaction("demo", registry.kit.raw(first), unconfirmed=True)
    ).by_name(hex_id(first))
    assert diagnosis["where"] == "nowhere"


async def test_of_several_chains_the_first_configured_that_knows_it_answers(registry: DiagnosedRegistry) -> None:
    first = registry.kit.inscribe(agent())
    raw = registry.kit.raw(first)
    chains = [MemoryChain(name=name) for name in ("one", "two", "three")]
    for chain in chains[1:]:
        chain.unconfirmed[first.txid] = raw
    assert await find_transaction([source(chain) for chain in chains], first.txid) == SourceTransaction(
        "two", raw, unconfirmed=True
    )
    chains[1].down = "gone"
    assert await find_transaction([source(chain) for chain in chains], first.txid) == SourceTransaction(
        "three", raw, unconfirmed=True
    )


async def test_a_loop_that_does_not_get_to_it_is_not_waited_for(
    registry: DiagnosedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = asyncio.Event()

    async def never(_sources: object, _txid: bytes) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    monkeypatch.setattr(asking, "SECONDS", -0.95)
    monkeypatch.setattr(asking, "find_transaction", never)
    assert (await registry.diagnose("ab" * 32))["where"] == "nowhere"
    await asyncio.wait_for(ended.wait(), PATIENCE)


async def test_a_transaction_of_more_parts_than_are_read_is_not_parsed(registry: DiagnosedRegistry) -> None:
    many = registry.kit.spend([registry.kit.fund()], [(0, b"\x6a")] * (asking.MOST_PARTS + 1))
    registry.announce(many.outpoint(0))
    assert (await registry.diagnose(many.hex_id))["where"] == "nowhere"
