"""Searching in a browser: while typing, by links, back and forth; and the same without scripts."""

from __future__ import annotations

import re
from io import BytesIO
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from PIL import Image

from tests.browser.conftest import Open
from tests.browser.world import LOGO, World


def parameters_of(url: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(url).query)


async def test_results_and_completions_come_while_typing_and_the_url_follows(world: World, tab: Open) -> None:
    page = await (await tab()).go("/")
    loaded = await page.evaluate("performance.getEntriesByType('navigation')[0].startTime + performance.timeOrigin")
    await page.locator("#q").press_sequentially("storytel")
    await page.wait_for_url("**/?q=storytel")  # results of what was typed until then may be the same
    await page.locator(".card").nth(1).wait_for(state="detached")
    assert await page.locator(".card h2").all_text_contents() == ["Storyteller"]
    assert await page.locator(".card h2 mark").all_text_contents() == ["Storyteller"]
    await page.locator("#completions a", has_text="Storyteller").first.wait_for()
    assert parameters_of(page.url) == {"q": ["storytel"]}
    assert await page.locator("#count").text_content() == "1 listing"
    assert await page.evaluate("document.activeElement.id") == "q"
    await page.keyboard.press("Escape")
    await page.locator("#completions").wait_for(state="hidden")
    again = await page.evaluate("performance.getEntriesByType('navigation')[0].startTime + performance.timeOrigin")
    assert again == loaded, "the page was left"


async def test_arrow_keys_lead_into_the_completions_and_back(world: World, tab: Open) -> None:
    page = await (await tab()).go("/")
    await page.locator("#q").fill("to")
    first = page.locator("#completions a").first
    await first.wait_for()
    focused = "document.activeElement.textContent"
    texts = await page.locator("#completions a").all_text_contents()
    assert len(texts) > 1
    assert texts[0].startswith("Tower"), "what begins as typed"
    await page.keyboard.press("ArrowDown")
    assert await page.evaluate(focused) == texts[0]
    await page.keyboard.press("ArrowRight")
    assert await page.evaluate(focused) == texts[1]
    await page.keyboard.press("ArrowUp")
    await page.keyboard.press("ArrowUp")
    assert await page.evaluate("document.activeElement.id") == "q"
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Escape")
    assert await page.evaluate("document.activeElement.id") == "q"
    assert not await page.locator("#completions").is_visible()


async def test_the_keyboard_goes_on_from_the_results_after_a_link_that_is_gone(world: World, tab: Open) -> None:
    page = await (await tab()).go("/?limit=5&type=agent")
    await page.locator(".paging a", has_text="More").focus()
    await page.keyboard.press("Enter")
    await page.locator("#count", has_text="6–10 of").wait_for()
    await page.wait_for_function("document.activeElement.id === 'found'")
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.closest('.chips') !== null")
    await page.keyboard.press("Enter")
    await page.locator(".chips").wait_for(state="detached")
    await page.wait_for_function("document.activeElement.id === 'found'")
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.closest('#found') !== null")


async def test_a_registry_that_is_just_being_read_turns_up_by_itself(world: World, tab: Open) -> None:
    opened = await tab(expected=("status of 503",))
    empty = '<p data-again>Nothing is listed here yet.</p><ol class="results">'
    answers = iter(((200, empty), (503, empty), (200, empty)))

    async def early(route: Any) -> None:
        answer = await route.fetch()
        status, results = next(answers, (200, ""))
        whole = await answer.text()
        start, end = whole.index('<ol class="results"'), whole.index("</ol>")
        body = f"{whole[:start]}{results}{whole[end:]}" if results else whole
        await route.fulfill(response=answer, status=status, body=body)

    await opened.page.route(f"{world.url}/", early)
    page = await opened.go("/")
    assert await page.locator(".card").count() == 0
    await page.locator(".card").nth(3).wait_for()
    assert await page.locator("[data-again]").count() == 0
    assert next(answers, None) is None


@pytest.mark.parametrize("status", [429, 503])
async def test_a_question_is_sent_again_later_only_while_there_is_no_newer_one(
    world: World, tab: Open, status: int
) -> None:
    opened = await tab(expected=(f"status of {status}",))
    page = await opened.go("/")
    asked_for: list[str] = []

    async def busy(route: Any) -> None:
        [words] = parameters_of(route.request.url)["q"]
        asked_for.append(words)
        if asked_for.count(words) == 1 and words != "tower":
            await route.fulfill(status=status, content_type="text/html", body="<p>busy")
        else:
            await route.continue_()

    await page.route("**/?q=*", busy)
    async with page.expect_response("**/?q=storyteller"):
        await page.fill("#q", "storyteller")
    await page.fill("#q", "tower")
    await page.locator(".card", has_text="Tower").first.wait_for()
    await page.locator(".card", has_text="Storyteller").first.wait_for(state="detached")
    await page.wait_for_timeout(1_500)
    assert asked_for == ["storyteller", "tower"]
    assert parameters_of(page.url) == {"q": ["tower"]}
    await page.fill("#q", "storytel")
    await page.wait_for_url("**/?q=storytel")
    assert asked_for == ["storyteller", "tower", "storytel", "storytel"], "what is still the newest is asked again"
    assert await page.locator(".card h2").all_text_contents() == ["Storyteller"]


