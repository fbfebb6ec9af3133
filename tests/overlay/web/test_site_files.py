"""Files for crawlers, agents and publishers: sitemap, llms.txt, badges, pictures for links."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import pytest
from aiohttp import ClientSession
from markdown_it import MarkdownIt

from overlay.api.services import AppServices
from overlay.web import site_files
from overlay.web.assets import assets
from overlay.web.badge_svg import MAX_NAME, badge_text, drawing, word_of
from tests.overlay.calls import TOWER
from tests.overlay.conftest import Serve

SITEMAP = "{http://www.sitemaps.org/schemas/sitemap/0.9}"


async def body(client: ClientSession, path: str, status: int = 200) -> bytes:
    async with client.get(path, headers={"Accept": "text/html"}) as response:
        assert response.status == status
        return await response.read()


def parsed(document: bytes | str) -> ElementTree.Element:
    return ElementTree.fromstring(document)  # noqa: S314 - of this program


async def locations(client: ClientSession, path: str) -> list[str]:
    root = parsed(await body(client, path))
    return [str(element.text) for element in root.iter(f"{SITEMAP}loc")]


async def test_the_sitemap_names_the_page_of_every_listing(client: ClientSession, services: AppServices) -> None:
    files = await locations(client, "/sitemap.xml")
    assert [file.rpartition("/")[2] for file in files] == ["sitemap-1.xml"]
    pages = await locations(client, "/sitemap-1.xml")
    assert len(pages) == len(set(pages)) > 20
    base = files[0].removesuffix("/sitemap-1.xml")
    assert f"{base}/listings/{TOWER}" in pages
    assert f"Sitemap: {base}/sitemap.xml" in (await body(client, "/robots.txt")).decode().splitlines()


@pytest.mark.parametrize("name", ["0", "2", "x", "-1", "1e3", "9999999999"])
async def test_there_are_no_other_files_of_the_sitemap(client: ClientSession, name: str) -> None:
    await body(client, f"/sitemap-{name}.xml", 404)


async def test_the_division_into_files_is_kept_for_an_hour(services: AppServices) -> None:
    runs = site_files.SitemapRuns()
    assert runs.of(services.store) is runs.of(services.store)


async def test_llms_txt_links_what_programs_use(serve: Serve, services: AppServices) -> None:
    text = (await body(await serve(services), "/llms.txt")).decode()
    assert text.startswith("# A2B registry\n\n> AI agents and MCP tools")
    assert all(path in text for path in ("/openapi.json)", "/v1/search?q=", "/docs)", "/sitemap.xml)"))
    assert "/mcp)" not in text, "which these services do not serve"


@pytest.mark.parametrize(
    ("item", "word"),
    [
        ({"status": "live", "domain": None}, "listed"),
        ({"status": "live", "domain": {"verified": False}}, "listed"),
        ({"status": "live", "domain": {"verified": True}}, "verified domain"),
        ({"status": "live", "domain": {"verified": True}, "deprecated": {"since": None}}, "deprecated"),
        ({"status": "burned"}, "burned"),
    ],
)
def test_a_badge_says_what_the_listing_is(item: dict[str, Any], word: str) -> None:
    assert word_of(item) == word


async def test_a_badge_has_the_name_of_the_listing_escaped(client: ClientSession) -> None:
    picture = await body(client, f"/listings/{quote(TOWER)}/badge.svg")
    root = parsed(picture)
    assert "Tower" in "".join(root.itertext())
    drawn = parsed(drawing("<script>\"&'", "listed"))
    assert [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")] == ["<script>\"&'", "listed"]
    await body(client, "/listings/none/badge.svg", 404)


@pytest.mark.parametrize("name", ["Plain", "a](https://evil.example) [b", "`<img>`", "x" * 200, "\\] ![", ""])
def test_the_markdown_of_a_badge_is_one_picture_with_one_link(name: str) -> None:
    text = badge_text("https://a.example", {"id": "host.example/a b", "name": name})
    page = "https://a.example/listings/host.example%2Fa%20b"
    html = MarkdownIt().render(text)
    assert html.count("<a ") == html.count("<img ") == html.count("<p>") == 1
    assert (f'href="{page}"' in html, f'src="{page}/badge.svg"' in html) == (True, True)
    assert len(text) < len(page) * 2 + MAX_NAME + 40


async def test_the_page_of_a_listing_offers_its_badge_and_feed(client: ClientSession) -> None:
    page = (await body(client, f"/listings/{TOWER}")).decode()
    assert f'<a href="/listings/{TOWER}/badge.svg">' in page
    assert f"/listings/{TOWER}/badge.svg)](" in page


@pytest.mark.parametrize("path", ["/", "/docs", "/register", "/status", f"/listings/{TOWER}"])
async def test_every_page_describes_itself(client: ClientSession, path: str) -> None:
    page = (await body(client, path)).decode()
    assert page.count('<meta name="description" content="') == 1
    assert 'content=""' not in page
    assert "og:image" not in page, "without a configured address"


async def test_a_page_has_a_picture_for_links_where_the_address_is_configured(
    serve: Serve, services: AppServices
) -> None:
    links = services.site.links._replace(public_url="https://a.example/a2b")
    client = await serve(replace(services, site=replace(services.site, links=links)))
    page = (await body(client, f"/listings/{TOWER}")).decode()
    picture = assets()["card.png"]
    assert f'<meta property="og:image" content="https://a.example/a2b{picture.url}">' in page
    assert (await body(client, picture.url))[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(picture.body) < 40_000
