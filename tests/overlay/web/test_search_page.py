"""The pages: they work without scripts, load nothing from elsewhere, and show strangers' texts as texts."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from aiohttp import ClientSession, web
from hypothesis import given
from hypothesis import strategies as st

from overlay.api import search_api
from overlay.api.problems import ProblemError
from overlay.api.search_request import SearchRequest
from overlay.api.services import AppServices
from overlay.installation import NAMES
from overlay.search.query import Hits
from overlay.text.safe_text import MOST_MARKS, one_line, visible, visible_in_json
from overlay.web.assets import assets
from overlay.web.rendering import render, web_link
from overlay.web.search_page import LONGEST
from tests.overlay.calls import engine_of, raw
from tests.overlay.conftest import Serve
from tests.overlay.fakes import FakeEngine, FakeStore, changed, with_listing

TOWER = "854803e9a3dfe70ec53f93824a07ed2696ffb1ad9c04054a7f0c2766abdf2897_0"
BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"}
VOID = {"meta", "link", "input", "br", "img", "hr"}
LOADS = {"src", "href", "action", "srcset", "data", "poster", "formaction", "background"}


class Page(HTMLParser):
    """A page taken apart; complains about tags that are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.size = "", len(text.encode())
        self.open: list[str] = []
        self.feed(text)
        self.close()
        self.text = " ".join(self.text.split())
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def links(self) -> list[str]:
        return [attributes["href"] or "" for attributes in self.all("a")]


async def page(client: ClientSession, path: str, status: int = 200) -> Page:
    async with client.get(path, headers=BROWSER) as response:
        assert response.status == status, await response.text()
        assert response.headers["Content-Type"] == "text/html; charset=utf-8"
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        body = await response.text()
        assert len(body.encode()) < 100_000
        result = Page(body)
    assert not {"iframe", "object", "embed", "style", "base"} & {tag for tag, _ in result.tags}
    assert all((script.get("src") or "").startswith("/static/") for script in result.all("script"))
    assert not [
        name for _, attributes in result.tags for name in attributes if name.startswith("on") or name == "style"
    ]
    for tag, attributes in result.tags:
        for name in LOADS & attributes.keys():
            target = attributes[name] or ""
            assert target.startswith(("/", "#", "data:,")) or (
                tag == "a" and target.startswith(("http://", "https://"))
            ), target
    return result


async def test_every_page_is_well_formed_and_loads_nothing_from_elsewhere(
    client: ClientSession, services: AppServices
) -> None:
    store = services.store
    assert isinstance(store, FakeStore)
    trace = "/publish?tx=" + "ab" * 32
    for path in ("/", "/?q=tower", "/?limit=100&status=all", "/?q=zzzzz", "/docs", "/publish", trace, "/status"):
        await page(client, path)
    for listing in store.listings.values():
        await page(client, f"/listings/{listing.state.id}")


async def test_the_search_page_says_when_there_is_no_index_yet(client: ClientSession, services: AppServices) -> None:
    engine_of(services).read_to = None
    html = await page(client, "/?q=zzzz&type=tool", 503)
    assert "The index is not ready: the search index is being built" in html.text
    assert "Nothing found" not in html.text
    async with client.get("/?q=zzzz", headers=BROWSER) as response:
        assert (response.headers["Retry-After"], response.headers["Cache-Control"]) == ("5", "no-store")
    await page(client, "/?q=tower")


