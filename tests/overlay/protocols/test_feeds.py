"""Feeds of a search: valid for an independent reader, hostile texts included, with entries that keep their ids."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import feedparser
import pytest
from aiohttp import ClientSession

from overlay.api.services import AppServices
from overlay.systems.feeds.feed_api import ModifiedClock
from tests.clocks import Clock
from tests.overlay.calls import engine_of, local_http, problem, read_json
from tests.overlay.conftest import Serve
from tests.overlay.fakes import API_SYSTEMS, changed
from tests.overlay.protocols.vectors import api_page
from tests.overlay.web.test_search_page import page
from tests.waiting import PATIENCE

ATOM, JSON = "/v1/feeds/search.atom", "/v1/feeds/search.json"
RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def atom_feed(url: str, **parameters: Any) -> Any:
    response = local_http.get(f"{url}{ATOM}", params=parameters)
    assert response.status_code == 200, response.text
    assert response.headers["Content-Type"] == "application/atom+xml; charset=utf-8"
    parsed = feedparser.parse(response.content, response_headers=response.headers)
    assert not parsed.bozo, parsed.get("bozo_exception")
    assert parsed.version == "atom10"
    return parsed


def json_feed(url: str, **parameters: Any) -> dict[str, Any]:
    response = local_http.get(f"{url}{JSON}", params=parameters)
    assert response.status_code == 200, response.text
    assert response.headers["Content-Type"] == "application/feed+json; charset=utf-8"
    feed: dict[str, Any] = response.json()
    assert feed["version"] == "https://jsonfeed.org/version/1.1"
    return feed


def newest(url: str, **parameters: Any) -> list[dict[str, Any]]:
    """The listings of the API's search that hold all words, the newest first."""
    setup = api_page(url, sort="updated", status="live", limit=100, **parameters)
    items: list[dict[str, Any]] = setup["items"][: setup["matched"]]
    return items


@pytest.mark.parametrize("parameters", [{}, {"q": "security"}, {"type": "tool"}, {"q": "lightning watchtower"}])
def test_a_feed_has_the_listings_that_hold_all_words_the_newest_first(
    overlay_url: str, parameters: dict[str, str]
) -> None:
    expected = newest(overlay_url, **parameters)
    atom, json_ = atom_feed(overlay_url, limit=100, **parameters), json_feed(overlay_url, limit=100, **parameters)
    assert expected
    assert [item["_a2b"]["id"] for item in json_["items"]] == [item["id"] for item in expected]
    assert [entry.id for entry in atom.entries] == [item["id"] for item in json_["items"]]
    assert [entry.title for entry in atom.entries] == [item["title"] for item in json_["items"]]
    assert atom.feed.updated == max(item["timestamp"] for item in expected)
    for entry, item in zip(atom.entries, expected, strict=True):
        assert entry.updated == item["timestamp"]
        assert RFC_3339.fullmatch(entry.updated)
        assert entry.link == f"{overlay_url}/listings/{item['id'].replace('#', '%23')}"
        assert local_http.get(entry.link).status_code == 200
        [related] = [link for link in entry.links if link.rel == "related"]
        assert read_json(related.href)["id"] == item["id"]
    assert len({entry.id for entry in atom.entries}) == len(expected)


def test_a_search_with_more_words_than_a_listing_holds_is_an_empty_feed_that_is_valid(overlay_url: str) -> None:
    assert api_page(overlay_url, q="security zebra")["total"]
    atom = atom_feed(overlay_url, q="security zebra")
    assert (atom.entries, atom.feed.updated) == ([], "1970-01-01T00:00:00Z")
    assert json_feed(overlay_url, q="security zebra")["items"] == []


def test_pages_of_a_feed_lead_through_all_of_it(overlay_url: str) -> None:
    expected = [item["id"] for item in newest(overlay_url)]
    feed, ids = json_feed(overlay_url, limit=7), list[str]()
    ids += [item["_a2b"]["id"] for item in feed["items"]]
    while "next_url" in feed:
        feed = read_json(feed["next_url"])
        ids += [item["_a2b"]["id"] for item in feed["items"]]
    assert ids == expected
    [following] = [link for link in atom_feed(overlay_url, limit=7).feed.links if link.rel == "next"]
    second = feedparser.parse(local_http.get(following.href).content)
    assert len(second.entries) == 7
    assert second.feed.id == atom_feed(overlay_url, limit=7).feed.id


def test_the_links_of_a_feed_lead_to_itself_and_to_the_search_page(overlay_url: str) -> None:
    links = {link.rel: link.href for link in atom_feed(overlay_url, q="a&b", type="agent").feed.links}
    assert links["self"] == f"{overlay_url}{ATOM}?q=a%26b&type=agent"
    assert links["alternate"] == f"{overlay_url}/?q=a%26b&type=agent"
    assert (
        atom_feed(overlay_url, type="agent", q="a&b").feed.id == atom_feed(overlay_url, q="a&b", type="agent").feed.id
    )


def test_a_feed_takes_filters_by_their_other_names(overlay_url: str) -> None:
    ids = [item["id"] for item in json_feed(overlay_url, skill="GETDEXCHART", type="a2b-agent")["items"]]
    assert ids
    assert ids == [item["id"] for item in json_feed(overlay_url, skillId="getDexChart", type="agent")["items"]]


