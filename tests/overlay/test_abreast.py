"""Listings answered from the index: only while it has read all that is stored, and then with the very same bytes."""

from __future__ import annotations

import asyncio
import json
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from hypothesis import HealthCheck, given, settings

from overlay.abreast import Abreast
from overlay.api import listing_api
from overlay.catalogue import Catalogue
from overlay.copies.book import Copies
from overlay.engines import Engine
from overlay.engines.tantivy import TantivyEngine
from overlay.feed import Feed
from overlay.ports import Services
from overlay.services import build
from tests.chainkit import ChainKit, agent
from tests.conftest import SAMPLE
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.serving import get, house, serving
from tests.serving import settings as service_settings
from tests.strategies import History, histories
from tests.waiting import until_told

SEVERAL = {"mcpServers": {name: {"url": f"https://{name}.example/mcp"} for name in ("one", "an other")}}


class Writes:
    """A store that is written to, and an index that reads it."""

    def __init__(self) -> None:
        self.written = self.read = 0
        self.asked = 0

    def behind(self) -> int:
        self.asked += 1
        return self.written - self.read


def test_it_is_known_until_somebody_writes() -> None:
    writes = Writes()
    abreast = Abreast(lambda: writes.written, writes.behind)
    assert not abreast.is_known()
    abreast.look()
    assert abreast.is_known()
    writes.written += 1
    assert not abreast.is_known()
    abreast.look()
    assert not abreast.is_known(), "the index has not read it"
    writes.read += 1
    abreast.look()
    assert abreast.is_known()
    asked = writes.asked
    abreast.look()
    assert writes.asked == asked, "what is known is not asked again"


def test_what_is_written_while_it_is_looked_is_not_taken_for_read() -> None:
    writes = Writes()

    def behind() -> int:
        found = writes.behind()
        writes.written += 1
        return found

    abreast = Abreast(lambda: writes.written, behind)
    abreast.look()
    assert not abreast.is_known()


def services(store: Catalogue, engine: Engine, abreast: Abreast | None = None) -> Services:
    nobody: Any = None
    return Services(
        engine=engine, store=store, abreast=abreast, status=dict, diagnose=nobody, chains=dict, heights=dict,
        ready=lambda: None, version="test", requests=nobody,
    )  # fmt: skip


def agree(store: Catalogue, engine: Engine, ids: set[str]) -> tuple[int, int]:
    """Hold what the index tells of listings against what the store does; how many there are, and how many it told."""
    asked = services(store, engine, Abreast(lambda: 1, lambda: 0))
    abreast = asked.abreast
    assert abreast is not None
    abreast.look()
    listed = told = 0
    for id_ in sorted(ids):
        whole = listing_api.shown(asked, id_)
        for each in whole.get("servers", (id_,)):
            listed += 1
            known = listing_api._known(asked, each)
            assert known is None or known == listing_api._found(asked, each)
            told += known is not None
        if "servers" in whole:
            assert listing_api._known(asked, id_) is None, "the plain id of several servers is no listing"
    return listed, told


@given(history=histories(max_blocks=7, any_order=True))
@settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_any_history_is_told_by_the_index_as_by_the_store(history: History) -> None:
    async def live() -> None:
        chain = MemoryChain()
        with (
            tempfile.TemporaryDirectory() as folder,
            closing(TantivyEngine(f"{folder}/index")) as engine,
            closing(Copies(folder)) as copies,
            Indexing(f"sqlite:///{folder}/a2b.db", chain) as indexing,
        ):
            feed = Feed(indexing.store, engine, copies)
            for arrival in history.arrivals:
                chain.arrive(arrival)
                await indexing.refresh()
                feed.run()
                ids = {id_ for _, id_ in indexing.store.ids(None, 1_000)}
                listed, told = agree(Catalogue(indexing.store), engine, ids)
                assert told == listed, "only what ages is left to the store, and these have no prices"

    asyncio.run(live())


async def twice(session: ClientSession, path: str) -> list[tuple[bytes, str]]:
    """The body and the entity tag of two answers."""
    found = []
    for _ in range(2):
        async with session.get(path) as answer:
            assert answer.status == 200
            found.append((await answer.read(), answer.headers["ETag"]))
    return found


async def test_the_sample_chain_is_served_from_the_index_as_from_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from_store: list[str] = []
    found = listing_api._found

    def noted(services: Services, text: str) -> bytes:
        from_store.append(text)
        return found(services, text)

    monkeypatch.setattr(listing_api, "_found", noted)
    told = replace(service_settings(tmp_path, chains=f"bsv=files:{SAMPLE}"), sample=True)  # so that no host is asked
    async with serving(build(told, follow=True, serve=True)) as session:
        items = (await get(session, "/v1/search?limit=100&status=all"))["items"]
        assert len(items) > 20
        for item in items:
            one, other = await twice(session, f"/v1/listings/{item['id'].replace('#', '%23')}")
            assert one == other
            assert {**item, "score": 0} == {**json.loads(one[0]), "score": 0}
    assert len(from_store) < len(items), "nothing was written meanwhile, so the index tells most"


async def test_a_revision_is_told_at_once(tmp_path: Path) -> None:
    kit = ChainKit()
    echo = kit.inscribe(agent("Echo"))
    kit.mine(echo)
    chain = MemoryChain(*kit.blocks)
    async with serving(house(tmp_path, chain)) as session:
        path = f"/v1/listings/{echo}"
        await twice(session, path)
        assert (await get(session, path))["name"] == "Echo"
        chain.arrive(kit.mine(kit.update(echo, agent("Newer"))))

        # from the moment on at which any answer knows of the block, all do
        await until_told(session, "/v1/status", lambda told: told["chains"][0]["height"] == len(kit.blocks) - 1)
        assert (await get(session, path))["name"] == "Newer"


def test_where_an_id_stands_twice_the_index_does_not_tell(tmp_path: Path) -> None:
    """Two chains that share their past hold the same outpoints."""
    kit = ChainKit()
    echo, several = kit.inscribe(agent("Echo")), kit.inscribe(SEVERAL, type="a2b-mcp")
    kit.mine(echo, several)

    async def live() -> list[tuple[int, int]]:
        chains = MemoryChain(*kit.blocks, name="a"), MemoryChain(*kit.blocks, name="b")
        counted = []
        for number, on in enumerate((chains[:1], chains)):
            folder = tmp_path / str(number)
            folder.mkdir()
            with (
                closing(TantivyEngine(f"{folder}/index")) as engine,
                Indexing(f"sqlite:///{folder}/a2b.db", *on) as indexing,
            ):
                await indexing.catch_up()
                Feed(indexing.store, engine).run()
                counted.append(agree(Catalogue(indexing.store), engine, {str(echo), str(several)}))
        return counted

    assert asyncio.run(live()) == [(3, 3), (3, 0)]
