"""A search page without results links to searches that have some."""

from __future__ import annotations

from aiohttp import ClientSession

from overlay.api.services import AppServices
from tests.overlay.conftest import Serve
from tests.overlay.fakes import FakeEngine, changed
from tests.overlay.web.test_search_page import page


async def test_a_page_without_results_links_to_what_may_have_been_meant(client: ClientSession) -> None:
    html = await page(client, "/?query=towersecurity&type=agent")
    assert "Did you mean tower security" in html.text
    (link,) = [item for item in html.links() if item.startswith("/?") and "tower+security" in item]
    assert link == "/?type=agent&q=tower+security"
    assert "Did you mean" not in (await page(client, link)).text


async def test_a_page_without_results_links_to_the_search_without_the_filter_that_emptied_it(
    client: ClientSession,
) -> None:
    html = await page(client, "/?q=tower&status=undecided&limit=5")
    assert "Leave out Status “undecided”: 2 listings" in html.text
    assert "/?q=tower&limit=5" in html.links()
    html = await page(client, "/?q=nosuchword&type=tool")
    assert "Leave out" not in html.text
    assert "Try fewer or other words" in html.text
    assert "leave out the filters" not in html.text, "they are not what emptied it"


async def test_texts_of_strangers_are_proposed_as_texts(client: ClientSession) -> None:
    html = await page(client, "/?q=towersecurity%20%3Cscript%3E")
    assert "script" not in {tag for tag, attributes in html.tags if not attributes.get("src")}


async def test_filters_to_leave_out_are_named_in_the_words_of_the_page(client: ClientSession) -> None:
    html = await page(client, "/?q=tower&type=tool&status=undecided")
    assert "Leave out What “tool” and Status “undecided”: 2 listings" in html.text


async def test_a_registry_without_listings_says_that_there_are_none_yet(serve: Serve, services: AppServices) -> None:
    client = await serve(changed(services, engine=FakeEngine([])))
    html = await page(client, "/")
    assert "Nothing is listed here yet" in html.text
    assert any("data-again" in attributes for _, attributes in html.tags)
    assert "Try fewer" not in html.text
    assert "Nothing is listed here yet" not in (await page(client, "/?q=tower")).text