async def test_a_registry_that_turns_up_leaves_a_question_that_waits_to_be_sent_again(world: World, tab: Open) -> None:
    opened = await tab(expected=("status of 503",))
    busy = iter([503] * 3)

    async def early(route: Any) -> None:
        answer = await route.fetch()
        body = (await answer.text()).replace('<ol class="results"', '<p data-again>Nothing yet.</p><ol class="results"')
        await route.fulfill(response=answer, body=body)

    async def late(route: Any) -> None:
        if status := next(busy, None):
            await route.fulfill(status=status, content_type="text/html", body="<p>busy")
        else:
            await route.continue_()

    await opened.page.route(f"{world.url}/", early)
    await opened.page.route("**/?q=*", late)
    page = await opened.go("/")
    await page.fill("#q", "storyteller")
    await page.wait_for_url("**/?q=storyteller")
    assert await page.locator(".card h2").all_text_contents() == ["Storyteller"]


async def test_on_a_phone_every_completion_is_reached(world: World, tab: Open) -> None:
    page = await (await tab(viewport={"width": 360, "height": 740})).go("/")
    await page.locator("#q").fill("to")
    last = page.locator("#completions a").last
    await last.wait_for()
    assert await page.locator("#completions a").count() > 2
    await last.focus()
    box = await last.bounding_box()
    assert box is not None
    assert box["x"] < 360
    row = await page.locator("#completions").bounding_box()
    assert row is not None
    assert box["y"] + box["height"] <= row["y"] + row["height"]


async def test_a_phrase_that_was_only_begun_hides_nothing(world: World, tab: Open) -> None:
    page = await (await tab()).go("/")
    everything = await page.locator("#count").text_content()
    for text in ('"', "-", "tag:"):
        await page.goto(f"{world.url}/?{urlencode({'q': text})}")
        assert await page.locator("#count").text_content() == everything


async def test_a_result_says_why_it_was_found(world: World, tab: Open) -> None:
    page = await (await tab()).go("/?q=any+length")
    says = page.locator(".card", has_text="Storyteller").locator(".says")
    assert " ".join((await says.inner_text()).split()) == "skill: Any length."
    assert await says.locator("mark").all_text_contents() == ["Any", "length"]
    await page.goto(f"{world.url}/?q=storyteller")
    assert await page.locator(".card", has_text="Storyteller").locator(".says").count() == 0


async def test_a_facet_narrows_and_a_chip_widens_and_back_goes_back(world: World, tab: Open) -> None:
    page = await (await tab()).go("/?limit=100")
    everything = await page.locator("#count").text_content()
    tools = page.locator("#facets a", has_text="tools")
    count = int(await tools.locator(".count").text_content() or "0")
    await tools.click()
    await page.locator(".chips").wait_for()
    assert parameters_of(page.url) == {"type": ["tool"], "limit": ["100"]}
    assert await page.locator(".card").count() == count
    assert set(await page.locator(".card .kind").all_text_contents()) == {"tool"}
    assert await page.locator("#facets a[aria-current]").count() == 1
    await page.locator(".chips a").first.click()
    await page.locator(".chips").wait_for(state="detached")
    assert await page.locator("#count").text_content() == everything
    await page.go_back()
    await page.locator(".chips").wait_for()
    assert parameters_of(page.url)["type"] == ["tool"]
    await page.reload()
    assert await page.locator(".card").count() == count


async def test_prices_are_shown_in_the_currency_that_is_requested(world: World, tab: Open) -> None:
    page = await (await tab()).go("/?q=storyteller")
    assert "0.25 USD" in await page.locator(".card .price").inner_text()
    await page.fill("[name=priceCurrency]", "EUR")
    await page.locator("[name=sort]").select_option("price")
    await page.wait_for_url(re.compile("sort=price"))
    await page.locator(".price", has_text="EUR").first.wait_for()
    assert parameters_of(page.url) == {"q": ["storyteller"], "priceCurrency": ["EUR"], "sort": ["price"]}
    assert "0.225 EUR" in await page.locator(".card .price").first.inner_text()


async def test_every_badge_of_a_result_explains_itself_on_request(world: World, tab: Open) -> None:
    page = await (await tab()).go("/?q=storyteller")
    badges = page.locator(".card").first.locator(".badge")
    words = await badges.all_text_contents()
    assert words == ["price changed"]
    for number in range(len(words)):
        await badges.nth(number).click()
        shown = page.locator("[popover]:popover-open")
        assert words[number] in await shown.inner_text()
        assert len(await shown.inner_text()) > 60
        await page.keyboard.press("Escape")
    assert urlsplit(page.url).path == "/", "a badge is not a link"


