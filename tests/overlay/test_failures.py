"""A listing, a rating or a feed that raises an exception is left out alone, named in status, and tried again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from indexer.failures import RETRY_SECONDS, LeftOut
from indexer.fetcher import domain_badges
from indexer.retries import Backoff
from overlay.app import background
from overlay.duplicates.duplicate_index import DuplicateIndex
from overlay.projection.documents import DocumentReader
from overlay.projection.projector import IndexProjector
from overlay.projection.search_index import SearchIndex
from overlay.search.query import Query
from parsers.cards import Kind
from tests.chainkit import ChainKit, agent
from tests.clocks import Clock
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.overlay.answer_models import fits
from tests.overlay.calls import get
from tests.serving import new_app, running, serving
from tests.waiting import until


class Poisoned:
    """Documents of `ids` cannot be made, while they are among these."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ids: set[str] = set()
        commits = DocumentReader.commits

        def read(reader: DocumentReader, registrations: Any, *more: Any) -> Iterator[Any]:
            for ids, portions in commits(reader, list(registrations), *more):
                yield ids, map(self._checked, portions)

        monkeypatch.setattr(DocumentReader, "commits", read)

    def _checked(self, portion: tuple[Sequence[str], Any]) -> Any:
        if self.ids & set(portion[0]):
            raise OverflowError("date value out of range")
        return portion


class Projected:
    """A chain of agents with the index that follows it, over restarts."""

    def __init__(self, folder: Path, scheme: str) -> None:
        self.folder, self.kit, self.clock = folder, ChainKit(), Clock(0.0)
        self.chain = MemoryChain(*self.kit.blocks)
        self.indexing = Indexing(f"sqlite:///{folder}/a2b.db", self.chain)
        self.engine = SearchIndex(f"{scheme}:{folder}/index")
        self.start()

    def start(self) -> None:
        self.left_out = LeftOut(self.clock)
        self.duplicates = DuplicateIndex(str(self.folder))
        self.projector = IndexProjector(
            self.indexing.store, self.engine, self.duplicates, left_out=self.left_out
        )  # fmt: skip

    async def mine(self, *what: Any) -> None:
        self.chain.arrive(self.kit.mine(*what))
        await self.indexing.catch_up()

    def names(self) -> list[str]:
        self.projector.run()
        return sorted(json.loads(bytes(hit.item))["name"] for hit in self.engine.search(Query(limit=100)).hits)


@pytest.fixture(params=["native", "whoosh"])
def projected(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Projected]:
    created = Projected(tmp_path, request.param)
    with created.indexing:
        yield created
        created.engine.close()
        created.duplicates.close()


async def test_one_listing_that_fails_is_not_in_the_index_and_all_others_are(
    projected: Projected, monkeypatch: pytest.MonkeyPatch
) -> None:
    poisoned = Poisoned(monkeypatch)
    agents = [projected.kit.inscribe(agent(f"Agent {number}")) for number in range(7)]
    poisoned.ids = {str(agents[4])}
    await projected.mine(*agents)
    others = [f"Agent {number}" for number in range(7) if number != 4]
    assert projected.names() == others
    assert projected.left_out.as_json() == {
        "count": 1, "first": [{"id": str(agents[4]), "reason": "index: OverflowError"}]
    }  # fmt: skip
    position = projected.engine.position()
    assert position is not None
    assert position.seq == projected.indexing.store.outbox.newest_seq()

    projected.clock.now += RETRY_SECONDS
    assert projected.names() == others, "it fails again"
    assert projected.left_out.counts() == {"index": 1}
    poisoned.ids = set()
    assert projected.names() == others, "and waits for an hour"
    projected.clock.now += RETRY_SECONDS
    assert projected.names() == sorted([*others, "Agent 4"])
    assert len(projected.left_out) == len(projected.duplicates.failed()) == 0


async def test_a_change_of_a_listing_that_failed_is_not_waited_for(
    projected: Projected, monkeypatch: pytest.MonkeyPatch
) -> None:
    poisoned = Poisoned(monkeypatch)
    first = projected.kit.inscribe(agent("One"))
    await projected.mine(first)
    assert projected.names() == ["One"]
    poisoned.ids = {str(first)}
    second = projected.kit.update(first, agent("Two"))
    await projected.mine(second)
    assert projected.names() == [], "its former state would be wrong"
    poisoned.ids = set()
    await projected.mine(projected.kit.update(second, agent("Three")))
    assert projected.names() == ["Three"]
    assert len(projected.left_out) == 0