async def test_what_takes_too_long_to_count_is_shown_without_filters_to_choose_from(
    client: ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_hits = search_api.find_hits

    async def late(request: web.Request, search_request: SearchRequest) -> Hits:
        if search_request.query.facets:
            raise ProblemError(503, "this search could not be answered within 5 s")
        return await find_hits(request, search_request)

    monkeypatch.setattr(search_api, "find_hits", late)
    shown = await page(client, "/?q=tower")
    assert "2 listings" in shown.text
    assert "The filters to choose from are not shown: to count what they leave takes too long now" in shown.text


async def test_where_intervals_differ_costs_of_a_month_are_offered(serve: Serve, services: AppServices) -> None:
    engine = services.engine
    assert isinstance(engine, FakeEngine)
    priced = next(one for one in engine.documents if one.offers and one.status == "live")
    monthly = replace(priced, id=f"{priced.id}x", offers=(replace(priced.offers[0], interval_key="P1W"),))
    client = await serve(changed(services, engine=FakeEngine([priced, monthly])))
    html = await page(client, "/?sort=price")
    (address,) = [link for link in html.links() if "sort=cost" in link]
    assert address == "/?calls=50%2Fday&sort=cost"
    shown = await page(client, address)
    assert "order by what a month costs" not in shown.text
    assert "50/day" in shown.text


async def test_the_search_page_shows_results_with_summary_price_and_height(client: ClientSession) -> None:
    html = await page(client, "/?q=tower")
    assert "2 listings" in html.text
    assert "Tower‑Guard (Minimal)" in html.text
    assert "Release 2." in html.text
    assert "from 0.1 BSV per call" in html.text
    assert "block 116" in html.text
    assert f"/listings/{TOWER}" in html.links()


async def test_a_result_counts_its_duplicates_and_links_to_all_of_them(
    client: ClientSession, services: AppServices
) -> None:
    engine = engine_of(services)
    (first,) = (document for document in engine.documents if document.id == TOWER)
    others = [document for document in engine.documents if document is not first]
    item = json.loads(first.item) | {
        "duplicates": 2,
        "warnings": [{"code": "same-name", "pointer": "/name", "detail": ""}],
    }
    engine.documents = [replace(first, item=json.dumps(item).encode()), *others]
    for path in ("/", f"/listings/{quote(first.id, safe='')}"):
        shown = await page(client, path)
        (link,) = [entry for entry in shown.links() if entry.startswith("/?duplicatesOf=")]
        assert parse_qs(urlsplit(link).query) == {"duplicatesOf": [first.id]}
        assert "name taken" in shown.text
    await page(client, link)
    assert engine.requests[-1].group == first.id


async def test_the_largest_page_of_hostile_listings_stays_small(serve: Serve, services: AppServices) -> None:
    listing = services.store.listing(TOWER)
    assert listing is not None
    long = "Ж" * 8_000
    card = {
        "name": long,
        "description": long,
        "url": "https://a.example/" + "x" * 8_000,
        "tags": [long, *map(str, range(60))],
        "skills": [{"id": long, "tags": [long]}],
        "x-payment-config": [{"currency": "X" * 60, "amount": "1" * 90, "interval": long}],
    }
    client = await serve(with_listing(services, replace(listing, card_body=json.dumps(card).encode())))
    for path in ("/", "/?q=" + "x" * 500):
        async with client.get(path, headers=BROWSER) as response:
            assert len(await response.read()) < 20_000


async def test_the_url_is_the_state_of_the_form(client: ClientSession) -> None:
    html = await page(client, "/?q=tower&type=agent&maxPrice=5&priceCurrency=USD&owner=1abc&sort=-updated&limit=7")
    values = {item["name"]: item["value"] for item in html.all("input") if item.get("name")}
    assert values["q"] == "tower"
    assert values["maxPrice"] == "5"
    assert values["owner"] == "1abc"
    assert values["limit"] == "7"
    assert values["type"] == "agent"
    assert [option["value"] for option in html.all("option") if "selected" in option] == ["-updated"]
    assert "no exchange rates" in html.text


async def test_an_emptied_form_is_a_search_for_everything(client: ClientSession) -> None:
    empty = "/?q=&type=&skillId=&tag=&acceptedCurrency=&interval=&maxPrice=&priceCurrency=&sort="
    assert (await page(client, empty)).text == (await page(client, "/")).text


async def test_paging_leads_through_everything_and_back(client: ClientSession, services: AppServices) -> None:
    engine = services.engine
    assert isinstance(engine, FakeEngine)
    expected = [document.id for document in engine.documents if document.status == "live"]
    path, seen, pages = "/?limit=10&type=all", [], []
    while True:
        html = await page(client, path)
        pages.append(path)
        seen += [link for link in html.links() if link.startswith("/listings/")]
        following = [link["href"] for link in html.all("a") if link.get("rel") == "next"]
        before = [link["href"] for link in html.all("a") if link.get("rel") == "prev"]
        assert bool(before) == (len(pages) > 1)
        if not following:
            break
        path = following[0] or ""
        assert parse_qs(urlsplit(path).query)["limit"] == ["10"]
    assert seen == [f"/listings/{quote(id_, safe='')}" for id_ in expected]


EVERYTHING = "limit=100&status=all&"


@pytest.mark.parametrize(
    "query",
    [
        "&".join(f"tag={'x' * 180}{number}" for number in range(20)),
        EVERYTHING + "&".join(f"tag={number}" for number in range(60)),
        EVERYTHING + "&".join(f"nonsense{number}=" + "%22" * 3 for number in range(150)),
        EVERYTHING + "&".join("owner=" + "%22%3C" * 60 + str(number) for number in range(9)),
        EVERYTHING + "q=" + "%27" * 500 + "&" + "domain=" + "a" * 60 + ".example",
        EVERYTHING + "tag=" + "%F0%9F%98%80" * 200,
    ],
)
async def test_no_search_makes_a_page_large(client: ClientSession, query: str) -> None:
    loaded = sum(len(assets()[name].body) for name in ("style.css", "page.js", "search.js", "icon.svg"))
    assert len(query) <= LONGEST
    async with client.get(f"/?{query}", headers=BROWSER) as response:
        assert response.status in (200, 400)
        assert len(await response.read()) + loaded < 100_000


async def test_a_bad_search_says_inline_what_is_wrong(client: ClientSession) -> None:
    html = await page(client, "/?q=tower&maxPrice=cheap&foo=%3Cb%3E", 400)
    assert "'cheap' is not an amount" in html.text
    assert "'<b>' " not in html.text
    assert "'foo' is not a parameter here" in html.text
    assert {item["name"]: item["value"] for item in html.all("input") if item.get("name")}["q"] == "tower"
    await page(client, "/?q=" + "a+" * 2_049, 400)
    await page(client, "/?q=%FF", 400)


@pytest.mark.parametrize("accept", [BROWSER["Accept"], "application/json"])
async def test_what_others_add_to_a_link_is_no_part_of_the_search(client: ClientSession, accept: str) -> None:
    headers = {"Accept": accept}
    decorated = "/?utm_source=a&q=tower%26&fbclid=zq9&type=agent&utm_campaign=zq9&ref=zq9"
    async with client.get(decorated, headers=headers, allow_redirects=False) as response:
        assert (response.status, response.headers["Location"]) == (302, "/?q=tower%26&type=agent")
    for path, plain in ((decorated, "/?q=tower%26&type=agent"), ("/?fbclid=zq9", "/")):
        async with client.get(raw(path), headers=headers) as one, client.get(raw(plain), headers=headers) as other:
            assert (one.status, await one.read()) == (other.status, await other.read()) == (200, await other.read())
    async with client.get("/v1/search?q=tower&utm_source=a") as response:
        assert response.status == 400


@pytest.mark.parametrize("accept", [BROWSER["Accept"], "application/json"])
async def test_fields_left_empty_in_the_form_are_no_part_of_the_search(client: ClientSession, accept: str) -> None:
    sent = "/?q=&minPrice=+&maxPrice=%C2%A0&priceCurrency=&type=agent&sort=relevance"
    async with client.get(raw(sent), headers={"Accept": accept}, allow_redirects=False) as response:
        assert (response.status, response.headers["Location"]) == (302, "/?type=agent&sort=relevance")
    async with client.get(raw("/?q=&maxPrice="), headers={"Accept": accept}) as response:
        assert (response.status, str(response.url.relative())) == (200, "/")


@pytest.mark.parametrize(
    ("accept", "json_wanted"),
    [
        ("application/json", True),
        ("application/json, text/plain, */*", True),
        ("application/json;q=0.9, text/html;q=0.8", True),
        ("application/*", True),
        (BROWSER["Accept"], False),
        ("*/*", False),
        ("text/html", False),
        ("text/html, application/json", False),
        ("application/json;q=0", False),
        ("application/json;q=x", False),
        ("", False),
        (None, False),
    ],
)
async def test_the_same_url_answers_json_where_it_is_preferred(
    client: ClientSession, accept: str | None, json_wanted: bool
) -> None:
    headers = {} if accept is None else {"Accept": accept}
    for path in ("/?q=tower", f"/listings/{TOWER}"):
        async with client.get(path, headers=headers, skip_auto_headers=["Accept"]) as response:
            assert response.content_type == ("application/json" if json_wanted else "text/html")
            assert response.headers["Vary"].startswith("Accept,")
    async with (
        client.get("/?q=tower", headers={"Accept": "application/json"}) as ours,
        client.get("/v1/search?q=tower") as theirs,
    ):
        assert await ours.read() == await theirs.read()


HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{7*7}}${7*7}\u202egnp.exe\u0007&lt;b&gt;"


