"""Several servers with indexes of their own: one whose index is older takes no cursor and no height of a newer one, and
what they answer under one entity tag is equal but for observed times (law 24)."""

from __future__ import annotations

import sqlite3
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import ClientSession

from overlay.api import cursors
from overlay.api.answers import json_etag
from overlay.app.composition import AppContext
from overlay.projection.projector import IndexProjector
from overlay.text.compact_json import encode
from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.overlay.calls import get
from tests.serving import new_app, serving, settings
from tests.waiting import until_told

NAMES = [f"Agent {number}" for number in range(6)]

OBSERVED = {"checkedAt", "ownerCheckedAt", "at"}

PATHS = ("/v1/search?q=", "/v1/search?q=agent&sort=-created", "/v1/changes")


def without_observed_times(value: Any) -> Any:
    """A JSON value without the members that say when something was looked at."""
    if isinstance(value, dict):
        return {name: without_observed_times(member) for name, member in value.items() if name not in OBSERVED}
    return list(map(without_observed_times, value)) if isinstance(value, list) else value


class Machines:
    """A server that follows a chain, and one with an index of its own, which can be held."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kit, self.folder, self._patch = ChainKit(), folder, monkeypatch
        for name in NAMES:
            self.kit.mine(self.kit.inscribe(agent(name=name)))
        self.chain = MemoryChain(*self.kit.blocks, name="live")

    @asynccontextmanager
    async def running(self) -> Any:
        """Clients of both."""
        newer = new_app(self.folder / "newer", self.chain)
        self.older: AppContext = new_app(
            self.folder / "older", follow=False, database=settings(self.folder / "newer").database
        )
        async with serving(newer) as one, serving(self.older) as two:
            yield one, two

    def hold(self) -> None:
        """Let the index of the second one read no more."""
        step, older = IndexProjector.step, self.older

        def held(self: IndexProjector, *args: Any) -> int:
            mine = older.search_start is not None and self is older.search_start.projector
            return 0 if mine else step(self, *args)

        self._patch.setattr(IndexProjector, "step", held)
        self._patch.setattr(older.status, "publish", lambda _: None)

    def release(self) -> None:
        """Let it read again."""
        self._patch.undo()
        self.older.notifier.notify()


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    return Machines(tmp_path, monkeypatch)


async def status_of(session: ClientSession, path: str) -> tuple[int, str | None, Any]:
    """The status of an answer, when to ask again, and its JSON."""
    async with session.get(path) as answer:
        return answer.status, answer.headers.get("Retry-After"), await answer.json(content_type=None)


async def test_a_cursor_and_a_height_of_a_newer_index_are_for_later(machines: Machines) -> None:
    async with machines.running() as (one, two):
        before = (await get(two, "/v1/search?q="))["index"]["heights"]["live"]
        machines.hold()
        for name in ("Lighthouse", "Harbour"):
            machines.chain.arrive(machines.kit.mine(machines.kit.inscribe(agent(name=name))))
        walk, height = "/v1/search?sort=-created&limit=3", before + 2
        page = await until_told(one, walk, lambda page: page["index"]["heights"]["live"] == height)
        following = f"{walk}&cursor={quote(page['nextCursor'])}"
        for path in (following, f"/v1/search?asOfHeight={height}", f"/?{following.partition('?')[2]}"):
            assert (await status_of(two, path))[:2] == (503, "1"), path
        assert (await status_of(two, f"/v1/search?asOfHeight={height + 1}"))[0] == 400
        machines.release()
        rest = await until_told(two, following, lambda page: "items" in page)
        expected = await get(one, following)
        one_walk, other = ([{**item, "domain": None} for item in page["items"]] for page in (rest, expected))
        assert one_walk == other, "but for their domains, which are checked meanwhile"
        held = await until_told(two, f"/v1/search?asOfHeight={height}", lambda page: "items" in page)
        assert held["total"] == len(NAMES) + 2


async def test_a_cursor_of_changes_that_no_database_holds_is_refused(machines: Machines) -> None:
    async with machines.running() as (one, _):
        page = await get(one, "/v1/search?sort=-created&limit=3")
        position = cursors.decode(page["nextCursor"])
        lost = cursors.encode(position._replace(seq=position.seq + 1_000))
        status, _, problem = await status_of(one, f"/v1/search?sort=-created&limit=3&cursor={quote(lost)}")
        assert (status, problem["errors"][0]["code"]) == (400, "cursor-expired")


async def test_answers_with_one_entity_tag_are_equal_but_for_observed_times(machines: Machines) -> None:
    async with machines.running() as (one, two):
        page = await until_told(one, "/v1/search?q=", lambda page: all(map(is_checked, page["items"])))
        await until_told(two, "/v1/search?q=", lambda other: other["index"] == page["index"])
        item = f"/v1/listings/{page['items'][0]['id']}"
        for path in (*PATHS, item):
            (tag, first), (other_tag, second) = await tagged(one, path), await tagged(two, path)
            assert (tag, without_observed_times(first)) == (other_tag, without_observed_times(second)), path


async def test_a_listing_that_is_checked_again_has_the_entity_tag_of_before(machines: Machines) -> None:
    async with machines.running() as (one, _):
        page = await until_told(one, "/v1/search?q=", lambda page: all(map(is_checked, page["items"])))
        path = f"/v1/listings/{page['items'][0]['id']}"
        tag, item = await tagged(one, path)
        with closing(sqlite3.connect(settings(machines.folder / "newer").data / "a2b.db")) as database, database:
            assert database.execute("UPDATE checks SET checked_at = checked_at + 60000").rowcount
        again, later = await tagged(one, path)
        assert later["domain"]["checkedAt"] > item["domain"]["checkedAt"]
        assert again == tag


def is_checked(item: Any) -> bool:
    """Whether its domain was looked at."""
    return item["domain"]["checkedAt"] is not None


async def tagged(session: ClientSession, path: str) -> tuple[str, Any]:
    """The entity tag of an answer, and its JSON."""
    async with session.get(path) as answer:
        assert answer.status == 200, path
        return answer.headers["ETag"], await answer.json(content_type=None)


def test_an_entity_tag_of_json_covers_all_but_observed_times() -> None:
    """Whatever is answered: items of the MCP Registry and of others have them, too."""

    def tag(**members: Any) -> str:
        return json_etag(encode({"servers": [{"name": "clock", **members}], "total": 1}))

    looked_at = {"checkedAt": "2026-11-29T10:00:00Z", "lastFailure": {"at": "2026-11-29T09:00:00Z", "reason": "x"}}
    again = {"checkedAt": "2026-11-30T10:00:00Z", "lastFailure": {"at": "2026-11-30T09:00:00Z", "reason": "x"}}
    assert tag(domain=looked_at) == tag(domain=again)
    assert tag(domain=looked_at) != tag(domain={**again, "lastFailure": {"at": "2026-11-30T09:00:00Z", "reason": "y"}})
    assert tag(text='"checkedAt":"1"') != tag(text='"checkedAt":"2"')
    assert tag(text='\\"at":"1"') != tag(text='\\"at":"2"')
    assert tag(text="at") != tag(text="checkedAt")
