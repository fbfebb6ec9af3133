"""Registering in a browser: from a pasted card to the file, to a wallet's transaction in the mempool and in a block."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

from overlay.publish import scripts
from overlay.publish.keys import PublisherKey
from overlay.publish.transactions import sign
from overlay.publish.wallet_file import read_draft
from parsers.cards import Kind
from tests.browser.conftest import Open
from tests.browser.world import World
from tests.chainkit import agent

KEY = PublisherKey(sha256(b"the key in the wallet").digest(), "testnet")


async def test_a_card_is_registered_without_a_key_in_the_browser(world: World, tab: Open, tmp_path: Path) -> None:
    funding = world.kit.spend([world.kit.fund()], [(90_000, KEY.script)])
    page = await (await tab()).go("/register")
    await page.fill("#what", json.dumps(agent("Harbour lights", description="Which lamp is where.")))
    await page.locator("#outcome .card", has_text="Harbour lights").wait_for()
    await page.fill("#app", "harbour")
    await page.fill("#owner", KEY.address)
    await page.fill("#coins", f"{funding.hex_id}_0 90000")
    await page.locator(".verdict", has_text="Ready to be signed").wait_for()
    cost = await page.locator("#outcome p", has_text="Cost:").inner_text()
    assert "≈" in cost
    assert "USD" in cost
    assert await page.locator("#qr").evaluate("(each) => each.width > 200 && !each.hidden")
    beside = await page.locator("figure:has(#qr) figcaption").inner_text()
    assert f"registers the agent “Harbour lights” for {KEY.address}, for " in beside
    await page.locator("#live", has_text="Waiting for the signed transaction").wait_for()
    async with page.expect_download() as downloading:
        await page.get_by_role("button", name="Download the file").click()
    download = await downloading.value
    assert download.suggested_filename == "a2b-registration.json"
    await download.save_as(tmp_path / "file.json")
    signed = sign(read_draft(json.loads((tmp_path / "file.json").read_text())), KEY)
    world.mine(funding.outpoint(0))
    world.chain.unconfirmed[signed.tx.txid] = signed.raw
    await page.locator(".verdict", has_text="Listed as pending: Harbour lights").wait_for()
    assert page.url.endswith(f"/publish?tx={signed.tx.hex_id}")
    world.chain.unconfirmed.pop(signed.tx.txid)
    world.chain.arrive(world.kit.mine(signed.raw))
    await page.locator(".verdict", has_text="Listed: Harbour lights").wait_for()
    assert "in block" in await page.locator(".steps li", has_text="Mined").inner_text()


async def test_a_card_is_ranked_before_it_is_published(world: World, tab: Open) -> None:
    card = agent("Harbour lights", description="Which lamp is where, along every coast of the north.", tags=["stories"])
    for width in (360, 1280):
        page = await (await tab(viewport={"width": width, "height": 800})).go("/register")
        await page.fill("#what", json.dumps(card))
        await page.locator("#outcome .card", has_text="Harbour lights").wait_for()
        await page.get_by_role("button", name="How would I be found?").click()
        await page.get_by_role("heading", name="How would I be found?").wait_for()
        rank = page.get_by_role("row").filter(has=page.get_by_role("link", name="stories", exact=True))
        assert " of " in await rank.get_by_role("cell").first.inner_text()
        assert json.loads(await page.input_value("#what")) == card
        assert await page.evaluate("document.documentElement.scrollWidth") <= width


async def test_a_card_begins_with_an_example(world: World, tab: Open) -> None:
    for width in (360, 1280):
        page = await (await tab(viewport={"width": width, "height": 800})).go("/register")
        await page.get_by_text("Begin with a card that is there, or with a form").click()
        await page.get_by_role("button", name="An example").click()
        await page.locator("#outcome .card", has_text="Tide tables").wait_for()
        assert json.loads(await page.input_value("#what"))["name"] == "Tide tables"
        await page.get_by_text("Begin with a card that is there, or with a form").click()
        assert await page.evaluate("document.documentElement.scrollWidth") <= width


async def test_a_mistake_is_named_while_it_is_typed(world: World, tab: Open) -> None:
    page = await (await tab(expected=("status of 400",))).go("/register")
    await page.fill("#what", json.dumps(agent("Harbour lights")))
    await page.fill("#owner", "nobody")
    await page.locator(".problem", has_text="is not a P2PKH address").wait_for()
    await page.fill("#owner", KEY.address)
    await page.fill("#app", "harbour")
    await page.locator(".verdict", has_text="Ready to be signed").wait_for()
    assert await page.locator("#qr").count() == 0


async def test_a_listing_is_updated_transferred_and_delisted_without_a_key_in_the_browser(
    world: World, tab: Open, tmp_path: Path
) -> None:
    funding = world.kit.spend([world.kit.fund()], [(90_000, KEY.script)] * 3)
    world.mine(funding.outpoint(0))
    script = scripts.inscription(KEY.script, json.dumps(agent("Buoys")).encode(), Kind.AGENT, "test")
    inscribed = world.kit.spend([world.kit.fund()], [(1, script)]).outpoint(0)
    world.mine(inscribed)
    id_ = str(inscribed)
    opened = await tab()
    page = opened.page
    file = tmp_path / "file.json"

    async def sign_and_mine(number: int, purpose: str) -> None:
        """Sign the downloaded file, send it, and mine it when the page has gone on to its trace. Beside the code is
        what it does."""
        await page.fill("#coins", f"{funding.hex_id}_{number} 90000")
        await page.locator("#outcome p", has_text="The unsigned transaction spends 2 coins").wait_for()
        await page.locator("figure:has(#qr) figcaption", has_text=f"The transaction {purpose}, for ").wait_for()
        await page.locator("#live", has_text="Waiting for the signed transaction").wait_for()
        async with page.expect_download() as downloading:
            await page.get_by_role("button", name="Download the file").click()
        await (await downloading.value).save_as(file)
        document = json.loads(file.read_text())
        assert document["listing"] == id_
        signed = sign(read_draft(document), KEY)
        world.chain.unconfirmed[signed.tx.txid] = signed.raw
        await page.wait_for_url(f"**/publish?tx={signed.tx.hex_id}")
        world.chain.unconfirmed.pop(signed.tx.txid)
        world.chain.arrive(world.kit.mine(signed.raw))
        await page.locator(".steps li", has_text="in block").wait_for()

    await opened.go(f"/listings/{id_}")
    await page.get_by_role("link", name="update, transfer or delist").click()
    assert await page.locator("#id").input_value() == id_
    assert not await page.locator("#owner").is_visible()
    await page.fill("#what", json.dumps(agent("Buoys and beacons")))
    await page.locator("#outcome .card", has_text="Buoys and beacons").wait_for()
    assert "name taken" not in await page.locator("#outcome").inner_text()
    await sign_and_mine(0, f"updates the agent “Buoys”, {id_}, to the card of “Buoys and beacons”")
    await page.locator(".verdict", has_text="Listed: Buoys and beacons").wait_for()

    await opened.go(f"/register?action=transfer&id={id_}")
    assert not await page.locator("#what").is_visible()
    await page.fill("#owner", KEY.address)
    await sign_and_mine(1, f"transfers the agent “Buoys and beacons”, {id_}, to {KEY.address}")

    await opened.go(f"/register?id={id_}")
    await page.select_option("#action", "delist")
    await page.locator(".verdict", has_text="Ready to be signed").wait_for()
    assert not await page.locator("#owner").is_visible()
    await sign_and_mine(2, f"delists the agent “Buoys and beacons”, {id_}, for good")
    await page.locator(".steps li", has_text="delisted for good").wait_for()
