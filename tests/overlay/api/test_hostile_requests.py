"""Hostile input over a real server: nothing breaks, and everything is answered in the one error shape."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path

import pytest
from aiohttp import ClientSession

from overlay.api.services import AppServices
from overlay.app.http_app import ROUTES, create_app, load_systems
from overlay.search.query import Suggestion
from tests.overlay.calls import engine_of, problem, raw, talk


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"garbage\r\n\r\n",
        b"GET /v1/search?q=" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX-Long: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nBad Header: 1\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/check HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_a_400_problem(client: ClientSession, request_bytes: bytes) -> None:
    answer = await talk(client, request_bytes)
    assert answer.split(b" ")[:2] in ([b"HTTP/1.0", b"400"], [b"HTTP/1.1", b"400"]), answer[:200]
    assert b"application/problem+json" in answer
    assert b"Access-Control-Allow-Origin: *" in answer


@pytest.mark.parametrize(
    "query",
    [
        "q=%00%01%1f%7f", "q=%E2%80%AE", "q=(a%2B)%2B%24", "q=name:tower~2+AND+NOT+^*?", 'q="unclosed', "q=%5B%5B%5B",
        "q=%F0%9F%98%80", "q=*", "q=tower&q=tower", "limit=-1", "offset=1e9", "limit=1e308",
        "fromBlock=-1e308&toBlock=1e308", "&&&&", "=", "q", "q=%zz",
    ],
)  # fmt: skip
async def test_strange_but_well_formed_searches_are_answered(client: ClientSession, query: str) -> None:
    async with client.get(raw(f"/v1/search?{query}")) as response:
        assert response.status == (400 if query == "=" else 200), await response.text()
        json.loads(await response.read())


@pytest.mark.parametrize("query", ["q=%ff", "q=%c3%28", "q=" + "a" * 60_000, "%ff=1", "&".join(["tag=a"] * 300)])
async def test_malformed_searches_are_refused(client: ClientSession, query: str) -> None:
    async with client.get(raw(f"/v1/search?{query}")) as response:
        await problem(response, 400)


@pytest.mark.parametrize(
    "path",
    [
        b"/v1/search?q=\xff\xfe",
        b"/v1/search?q=\xc3\xa9",
        b"/v1/listings/\xff",
        b"//",
        b"/v1//search",
        b"*",
        b"http://a/v1/search",
    ],
)
async def test_raw_bytes_in_the_request_line_never_break_anything(client: ClientSession, path: bytes) -> None:
    answer = await talk(client, b"GET " + path + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    status = int(answer.split(b" ")[1])
    assert status in (200, 400, 404), answer[:300]
    assert b"json" in answer or status == 200


async def test_many_routes_and_no_two_alike(services: AppServices) -> None:
    registered = {
        (route.method, route.resource.canonical)
        for route in create_app(services).router.routes()
        if route.resource and route.method != "*"
    }
    routes = [*ROUTES, *chain.from_iterable(one.routes for one in load_systems(services.site.systems))]
    assert len(registered) == sum(2 if route.method == "GET" else 1 for route in routes)


async def test_the_real_sample_is_what_is_served(services: AppServices, sample: Path) -> None:
    oracle = json.loads((sample / "expected.json").read_text())
    assert {document.registration for document in engine_of(services).documents} == {
        entry["id"] for entry in oracle["registrations"]
    }


async def test_suggestions_show_no_character_that_hides_or_reorders(
    client: ClientSession, services: AppServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = "safe\u202egnp\u2066\x1b[31m\x07\u200b\x9b2J\tname\n"
    kinds = (("listing", "id"), ("skill", None), ("tag", None))
    answers = [Suggestion(text, kind, id_) for text in (hostile, "سلام عليكم") for kind, id_ in kinds]
    monkeypatch.setattr(engine_of(services), "suggest", lambda *_: answers)
    async with client.get("/v1/suggest?q=safe") as response:
        items = (await response.json())["items"]
    escaped = "safe\\u202egnp\\u2066\\x1b[31m\\x07\\u200b\\x9b2J\\tname\\n"
    assert [(item["text"], item["kind"]) for item in items] == [
        (escaped, "listing"), (escaped, "skill"),
        ("سلام عليكم", "listing"), ("سلام عليكم", "skill"), ("سلام عليكم", "tag"),
    ]  # fmt: skip
