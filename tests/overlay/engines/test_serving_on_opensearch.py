"""Two servers with one OpenSearch index: both answer the same, and a server has no index of its own to lose."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.request import Request, urlopen

import pytest
from aiohttp import ClientSession

from overlay.app.status_service import HIDDEN
from overlay.cli import main
from overlay.engines.opensearch.cluster import READ_SECONDS
from overlay.engines.opensearch.mapping import LAYOUT
from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.opensearch_server import Node
from tests.overlay.calls import get
from tests.serving import new_app, serving, settings
from tests.waiting import PATIENCE, until_told

QUERIES = ("q=tower", "q=harbur", "q=", "q=tower&explain=true", "sort=name&limit=1")


def listed() -> tuple[ChainKit, MemoryChain]:
    """A chain with three listings."""
    kit = ChainKit()
    for name in ("Tower of London guide", "Clock tower", "Harbour pilot"):
        kit.mine(kit.inscribe(agent(name=name)))
    return kit, MemoryChain(*kit.blocks, name="live")


async def answers(session: Any) -> list[Any]:
    """The results of all queries, without the checks of domains, which go on meanwhile."""
    pages = [await get(session, f"/v1/search?{query}") for query in QUERIES]
    return [(page["total"], [item | {"domain": None} for item in page["items"]]) for page in pages]


async def test_two_servers_on_one_index_answer_the_same_and_keep_none_of_their_own(
    tmp_path: Path, opensearch_url: str
) -> None:
    _, chain = listed()
    first = settings(tmp_path / "first")
    async with serving(new_app(tmp_path / "first", chain, search=opensearch_url)) as one:
        expected = await answers(one)
        assert [total for total, _ in expected] == [2, 1, 3, 2, 3]
        for _ in range(2):
            second = new_app(tmp_path / "second", follow=False, search=opensearch_url, database=first.database)
            async with serving(second) as two:
                assert await answers(two) == expected
            assert not list((tmp_path / "second").rglob("*native*")), "no index in files"
            shutil.rmtree(tmp_path / "second")
        assert await answers(one) == expected


def rebuild(flags: list[str]) -> None:
    """Run `a2b rebuild`, again while a server rebuilds."""
    until = monotonic() + PATIENCE
    code: object = None
    while code != 0:
        assert monotonic() < until
        with pytest.raises(SystemExit) as ended:
            main(["rebuild", *flags])
        code = ended.value.code


def delete(node: Node, index: str) -> None:
    """Delete an index, or all of a pattern, as anybody with access can."""
    urlopen(Request(f"http://{node.address}/{index}", method="DELETE")).close()


async def test_an_index_that_is_deleted_under_two_servers_comes_back(
    tmp_path: Path, opensearch: Node, opensearch_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("overlay.app.background.LOOK_SECONDS", 0.2)
    monkeypatch.setattr("overlay.app.composition.LOOK_SECONDS", 0.2)
    _, chain = listed()
    first = new_app(tmp_path / "first", chain, search=opensearch_url)
    second = new_app(tmp_path / "second", follow=False, search=opensearch_url, database=first.settings.database)
    name = f"{opensearch_url.partition('?')[0].rpartition('/')[2]}-{LAYOUT}"
    async with serving(first) as one, serving(second) as two:
        expected = await answers(one)
        for _ in range(2):
            await asyncio.to_thread(delete, opensearch, f"{name}.*")
            for session in (one, two):
                await until_told(session, "/v1/search?q=", lambda page: page.get("total") == 3)
                assert await answers(session) == expected
        flags = ["--data", str(tmp_path / "first/data"), "--search", opensearch_url]
        await asyncio.to_thread(rebuild, flags)
        assert await answers(two) == expected


async def answers_at_once(session: ClientSession, path: str, code: int) -> bool:
    """Whether an answer comes sooner than one that waits for the cluster, which a busy machine may delay as long."""
    try:
        async with asyncio.timeout(READ_SECONDS), session.get(path) as answer:
            assert (path, answer.status) == (path, code)
    except TimeoutError:
        return False
    return True


async def test_while_opensearch_hangs_searches_are_refused_and_all_else_answers_at_once(
    tmp_path: Path, opensearch: Node, opensearch_url: str
) -> None:
    _, chain = listed()
    async with serving(new_app(tmp_path, chain, search=opensearch_url)) as session:
        page = await get(session, "/v1/search?q=tower")
        with opensearch.hanging():
            async with session.get("/v1/search?q=clock") as answer:
                assert (answer.status, "Retry-After" in answer.headers) == (503, True)
            await until_told(session, "/v1/status", lambda status: status["degraded"] == ["search"])
            for path, code in (
                ("/readyz", 503), ("/v1/search?q=tower", 503), ("/v1/suggest?q=tow", 503), ("/v1/status", 200),
                ("/metrics", 200), ("/healthz", 200), (f"/v1/listings/{page['items'][0]['id']}", 200),
                ("/v1/changes", 200), ("/?q=tower", 503),
            ):  # fmt: skip
                async with asyncio.timeout(PATIENCE):
                    while not await answers_at_once(session, path, code):
                        pass
            status = await get(session, "/v1/status")
            assert (status["index"]["seq"], status["index"]["error"]) == (page["index"]["seq"], HIDDEN)
        await until_told(session, "/v1/search?q=tower", lambda again: again == page)
        await until_told(
            session, "/v1/status", lambda status: not status["degraded"] and "error" not in status["index"]
        )
