"""Registering, updating and transferring with a BRC-100 wallet on the visitor's computer, by one button."""

from __future__ import annotations

import json

from playwright.async_api import Page

from tests.browser.conftest import WALLET_PORT, Open
from tests.browser.wallet_server import WalletServer
from tests.browser.world import World
from tests.chainkit import agent

WALLET = f"localhost:{WALLET_PORT}"
TO = "mfWxJ45yp2SFn7UciZyNpvDKrzbhyfKrY8"
"""An address of test networks."""


async def test_a_wallet_registers_updates_and_transfers(world: World, tab: Open, wallet_port: int) -> None:
    opened = await tab(others=(WALLET,))
    page = await opened.go("/register")
    assert "your browser will ask" in await page.locator("#wallet").inner_text()
    async with WalletServer(world, wallet_port) as wallet:
        await page.fill("#what", json.dumps(agent("Wallet lights")))
        await page.fill("#app", "lights")
        await page.locator("#outcome .card", has_text="Wallet lights").wait_for()
        assert (wallet.calls, [url for url in opened.requests if WALLET in url]) == ([], [])
        id_ = f"{await signed_and_mined(world, page)}_0"
        assert wallet.calls == ["getVersion", "getPublicKey", "createAction"]
        await page.locator(".verdict", has_text="Listed: Wallet lights").wait_for()
        [output] = wallet.basket.values()
        instructions = json.loads(output["customInstructions"])
        assert (output["basket"], instructions["protocolID"]) == ("a2b listings", [2, "a2b listing"])
        assert len(instructions["keyID"]) == 32

        await opened.go(f"/register?action=update&id={id_}")
        await page.fill("#what", json.dumps(agent("Wallet lamps")))
        await signed_and_mined(world, page)
        assert wallet.calls[3:] == [
            "getVersion", "listOutputs", "getPublicKey", "createAction", "createSignature", "signAction",
        ]  # fmt: skip
        await page.locator(".verdict", has_text="Listed: Wallet lamps").wait_for()

        await opened.go(f"/register?action=transfer&id={id_}")
        await page.fill("#owner", TO)
        await signed_and_mined(world, page)
        await page.locator(".steps li", has_text="in block").wait_for()
        assert wallet.basket == {}

        wallet.calls.clear()
        await opened.go(f"/register?action=delist&id={id_}")
        await page.click("#wallet-button")
        await page.locator("#wallet-state", has_text=f"Not sent: this wallet does not have the key of {id_}").wait_for()
        assert wallet.calls == ["getVersion", "listOutputs"], "nothing is built"


async def test_without_a_wallet_the_page_says_so(tab: Open) -> None:
    opened = await tab(others=(WALLET, "localhost:2121"), expected=("ERR_CONNECTION_REFUSED",))
    page = await opened.go("/register")
    await page.click("#wallet-button")
    await page.locator("#wallet-state", has_text="no wallet answers on this computer").wait_for()


async def signed_and_mined(world: World, page: Page) -> str:
    """The txid of what the wallet sends, once it is mined."""
    await page.click("#wallet-button")
    await page.wait_for_url("**/publish?tx=*")
    txid = page.url.rpartition("=")[2]
    raw = world.chain.unconfirmed.pop(bytes.fromhex(txid)[::-1])
    world.chain.arrive(world.kit.mine(raw))
    return txid
