"""A listing in a browser: its proof recomputed there, forgeries detected, prices converted, its settings copied."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from parsers.bitcoin.tx import read, serialise
from tests.browser.conftest import Open
from tests.browser.world import POINTED, World

STEPS = ["The card holds:", "The transaction holds:", "The place of the card holds:", "The merkle path holds:",
         "The header holds:", "The proof of work holds:", "The way of the satoshi holds:"]  # fmt: skip


@pytest.mark.parametrize("name", ["story", "witness"])
async def test_the_browser_itself_recomputes_the_proof(world: World, tab: Open, name: str) -> None:
    page = await (await tab()).go(world.page(name))
    await page.locator("#check").click()
    await page.locator("#proof[data-result]").wait_for()
    position = STEPS.index("The header holds:")
    witnessed = [*STEPS[:position], "The witness holds:", *STEPS[position:]]
    assert await page.locator("#steps strong").all_text_contents() == (witnessed if name == "witness" else STEPS)
    assert await page.locator("#proof").get_attribute("data-result") == "holds"
    assert "All that your browser checked holds." in await page.locator("#verdict").inner_text()
    answer = await page.locator("#limits").inner_text()
    for word in ("most work", "newer revision", "satoshi", "Who the publisher is"):
        assert word in answer
    assert "anybody can mine" in await page.locator("#steps").inner_text()


async def test_a_card_that_is_pointed_at_is_held_to_the_hash_on_chain(world: World, tab: Open) -> None:
    page = await (await tab()).go(f"/listings/{POINTED}")
    words = [f"domain verified: {POINTED}", "hash verified"]
    assert await page.locator(".title .badge").all_text_contents() == words
    await page.locator("#check").click()
    await page.locator("#proof[data-result]").wait_for()
    assert await page.locator("#proof").get_attribute("data-result") == "holds"
    held = [step.replace("place of the card", "hash on chain") for step in STEPS[:-1]]
    assert await page.locator("#steps strong").all_text_contents() == held


def _turned(text: str, position: int) -> str:
    """Hex with one digit that is another one."""
    return f"{text[:position]}{(int(text[position], 16) + 1) % 16:x}{text[position + 1 :]}"


def _without_block(hop: dict[str, Any]) -> dict[str, Any]:
    return {name: hop[name] for name in ("txid", "rawTx")}


def _last_hop(proof: dict[str, Any], hop: dict[str, Any]) -> dict[str, Any]:
    """A proof in which the satoshi's last transaction is another one, or says otherwise."""
    last = {**proof["after"][-1], **hop}
    return {**proof, "after": [*proof["after"][:-1], last], "current": {**proof["current"], **hop}}


WAYS: dict[str, Any] = {
    "the server does not prove that it is in a block": lambda proof: {
        **proof, "after": [_without_block(proof["after"][0])],
    },
    "its merkle path ends at another root": lambda proof: _last_hop(
        proof, {"header": _turned(proof["after"][0]["header"], 80)}
    ),
    "its header is not that of the block named": lambda proof: _last_hop(
        proof, {"header": _turned(proof["after"][0]["header"], 8)}
    ),
    "its bytes have another id": lambda proof: _last_hop(proof, {"rawTx": _turned(proof["after"][0]["rawTx"], -1)}),
    "does not spend the one before it": lambda proof: {**proof, "before": [proof["after"][0]]},
    "is not the last transaction of its way": lambda proof: {**proof, "current": None},
    "it ends elsewhere than this page says": lambda proof: {
        **proof, "current": {**proof["current"], "outpoint": proof["outpoint"]},
    },
}  # fmt: skip


@pytest.mark.parametrize("why", WAYS)
async def test_a_transfer_that_is_not_proved_is_found_out(world: World, tab: Open, why: str) -> None:
    page = await (await tab()).go(world.page("story"))

    async def forgery(route: Any) -> None:
        answer = await route.fetch()
        await route.fulfill(response=answer, body=json.dumps(WAYS[why](await answer.json())))

    await page.route("**/proof", forgery)
    await page.locator("#check").click()
    await page.locator("#proof[data-result]").wait_for()
    assert await page.locator("#proof").get_attribute("data-result") == "fails"
    (bad,) = await page.locator("#steps .bad").all_text_contents()
    assert bad.startswith("The way of the satoshi does not hold:")
    assert why in bad


def _witness(proof: dict[str, Any], **other: str) -> dict[str, Any]:
    return {**proof, "witness": {**proof["witness"], **other}}


def _without_witness(raw: str) -> str:
    parsed = read(bytes.fromhex(raw), segwit=True)
    return serialise(parsed.inputs, parsed.outputs, parsed.version, parsed.locktime).hex()


WITNESSES: dict[str, Any] = {
    "is not the one that the coinbase of its block commits to": lambda proof: {
        **proof, "rawTx": proof["rawTx"].replace("78787878", "79797979", 1),
    },
    "the server does not prove its witness": lambda proof: {
        name: value for name, value in proof.items() if name != "witness"
    },
    "its witness is not the one": lambda proof: _witness(proof, reserved="11" * 32),
    "what should commit to its witness is not the coinbase": lambda proof: _witness(
        proof, coinbase=_without_witness(proof["rawTx"])
    ),
    "it could not be read": lambda proof: _witness(proof, coinbase=proof["rawTx"]),
}  # fmt: skip


