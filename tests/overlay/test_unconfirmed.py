"""The unconfirmed as readers see it: in both engines, by id, in the history, never as of a height, without flicker."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.store import Store, connect
from overlay.listings.repository import ListingRepository
from overlay.projection.documents import DocumentReader
from overlay.projection.projector import IndexProjector
from overlay.projection.search_index import SearchIndex
from overlay.search.query import Query
from parsers.bitcoin.tx import Outpoint
from tests.chainkit import ChainKit, Minable, agent
from tests.contracts.listed import count
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.serving import house, running
from tests.waiting import until

ENGINES = ("native", "whoosh")


class Town:
    """A chain with a mempool, its index in an engine, and what readers ask."""

    def __init__(self, folder: Path, scheme: str) -> None:
        self.kit = ChainKit()
        self.chain = MemoryChain(*self.kit.blocks)
        self.indexing = Indexing(f"sqlite:///{folder}/a2b.db", self.chain)
        self.engine: SearchIndex = SearchIndex(f"{scheme}:{folder}/index")
        self.feed = IndexProjector(self.indexing.store, self.engine)
        self.catalogue = ListingRepository(self.indexing.store)

    async def look(self) -> None:
        await self.indexing.refresh()
        self.feed.run()

    def announce(self, *what: Minable) -> None:
        for item in what:
            self.chain.unconfirmed[self.kit.tx(item).txid] = self.kit.raw(item)

    def mine(self, *what: Minable) -> None:
        for item in what:
            self.chain.unconfirmed.pop(self.kit.tx(item).txid, None)
        self.chain.arrive(self.kit.mine(*what))

    def ask(self, **query: Any) -> list[dict[str, Any]]:
        return [json.loads(bytes(hit.item)) for hit in self.engine.search(Query(**query)).hits]

    def as_of(self, height: int) -> list[dict[str, Any]]:
        return self.ask(as_of=height, height_chain="demo")


@pytest.fixture(params=ENGINES)
def town(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Town]:
    created = Town(tmp_path, request.param)
    with created.indexing:
        yield created
        created.engine.close()


async def test_a_newcomer_is_found_as_pending_and_then_as_live(town: Town) -> None:
    echo = town.kit.inscribe(agent("Echo", description="Repeats. Again."))
    town.announce(echo)
    await town.look()
    [item] = town.ask(text="echo")
    assert (item["id"], item["status"], item["name"]) == (str(echo), "pending", "Echo")
    assert "blockHeight" not in item
    assert item["timestamp"] is item["createdHeight"] is None
    assert town.ask(statuses=("live",)) == []
    assert [entry["id"] for entry in town.ask(statuses=("pending",))] == [str(echo)]
    assert town.as_of(10**6) == []
    listed = town.catalogue.listing(str(echo))
    assert listed is not None
    assert json.loads(listed.card_body or b"")["name"] == "Echo"
    town.mine(echo)
    await town.look()
    [item] = town.ask(text="echo")
    assert (item["status"], item["blockHeight"]) == ("live", 2)
    assert town.as_of(2)[0]["id"] == str(echo)


async def test_an_update_is_shown_beside_the_confirmed_revision(town: Town) -> None:
    echo = town.kit.inscribe(agent("Echo", description="Old."))
    town.mine(echo)
    await town.look()
    update = town.kit.update(echo, agent("Newer", description="New. And more."))
    town.announce(update)
    await town.look()
    [item] = town.ask(text="echo")
    assert (item["name"], item["status"], item["outpoint"], item["blockHeight"]) == ("Echo", "live", str(echo), 2)
    assert item["pending"] == {"outpoint": str(update), "summary": "New."}
    assert town.ask(text="newer") == []
    assert "pending" not in town.as_of(2)[0]
    assert len(town.ask()) == count(town.engine) == 1
    assert [entry["id"] for entry in town.ask(from_height=2, to_height=2, height_chain="demo")] == [str(echo)]
    listing = town.catalogue.listing(str(echo))
    assert listing is not None
    assert listing.pending is not None
    town.mine(update)
    await town.look()
    [item] = town.ask(text="newer")
    assert (item["blockHeight"], "pending" in item) == (3, False)
    assert [entry["name"] for height in (2, 3) for entry in town.as_of(height)] == ["Echo", "Newer"]


async def test_what_is_evicted_leaves_the_confirmed_revision_as_it_was(town: Town) -> None:
    echo = town.kit.inscribe(agent("Echo"))
    town.mine(echo)
    town.announce(town.kit.burn(echo), other := town.kit.inscribe(agent("Other")))
    await town.look()
    [item, newcomer] = sorted(town.ask(), key=lambda entry: entry["name"])
    assert (item["status"], item["pending"]["outpoint"]) == ("live", None)
    assert newcomer["id"] == str(other)
    town.chain.unconfirmed.clear()
    await town.look()
    [item] = town.ask()
    assert (item["id"], "pending" in item) == (str(echo), False)
    assert town.catalogue.listing(str(other)) is None


async def test_a_newcomer_that_is_burned_at_once_is_not_listed(town: Town) -> None:
    echo = town.kit.inscribe(agent("Echo"))
    town.announce(echo, town.kit.burn(echo))
    await town.look()
    assert town.ask() == []
    assert [item["status"] for item in town.ask(statuses=("burned",))] == ["burned"]


async def test_each_server_of_a_config_shows_its_own_pending_summary(town: Town) -> None:
    def config(**messages: str) -> dict[str, Any]:
        return {"mcpServers": {key: {"command": "x", "description": text} for key, text in messages.items()}}

    tool = town.kit.inscribe(config(a="Old a.", b="Old b."), type="a2b-mcp")
    town.mine(tool)
    town.announce(town.kit.update(tool, config(a="New a.", c="New c.")))
    await town.look()
    results = {item["serverName"]: item["pending"]["summary"] for item in town.ask()}
    assert results == {"a": "New a.", "b": ""}


async def test_the_history_shows_what_is_unconfirmed_first(town: Town) -> None:
    echo = town.kit.inscribe(agent("Echo"))
    town.mine(echo)
    moved = town.kit.move(echo)
    town.announce(moved, town.kit.update(moved, agent("Echo 2")))
    await town.look()
    answers = [(item.event.kind.value, item.height) for item in town.catalogue.history(str(echo))]
    assert answers == [("reinscribed", None), ("moved", None), ("inscribed", 2)]


async def test_a_rebuilt_index_answers_as_the_one_that_followed(town: Town) -> None:
    echo = town.kit.inscribe(agent("Echo"))
    town.mine(echo)
    town.announce(town.kit.update(echo, agent("Echo 2")), town.kit.inscribe(agent("Other")))
    await town.look()
    before = [town.ask(), town.as_of(2)]
    assert town.feed.rebuild() == 2
    assert [town.ask(), town.as_of(2)] == before


async def test_a_reader_never_misses_a_listing_while_it_is_mined(database_url: str) -> None:
    kit = ChainKit()
    chain = MemoryChain(*kit.blocks)
    with Indexing(database_url, chain) as indexing:
        echo: Outpoint = kit.inscribe(agent("Echo"))
        chain.unconfirmed[echo.txid] = kit.raw(echo)
        await indexing.refresh()
        store = Store(connect(database_url))
        reader = ListingRepository(store)
        stop, looks = threading.Event(), dict[str, int]()

        def watch() -> None:
            while not stop.is_set():
                listed = reader.listing(str(echo))
                documents = list(DocumentReader(store).documents([str(echo)]))
                card = reader.card(listed.state.card) if listed else None
                whole = listed is not None and listed.card_body is not None and card is not None
                seen = f"{whole} {sum(document.until_height is None for document in documents)}"
                looks[seen] = looks.get(seen, 0) + 1

        watching = asyncio.create_task(asyncio.to_thread(watch))
        last = echo
        for number in range(12):
            chain.unconfirmed.clear()
            chain.arrive(kit.mine(last))
            last = kit.update(last, agent(f"Echo {number}"))
            chain.unconfirmed[last.txid] = kit.raw(last)
            await indexing.refresh()
        stop.set()
        await watching
        assert looks.keys() == {"True 1"}
        assert looks["True 1"] > 3
        store.close()


async def test_announced_is_searchable_and_status_counts_it(tmp_path: Path) -> None:
    kit = ChainKit()
    chain = MemoryChain(*kit.blocks, name="live")
    async with running(house(tmp_path, chain)) as (runner, _):
        await until(lambda: runner.status.ready() is None)
        engine = runner.context.services().engine
        echo = kit.inscribe(agent("Echo"))
        chain.unconfirmed |= {kit.pay().txid: b"", echo.txid: kit.raw(echo)}
        await until(lambda: engine.search(Query(text="echo")).total)
        status = runner.status.status()
        assert status["listings"]["pending"] == 1
        assert status["chains"][0]["mempool"] == 2
        chain.unconfirmed.clear()
        chain.arrive(kit.mine(echo))
        await until(lambda: runner.status.status()["listings"] | {"rejected": 0} == {
            "live": 1, "burned": 0, "pending": 0, "rejected": 0, "undecided": 0,
        })  # fmt: skip
