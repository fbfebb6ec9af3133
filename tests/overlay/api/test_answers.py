"""The parts of every answer: HEAD, CORS, request ids, problems, entity tags, compression."""

from __future__ import annotations

import gc
import gzip
import json
from typing import Any

import pytest
from aiohttp import ClientSession

from overlay.api.answers import Answer
from overlay.api.routes import STREAM
from overlay.api.services import AppServices
from overlay.app.http_app import ROUTES
from tests.overlay.calls import TOWER, engine_of, problem, raw
from tests.overlay.conftest import Serve
from tests.overlay.fakes import changed

WITHOUT_DATA = (
    "/logos/{digest}", "/v1/evidence/{sha256}", "/v1/listings/{id}/evidence", "/listings/{id}/evidence",
    "/v1/delegations/revocations", "/v1/listings/{id}/tools", "/v1/listings/{id}/payments/{txid}", "/v1/hidden",
    "/.well-known/security.txt",
)  # fmt: skip
"""Routes of pictures, evidence, revocations, payments and settings, of which there are none in the sample services."""


WITH_ADDRESSES = ("/robots.txt", "/llms.txt", "/sitemap.xml", "/sitemap-1.xml", f"/listings/{TOWER}")
"""Paths whose answers have absolute addresses of this server."""

OTHER = "0e2eadcc366f9aa02883cdeae71385efb507a2d1781945b5eb9d8d64ee34cf6b_0"


def paths() -> list[str]:
    """One working path for every GET route whose answer ends, but for those without data."""
    existing = {"{id}": TOWER, "{what}": "ab" * 32, "{name}": "style.css", "{page}": "search", "{tag}": "search"}
    existing["{number}"] = "1"
    results = [route.path for route in ROUTES if route.method == "GET" and STREAM not in route.media]
    results = [path for path in results if path not in WITHOUT_DATA]
    for name, value in existing.items():
        results = [path.replace(name, value) for path in results]
    two = f"?id={TOWER}&id={OTHER}"
    queries = {"/v1/quote": f"?id={TOWER}", "/v1/compare": two, "/compare": two}
    return [path + queries.get(path, "") for path in results]


@pytest.mark.parametrize("path", [path for path in paths() if path != "/metrics"])  # which counts these very requests
async def test_head_answers_like_get_without_a_body(client: ClientSession, path: str) -> None:
    async with client.get(path) as got, client.head(path) as headed:
        body = await got.read()
        assert got.status == headed.status == 200
        assert await headed.read() == b""
        for name in ("Content-Type", "Content-Length", "ETag", "Cache-Control"):
            assert got.headers.get(name) == headed.headers.get(name), name
        assert len(body) == int(headed.headers["Content-Length"])


@pytest.mark.parametrize("path", [*paths(), "/nowhere", "/v1/search?foo=1"])
async def test_every_answer_may_be_read_from_other_pages(client: ClientSession, path: str) -> None:
    async with client.get(path, headers={"Origin": "https://elsewhere.example"}) as response:
        assert response.headers["Access-Control-Allow-Origin"] == "*"
        assert "ETag" in response.headers["Access-Control-Expose-Headers"]
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        by_host = ", Host, X-Forwarded-Host, X-Forwarded-Proto" if path in WITH_ADDRESSES else ""
        assert response.headers["Vary"] == f"Accept, Accept-Encoding{by_host}"
        assert "aiohttp" not in response.headers["Server"].lower()


@pytest.mark.parametrize("path", ["/v1/search", f"/v1/listings/{TOWER}", "/"])
async def test_a_connection_that_is_kept_open_does_not_hold_what_it_was_sent(client: ClientSession, path: str) -> None:
    async with client.get(path) as response:
        assert len(await response.read()) > 500
    gc.collect()
    # by type: `isinstance` asks a weak proxy, whose object may be gone
    answers = [item for item in gc.get_objects() if issubclass(type(item), Answer)]
    assert answers
    assert [len(answer.body) for answer in answers if isinstance(answer.body, bytes) and len(answer.body) > 500] == []


async def test_preflights_are_answered(client: ClientSession) -> None:
    headers = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    async with client.options("/v1/check", headers=headers) as response:
        assert response.status == 204
        assert "POST" in response.headers["Access-Control-Allow-Methods"]
        assert "Content-Type" in response.headers["Access-Control-Allow-Headers"]
        assert response.headers["Access-Control-Max-Age"] == "86400"