@pytest.mark.parametrize("why", WITNESSES)
async def test_a_witness_that_was_not_mined_is_found_out(world: World, tab: Open, why: str) -> None:
    page = await (await tab()).go(world.page("witness"))

    async def forgery(route: Any) -> None:
        answer = await route.fetch()
        await route.fulfill(response=answer, body=json.dumps(WITNESSES[why](await answer.json())))

    await page.route("**/proof", forgery)
    await page.locator("#check").click()
    await page.locator("#proof[data-result]").wait_for()
    assert await page.locator("#proof").get_attribute("data-result") == "fails"
    assert why in (await page.locator("#steps .bad").all_text_contents())[-1]


FORGERIES: dict[str, Any] = {
    "The transaction does not hold:": lambda proof: {**proof, "rawTx": _turned(proof["rawTx"], -9)},
    "The merkle path does not hold:": lambda proof: {**proof, "bump": _turned(proof["bump"], 12)},
    "The header does not hold:": lambda proof: {**proof, "header": _turned(proof["header"], 20)},
    "The proof does not hold:": lambda proof: {**proof, "bump": proof["bump"][:20]},
}


@pytest.mark.parametrize("step", FORGERIES)
async def test_a_lying_server_is_found_out(world: World, tab: Open, step: str) -> None:
    page = await (await tab()).go(world.page("story"))

    async def forgery(route: Any) -> None:
        answer = await route.fetch()
        await route.fulfill(response=answer, body=json.dumps(FORGERIES[step](await answer.json())))

    await page.route("**/proof", forgery)
    await page.locator("#check").click()
    await page.locator("#proof[data-result]").wait_for()
    assert await page.locator("#proof").get_attribute("data-result") == "fails"
    assert step in await page.locator("#steps .bad strong").all_text_contents()


async def test_another_card_is_found_out(world: World, tab: Open) -> None:
    page = await (await tab()).go(world.page("story"))

    async def forgery(route: Any) -> None:
        answer = await route.fetch()
        await route.fulfill(response=answer, body=(await answer.body()).replace(b"0.005", b"0.001"))

    await page.route("**/card", forgery)
    await page.locator("#check").click()
    await page.locator("#proof[data-result]").wait_for()
    bad = await page.locator("#steps .bad strong").all_text_contents()
    assert bad == ["The card does not hold:", "The place of the card does not hold:"]


async def test_revisions_tell_what_each_changed_and_why_one_was_refused(world: World, tab: Open) -> None:
    page = await (await tab()).go(world.page("story"))
    line = page.locator(".line > li")
    words = [(await line.nth(number).locator("strong").first.text_content()) for number in range(3)]
    assert words == ["refused revision", "new revision", "registered"]
    assert "JSON" in (await line.nth(0).locator(".why").text_content() or "")
    await line.nth(1).locator("summary").click()
    changed = await line.nth(1).locator(".diff li").all_inner_texts()
    assert [" ".join(item.split()) for item in changed] == [
        'description "Tells stories. One a day." "Now with weather."',
        'version "1.0" "2.0"',
        "x-payment-config[call].amount 0.002 0.005",
    ] or {item.split()[0] for item in changed} == {"description", "version", "x-payment-config[call].amount"}


async def test_prices_are_converted_without_leaving_the_page(world: World, tab: Open) -> None:
    page = await (await tab()).go(world.page("story"))
    assert "0.25" in await page.locator("#prices").inner_text()
    await page.locator("#convert select").select_option("EUR")
    await page.locator("th", has_text="in EUR").wait_for()
    assert "0.225" in await page.locator("#prices").inner_text()
    assert page.url.endswith("?in=EUR")
    assert "deposit 20 %" in await page.locator("#prices").inner_text()


async def test_the_settings_of_a_tool_are_copied_as_they_are_shown(world: World, tab: Open) -> None:
    page = await (await tab(permissions=["clipboard-read", "clipboard-write"])).go(world.page("tool"))
    assert "A stranger's command." in await page.locator(".warning").inner_text()
    await page.get_by_role("button", name="Copy", exact=True).first.click()
    await page.get_by_role("button", name="Copied").wait_for()
    copied = json.loads(await page.evaluate("navigator.clipboard.readText()"))
    entry = {"command": "npx", "args": ["-y", "@example/clock"], "env": {"ZONE": ""}}
    assert copied == {"mcpServers": {"clock": entry}}


async def test_lines_are_read_as_images_and_need_no_script(world: World, tab: Open) -> None:
    opened = await tab(java_script_enabled=False)
    for path, name in (
        (
            world.page("story"),
            r"Price of call, in BSV per call, since .+ 0\.002 BSV from .+; 0\.005 BSV from .+ UTC\.$",
        ),
        ("/status", r"^Height of bsv since .+ blocks"),
        ("/status", r"^Lag of btc since .+ blocks"),
    ):
        line = (await opened.go(path)).get_by_role("img", name=re.compile(name))
        assert await line.count() == 1, path
        box = await line.bounding_box()
        assert box is not None
        assert box["width"] > 200 > box["height"] > 50
