"""Warnings of a check and of the previews, which readers will see: a name, URL or address that is listed already."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any
from urllib.parse import urlencode

from aiohttp import ClientSession

from tests.chainkit import agent
from tests.overlay.web.test_publish_page import FORM
from tests.overlay.web.test_search_page import BROWSER, Page


async def listed(client: ClientSession) -> dict[str, Any]:
    """A listing whose name no other agent has."""
    async with client.get("/v1/search?type=agent&limit=50") as answer:
        items = (await answer.json())["items"]
    names = [item["name"] for item in items]
    return dict(next(item for item in items if item["url"] and item["owner"] and names.count(item["name"]) == 1))


async def checked(client: ClientSession, card: dict[str, Any], **parameters: str) -> dict[str, Any]:
    async with client.post("/v1/check", params=parameters, json=card) as answer:
        assert answer.status == 200
        return dict(await answer.json())


def codes(review: dict[str, Any]) -> set[str]:
    return {warning["code"] for warning in review["warnings"] if warning["code"].startswith("same-")}


async def test_a_copy_is_warned_of_and_its_owner_is_not(client: ClientSession) -> None:
    item = await listed(client)
    copy = {**agent(item["name"]), "url": item["url"]}
    review = await checked(client, copy)
    assert (review["ok"], review["compared"], codes(review)) == (True, True, {"same-name", "same-url"})
    warnings = {warning["code"]: warning for warning in review["warnings"]}
    assert item["id"] in warnings["same-name"]["detail"]
    assert "x-a2b-id" in warnings["same-name"]["detail"]
    assert warnings["same-name"]["pointer"] == "/name"
    assert codes(await checked(client, copy, owner=item["owner"])) == set()
    assert codes(await checked(client, copy, id=item["id"])) == set()
    assert codes(await checked(client, {**agent("Nobody has this name"), "url": "https://nobody.example/"})) == set()


async def test_a_server_of_a_config_is_warned_of_by_its_key(client: ClientSession) -> None:
    async with client.get("/v1/search?type=tool&limit=1") as answer:
        item = (await answer.json())["items"][0]
    config = {"mcpServers": {"zq/xv~w": {"command": "x"}, item["serverName"]: {"command": "y"}}}
    review = await checked(client, config)
    assert [warning["pointer"] for warning in review["warnings"] if warning["code"] == "same-name"] == [
        f"/mcpServers/{item['serverName'].replace('~', '~0').replace('/', '~1')}"
    ]


async def test_the_previews_have_the_badges_and_what_they_mean(client: ClientSession) -> None:
    item = await listed(client)
    copy = json.dumps({**agent(item["name"]), "url": item["url"]})
    for path, fields in (("/publish", {"what": copy}), ("/register", {"what": copy})):
        data = BytesIO(urlencode(fields).encode())
        async with client.post(path, data=data, headers={**BROWSER, "Content-Type": FORM}) as answer:
            page = Page(await answer.text())
        assert "name taken" in page.text
        assert "URL taken" in page.text
        assert "No agent that its domain names by id has this badge" in page.text
