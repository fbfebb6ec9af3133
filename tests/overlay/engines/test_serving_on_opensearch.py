"""Two servers with one OpenSearch index: both answer the same, and a server has no index of its own to lose."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.serving import get, new_app, serving, settings

QUERIES = ("q=tower", "q=harbur", "q=", "q=tower&explain=true", "sort=name&limit=1")


async def answers(session: Any) -> list[Any]:
    """The results of all queries, without the checks of domains, which go on meanwhile."""
    pages = [await get(session, f"/v1/search?{query}") for query in QUERIES]
    return [(page["total"], [item | {"domain": None} for item in page["items"]]) for page in pages]


async def test_two_servers_on_one_index_answer_the_same_and_keep_none_of_their_own(
    tmp_path: Path, opensearch_url: str
) -> None:
    kit = ChainKit()
    for name in ("Tower of London guide", "Clock tower", "Harbour pilot"):
        kit.mine(kit.inscribe(agent(name=name)))
    chain = MemoryChain(*kit.blocks, name="live")
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