async def hostile_listing(serve: Serve, services: AppServices) -> ClientSession:
    listing = services.store.listing(TOWER)
    assert listing is not None
    script = "javascript:alert(1)"
    price = {"id": HOSTILE, "name": HOSTILE, "currency": "<B>", "amount": 1, "interval": HOSTILE, "skillIds": [HOSTILE]}
    card = {
        "name": HOSTILE,
        "description": HOSTILE,
        "version": HOSTILE,
        "url": script,
        "iconUrl": script,
        "skills": [{"id": HOSTILE, "name": HOSTILE, "tags": [HOSTILE], "description": HOSTILE}],
        "tags": [HOSTILE],
        "provider": {"organization": HOSTILE, "url": script},
        "x-payment-config": [price],
    }
    state = replace(listing.state, map={"app": HOSTILE, "type": "a2b"}, owner=HOSTILE)
    return await serve(with_listing(services, replace(listing, state=state, card_body=json.dumps(card).encode())))


async def test_strangers_texts_stay_texts(serve: Serve, services: AppServices) -> None:
    client = await hostile_listing(serve, services)
    for path in (
        "/",
        f"/listings/{TOWER}",
        "/?q=" + quote(HOSTILE),
        "/?foo=" + quote(HOSTILE),
        "/?tag=" + quote(HOSTILE),
    ):
        async with client.get(path, headers=BROWSER) as response:
            body = await response.text()
        assert "<script>" not in body
        assert "<img" not in body
        assert "\u202e" not in body
        assert "\u0007" not in body
        assert "javascript:" not in "".join(re.findall(r'(?:href|src)="[^"]*"', body))
        await page(client, path, response.status)


