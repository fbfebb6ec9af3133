"""The guide: pages of docs/ that a running overlay serves, rendered, with links that resolve."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import ClientSession

from overlay.web import guide
from overlay.web.guide import PAGES, pages, rendered, served_address
from tests.conftest import ROOT


async def _text(client: ClientSession, path: str, status: int = 200) -> str:
    async with client.get(path, headers={"Accept": "text/html"}) as response:
        assert response.status == status
        return await response.text()


async def test_the_contents_link_to_the_api_page_and_to_every_page(client: ClientSession) -> None:
    contents = await _text(client, "/docs")
    assert '<a href="/docs/api">' in contents
    for name in PAGES:
        assert f'<a href="/docs/{name}">' in contents
        assert f"<h1>{pages()[name].title}</h1>" in await _text(client, f"/docs/{name}")


async def test_every_link_of_the_guide_leads_to_a_page_and_an_anchor(client: ClientSession) -> None:
    for name, page in pages().items():
        for link in re.findall(r'<a href="([^"]*)"', page.body):
            if link.startswith("https://"):
                continue
            target = urlsplit(link)
            text = await _text(client, target.path or f"/docs/{name}")
            assert not target.fragment or f'id="{target.fragment}"' in text, (name, link)


def test_cells_name_their_column_for_narrow_screens() -> None:
    page = rendered("# Title\n\n| a `b` | c |\n|---|---|\n| 1 | 2 |\n\ntext\n\n| d |\n|---|\n| 3 |\n")
    assert re.findall(r'<td role="cell" data-label="([^"]*)">(.)</td>', page.body) == [
        ("a b", "1"),
        ("c", "2"),
        ("d", "3"),
    ]
    assert page.body.count('<table role="table" class="stack">') == 2


async def test_every_link_of_the_other_pages_into_the_guide_leads_to_a_page(client: ClientSession) -> None:
    templates = Path(guide.__file__).parent.glob("*.html")
    links = {link for path in templates for link in re.findall(r'href="(/docs[^"{#?]*)"', path.read_text("utf-8"))}
    assert {"/docs", "/docs/rating"} <= links
    for link in links:
        await _text(client, link)


async def test_an_unknown_page_is_a_404_that_says_where_the_others_are(client: ClientSession) -> None:
    assert "/docs lists its pages" in await _text(client, "/docs/nothing", 404)
    assert "/docs lists its pages" in await _text(client, "/docs/..%2Fpyproject", 404)


def test_html_in_a_page_is_shown_as_text() -> None:
    page = rendered("# Title\n\n<script>x</script> and [link](javascript:alert(1))\n")
    assert "<script>" not in page.body
    assert 'href="javascript' not in page.body


@pytest.mark.parametrize(
    ("href", "address"),
    [
        ("ranking.md", "/docs/ranking"),
        ("search.md#words", "/docs/search#words"),
        ("http-api.md#get-v1search", "/docs/api#get_v1_search"),
        ("configuration.md#folders", "/docs/configuration#folders"),
        ("benchmarks.md", "/docs#repository"),
        ("#here", "#here"),
        ("https://a.example/b", "https://a.example/b"),
    ],
)
def test_links_between_pages_lead_to_addresses_of_this_server(href: str, address: str) -> None:
    assert served_address(href) == address


def test_the_wheel_contains_every_page() -> None:
    included = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    packaged = {path for path in included["force-include"].values() if path.startswith("overlay/web/guide_pages/")}
    assert packaged == {f"overlay/web/guide_pages/{name}.md" for name in PAGES}
