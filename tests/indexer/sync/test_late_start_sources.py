"""A late start over every kind of source: what each can read of a satoshi's past, and what it cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from indexer.chains import Chain, create
from indexer.chains.failover import FailoverChain
from indexer.chains.node import create as node
from indexer.settings import Settings
from indexer.sync import follower as follow
from overlay.app.status_service import StatusService
from parsers.bitcoin.tx import Outpoint
from tests.bitcoind import Bitcoind, installed
from tests.chainkit import ChainKit, agent
from tests.conftest import missing
from tests.contracts.sources import PACE
from tests.fakes import MemoryChain
from tests.indexer.chains.test_node_litecoind import card
from tests.indexer.sync.test_late_start import agree, names, wander
from tests.indexing import Indexing
from tests.junglebus_server import JungleBus
from tests.litecoind import Litecoind, binary
from tests.nodes import Node
from tests.oracles.registry import read_chain

Start = Callable[..., Indexing]


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let undecided events be retried at every look."""
    monkeypatch.setattr(follow, "RETRY_SECONDS", 0.0)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Begins to index a chain into a database of its own."""
    with ExitStack() as stack:
        numbers = iter(range(100))
        yield lambda chain: stack.enter_context(Indexing(f"sqlite:///{tmp_path}/{next(numbers)}.db", chain))


def wandered(kit: ChainKit) -> tuple[Outpoint, Outpoint]:
    """A registration that was moved twice before block 5, and is updated there, beside a new one."""
    first, _ = wander(kit, 2)
    new = kit.inscribe(agent("New"))
    kit.mine(new)
    return first, new


# -- block files ------------------------------------------------------------------------------------------------------


def files(folder: Path, more: str = "") -> Chain:
    return create("demo", f"files:{folder}?chain=bsv&network=regtest&from=5{more}")


async def test_block_files_are_searched_backwards(kit: ChainKit, tmp_path: Path, start: Start) -> None:
    first, new = wandered(kit)
    kit.write(tmp_path, per_file=2)
    indexing = await start(files(tmp_path)).catch_up()
    agree(indexing, kit, first, new)
    state = indexing.store.history.of(str(first))[0].event.state
    assert state is not None
    assert state.created_height == 2


async def test_block_files_are_searched_for_so_many_bytes(kit: ChainKit, tmp_path: Path, start: Start) -> None:
    first, _ = wandered(kit)
    kit.write(tmp_path)
    indexing = await start(files(tmp_path, f"&lookback={len(kit['5'].raw) + 1}")).catch_up()
    assert len(names(indexing)) == 2
    assert str(first) not in names(indexing)
    assert indexing.live() == set()


# -- nodes ------------------------------------------------------------------------------------------------------------


async def test_a_node_tells_ancestors_and_where_they_are(kit: ChainKit, start: Start) -> None:
    first, new = wandered(kit)
    async with Node(MemoryChain(*kit.blocks)) as server:
        chain = node("demo", f"{server.url}?chain=bsv&from=5")
        indexing = await start(chain).catch_up()
        agree(indexing, kit, first, new)
        await chain.close()


async def test_a_node_without_an_index_of_transactions_leaves_cards_undecided(kit: ChainKit, start: Start) -> None:
    first, new = wandered(kit)
    async with Node(MemoryChain(*kit.blocks)) as server:
        server.txindex = False
        chain = node("demo", f"{server.url}?chain=bsv&from=5")
        indexing = await start(chain).catch_up()
        assert (len(names(indexing)), indexing.live()) == (2, set())
        server.txindex = True
        await indexing.catch_up()
        agree(indexing, kit, first, new)
        await chain.close()


async def test_where_one_source_lacks_a_transaction_another_goes_on(
    kit: ChainKit, tmp_path: Path, start: Start
) -> None:
    first, new = wandered(kit)
    kit.write(tmp_path)
    async with Node(MemoryChain(*kit.blocks)) as server:
        server.txindex = False
        sources = [("node", node("demo", f"{server.url}?chain=bsv&from=5")), ("files", files(tmp_path))]
        chain = FailoverChain("demo", sources, PACE)
        indexing = await start(chain).catch_up()
        agree(indexing, kit, first, new)
        await chain.close()


async def test_a_junglebus_tells_ancestors_and_proves_where_they_are(kit: ChainKit, start: Start) -> None:
    first, new = wandered(kit)
    async with JungleBus(kit) as server:
        chain = server.chain(more="&from=5")
        indexing = await start(chain).catch_up()
        agree(indexing, kit, first, new)
        assert chain.violation_count == 0
        await chain.close()


# -- what is said of it -----------------------------------------------------------------------------------------------


async def test_status_says_why_there_is_no_state_hash(kit: ChainKit, tmp_path: Path, start: Start) -> None:
    wandered(kit)
    indexing = await start(MemoryChain(*kit.blocks, first=5)).catch_up()
    (follower,) = indexing.followers
    service = StatusService(Settings.load({"data": str(tmp_path)}), indexing.store, None, "1")
    service.update_state_hash("demo")
    status = service.status()
    (chain,) = status["chains"]
    assert chain["complete"] is False
    assert chain["note"].startswith("reading began above the height at which A2B can begin")
    assert status["stateHash"] == {"demo": {"height": follower.progress.height, "hash": None, "pointers": None}}


# -- a real node ------------------------------------------------------------------------------------------------------


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Bitcoind]:
    installed()
    with Bitcoind(tmp_path / "node") as server:
        server.fund()
        yield server


async def test_a_real_bsv_node_tells_the_past_of_cards(real: Bitcoind, start: Start) -> None:
    first, second = real.inscribe(card("one")), real.inscribe(card("two"))
    real.mine()
    tx = real.move(real.move(first))
    real.burn(second)
    real.mine(3)
    height = len(real.blocks)
    real.update(tx, card("one-again"))
    new = real.inscribe(card("new"))
    real.mine()
    chain = node("bsv", f"{real.cookie_url}&from={height}")
    indexing = await start(chain).catch_up()
    full = {registration["id"]: registration for registration in read_chain(real.blocks).registrations}
    ours: list[dict[str, Any]] = indexing.records("bsv")["registrations"]
    assert {entry["id"] for entry in ours} == {str(first), str(new)}
    for item in ours:
        for name in ("status", "owner", "outpoint", "type", "map", "card", "winner", "updatedHeight"):
            assert item[name] == full[item["id"]][name]
    state = indexing.store.history.of(str(first))[0].event.state
    assert state is not None
    assert state.created_height == full[str(first)]["revisions"][0]["height"]
    await chain.close()


async def test_a_real_litecoin_node_leaves_cards_undecided_after_a_late_start(tmp_path: Path, start: Start) -> None:
    if binary() is None:
        missing("litecoind")
    with Litecoind(tmp_path / "ltc") as server:
        server.fund()
        server.inscribe(card("one"))
        server.mine()
        height = len(server.blocks)
        second = server.inscribe(card("two"))
        server.mine()
        chain = node("ltc", f"{server.cookie_url}&from={height}")
        indexing = await start(chain).catch_up()
        registrations = indexing.records("ltc")["registrations"]
        assert [(item["id"], item["status"]) for item in registrations] == [(str(second), "undecided")]
        assert indexing.hashes([height], "ltc") == {height: None}
        await chain.close()