async def test_what_failed_is_tried_again_after_a_restart_and_left_out_of_a_rebuild(
    projected: Projected, monkeypatch: pytest.MonkeyPatch
) -> None:
    poisoned = Poisoned(monkeypatch)
    agents = [projected.kit.inscribe(agent(f"Agent {number}")) for number in range(3)]
    await projected.mine(*agents)
    poisoned.ids = {str(agents[0]), str(agents[2])}
    assert projected.names() == ["Agent 1"]
    assert projected.projector.rebuild() == 3
    assert projected.names() == ["Agent 1"]
    assert projected.left_out.counts() == {"index": 2}
    poisoned.ids = set()
    projected.duplicates.close()
    projected.start()
    assert projected.left_out.counts() == {"index": 2}
    assert projected.names() == ["Agent 0", "Agent 1", "Agent 2"]
    assert projected.duplicates.failed() == {}


async def test_an_index_that_fails_itself_leaves_out_nothing(
    projected: Projected, monkeypatch: pytest.MonkeyPatch
) -> None:
    await projected.mine(projected.kit.inscribe(agent("One")), projected.kit.inscribe(agent("Two")))
    with monkeypatch.context() as patched:
        patched.setattr(SearchIndex, "replace", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            projected.projector.step()
    assert len(projected.left_out) == 0
    assert projected.names() == ["One", "Two"]


async def test_a_card_with_a_host_that_cannot_be_read_keeps_no_other_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit, clock, now = ChainKit(), Clock(0.0), 1_800_000_000_000
    good, bad = (kit.inscribe(agent(name, url=f"https://{name.lower()}.example")) for name in ("Good", "Bad"))
    kit.mine(good, bad)
    read = domain_badges.urls_of_card

    def reading(body: bytes, kind: Kind | None, entry: str = "") -> Iterator[str]:
        if b"bad.example" in body:
            raise RecursionError("a mistake")
        return read(body, kind, entry)

    with Indexing(f"sqlite:///{tmp_path}/a2b.db", MemoryChain(*kit.blocks)) as indexing:
        await indexing.catch_up()
        queue = domain_badges.BadgeQueue(indexing.store, indexing.writer, LeftOut(clock))

        def hosts() -> list[str]:
            while queue.step(now):
                pass
            return sorted(badge.host for badge in indexing.store.badges.get([str(good), str(bad)]).values())

        with monkeypatch.context() as patched:
            patched.setattr(domain_badges, "urls_of_card", reading)
            assert hosts() == ["good.example"]
        assert hosts() == ["good.example"]
        clock.now += RETRY_SECONDS
        assert hosts() == ["bad.example", "good.example"]


async def test_status_metrics_and_pages_name_what_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poisoned, kit = Poisoned(monkeypatch), ChainKit()
    good, bad = kit.inscribe(agent("Good")), kit.inscribe(agent("Bad"))
    kit.mine(good, bad)
    poisoned.ids = {str(bad)}
    async with serving(new_app(tmp_path, MemoryChain(*kit.blocks, name="live"))) as session:
        status = await get(session, "/v1/status")
        fits(status, "Status")
        assert status["failed"] == {"count": 1, "first": [{"id": str(bad), "reason": "index: OverflowError"}]}
        assert status["degraded"] == ["failed"]
        async with session.get("/status") as html:
            assert f"{bad} (index: OverflowError)" in await html.text()
        async with session.get("/metrics") as metrics:
            assert 'a2b_failed{work="index"} 1.0' in await metrics.text()
        page = await get(session, "/v1/search")
        assert [item["name"] for item in page["items"]] == ["Good"]


async def test_an_index_loop_outlives_an_exception(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "FAILED", Backoff(0.01, 0.01))
    kit = ChainKit()
    kit.mine(kit.inscribe(agent("Router")))
    with monkeypatch.context() as patched:
        patched.setattr(SearchIndex, "replace", lambda *_: 1 // 0)
        patched.setattr(SearchIndex, "clear", lambda *_: 1 // 0)
        patched.setattr(IndexProjector, "initialize", lambda _: None)
        async with running(new_app(tmp_path, MemoryChain(*kit.blocks, name="live"))) as (runner, task):
            await until(lambda: runner.status.index_error == "it failed (ZeroDivisionError)")
            assert "index-behind" in runner.status.degraded()
            patched.undo()
            await until(lambda: runner.status.ready() is None)
            assert runner.status.index_error == ""
            assert not task.done()


async def test_a_state_hash_that_fails_keeps_no_other_chain_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chains = [MemoryChain(*ChainKit().blocks, name=name) for name in ("live", "other")]
    app = new_app(tmp_path, *chains)
    update = app.status.update_state_hash

    def failing(name: str) -> None:
        if name == "live":
            raise KeyError(name)
        update(name)

    monkeypatch.setattr(app.status, "update_state_hash", failing)
    async with running(app) as (runner, _):
        await until(lambda: "other" in runner.status.status()["stateHash"])
        await until(lambda: app.left_out.counts() == {"state hash": 1})
