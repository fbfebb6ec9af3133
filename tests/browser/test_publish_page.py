"""Publishing in a browser: a card checked while it is typed, a transaction followed into the mempool and a block."""

from __future__ import annotations

import json

from tests.browser.conftest import Open
from tests.browser.world import World
from tests.chainkit import agent

BOXES = """() => [...document.querySelectorAll("tbody tr:not(.told)")].map((row) =>
  [...row.querySelectorAll("td")].map((cell) => cell.getBoundingClientRect()).map((box) => [box.left, box.right]))"""
"""For each row of the page's tables the left and right edges of its cells, in CSS pixels."""


async def test_a_card_is_checked_and_previewed_while_it_is_typed(world: World, tab: Open) -> None:
    page = await (await tab()).go("/publish")
    await page.fill("#what", '{"name": "Tide tables"')
    await page.locator(".verdict.bad").wait_for()
    assert "would not be listed" in await page.locator(".verdict").inner_text()
    price = {"currency": "BSV", "amount": "0.002"}
    card = agent("Tide tables", description="When the sea comes.", **{"x-payment-config": [price]})
    await page.fill("#what", json.dumps(card))
    await page.locator(".verdict.good").wait_for()
    shown = await page.locator(".card").inner_text()
    assert "Tide tables" in shown
    assert "0.002 BSV" in shown
    assert "0.1" in shown
    assert "USD" in shown


async def test_a_transaction_is_followed_until_it_is_listed(world: World, tab: Open) -> None:
    opened = await tab()
    page = await opened.go("/publish")
    new = world.kit.inscribe(agent("Freshly mined"))
    txid = new.txid[::-1].hex()
    await page.fill("#what", txid)
    await page.locator(".verdict", has_text="Not seen yet").wait_for()
    assert page.url.endswith(f"?tx={txid}")
    await page.get_by_role("button", name="Fetch it").wait_for()
    world.announce(new)
    await page.locator(".verdict", has_text="Listed as pending: Freshly mined").wait_for()
    assert "pending" in await page.locator("#outcome .card .badges").inner_text()
    world.mine(new)
    await page.locator(".verdict", has_text="Listed:").wait_for()
    assert "in block" in await page.locator(".steps li", has_text="Mined").inner_text()
    await page.locator(".verdict a").click()
    assert await page.locator("h1").text_content() == "Freshly mined"


async def test_a_publisher_asks_for_a_transaction_to_be_looked_for(world: World, tab: Open) -> None:
    page = await (await tab()).go(f"/publish?tx={'cd' * 32}")
    await page.get_by_role("button", name="Fetch it").click()
    await page.locator(".steps li", has_text="Requested").wait_for()
    assert page.url.endswith(f"?tx={'cd' * 32}")


async def test_a_transaction_that_stays_unseen_is_looked_for_without_a_click(world: World, tab: Open) -> None:
    page = await (await tab()).go(f"/publish?tx={'ce' * 32}")
    await page.get_by_role("button", name="Fetch it").wait_for()
    await page.locator(".steps li", has_text="Requested").wait_for()


async def test_a_trace_is_followed_without_a_script(world: World, tab: Open) -> None:
    page = await (await tab()).go(f"/publish?tx={'cf' * 32}")
    assert f'content="15; url=/publish?tx={"cf" * 32}"' in await page.content()
    page = await (await tab()).go(f"/publish?tx={world.ids['tool'].txid[::-1].hex()}")
    assert "http-equiv" not in await page.content()


async def test_status_follows_a_new_block(world: World, tab: Open) -> None:
    page = await (await tab()).go("/status")
    height = world.kit.tip.height
    row = page.locator("tbody tr", has_text="bsv:regtest")
    assert f"{height}" in await row.inner_text()
    world.mine(world.kit.pay())
    await row.locator(".number", has_text=str(height + 1)).first.wait_for()


async def test_on_a_phone_what_came_of_a_txid_is_seen_without_scrolling(world: World, tab: Open) -> None:
    page = await (await tab(viewport={"width": 375, "height": 667}, is_mobile=True, has_touch=True)).go("/publish")
    await page.fill("#what", str(world.ids["tool"])[:64])
    verdict = page.locator(".verdict", has_text="Listed: clock")
    await verdict.wait_for()
    box = await verdict.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 667


async def test_on_a_phone_every_figure_of_chains_and_jobs_is_seen(world: World, tab: Open) -> None:
    page = await (await tab(viewport={"width": 360, "height": 740})).go("/status")
    rows = await page.evaluate(BOXES)  # in one step: the page replaces its tables while it is looked at
    assert rows
    for cells in rows:
        assert len(cells) in {4, 6}  # of a job, of a chain
        for left, right in cells:
            assert left >= 0
            assert right <= 360
    assert await page.evaluate(
        "[...document.querySelectorAll('.wide')].every((it) => it.scrollWidth <= it.clientWidth)"
    )
