"""The folder of an index is removed under two processes that serve from it: it is made and filled again in place."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from overlay.api.search_answer import has_no_index
from overlay.app.composition import AppContext
from overlay.engines import IndexPosition, UnavailableError
from overlay.projection.search_index import SearchIndex
from overlay.search.query import Query
from tests.chainkit import ChainKit, agent
from tests.contracts.listed import listing
from tests.fakes import MemoryChain
from tests.overlay.engines.test_serving_on_opensearch import answers
from tests.serving import new_app, serving
from tests.waiting import until, until_told


@pytest.fixture(autouse=True)
def frequent_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("background", "composition"):
        monkeypatch.setattr(f"overlay.app.{module}.LOOK_SECONDS", 0.2)


def second(folder: Path, first: AppContext) -> AppContext:
    """Another worker of the same folder, which follows nothing."""
    return new_app(folder, follow=False, search=first.settings.search, database=first.settings.database)


# Whoosh leaves the files open that it was writing when they were removed
@pytest.mark.filterwarnings("ignore:Exception ignored in. <_io:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("engine", "removed"), [("native", "."), ("native", "NAME*"), ("whoosh", ".")], ids=["all", "versions", "whoosh"]
)
async def test_the_folder_of_an_index_that_is_removed_is_made_and_filled_again(
    tmp_path: Path, engine: str, removed: str
) -> None:
    kit = ChainKit()
    for name in ("Tower of London guide", "Clock tower", "Harbour pilot"):
        kit.mine(kit.inscribe(agent(name=name)))
    chain, index = MemoryChain(*kit.blocks, name="live"), tmp_path / "data/index"
    first = new_app(tmp_path, chain, search=f"{engine}:{index}")
    other = second(tmp_path, first)
    async with serving(first) as one, serving(other) as two:
        expected = await answers(one)
        assert await answers(two) == expected
        for _ in range(2):
            for path in index.glob(removed.replace("NAME", f"{engine}-*[0-9]")) if removed != "." else [index]:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            for session in (one, two):
                await refused(session)
            for context in (first, other):
                await until(partial(is_filled, context))
            for session in (one, two):
                await until_told(session, "/v1/search?q=", lambda page: page["total"] == 3)
                assert await answers(session) == expected
        chain.arrive(kit.mine(kit.inscribe(agent(name="Lighthouse"))))
        for session in (one, two):
            await until_told(session, "/v1/search?q=lighthouse", lambda page: page["total"] == 1)
            await until_told(session, "/readyz", lambda ready: ready["degraded"] == [])


def is_filled(context: AppContext) -> bool:
    """Whether a version that has its files has read something."""
    assert context.engine is not None
    try:
        position = context.engine.position()
    except UnavailableError:
        return False
    return any(context.engine.version.iterdir()) and position is not None and position.seq > 0


async def refused(session: Any) -> None:
    """Every answer is the right one, or says when to ask again."""
    for _ in range(30):
        async with session.get("/v1/search?q=") as answer:
            page = await answer.json()
            assert (answer.status, page.get("total")) in ((200, 3), (503, None)), page
            assert answer.status == 200 or answer.headers["Retry-After"]
        await asyncio.sleep(0.05)


def test_a_search_of_a_new_index_is_refused_although_the_index_is_filled_before_the_answer(tmp_path: Path) -> None:
    with closing(SearchIndex(f"native:{tmp_path}/index")) as index:
        hits, read = index.search(Query(text="tower")), IndexPosition("e", 5)
        index.replace(["a"], [listing("a", "Harbour")], read)
        assert has_no_index(hits, read, lambda: 0)
        assert not has_no_index(index.search(Query(text="tower")), read, lambda: 0)