async def test_all_of_it_works_without_scripts(world: World, tab: Open) -> None:
    page = await (await tab(java_script_enabled=False)).go("/")
    await page.fill("#q", "storyteller")
    await page.get_by_role("button", name="Search").click()
    assert parameters_of(page.url)["q"] == ["storyteller"]
    await page.locator(".card .badge", has_text="price changed").first.click()
    assert await page.locator("#about-price-changed").is_visible()
    await page.keyboard.press("Escape")
    await page.locator(".card h2 a", has_text="Storyteller").first.click()
    assert urlsplit(page.url).path == world.page("story")
    assert await page.locator("h1").text_content() == "Storyteller"
    assert not await page.locator("#check").is_visible()
    await page.locator("#convert select").select_option("EUR")
    await page.get_by_role("button", name="Compute").click()
    assert "0.225" in await page.locator("#prices").inner_text()
    await page.get_by_role("link", name="Check & track").click()
    await page.fill("#what", '{"name": "New one", "skills": [{"id": "s"}], "url": "https://a.example"}')
    await page.get_by_role("button", name="Show").click()
    assert await page.locator(".verdict").text_content() == "It can be published."
    assert await page.locator(".card h2").text_content() == "New one"
    await page.fill("#what", str(world.ids["story"])[:64])
    await page.get_by_role("button", name="Show").click()
    assert parameters_of(page.url) == {"tx": [str(world.ids["story"])[:64]]}
    assert "Mined" in await page.locator(".steps").inner_text()


async def test_filters_are_folded_away_on_a_phone_and_open_beside_results_elsewhere(world: World, tab: Open) -> None:
    wide = await (await tab(viewport={"width": 1280, "height": 800})).go("/")
    assert await wide.locator("#facets").is_visible()
    assert not await wide.locator("#filters > summary").is_visible()
    small = await (await tab(viewport={"width": 360, "height": 740})).go("/")
    assert not await small.locator("#facets").is_visible()
    await small.locator("#filters > summary").click()
    assert await small.locator("#facets").is_visible()


async def test_a_logo_is_the_small_picture_that_is_kept_here(world: World, tab: Open) -> None:
    bytes_io = BytesIO()
    Image.radial_gradient("L").resize((88, 60)).save(bytes_io, "WEBP")
    world.logos.request([LOGO], 1)
    world.logos.store(LOGO, bytes_io.getvalue(), 2)
    for path in ("/?q=storyteller", world.page("story")):
        page = await (await tab()).go(path)
        picture = page.locator("img.logo")
        await picture.wait_for()
        assert (await picture.get_attribute("src") or "").startswith("/logos/")
        await page.wait_for_load_state("networkidle")
        assert await picture.evaluate("(each) => each.naturalWidth") == 88
    assert await (await (await tab()).go("/?q=tower")).locator("svg.logo").count() > 0


@pytest.mark.parametrize("width", [1280, 360])
async def test_a_skill_is_completed_by_its_id_and_chosen_beside_other_filters(
    world: World, tab: Open, width: int
) -> None:
    page = await (await tab(viewport={"width": width, "height": 800})).go("/?type=agent")
    if width < 800:
        await page.locator("#filters > summary").click()
    facets = await page.evaluate(
        "fetch('/v1/search?facets=skillId&limit=1&type=agent').then((answer) => answer.json())"
    )
    skill = min(one["value"] for one in facets["facets"]["skillId"])
    await page.locator("#skill").press_sequentially(skill[:3].upper())
    await page.locator(f'#skill-ids option[value="{skill}"]').wait_for(state="attached")
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await page.locator("#skill").fill(skill)
    await page.keyboard.press("Enter")
    await page.locator(".chips a", has_text=skill).wait_for()
    assert parameters_of(page.url) == {"type": ["agent"], "skillId": [skill]}
    assert await page.locator("#skill").input_value() == "", "it is among the filters in use now"


async def test_a_skill_is_completed_by_its_name_and_a_misspelt_one_leads_to_it(world: World, tab: Open) -> None:
    page = await (await tab()).go("/")
    named = "fetch('/v1/search?type=agent&limit=100').then((answer) => answer.json())"
    skills = [skill for item in (await page.evaluate(named))["items"] for skill in item["skills"]]
    skill = next(one for one in skills if one["name"] and not one["id"].lower().startswith(one["name"][:4].lower()))
    await page.locator("#skill").press_sequentially(skill["name"])
    await page.locator(f'#skill-ids option[value="{skill["id"]}"]').wait_for(state="attached")
    await page.locator("#skill").fill(f"{skill['id']}zz")
    await page.keyboard.press("Enter")
    await page.locator(".ways a", has_text=skill["id"]).first.click()
    await page.locator(".card").first.wait_for()
    assert parameters_of(page.url) == {"skillId": [skill["id"]]}