async def test_request_ids_are_kept_when_harmless_and_made_otherwise(client: ClientSession) -> None:
    async with client.get("/healthz", headers={"X-Request-Id": "mine-1.2_3"}) as response:
        assert response.headers["X-Request-Id"] == "mine-1.2_3"
    created = set()
    for hostile in ("a b", "x" * 65, '"><script>', "", "é"):
        async with client.get("/healthz", headers={"X-Request-Id": hostile}) as response:
            created.add(response.headers["X-Request-Id"])
            assert response.headers["X-Request-Id"] != hostile
    assert len(created) == 5


async def test_unknown_paths_and_methods_are_problems(client: ClientSession) -> None:
    async with client.get("/nowhere") as response:
        await problem(response, 404)
    for method in ("DELETE", "PUT", "PATCH", "POST"):
        async with client.request(method, "/v1/search") as response:
            await problem(response, 405)
            assert response.headers["Allow"] == "GET, HEAD, OPTIONS"
    async with client.get("/v1/check") as response:
        await problem(response, 405)


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND")


@pytest.mark.parametrize("path", sorted({route.path for route in ROUTES}))
async def test_every_route_accepts_its_methods_and_names_them_for_others(client: ClientSession, path: str) -> None:
    taken = {route.method for route in ROUTES if route.path == path}
    if "GET" in taken:
        taken.add("HEAD")
    existing = {
        "{id}": TOWER,
        "{what}": "ab" * 32,
        "{name}": "style.css",
        "{page}": "search",
        "{digest}": "ab" * 32,
        "{sha256}": "ab" * 32,
        "{tag}": "search",
        "{kind}": "receipt",
        "{number}": "1",
    }
    url = path
    for name, value in existing.items():
        url = url.replace(name, value)
    for method in METHODS:
        async with client.request(method, url) as response:
            if method in taken:
                assert response.status != 405, method
                continue
            assert response.status == 405, method
            assert response.headers["Allow"] == ", ".join(sorted({*taken, "OPTIONS"}))
            if method != "HEAD":
                problem_body = await problem(response, 405)
                assert url in problem_body["detail"]
    async with client.options(url) as response:
        assert response.status == 204


WITHOUT = sorted({(route.method, route.path) for route in ROUTES if route.refuses_parameters})


@pytest.mark.parametrize(("method", "path"), WITHOUT)
async def test_what_takes_no_parameters_refuses_them_by_name(client: ClientSession, method: str, path: str) -> None:
    url = path.replace("{id}", TOWER).replace("{kind}", "receipt")
    url = url.replace("{what}", "ab" * 32).replace("{sha256}", "ab" * 32)
    async with client.request(method, f"{url}?asOfHeight=7&limit=x") as response:
        problem_body = await problem(response, 400)
    assert [(error["code"], error["parameter"]) for error in problem_body["errors"]] == [
        ("unknown-parameter", "asOfHeight"), ("unknown-parameter", "limit"),
    ]  # fmt: skip
    assert "'asOfHeight' is not a parameter here; this takes none" in problem_body["detail"]


@pytest.mark.parametrize("path", ["/healthz", "/metrics", "/status", "/publish", f"/listings/{TOWER}"])
async def test_links_that_others_decorate_and_probes_are_answered(client: ClientSession, path: str) -> None:
    async with client.get(f"{path}?utm_source=x") as response:
        assert response.status == 200


async def test_an_id_with_a_slash_is_no_other_path(client: ClientSession) -> None:
    for last in ("recheck", "history"):
        async with client.get(raw(f"/v1/listings/a%2F{last}")) as response:
            assert f"a/{last}" in (await problem(response, 404))["detail"]
    async with client.get(raw("/v1/listings/a/recheck")) as response:
        await problem(response, 405)