def test_burned_listings_are_in_a_feed_only_on_request(overlay_url: str) -> None:
    statuses = {item["_a2b"]["status"] for item in json_feed(overlay_url, status="all", limit=100)["items"]}
    assert {"live", "burned"} <= statuses
    assert {item["_a2b"]["status"] for item in json_feed(overlay_url, limit=100)["items"]} == {"live"}


@pytest.fixture
async def reader(serve: Serve, services: AppServices) -> ClientSession:
    return await serve(changed(services, systems=(*API_SYSTEMS, "feeds")))


@pytest.mark.parametrize("fault", ["facets=type", "sort=price", "status=pending", "limit=x", "nonsense=1", "offset=3"])
async def test_what_a_feed_does_not_take_is_refused_by_name(reader: ClientSession, fault: str) -> None:
    async with reader.get(f"{ATOM}?{fault}") as response:
        problem_body = await problem(response, 400)
        assert problem_body["errors"][0]["parameter"] == fault.partition("=")[0]


HOSTILE = "\0\x08\x0b\x1b]0;x\x07 <script>]]>&amp; \u202eevil\u202c \ufffe\uffff \r\n\t \ud800 \x85 \U0001f600"


@pytest.fixture
def hostile(services: AppServices) -> AppServices:
    """One listing whose texts are all that XML and JSON do not bear."""
    engine = engine_of(services)
    document = next(document for document in engine.documents if document.status == "live")
    item = json.loads(document.item) | {"name": HOSTILE, "description": HOSTILE * 3, "summary": HOSTILE}
    engine.documents = [replace(document, item=json.dumps(item | {"tags": [HOSTILE, "\0", ""]}).encode())]
    return changed(services, public_url="https://registry.example/a2b", systems=(*API_SYSTEMS, "feeds"))


async def test_hostile_texts_do_not_break_a_feed(hostile: AppServices, serve: Serve) -> None:
    client = await serve(hostile)
    async with client.get(f"{ATOM}?q=%3Cb%3E%01") as response:
        body = await response.read()
    assert not set(body.decode()) & set(map(chr, range(32))) - {"\n"}
    ElementTree.fromstring(body)  # noqa: S314 - our own; strict, unlike feed readers
    parsed = feedparser.parse(body)
    assert not parsed.bozo
    async with client.get(JSON) as response:
        [item] = json.loads(await response.read())["items"]
    for text in (item["title"], item["content_text"]):
        assert "<script>]]>&amp;" in text
        assert "\\u202e" in text
        assert not {"\0", "\x1b", "\u202e", "\ufffe"} & set(text)


async def test_urls_of_a_feed_begin_with_the_configured_one(hostile: AppServices, serve: Serve) -> None:
    client = await serve(hostile)
    async with client.get(JSON, headers={"Host": "evil.example"}) as response:
        feed = json.loads(await response.read())
    urls = [feed["feed_url"], feed["home_page_url"], feed["items"][0]["url"], feed["items"][0]["_a2b"]["about"]]
    assert all(url.startswith("https://registry.example/a2b/") for url in urls)


@pytest.mark.parametrize("path", [ATOM, JSON])
async def test_a_feed_that_did_not_change_is_a_304(path: str, reader: ClientSession, services: AppServices) -> None:
    async with reader.get(path) as response:
        tag = response.headers["ETag"]
    async with reader.get(path, headers={"If-None-Match": tag}) as response:
        assert (response.status, await response.read(), response.headers["ETag"]) == (304, b"", tag)
    engine = engine_of(services)
    engine.documents = [document for document in engine.documents if document.status != "live"][1:]
    async with reader.get(path, headers={"If-None-Match": tag}) as response:
        assert response.status == 200


def test_a_reader_without_entity_tags_asks_by_date(overlay_url: str) -> None:
    url, deadline = f"{overlay_url}{ATOM}", time.monotonic() + PATIENCE
    while "Last-Modified" not in (first := local_http.get(url)).headers:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    date = first.headers["Last-Modified"]
    again = local_http.get(url, headers={"If-Modified-Since": date})
    assert (again.status_code, again.headers["ETag"]) == (304, first.headers["ETag"])
    earlier = {"If-Modified-Since": "Thu, 01 Jan 1970 00:00:00 GMT"}
    assert local_http.get(url, headers=earlier).status_code == 200
    tags_count_first = {"If-Modified-Since": date, "If-None-Match": '"other"'}
    assert local_http.get(url, headers=tags_count_first).status_code == 200


def test_a_state_is_dated_once_two_changes_would_have_different_dates() -> None:
    now = Clock(100)
    clock = ModifiedClock(now)
    assert clock.since("a") is None
    now.now = 102
    assert clock.since("a") == 100
    now.now = 103
    assert clock.since("b") is None
    now.now = 200
    assert clock.since("b") == 103


async def test_search_pages_name_their_feeds(reader: ClientSession, client: ClientSession) -> None:
    shown = await page(reader, "/?q=tower&sort=name&type=agent")
    feeds = {link["type"]: link["href"] for link in shown.all("link") if link["rel"] == "alternate"}
    assert feeds == {
        "application/atom+xml": f"{ATOM}?q=tower&type=agent",
        "application/feed+json": f"{JSON}?q=tower&type=agent",
    }
    for address in feeds.values():
        async with reader.get(address or "") as response:
            assert response.status == 200
    shown = await page(client, "/?q=tower")
    assert not [link for link in shown.all("link") if link["rel"] == "alternate"], "the door is closed there"
