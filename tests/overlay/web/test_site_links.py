"""The name of the site and the links of its operator, on every page and in security.txt."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import ClientSession

from overlay.api.services import AppServices
from overlay.api.site_links import SiteLinks
from tests.overlay.calls import TOWER, get
from tests.overlay.conftest import Serve

LINKS = SiteLinks(
    title="Registry of <Tests>", report="mailto:report@a.example?subject=a2b", contact="https://a.example/contact",
    imprint="https://a.example/imprint", privacy="https://a.example/privacy", terms="https://a.example/terms",
)  # fmt: skip
PAGES = ("/", f"/listings/{TOWER}", "/status", "/docs", "/register", "/publish", "/listings/none", "/none")


async def text(client: ClientSession, path: str, **headers: Any) -> str:
    async with client.get(path, headers={"Accept": "text/html", **headers}) as response:
        return await response.text()


@pytest.mark.parametrize("path", PAGES)
async def test_every_page_has_the_title_and_the_links(serve: Serve, services: AppServices, path: str) -> None:
    client = await serve(replace(services, site=replace(services.site, links=LINKS)))
    page = await text(client, path)
    assert "Registry of &lt;Tests&gt;</title>" in page
    assert "A2B registry" not in page.partition("<main")[0]
    for words, address in LINKS.foot:
        assert f'<a href="{address}">{words}</a>' in page


@pytest.mark.parametrize("path", PAGES)
async def test_without_settings_there_are_no_links(client: ClientSession, path: str) -> None:
    page = await text(client, path)
    assert "A2B registry</title>" in page
    assert all(f">{words}</a>" not in page for words, _ in LINKS.foot)


async def test_a_page_that_was_cached_with_other_links_is_sent_again(serve: Serve, services: AppServices) -> None:
    clients = [await serve(services), await serve(replace(services, site=replace(services.site, links=LINKS)))]
    for path in ("/", "/docs"):
        tags = []
        for client in clients:
            async with client.get(path, headers={"Accept": "text/html"}) as response:
                tags.append(response.headers["ETag"])
        assert tags[0] != tags[1], path


async def test_security_txt_names_the_contact_and_when_it_ends(serve: Serve, services: AppServices) -> None:
    path = "/.well-known/security.txt"
    async with (await serve(services)).get(path) as response:
        assert response.status == 404
    client = await serve(replace(services, site=replace(services.site, links=LINKS)))
    lines = (await text(client, path)).splitlines()
    fields = dict(line.split(": ", 1) for line in lines)
    assert fields["Contact"] == "https://a.example/contact"
    assert fields["Canonical"].endswith(path)
    expires = time.mktime(time.strptime(fields["Expires"], "%Y-%m-%dT%H:%M:%SZ"))
    assert 80 < (expires - time.time()) / 86_400 < 92


async def test_nothing_is_published_of_what_is_hidden_unless_the_operator_says_so(client: ClientSession) -> None:
    await get(client, "/v1/hidden", 404)