async def test_a_mistake_of_ours_is_a_500_without_its_traceback(
    serve: Serve, services: AppServices, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> dict[str, Any]:
        raise RuntimeError("a secret in a message")

    client = await serve(changed(services, status=broken))
    for accept in ("application/json", "text/html"):
        async with client.get("/v1/status", headers={"Accept": accept}) as response:
            problem_body = await problem(response, 500)
            assert "secret" not in json.dumps(problem_body)
            assert problem_body["requestId"] in caplog.text
    assert "a secret in a message" in caplog.text


@pytest.mark.parametrize(
    "path",
    [
        "/v1/search?q=tower",
        f"/v1/listings/{TOWER}",
        f"/v1/listings/{TOWER}/history",
        f"/v1/listings/{TOWER}/proof",
        "/v1/suggest?q=t",
        "/v1/changes",
        "/v1/status",
        "/openapi.json",
        "/",
        f"/listings/{TOWER}",
    ],
)
async def test_what_did_not_change_is_a_304(client: ClientSession, path: str) -> None:
    async with client.get(path) as response:
        tag = response.headers["ETag"]
    assert tag.startswith('W/"')
    for word in (tag, f'"other", {tag}', tag.removeprefix("W/"), "*"):
        async with client.get(path, headers={"If-None-Match": word}) as response:
            assert (response.status, await response.read()) == (304, b"")
            assert response.headers["ETag"] == tag
    async with client.get(path, headers={"If-None-Match": '"other"'}) as response:
        assert response.status == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/search?limt=1", 400),
        ("/?limt=1", 400),
        ("/v1/listings/nobody", 404),
        ("/listings/nobody", 404),
        ("/static/nothing.css", 404),
        ("/healthz", 200),  # has no entity tag
    ],
)
async def test_any_representation_is_none_of_an_error(client: ClientSession, path: str, status: int) -> None:
    for headers in ({"If-None-Match": "*"}, {"If-None-Match": " * ", "Accept": "text/html"}):
        async with client.get(path, headers=headers) as response:
            assert response.status == status


async def test_a_304_is_answered_without_searching(client: ClientSession, services: AppServices) -> None:
    async with client.get("/v1/search?q=tower") as response:
        tag = response.headers["ETag"]
    before = len(engine_of(services).requests)
    async with client.get("/v1/search?q=tower", headers={"If-None-Match": tag}) as response:
        assert response.status == 304
    assert len(engine_of(services).requests) == before


async def test_the_tag_of_a_page_changes_with_the_index_the_height_and_the_question(
    serve: Serve, services: AppServices
) -> None:
    engine = engine_of(services)
    height = 125
    client = await serve(changed(services, heights=lambda: {"bsv-regtest": height}))
    tags = []

    async def note(query: str) -> None:
        async with client.get(f"/v1/search?q={query}") as response:
            tags.append(response.headers["ETag"])

    await note("tower")
    await note("oracle")
    height = 126
    await note("tower")
    assert engine.read_to is not None
    engine.read_to = engine.read_to._replace(seq=8)
    await note("tower")
    engine.read_to = engine.read_to._replace(epoch="epoch-2")
    await note("tower")
    assert len(set(tags)) == 5


async def test_large_answers_are_compressed_when_the_client_takes_it(client: ClientSession) -> None:
    async with client.get("/v1/search") as response:
        plain = await response.read()
        assert "Content-Encoding" not in response.headers
    for accepted in ("gzip", "br, GZIP;q=0.5", "*"):
        async with client.get("/v1/search", headers={"Accept-Encoding": accepted}) as response:
            assert response.headers["Content-Encoding"] == "gzip"
            packed = await response.read()
            assert int(response.headers["Content-Length"]) == len(packed) < len(plain) / 3
            assert gzip.decompress(packed) == plain
    for refused in ("gzip;q=0", "gzip; q=0.0, br", "identity", "br", "*;q=0"):
        async with client.get("/v1/search", headers={"Accept-Encoding": refused}) as response:
            assert await response.read() == plain
    async with client.get("/healthz", headers={"Accept-Encoding": "gzip"}) as response:
        assert "Content-Encoding" not in response.headers


async def test_a_strong_entity_tag_is_weak_where_the_body_is_compressed(client: ClientSession) -> None:
    async with client.get("/static/style.css") as response:
        strong = response.headers["ETag"]
    async with client.get("/static/style.css", headers={"Accept-Encoding": "gzip"}) as response:
        assert (response.headers["Content-Encoding"], response.headers["ETag"]) == ("gzip", f"W/{strong}")
    headers = {"Accept-Encoding": "gzip", "If-None-Match": f"W/{strong}"}
    async with client.get("/static/style.css", headers=headers) as response:
        assert response.status == 304
