"""Cursors of MCP are short: they lead through all results, also after a change, and are refused for another search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from overlay.systems.mcp.short_cursors import CursorRefusedError, next_page


class Registry:
    """A search that answers these ids in order."""

    def __init__(self, count: int) -> None:
        self.ids = [f"listing-{number}" for number in range(count)]

    async def search(self, pairs: Sequence[tuple[str, str]]) -> Mapping[str, Any]:
        values = dict(pairs)
        begin, limit = int(values.get("offset", "0")), int(values.get("limit", "20"))
        shown = self.ids[begin : begin + limit]
        more = "x" * 900 if begin + limit < len(self.ids) else None
        return {"items": [{"id": id_} for id_ in shown], "total": len(self.ids), "nextCursor": more}

    async def page(self, cursor: str = "", **arguments: str) -> tuple[list[str], str]:
        pairs = [*arguments.items(), ("cursor", cursor)]
        page = await next_page(self.search, pairs, cursor)
        return [item["id"] for item in page["items"]], page["nextCursor"] or ""

    async def all(self, cursor: str = "", **arguments: str) -> list[str]:
        ids: list[str] = []
        while True:
            shown, cursor = await self.page(cursor, **arguments)
            ids += shown
            assert len(cursor) <= 120
            if not cursor:
                return ids


@pytest.mark.parametrize("limit", ["1", "7", "100"])
async def test_pages_lead_through_all_results(limit: str) -> None:
    registry = Registry(205)
    assert await registry.all(limit=limit, q="x") == registry.ids


async def test_a_page_goes_on_after_its_last_listing_when_the_registry_has_changed() -> None:
    registry = Registry(60)
    shown, cursor = await registry.page(limit="10")
    before = registry.ids[10:]
    registry.ids = ["new-1", "new-2", *registry.ids]
    assert await registry.all(cursor, limit="10") == before
    registry.ids = [id_ for id_ in registry.ids if id_ != shown[-1]]
    with pytest.raises(CursorRefusedError, match="the registry has changed since that page"):
        await registry.page(cursor, limit="10")


async def test_a_cursor_of_another_search_or_of_nobody_is_refused() -> None:
    registry = Registry(60)
    _, cursor = await registry.page(q="x", type="agent", limit="5")
    await registry.page(cursor, type="agent", query="x", limit="9")
    for arguments in ({"q": "y", "type": "agent"}, {"q": "x"}, {"q": "x", "type": "agent", "sort": "name"}):
        with pytest.raises(CursorRefusedError, match="belongs to another search"):
            await registry.page(cursor, **arguments)
    for text in ("x", "é", cursor[:-1], cursor + "A", "AAAAAAAAAAAAAAAA", cursor + "="):
        with pytest.raises(CursorRefusedError, match="was not given out here"):
            await registry.page(text, q="x", type="agent")
