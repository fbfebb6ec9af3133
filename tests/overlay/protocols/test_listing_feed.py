"""The feed of one listing: each of its revisions once, the newest first."""

from __future__ import annotations

from dataclasses import replace

import feedparser
from aiohttp import ClientSession

from overlay.api.services import AppServices
from overlay.systems.feeds.listing_feed import LISTING_PATH
from tests.overlay.calls import TOWER
from tests.overlay.conftest import Serve


async def body(client: ClientSession, path: str, status: int = 200) -> bytes:
    async with client.get(path, headers={"Accept": "text/html"}) as response:
        assert response.status == status
        return await response.read()


async def test_a_listing_is_followed_by_its_feed(serve: Serve, services: AppServices) -> None:
    systems = (*services.site.systems, "feeds")
    client = await serve(replace(services, site=replace(services.site, systems=systems)))
    path = LISTING_PATH.replace("{id}", TOWER)
    feed = feedparser.parse(await body(client, path))
    assert not feed.bozo, feed.get("bozo_exception")
    assert "Tower" in feed.feed.title
    ids = [entry.id for entry in feed.entries]
    assert len(ids) == len(set(ids)) > 1
    times = [entry.updated for entry in feed.entries]
    assert times == sorted(times, reverse=True)
    assert feed.entries[-1].title.endswith(": registered")
    await body(client, LISTING_PATH.replace("{id}", "none"), 404)
    assert f'href="{path}"' in (await body(client, f"/listings/{TOWER}")).decode()
