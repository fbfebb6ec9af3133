"""A cursor belongs to the question of its page: every paged route refuses it with other words, filters or order."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import permutations
from typing import Any, NamedTuple

import pytest

from tests.overlay.calls import local_http
from tests.overlay.protocols.test_same_answers import a2a_page

Question = Mapping[str, Any]


class Page(NamedTuple):
    """Whether a page was served, the cursor after it, and the body or what was said instead."""

    ok: bool
    cursor: str
    text: str


def read(path: str, member: str = "nextCursor", sent: str = "cursor") -> Callable[[str, Question, str], Page]:
    """A route whose question is its parameters, and whose cursor is a member of the answer, possibly of an object."""

    def page(url: str, question: Question, cursor: str) -> Page:
        parameters = {**question, **({sent: cursor} if cursor else {})}
        response = local_http.get(url + path, params=parameters, headers={"Accept": "application/json"})
        value: Any = response.json() if response.status_code == 200 else {}
        for name in member.split("."):
            value = value.get(name) or {}
        return Page(response.status_code == 200, value or "", response.text)

    return page


def ard(url: str, question: Question, cursor: str) -> Page:
    size = {"pageSize": question.get("pageSize", 1), **({"pageToken": cursor} if cursor else {})}
    response = local_http.post(f"{url}/search", json={"query": question["query"], **size})
    return Page(response.status_code == 200, response.json().get("pageToken", ""), response.text)


def bsv(url: str, question: Question, cursor: str) -> Page:
    query = {**question, **({"cursor": cursor} if cursor else {})}
    response = local_http.post(f"{url}/lookup", json={"service": "ls_agent_registry", "query": query})
    return Page(response.status_code == 200, response.headers.get("X-Next-Cursor", ""), response.text)


def mcp(url: str, question: Question, cursor: str) -> Page:
    arguments = {**question, **({"cursor": cursor} if cursor else {})}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search", "arguments": arguments}}
    accept = {"Accept": "application/json, text/event-stream"}
    response = local_http.post(f"{url}/mcp", json=call, headers=accept)
    result = response.json().get("result", {"isError": True})
    return Page(not result.get("isError"), result.get("structuredContent", {}).get("nextCursor") or "", response.text)


def a2a(url: str, question: Question, cursor: str) -> Page:
    try:
        data = a2a_page(url, **question, **({"cursor": cursor} if cursor else {}))
    except KeyError:  # an error, which has no result
        return Page(False, "", "cursor")
    return Page(True, data["nextCursor"] or "", "")


def html(url: str, question: Question, cursor: str) -> Page:
    """The search page, which links by offset as far as one is served; the cursor is that of the API."""
    if not cursor:
        return read("/v1/search")(url, question, "")
    response = local_http.get(f"{url}/", params={**question, "cursor": cursor}, headers={"Accept": "text/html"})
    return Page(response.status_code == 200, "", response.text)


def feed(url: str, question: Question, cursor: str) -> Page:
    page = read("/v1/feeds/search.json", "next_url")(url, question, cursor)
    following = re.search(r"[?&]cursor=([^&]+)", page.cursor)
    return page._replace(cursor=following[1] if following else "")


FILTERS: list[Question] = [
    {"q": "dex chart", "limit": 1},
    {"q": "dex", "limit": 1},
    {"q": "dex chart", "limit": 1, "type": "agent"},
    {"q": "dex chart", "limit": 1, "status": "live"},
    {"q": "dex chart", "limit": 1, "sort": "name"},
    {"limit": 1, "sort": "name"},
    {"limit": 1, "sort": "name", "type": "agent"},
    {"limit": 1, "sort": "-name"},
    {"limit": 1, "sort": "updated"},
    {"limit": 1, "sort": "price", "priceCurrency": "USD"},
    {"limit": 1, "sort": "price", "priceCurrency": "USD", "maxPrice": "1000000"},
    {"limit": 1},
    {"limit": 1, "type": "agent"},
    {"limit": 1, "type": "tool"},
]
AGENT = "application/a2a-agent-card+json"
FEW = [FILTERS[0], FILTERS[1], FILTERS[2], FILTERS[4]]
ROUTES: dict[str, tuple[Callable[[str, Question, str], Page], list[Question]]] = {
    "search": (read("/v1/search"), FILTERS),
    "html": (html, FEW),
    "a2a": (a2a, FEW),
    "mcp": (mcp, FEW),
    "bsv": (bsv, FEW),
    "feed": (feed, [{"type": "agent", "limit": 1}, {"type": "tool", "limit": 1}, {"limit": 1}]),
    "ard search": (
        ard,
        [{"query": {"text": "dex chart"}}, {"query": {"text": "dex", "filter": {"type": AGENT}}}],
    ),
    "ard agents": (
        read("/agents", "pageToken", "pageToken"),
        [
            {"pageSize": 2},
            {"pageSize": 2, "orderBy": "displayName ASC"},
            {"pageSize": 2, "filter": "type = 'application/mcp-server-card+json'"},
        ],
    ),
    "x402": (
        read("/discovery/search", "pagination.cursor"),
        [{"query": "lightning", "limit": 1}, {"query": "tower", "limit": 1}],
    ),
    "mcp registry": (read("/v0.1/servers", "metadata.nextCursor"), [{"limit": 1}, {"limit": 1, "search": "dex chart"}]),
    "mrp": (read("/mrp/registry/query", "next_page"), [{"limit": 1}, {"limit": 1, "policy": "x"}]),
}


@pytest.mark.parametrize("route", ROUTES)
def test_a_cursor_is_refused_with_another_question_and_leads_on_with_its_own(overlay_url: str, route: str) -> None:
    ask, questions = ROUTES[route]
    cursors = [(question, ask(overlay_url, question, "").cursor) for question in questions]
    assert cursors[0][1], "the first question has a second page"
    for question, cursor in cursors:
        if cursor:
            page = ask(overlay_url, question, cursor)
            assert page.ok, page.text
            assert "cursor belongs to" not in page.text
    for (question, cursor), (other, _) in permutations(cursors, 2):
        if cursor:
            page = ask(overlay_url, other, cursor)
            refused = not page.ok or (route == "html" and "cursor belongs to" in page.text)
            assert refused, f"the cursor of {question} is taken for {other}"
            assert "ursor" in page.text or "pageToken" in page.text


def test_a_cursor_of_one_protocol_is_none_for_another_that_asks_more(overlay_url: str) -> None:
    """The Bazaar has filters that no parameter names."""
    search, words = ROUTES["search"][0], {"q": "lightning", "limit": 1, "status": "live"}
    foreign = search(overlay_url, words, "").cursor
    assert foreign
    bazaar, questions = ROUTES["x402"]
    assert not bazaar(overlay_url, questions[0], foreign).ok
    cursor = bazaar(overlay_url, questions[0], "").cursor
    assert cursor
    assert not search(overlay_url, words, cursor).ok


def test_the_same_question_in_other_words_goes_on(overlay_url: str) -> None:
    search = ROUTES["search"][0]
    cursor = search(overlay_url, {"q": "dex chart", "status": ["live", "pending"], "limit": 1}, "").cursor
    for more in ({"limit": 7}, {"facets": "all"}, {"explain": "true"}, {"status": ["pending", "live"]}):
        again = {"q": "dex chart", **more}
        page = search(overlay_url, again, cursor)
        assert page.ok, page.text