async def test_control_and_direction_characters_are_shown_escaped(serve: Serve, services: AppServices) -> None:
    html = await page(await hostile_listing(serve, services), f"/listings/{TOWER}")
    assert "\\u202egnp.exe\\x07" in html.text
    assert "<script>alert(1)</script>" in html.text


async def test_a_command_is_shown_as_a_strangers_text(client: ClientSession, services: AppServices) -> None:
    engine = services.engine
    assert isinstance(engine, FakeEngine)
    tool = next(document for document in engine.documents if json.loads(document.item)["command"])
    html = await page(client, f"/listings/{quote(tool.id, safe='')}")
    assert json.loads(tool.item)["command"] in html.text
    assert "A stranger's command" in html.text


async def test_a_registration_of_several_servers_links_to_each(client: ClientSession, services: AppServices) -> None:
    engine = services.engine
    assert isinstance(engine, FakeEngine)
    ids = [document.id for document in engine.documents if "#" in document.id]
    html = await page(client, f"/listings/{ids[0].partition('#')[0]}")
    assert {f"/listings/{quote(id_, safe='')}" for id_ in ids} <= set(html.links())
    assert "2 servers" in html.text


async def test_every_link_of_the_pages_leads_somewhere(client: ClientSession) -> None:
    for start in ("/", "/docs", f"/listings/{TOWER}"):
        for link in set((await page(client, start)).links()):
            if link.startswith("/"):
                async with client.get(link) as response:
                    assert response.status == 200, link


async def test_an_unknown_listing_is_a_page_that_says_so(client: ClientSession) -> None:
    html = await page(client, "/listings/nobody", 404)
    assert "No listing has the id 'nobody'" in html.text


