"""`asOfHeight`: every engine answers as the registry stood, through reorganisations, as the slow oracle says."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from overlay.api.search_request import from_pairs
from overlay.projection.projector import IndexProjector
from overlay.projection.search_index import SearchIndex
from overlay.search.query import Hits, Query
from tests.chainkit import ChainKit, agent, tool
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.oracles.registry import Record, read_chain
from tests.strategies import History, histories

ALL = ("live", "pending", "burned", "undecided")


def ask(engine: SearchIndex, height: int | None, chain: str = "demo", **more: Any) -> Hits:
    query = {"statuses": ALL, "limit": 100, "facets": ("type", "status"), **more}
    return engine.search(Query(as_of=height, height_chain=chain if height is not None else None, **query))


def shown(hits: Hits) -> dict[str, tuple[Any, ...]]:
    """The state of each listing by its item."""
    items = {hit.id: json.loads(bytes(hit.item)) for hit in hits.hits}
    return {
        id_.partition("#")[0]: (
            item["status"], item["type"], item["outpoint"], item["owner"], item["updatedHeight"], item["cardSha256"],
        )
        for id_, item in items.items()
    }  # fmt: skip


def stood(registrations: list[Record]) -> dict[str, tuple[Any, ...]]:
    """The state of each listing by the oracle."""
    return {
        registration["id"]: (
            registration["status"],
            registration["type"],
            registration["outpoint"],
            registration["owner"],
            registration["updatedHeight"],
            registration["cardSha256"],
        )
        for registration in registrations
    }


def check(engine: SearchIndex, chain: MemoryChain) -> None:
    """Hold the answers for every height of the best chain against a reader that stopped there."""
    raws = [chain.raw(ref) for ref in chain.best]
    for height in range(len(raws)):
        expected = stood(read_chain(raws[: height + 1]).registrations)
        hits = ask(engine, height)
        assert shown(hits) == expected, f"as of {height} of {len(raws) - 1}"
        assert hits.total == len(hits.hits)
        counted = Counter(json.loads(bytes(hit.item))["status"] for hit in hits.hits)
        assert dict((hits.facets or {})["status"]) == counted
        live = ask(engine, height, statuses=("live", "pending"))
        assert set(shown(live)) == {id_ for id_, answer in expected.items() if answer[0] == "live"}
    assert shown(ask(engine, None)) == shown(ask(engine, len(raws) + 5)), "the newest height is the registry as it is"


@pytest.mark.parametrize("scheme", ["native", "whoosh"])
@given(history=histories(max_blocks=7, any_order=True), looks=st.sampled_from([1, 2, 3]))
@settings(
    max_examples=12,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
def test_any_history_of_forks_is_answered_as_each_height_stood(scheme: str, history: History, looks: int) -> None:
    async def live() -> None:
        chain = MemoryChain()
        with tempfile.TemporaryDirectory() as folder:
            engine = SearchIndex(f"{scheme}:{folder}/index")
            with Indexing(f"sqlite:///{folder}/a2b.db", chain) as indexing:
                feed = IndexProjector(indexing.store, engine)
                for start in range(0, len(history.arrivals), looks):
                    chain.arrive(*history.arrivals[start : start + looks])
                    await indexing.catch_up()
                    feed.run()
                check(engine, chain)
                feed.rebuild()
                check(engine, chain)
            engine.close()

    asyncio.run(live())


async def test_a_reorg_changes_what_a_height_was(engine: SearchIndex, tmp_path: Path) -> None:
    kit = ChainKit()
    listed, gone = kit.inscribe(agent("Alpha Router")), kit.inscribe(tool("clock"), "a2b-mcp")
    kit.mine(listed, gone)
    kit.mine(kit.update(listed, agent("Beta Router")))
    chain = MemoryChain(*kit.blocks)
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", chain) as indexing:
        feed = IndexProjector((await indexing.catch_up()).store, engine)
        feed.run()

        def names(height: int | None, text: str = "") -> list[str]:
            hits = ask(engine, height, text=text, statuses=("live",)).hits
            return sorted(json.loads(bytes(hit.item))["name"] for hit in hits)

        first = kit["2"].height
        assert names(first) == ["Alpha Router", "clock"]
        assert names(first + 1) == ["Beta Router", "clock"]
        assert names(first, "beta") == names(first + 1, "alpha") == []
        before = indexing.store.outbox.newest_seq()
        kit.mine(kit.update(listed, agent("Gamma Router")), kit.inscribe(agent("Delta Router")), parent=kit["2"])
        kit.mine()
        chain.arrive(*kit.blocks)
        await indexing.catch_up()
        assert [change.op for change in indexing.store.outbox.after(before, 10)] == ["revert", "upsert", "upsert"]
        feed.run()
        assert names(first) == ["Alpha Router", "clock"]
        assert names(first + 1) == names(first + 2) == ["Delta Router", "Gamma Router", "clock"]
        assert names(None, "beta") == []
        check(engine, chain)


async def test_heights_are_those_of_one_chain(engine: SearchIndex, tmp_path: Path) -> None:
    kits = {name: ChainKit() for name in ("main", "side")}
    for name, kit in kits.items():
        kit.mine_empty(2 if name == "side" else 0)
        kit.mine(kit.inscribe(agent(f"{name} Router")))
    chains = [MemoryChain(*kit.blocks, name=name) for name, kit in kits.items()]
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", *chains) as indexing:
        IndexProjector((await indexing.catch_up()).store, engine).run()
    existing = {"main": "bsv:regtest", "side": "bsv:regtest"}

    def names(*pairs: tuple[str, str]) -> list[str]:
        hits = engine.search(from_pairs(pairs, existing).query).hits
        return sorted(json.loads(bytes(hit.item))["name"] for hit in hits)

    assert names() == ["main Router", "side Router"]
    assert names(("asOfHeight", "3")) == ["main Router"]
    assert names(("asOfHeight", "3"), ("chain", "side")) == []
    assert names(("asOfHeight", "4"), ("chain", "side")) == ["side Router"]
    both = from_pairs([("asOfHeight", "4"), ("chain", "side"), ("chain", "main")], existing)
    assert both.query.height_chain == "side"
    assert [(note.parameter, note.detail) for note in both.notes] == [
        ("chain", "heights are those of side: nothing of main is shown")
    ]
