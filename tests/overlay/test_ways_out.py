"""A search page without results links to searches that have some."""

from __future__ import annotations

from aiohttp import ClientSession

from tests.overlay.test_pages import page


async def test_a_page_without_results_links_to_what_may_have_been_meant(client: ClientSession) -> None:
    found = await page(client, "/?query=towersecurity&type=agent")
    assert "Did you mean tower security" in found.text
    (link,) = [each for each in found.links() if each.startswith("/?") and "tower+security" in each]
    assert link == "/?type=agent&q=tower+security"
    assert "Did you mean" not in (await page(client, link)).text


async def test_a_page_without_results_links_to_the_search_without_the_filter_that_emptied_it(
    client: ClientSession,
) -> None:
    found = await page(client, "/?q=tower&status=undecided&limit=5")
    assert "Leave out status" in found.text
    assert "/?q=tower&limit=5" in found.links()
    found = await page(client, "/?q=nosuchword&type=tool")
    assert "Leave out type" not in found.text


async def test_texts_of_strangers_are_proposed_as_texts(client: ClientSession) -> None:
    found = await page(client, "/?q=towersecurity%20%3Cscript%3E")
    assert "script" not in {tag for tag, attributes in found.tags if not attributes.get("src")}