async def test_facts_of_the_indexing_process_are_not_shown_by_others(serve: Serve, services: AppServices) -> None:
    note = "A chain that is only stored is followed by no process: its tip is not known."
    followed = services.process.status()
    [chain] = followed["chains"]
    unknown = {"state": "stored", "tip": None, "lag": None, "mempool": None, "reorgs": None}
    for row, message, cells in (({"reorgs": 2}, False, f"{3 * 'unknown'}2"), (unknown, True, 4 * "unknown")):
        answer = followed | {"chains": [chain | row]}
        client = await serve(changed(services, status=lambda reported=answer: reported))
        text = (await page(client, "/status")).text
        assert f"{chain['height']}{cells}" in text
        assert (note in text) is message


async def test_the_documentation_names_every_route_and_parameter_of_every_system(
    serve: Serve, services: AppServices
) -> None:
    client = await serve(changed(services, systems=NAMES))
    contents = await page(client, "/docs/api")
    async with client.get("/openapi.json") as response:
        api = await response.json()
    groups = {method["tags"][0] for methods in api["paths"].values() for method in methods.values()}
    details = {group: await page(client, f"/docs/api/{quote(group)}") for group in groups}
    for path, methods in api["paths"].items():
        for operation in methods.values():
            detail = details[operation["tags"][0]]
            assert f"/docs/api/{quote(operation['tags'][0])}#{operation['operationId']}" in contents.links()
            for result in (contents, detail):
                assert path in result.text
                assert operation["summary"].replace("`", "") in result.text
            assert all(parameter["name"] in detail.text for parameter in operation["parameters"])
    for result in (contents, *details.values()):
        assert "`" not in result.text, "code is marked as such"
        targets = {attributes["id"] for _, attributes in result.tags if "id" in attributes}
        assert {link[1:] for link in result.links() if link.startswith("#")} <= targets
    assert (await page(client, "/docs/api/gopher", 404)).text
    for path in ("/docs", "/docs/api"):
        async with client.get(path, headers={"Accept": "application/json"}) as response:
            assert await response.json() == api


async def test_assets_may_be_cached_for_ever_and_have_a_new_url_when_they_change(
    client: ClientSession,
) -> None:
    html = await page(client, "/")
    loaded = [item.get("src") or item.get("href") or "" for tag in ("script", "link") for item in html.all(tag)]
    assert len(loaded) == 4
    for url in loaded:
        async with client.get(url) as response:
            assert response.status == 200
            assert "immutable" in response.headers["Cache-Control"]
        etag = response.headers["ETag"]
        async with client.get(url.partition("?")[0] + "?v=old", headers={"If-None-Match": etag}) as response:
            assert response.status == 304
            assert "must-revalidate" in response.headers["Cache-Control"]
    async with client.get("/static/nothing.js") as response:
        assert response.status == 404


async def test_verified_listings_can_be_selected_and_deselected(client: ClientSession) -> None:
    query = "/?q=tower&verified=true"
    assert query in (await page(client, "/?q=tower")).links()
    html = await page(client, query)
    assert "/?q=tower" in html.links()
    assert [link["href"] for link in html.all("a") if link.get("aria-current") == "true"] == ["/?q=tower"]


async def test_the_style_sheet_loads_nothing(client: ClientSession) -> None:
    async with client.get("/static/style.css") as response:
        text = await response.text()
    assert response.headers["Content-Type"].startswith("text/css")
    assert "url(" not in text
    assert "@import" not in text
    assert "prefers-color-scheme: dark" in text


async def test_robots_txt_names_the_paths_that_crawlers_avoid(client: ClientSession) -> None:
    async with client.get("/robots.txt") as response:
        assert "Disallow: /v1/" in await response.text()
        assert response.content_type == "text/plain"


@given(st.text())
def test_what_is_visible_has_nothing_hidden_and_ordinary_text_is_left_alone(text: str) -> None:
    import unicodedata

    shown = visible(text)
    assert visible(shown) == shown
    for letter in shown:
        category = unicodedata.category(letter)
        assert category not in ("Cc", "Cs") or letter in "\t\n"
        assert (
            category != "Cf" or letter in "\u200c\u200d" or unicodedata.bidirectional(letter) in ("AN", "AL", "L", "ON")
        ), ascii(letter)
    if text.isascii() and text.isprintable():
        assert shown == text
    assert "\n" not in one_line(text)


