"""Laws of every page: nobody can break in, it is small, fits a phone, and can be used without eyes or mouse."""

from __future__ import annotations

import json
from urllib.parse import quote, urlsplit

from tests.browser.conftest import Open
from tests.browser.world import ATTACKS, World, attack_agent

PHONE = {"width": 360, "height": 740}
REFUSED = ("status of 400", "status of 404")

BREAK_IN = """() => {
  const script = document.createElement("script");
  try { script.textContent = "window.hacked = 1"; document.body.append(script); } catch {}
  try { document.body.setAttribute("onclick", "window.hacked = 1"); } catch {}
  document.body.click();
}"""


def paths(world: World) -> list[str]:
    story = world.ids["story"]
    return [
        "/", "/?q=zzzzzz", "/?tag=security&type=agent&sort=price&priceCurrency=EUR", "/?maxPrice=cheap",
        world.page("story"), world.page("tool"), "/listings/nobody", "/publish", "/register",
        f"{world.page('story')}/findability",
        f"/publish?tx={story.txid[::-1].hex()}", "/status",
        "/docs", "/docs/api", "/docs/api/search", "/docs/publishing", "/docs/reason-codes",
    ]  # fmt: skip


def status(path: str) -> int:
    return {"/?maxPrice=cheap": 400, "/listings/nobody": 404}.get(path, 200)


async def test_axe_finds_nothing_to_object_to(world: World, tab: Open, axe: str) -> None:
    everything = {"resultTypes": ["violations"]}
    colours = {**everything, "runOnly": ["color-contrast"]}
    dark = ["/?q=stories", world.page("story"), "/publish", "/status"]
    wide = {"width": 1280, "height": 800}
    for scheme, size, options, looked_at in (
        ("light", wide, everything, paths(world)),
        (
            "light",
            PHONE,
            everything,
            ["/", world.page("story"), world.page("tool"), "/docs/api/search", "/docs/search"],
        ),
        ("dark", wide, colours, dark),
    ):
        opened = await tab(color_scheme=scheme, viewport=size, expected=REFUSED)
        for path in looked_at:
            page = await opened.go(path, status(path))
            await page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
            await page.evaluate(axe)
            result = await page.evaluate("(options) => axe.run(document, options)", options)
            answers = [
                (violation["id"], node["html"], node["failureSummary"])
                for violation in result["violations"]
                for node in violation["nodes"]
            ]
            assert answers == [], f"{path} in {scheme}, {size['width']} pixels"


async def test_no_page_is_wider_than_a_phone(world: World, tab: Open) -> None:
    opened = await tab(viewport=PHONE, expected=REFUSED)
    odd = [world.page(name) for name in world.ids if name.endswith((" 0", " 4")) or name.startswith("wide")]
    for path in [*paths(world), *odd, "/?limit=100"]:
        page = await opened.go(path, status(path))
        widths = await page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert widths[0] <= widths[1] == PHONE["width"], path


async def test_a_page_with_all_that_it_loads_is_less_than_100_kilobytes(world: World, tab: Open) -> None:
    for path in (*paths(world), "/?limit=100&status=all"):
        opened = await tab(expected=REFUSED)  # which has kept nothing of other pages
        page = await opened.go(path, status(path))
        sizes = await page.evaluate(
            "['navigation', 'resource'].flatMap((kind) => performance.getEntriesByType(kind))"
            ".map((each) => [each.name, each.decodedBodySize])"
        )
        assert len(sizes) >= 2
        assert 0 < sum(size for _, size in sizes) < 100_000, (path, sizes)
        await page.close()


async def test_strangers_texts_never_run(world: World, tab: Open) -> None:
    opened = await tab()
    attacked = [world.page(name) for name in world.ids if name.startswith(("agent", "tool "))]
    for path in ["/?q=attack&limit=100", "/?owner=mallory", *attacked]:
        page = await opened.go(path)
        assert await page.evaluate("window.hacked") is None
        assert await page.locator("iframe, object, embed, base, style, [onerror], [onload], [onfocus]").count() == 0
        for target in await page.eval_on_selector_all("[href]", "all => all.map((each) => each.href)"):
            assert urlsplit(target).scheme in ("http", "https"), target
        assert await page.locator("body").is_visible()


async def test_a_question_never_runs_as_code(world: World, tab: Open) -> None:
    opened = await tab(expected=REFUSED)
    for text in ATTACKS:
        for name in ("q", "tag", "nonsense"):
            await opened.page.goto(f"{world.url}/?{name}={quote(text)}")
            assert await opened.page.evaluate("window.hacked") is None
    page = await opened.go("/publish")
    for text in ATTACKS:
        await page.fill("#what", text)
        await page.locator(".verdict").wait_for()
        await page.fill("#what", json.dumps(attack_agent(text)))
        await page.locator(".results").wait_for()
        assert await page.evaluate("window.hacked") is None
        await page.fill("#what", "")
        await page.locator(".hint").wait_for()


async def test_the_keyboard_alone_leads_to_a_listing_and_into_a_badge(world: World, tab: Open) -> None:
    opened = await tab()
    page = await opened.go("/?q=storyteller")
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.textContent") == "Skip to the content"
    await page.keyboard.press("Enter")
    for _ in range(60):
        await page.keyboard.press("Tab")
        if await page.evaluate("document.activeElement.textContent") == "Storyteller":
            break
    outline = await page.evaluate("getComputedStyle(document.activeElement, '::after').outlineStyle")
    assert outline == "solid"
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.className") == "badge warn"
    await page.keyboard.press("Enter")
    assert await page.locator("#about-price-changed").is_visible()
    await page.keyboard.press("Escape")
    assert not await page.locator("#about-price-changed").is_visible()
    await page.keyboard.press("Shift+Tab")
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**{world.page('story')}")


async def test_the_policy_keeps_scripts_of_others_out(world: World, tab: Open) -> None:
    opened = await tab(expected=("refused", "Content Security Policy", "TrustedHTML", "TrustedScript"))
    page = await opened.go("/docs/api")
    await page.evaluate(BREAK_IN)
    refused = await page.evaluate("() => { try { document.body.innerHTML = '<b>x'; } catch (e) { return e.name; } }")
    assert refused == "TypeError"
    assert await page.evaluate("window.hacked") is None
