"""The API over a real server: searching, listings, publishers' questions, operation."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import ClientSession
from aiohttp.compression_utils import ZLibDecompressor

from overlay.api.services import AppServices
from overlay.engines import EngineError, IndexPosition, UnavailableError
from overlay.search.query import Hits, Query, StaleCursorError
from parsers.cards import Kind
from tests.overlay.calls import TOWER, engine_of, get, problem, raw, talk
from tests.overlay.conftest import Serve
from tests.overlay.fakes import FakeEngine, FakeStore, changed, with_listing

# Searching


async def test_a_page_has_the_contracts_shape(client: ClientSession) -> None:
    page = await get(client, "/v1/search?q=tower&type=agent&limit=1")
    assert list(page) == [
        "items", "total", "matched", "totalRelation", "limit", "offset", "nextCursor", "queryType", "query",
        "testNetwork", "index",
    ]  # fmt: skip
    assert (page["total"], page["totalRelation"], page["limit"], page["offset"]) == (2, "eq", 1, 0)
    assert (page["queryType"], page["query"]) == ("agent", "tower")
    assert page["index"] == {"seq": 7, "heights": {"bsv-regtest": 125}}
    (item,) = page["items"]
    assert item["score"] == 1.25
    assert item["cheapest"] == {
        "offerId": item["offers"][0]["id"],
        "amount": "0.1",
        "currency": "BSV",
        "interval": "none",
        "perDay": None,
    }


async def test_both_search_routes_answer_the_same(client: ClientSession) -> None:
    assert await get(client, "/v1/search?q=oracle") == await get(client, "/v1/search/enhanced?q=oracle")


async def test_items_are_the_engines_stored_bytes_with_members_added(
    client: ClientSession, services: AppServices
) -> None:
    page = await get(client, "/v1/search?limit=100")
    stored = {document.id: json.loads(document.item) for document in engine_of(services).documents}
    assert len(page["items"]) == page["total"]
    for item in page["items"]:
        added = {name: item.pop(name) for name in ("score", "cheapest")}
        assert added["score"] == 1.25
        assert (added["cheapest"] is None) == (not item["offers"])
        assert item == stored[item["id"]]


async def test_a_slash_at_the_end_leads_to_the_path_without_it(client: ClientSession) -> None:
    for path, location in (("/v1/status/?a=b%2F", "/v1/status?a=b%2F"), ("/v1/search//", "/v1/search")):
        async with client.get(raw(path), allow_redirects=False) as response:
            assert (response.status, response.headers["Location"]) == (308, location)
    for path in ("/nothing/", "/v1/nothing/?q=1"):
        async with client.get(path, allow_redirects=False) as response:
            await problem(response, 404)
    async with client.post("/v1/check/", json={}) as response:
        await problem(response, 404)
    assert b" 404 " in (
        await talk(client, b"GET //evil.example/docs/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    )


async def test_nothing_found_is_an_empty_page(client: ClientSession) -> None:
    page = await get(client, "/v1/search?q=zzzz&type=tool")
    assert (page["items"], page["total"], page["nextCursor"], page["queryType"]) == ([], 0, None, "tool")


async def test_without_an_index_yet_nothing_found_is_no_answer(client: ClientSession, services: AppServices) -> None:
    engine_of(services).read_to = None
    async with client.get("/v1/search?q=zzzz") as response:
        body = await response.json()
        assert (response.status, response.headers["Retry-After"]) == (503, "5")
        assert body["error"].startswith("the search index is being built, so nothing can be found yet")
    assert (await get(client, "/v1/search?q=tower"))["total"] == 2, "what is found is reported"
    engine_of(services).read_to = IndexPosition("epoch-1", 0)
    assert (await get(client, "/v1/search?q=zzzz"))["total"] == 0, "of an empty registry"


async def test_cursors_walk_through_everything_once(client: ClientSession, services: AppServices) -> None:
    seen: list[str] = []
    cursor = ""
    while True:
        page = await get(client, f"/v1/search?limit=7&cursor={cursor}")
        assert page["offset"] == len(seen)
        seen += [item["id"] for item in page["items"]]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    everything = [document.id for document in engine_of(services).documents if document.status == "live"]
    assert seen == everything


async def test_offsets_walk_through_everything_once_and_end_without_a_cursor(
    client: ClientSession, services: AppServices
) -> None:
    total = (await get(client, "/v1/search"))["total"]
    seen: list[str] = []
    for offset in range(0, total + 20, 20):
        page = await get(client, f"/v1/search?offset={offset}")
        seen += [item["id"] for item in page["items"]]
        assert (page["nextCursor"] is None) == (offset + 20 >= total)
    assert len(seen) == len(set(seen)) == total


async def test_an_offset_beyond_the_last_has_no_items(client: ClientSession) -> None:
    page = await get(client, "/v1/search?offset=1e9")
    assert (page["items"], page["offset"], page["nextCursor"]) == ([], 10_000, None)
    assert page["total"] > 0


async def test_facets_notes_and_explanations_come_when_requested(client: ClientSession) -> None:
    page = await get(client, "/v1/search?facets=type&maxPrice=5&priceCurrency=usd&explain=true")
    assert page["facets"] == {"type": [{"value": "agent", "count": 2}, {"value": "tool", "count": 1}]}
    assert "unappliedFilters" not in page
    assert page["notes"][0]["code"] == "no-rates"
    assert page["explain"]["query"]["max_price"] == "5"


async def test_a_bad_search_names_each_fault(client: ClientSession) -> None:
    async with client.get("/v1/search?type=robot&maxPrice=cheap&foo=1") as response:
        problem_body = await problem(response, 400)
    assert [(error["parameter"], error["code"]) for error in problem_body["errors"]] == [
        ("foo", "unknown-parameter"), ("type", "unknown-value"), ("maxPrice", "not-an-amount"),
    ]  # fmt: skip


async def test_a_slow_engine_is_searched_in_a_thread(serve: Serve, services: AppServices) -> None:
    threads: list[str] = []

    class Slow(FakeEngine):
        slow = True

        def search(self, query: Query) -> Hits:
            import threading

            threads.append(threading.current_thread().name)
            return super().search(query)

    client = await serve(changed(services, engine=Slow(engine_of(services).documents)))
    await get(client, "/v1/search?q=tower")
    await get(client, "/v1/suggest?q=tower")
    assert threads
    assert "MainThread" not in threads


async def test_suggestions_have_text_kind_and_perhaps_an_id(client: ClientSession) -> None:
    answer = await get(client, "/v1/suggest?q=Tower&limit=3")
    assert {"text": "security", "kind": "tag"} in answer["items"]
    assert {item.get("id") for item in answer["items"] if item["kind"] == "listing"} >= {TOWER}


# Listings


async def test_a_listing_is_found_by_its_id_however_it_is_written(client: ClientSession) -> None:
    answer = await get(client, f"/v1/listings/{TOWER}")
    assert answer["name"] == "Tower‑Guard (Minimal)"
    assert answer["cheapest"]["amount"] == "0.00045"
    for other in (TOWER.upper(), TOWER.replace("_", "."), TOWER.replace("_", ":"), TOWER.replace("_", "i")):
        assert (await get(client, f"/v1/listings/{other}"))["id"] == TOWER


async def test_burned_listings_are_readable_for_ever(client: ClientSession, services: AppServices) -> None:
    store = services.store
    assert isinstance(store, FakeStore)
    burned = [listing.state.id for listing in store.listings.values() if listing.state.status == "burned"]
    assert burned
    for id_ in burned:
        assert (await get(client, f"/v1/listings/{id_}"))["status"] == "burned"


async def test_a_server_among_several_is_found_by_its_key(client: ClientSession, services: AppServices) -> None:
    ids = [document.id for document in engine_of(services).documents if "#" in document.id]
    assert ids
    for id_ in ids:
        assert (await get(client, f"/v1/listings/{quote(id_, safe='')}"))["id"] == id_
    plain = await get(client, f"/v1/listings/{ids[0].partition('#')[0]}")
    assert plain["servers"] == ids
    answer = await get(client, f"/v1/listings/{plain['id']}%23nobody", 404)
    assert ids[0] in answer["detail"]


async def test_a_server_key_with_slashes_spaces_and_percents_is_found_encoded_once_or_twice(
    serve: Serve, services: AppServices
) -> None:
    listing = services.store.listing(TOWER)
    assert listing is not None
    body = json.dumps({"mcpServers": {"@scope/näme 100% #1": {"command": "x"}, "b": {"command": "y"}}}).encode()
    config = replace(
        listing,
        card_body=body,
        state=replace(listing.state, id="ab" * 32 + "_1", kind=Kind.TOOL, card=sha256(body).digest()),
    )
    client = await serve(with_listing(services, config))
    key = quote("@scope/näme 100% #1", safe="")
    id_ = f"{config.state.id}#{key}"
    for path in (quote(id_, safe=""), f"{config.state.id}%23{key}"):
        assert (await get(client, f"/v1/listings/{path}"))["id"] == id_
    async with client.get(raw(f"/v1/listings/{quote(id_, safe='')}/card")) as response:
        assert await response.read() == body


async def test_an_id_that_is_a_whole_url_is_found_encoded_or_not(serve: Serve, services: AppServices) -> None:
    listing = services.store.listing(TOWER)
    assert listing is not None
    url = "https://a.example/agents/history/card?x=100%25&y"
    client = await serve(with_listing(services, replace(listing, state=replace(listing.state, id=url))))
    encoded = quote(url, safe="")
    assert (await get(client, f"/v1/listings/{encoded}"))["id"] == url
    assert (await get(client, f"/v1/listings/{encoded}/history"))["id"] == url
    plain = "https://a.example/agents/x"
    client = await serve(with_listing(services, replace(listing, state=replace(listing.state, id=plain))))
    assert (await get(client, f"/v1/listings/{plain}"))["id"] == plain
    assert (await get(client, f"/v1/listings/{plain}/history"))["id"] == plain


@pytest.mark.parametrize(
    "id_", ["ff" * 32 + "_0", "nobody.example", "%00", "%ff%fe", "%0a", "%F0%9F%98%80", "a" * 5_000, "%", "..", "#"]
)
@pytest.mark.parametrize("rest", ["", "/history", "/card"])
async def test_unknown_ids_are_a_404_problem(client: ClientSession, id_: str, rest: str) -> None:
    async with client.get(raw(f"/v1/listings/{id_}{rest}")) as response:
        await problem(response, 404)


async def test_a_history_is_newest_first(client: ClientSession) -> None:
    answer = await get(client, f"/v1/listings/{TOWER}/history")
    assert answer["id"] == TOWER
    assert [revision["height"] for revision in answer["revisions"]] == [116, 115, 103]
    assert [revision["kind"] for revision in answer["revisions"]] == ["reinscribed", "moved", "inscribed"]


async def test_a_card_is_its_exact_bytes_and_can_be_checked(client: ClientSession, services: AppServices) -> None:
    listing = services.store.listing(TOWER)
    assert listing is not None
    for encoding in ("identity", "gzip"):
        async with client.get(f"/v1/listings/{TOWER}/card", headers={"Accept-Encoding": encoding}) as response:
            body = await response.read()
            assert body == listing.card_body
            digest = sha256(body).digest()
            assert response.headers["ETag"] == f'"{digest.hex()}"'
            assert response.headers["Content-Digest"] == f"sha-256=:{b64encode(digest).decode()}:"
            assert response.headers["Content-Type"] == "application/json"
            assert response.headers["Content-Security-Policy"].startswith("sandbox")
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert "Content-Encoding" not in response.headers
    async with client.get(f"/v1/listings/{TOWER}/card", headers={"If-None-Match": f'"{digest.hex()}"'}) as response:
        assert (response.status, await response.read()) == (304, b"")


async def test_a_large_card_is_never_content_coded(client: ClientSession, services: AppServices) -> None:
    store = services.store
    assert isinstance(store, FakeStore)
    largest = max(store.listings.values(), key=lambda item: len(item.card_body or b""))
    assert len(largest.card_body or b"") > 100_000
    url = f"/v1/listings/{largest.state.id}/card"
    async with client.get(url, headers={"Accept-Encoding": "gzip"}) as response:
        assert "Content-Encoding" not in response.headers
        assert await response.read() == largest.card_body


# Publishers


async def test_a_transaction_is_diagnosed_by_txid_or_outpoint(client: ClientSession) -> None:
    for what in ("AB" * 32, "ab" * 32 + "_3", "ab" * 32 + ":3"):
        answer = await get(client, f"/v1/diagnose/{what}")
        assert (answer["txid"], answer["found"]) == ("ab" * 32, False)


async def test_what_is_no_transaction_id_is_refused(client: ClientSession) -> None:
    for what in (
        "xyz",
        "ab" * 31,
        "ab" * 32 + "_",
        "ab" * 32 + "_x",
        "%00",
        "%0A",
        "a%0Ab",
        "ab" * 32 + "_99999999999",
        "é" * 64,
    ):
        async with client.get(f"/v1/diagnose/{what}") as response:
            assert (await problem(response, 400))["errors"][0]["parameter"] == "what"


async def test_a_raw_transaction_is_diagnosed(client: ClientSession) -> None:
    async with client.post("/v1/diagnose", json={"rawTx": "01000000"}) as response:
        assert (await response.json())["where"] == "raw"


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        (b"", "", "not-json"),
        (b"\xff", "", "not-json"),
        (b"[" * 100_000, "", "not-json"),
        (b"[]", "", "not-an-object"),
        (b"{}", "/rawTx", "missing"),
        (b'{"rawTx":7}', "/rawTx", "wrong-type"),
        (b'{"rawTx":"zz"}', "/rawTx", "not-hex"),
        (b'{"rawTx":"0"}', "/rawTx", "not-hex"),
        (b'{"rawTx":"\\ud800"}', "", "not-json"),
        (b'{"rawTx":"00","more":1}', "/more", "unknown-member"),
        (b'{"rawTx":"00"}', "/rawTx", "not-a-transaction"),
    ],
)
async def test_what_is_no_raw_transaction_is_refused(
    client: ClientSession, body: bytes, pointer: str, code: str
) -> None:
    async with client.post("/v1/diagnose", data=body) as response:
        problem_body = await problem(response, 400)
    assert [(error["pointer"], error["code"]) for error in problem_body["errors"]] == [(pointer, code)]


async def test_a_body_that_is_no_object_is_refused_in_plain_words(client: ClientSession) -> None:
    async with client.post("/v1/diagnose", data=b"[]") as response:
        detail = (await problem(response, 400))["detail"]
    assert detail == "the body: not an object; the body is a JSON object with rawTx"


async def test_a_hundred_faults_of_a_body_are_named_and_the_others_counted(client: ClientSession) -> None:
    async with client.post("/v1/diagnose", json={"rawTx": "00"} | dict.fromkeys(map(str, range(5_000)), 1)) as response:
        refused = await problem(response, 400)
    assert len(refused["errors"]) == 100
    assert refused["detail"].endswith("; and 4995 more")


async def test_a_card_is_checked_before_it_is_published(client: ClientSession) -> None:
    card = {"name": "A", "url": "https://a.example", "skills": [{"id": "s"}]}
    async with client.post("/v1/check", json=card) as response:
        body = await response.json()
    assert (body["ok"], body["errors"], body["preview"]["name"]) == (True, [], "A")
    async with client.post("/v1/check?type=tool", json=card) as response:
        assert not (await response.json())["ok"]
    async with client.post("/v1/check?type=robot", json=card) as response:
        await problem(response, 400)


async def test_a_card_over_a_mebibyte_is_answered_and_a_body_over_two_is_refused(client: ClientSession) -> None:
    async with client.post("/v1/check", data=BytesIO(b" " * (3 << 19))) as response:
        assert (await response.json())["errors"][0]["code"] == "card-size"
    async with client.post("/v1/check", data=BytesIO(b" " * ((2 << 20) + 1))) as response:
        await problem(response, 413)


async def test_a_body_of_50_megabytes_is_refused_before_it_is_read(
    services: AppServices, client: ClientSession
) -> None:
    announced = await talk(client, b"POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: 52428800\r\n\r\n{")
    assert announced.startswith(b"HTTP/1.1 413 ")
    assert b"application/problem+json" in announced


@pytest.mark.parametrize("path", ["/v1/check", "/v1/diagnose", "/v1/ingest", "/publish"])
@pytest.mark.parametrize("coding", ["gzip", "x-gzip", "deflate", "br", "zstd", "GZIP, identity"])
async def test_a_compressed_body_is_refused_unread(client: ClientSession, path: str, coding: str) -> None:
    for body in (gzip.compress(b" " * (1 << 20)), b"abcde"):
        async with client.post(path, data=body, headers={"Content-Encoding": coding}) as response:
            assert "send it as it is" in (await problem(response, 415))["detail"]
            assert response.headers["Accept-Encoding"] == "identity"


async def test_nothing_is_inflated_that_nobody_reads(client: ClientSession, monkeypatch: pytest.MonkeyPatch) -> None:
    inflating: list[object] = []
    real = ZLibDecompressor.__init__

    def noted(self: ZLibDecompressor, *supplied: Any, **more: Any) -> None:
        inflating.append(self)
        real(self, *supplied, **more)

    monkeypatch.setattr(ZLibDecompressor, "__init__", noted)
    headers = {"Content-Encoding": "gzip"}
    async with client.post("/nope", data=gzip.compress(b" " * (1 << 20)), headers=headers) as response:
        await problem(response, 404)
    assert not inflating


async def test_a_body_that_does_not_arrive_is_not_waited_for(
    client: ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("overlay.api.answers.BODY_SECONDS", 0.05)
    got = await talk(client, b"POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
    assert got.startswith(b"HTTP/1.1 408 ")
    assert b"not whole after 0.05 s" in got


# Operation


async def test_changes_are_read_without_gaps(client: ClientSession, services: AppServices) -> None:
    store = services.store
    assert isinstance(store, FakeStore)
    seqs: list[int] = []
    since, more = 0, True
    while more:
        answer = await get(client, f"/v1/changes?since={since}&limit=10")
        seqs += [row["seq"] for row in answer["changes"]]
        assert all(row["epoch"] == answer["epoch"] == "epoch-1" for row in answer["changes"])
        since, more = answer["nextSince"], answer["more"]
    assert seqs == list(range(1, len(store.listings) + 1))
    assert (await get(client, f"/v1/changes?since={since}"))["changes"] == []


async def test_a_cursor_of_another_database_is_reset(client: ClientSession) -> None:
    for query in ("since=99999", "since=3&epoch=another"):
        answer = await get(client, f"/v1/changes?{query}")
        assert [row["op"] for row in answer["changes"]] == ["reset"]
        assert (answer["nextSince"], answer["more"]) == (0, True)


async def test_bad_parameters_of_the_feed_are_refused(client: ClientSession) -> None:
    for query in ("since=-1", "since=x", "limit=x", "after=3"):
        async with client.get(f"/v1/changes?{query}") as response:
            await problem(response, 400)


async def test_health_and_readiness(serve: Serve, services: AppServices) -> None:
    client = await serve(changed(services, ready=lambda: "the index is being built"))
    assert (await get(client, "/healthz"))["status"] == "ok"
    async with client.get("/readyz") as response:
        assert (await problem(response, 503))["detail"] == "the index is being built"
        assert response.headers["Retry-After"] == "5"
    lagging = changed(services, unread=lambda: 7, degraded=lambda: ["index-behind"])
    assert (await get(await serve(lagging), "/readyz")) == {
        "status": "ready", "version": services.process.version, "behind": 7, "degraded": ["index-behind"],
    }  # fmt: skip


async def test_the_status_is_what_the_indexer_says(client: ClientSession, services: AppServices) -> None:
    assert await get(client, "/v1/status") == services.process.status()


@pytest.mark.parametrize(
    ("query", "comparison"),
    [
        ("sort=price", "amount"),
        ("sort=price_per_day", "per-day"),
        ("sort=-price_per_day&maxPrice=5", "per-day"),
        ("sort=price&interval=month", "per-day"),
        ("sort=price&interval=none", "amount"),
        ("maxPrice=5&interval=month", "amount"),
        ("maxPrice=5&priceCurrency=USD", "amount"),
        ("interval=month", None),
        ("", None),
    ],
)
async def test_a_page_says_how_prices_are_compared(client: ClientSession, query: str, comparison: str | None) -> None:
    page = await get(client, f"/v1/search?{query}")
    assert page.get("priceComparison") == comparison
    async with client.get(f"/?{query}", headers={"Accept": "text/html"}) as response:
        body = await response.text()
    assert ("Prices are compared per day" in body) == (comparison == "per-day")
    assert ("Prices are compared as amounts" in body) == (comparison == "amount")
    is_apart = comparison is not None and "priceCurrency" not in query
    assert ("prices in different currencies are not compared" in body) == is_apart


async def test_a_search_cluster_that_does_not_respond_is_a_503_that_says_when_to_retry(
    client: ClientSession, services: AppServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(query: Query) -> Hits:
        raise UnavailableError("opensearch:http://127.0.0.1:9/a2b does not answer")

    monkeypatch.setattr(services.engine, "search", away)
    async with client.get("/v1/search?q=tower") as response:
        detail = (await problem(response, 503))["detail"]
    assert response.headers["Retry-After"] == "1"
    assert detail == "the search index does not respond; try again in a moment"  # and no address of the operator's
    monkeypatch.undo()
    assert (await get(client, "/v1/search?q=tower"))["total"]


async def test_a_search_cluster_that_refuses_requests_is_a_503_and_an_error_in_the_log(
    client: ClientSession, services: AppServices, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(query: Query) -> Hits:
        raise EngineError("opensearch:http://127.0.0.1:9/a2b refuses these credentials (401)")

    monkeypatch.setattr(services.engine, "search", refuse)
    async with client.get("/v1/search?q=tower") as response:
        detail = (await problem(response, 503))["detail"]
    assert response.headers["Retry-After"] == "30"
    assert "127.0.0.1" not in detail
    assert "refuses these credentials (401)" in caplog.text


async def test_a_cursor_that_cannot_lead_on_is_refused(
    client: ClientSession, services: AppServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = await get(client, "/v1/search?limit=1")

    def stale(query: Query) -> Hits:
        assert query.after is not None
        raise StaleCursorError

    monkeypatch.setattr(services.engine, "search", stale)
    async with client.get(f"/v1/search?limit=1&cursor={page['nextCursor']}") as response:
        (fault,) = (await problem(response, 400))["errors"]
    assert (fault["code"], fault["parameter"]) == ("cursor-expired", "cursor")
    assert "sort=updated" in fault["detail"]