def test_scripts_and_emoji_are_left_as_they_are() -> None:
    for text in ("国語辞典", "مساعد الفواتير", "Складской учёт", "👩‍👩‍👧", "नमस्ते", "a\tb\nc", "é", "e\u0301"):
        assert visible(text) == text
    assert visible("a\u202eb\0\u200b\ufeff\ud800\U000e0041") == "a\\u202eb\\x00\\u200b\\ufeff\\ud800\\U000e0041"
    assert one_line("a\tb\n") == "a\\tb\\n"


def test_marks_that_no_letter_has_do_not_pile_up() -> None:
    usual = (
        "ש\u05c1\u05bc\u05b8\u0596\u05bd",
        "မြွှေ့",
        "ที่",
        "নির্ভুল",
        "1\ufe0f\u20e3",
        "❤\ufe0f\u200d🔥",
        "a\u0301" * 99,
        "¡¿«»…—" * 9,
    )
    for text in usual:
        assert visible(text) == text, ascii(text)
    for mark in "\u0301\u0489\u20e3\u0e47\u0f90\u034f\ufe0f\u200d\U0001e8d0":
        assert visible(f"a{mark * 200}b{mark}") == f"a{mark * MOST_MARKS}…b{mark}"
    assert (
        visible("a" + "\u0301\u0903" * 9 + "\u2026" + "\u0301" * 6)
        == "a" + "\u0301\u0903" * 5 + "…" * 2 + "\u0301" * 5 + "…"
    )
    text = "a" + "\u0301\u0903\U0001e8d0" * 9 + "b"
    assert (text.count("\u0301"), visible_in_json(text).count("\u0301")) == (9, 3)
    assert json.loads(f'"{visible_in_json(text)}"') == text


def test_flags_that_are_drawn_stay_and_tags_that_hide_text_do_not() -> None:
    def tags(text: str) -> str:
        return "".join(chr(0xE0000 + ord(letter)) for letter in text)

    flags = [f"\U0001f3f4{tags(region)}\U000e007f" for region in ("gbeng", "gbsct", "gbwls")]
    assert visible("".join(flags)) == "".join(flags)
    for text in (flags[0][:-1], flags[0][1:], f"\U0001f3f4{tags('ignore')}\U000e007f", f"{flags[0]}{tags('a')}"):
        assert "\\U000e00" in visible(text)


async def test_what_strangers_pile_up_is_on_no_page(serve: Serve, services: AppServices) -> None:
    pile = "a" + "\u0301" * 2000
    listing = services.store.listing(TOWER)
    assert listing is not None
    skill = {"id": pile[:50], "name": pile, "description": pile, "tags": [pile[:30]], "examples": [pile]}
    card = {"name": pile[:99], "description": f"weather {pile}", "url": "https://a.example", "tags": [pile[:20]]}
    body = json.dumps({**card, "skills": [skill], "provider": {"organization": pile}}).encode()
    client = await serve(with_listing(services, replace(listing, card_body=body)))
    for path in ("/", "/?q=weather", f"/?q={quote(pile[:99])}", f"/listings/{TOWER}"):
        text = (await page(client, path)).text
        assert "a\u0301\u0301\u0301\u0301\u0301…" in text
        assert "\u0301" * (MOST_MARKS + 1) not in text


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "//a.example",
        "/x",
        "",
        " https://a",
        "https://a\u202eb",
        "vbscript:x",
    ],
)
def test_only_web_addresses_become_links(url: str) -> None:
    assert web_link(url) == ""


def test_web_addresses_become_links() -> None:
    assert web_link("https://a.example/x?y") == "https://a.example/x?y"
    assert web_link("HTTP://a.example") == "HTTP://a.example"


def test_a_template_that_misses_a_value_fails_loudly() -> None:
    from jinja2 import UndefinedError

    with pytest.raises(UndefinedError):
        render("problem.html")
