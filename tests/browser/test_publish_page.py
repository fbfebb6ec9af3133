"""Publishing in a browser: a card checked while it is typed, a transaction followed into the mempool and a block."""

from __future__ import annotations

import json

from tests.browser.conftest import Open
from tests.browser.world import World
from tests.chainkit import agent


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
    await page.get_by_role("button", name="Have it looked for").wait_for()
    world.announce(new)
    await page.locator(".verdict", has_text="Listed as pending").wait_for()
    world.mine(new)
    await page.locator(".verdict", has_text="Listed:").wait_for()
    assert "in block" in await page.locator(".steps li", has_text="Mined").inner_text()
    await page.locator(".verdict a").click()
    assert await page.locator("h1").text_content() == "Freshly mined"


async def test_a_publisher_asks_for_a_transaction_to_be_looked_for(world: World, tab: Open) -> None:
    page = await (await tab()).go(f"/publish?tx={'cd' * 32}")
    await page.get_by_role("button", name="Have it looked for").click()
    await page.locator(".steps li", has_text="Asked for").wait_for()
    assert page.url.endswith(f"?tx={'cd' * 32}")


async def test_status_follows_a_new_block(world: World, tab: Open) -> None:
    page = await (await tab()).go("/status")
    height = world.kit.tip.height
    row = page.locator("tbody tr", has_text="bsv:regtest")
    assert f"{height}" in await row.inner_text()
    world.mine(world.kit.pay())
    await row.locator(".number", has_text=str(height + 1)).first.wait_for()
