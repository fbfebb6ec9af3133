"""The MCP Registry API over the sample chain: recorded requests, versions, cursors, tombstones, errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from overlay.listings import lookup
from overlay.listings.repository import ListingRepository
from overlay.systems.mcp_registry import server_pages
from overlay.systems.mcp_registry.server_pages import ServerQuery, fill, wanted_versions
from overlay.systems.mcp_registry.server_versions import versions
from parsers import cards
from tests.chainkit import ChainKit, tool
from tests.fakes import MemoryChain
from tests.indexing import empty, fresh
from tests.overlay.calls import local_http, read_json
from tests.overlay.protocols.official_oracle import issues
from tests.overlay.protocols.test_server_json import schema
from tests.overlay.protocols.vectors import api_page, recorded, send
from tests.steps import statements_of

__all__ = ["empty"]

OFFICIAL, INSCRIPTION = "io.modelcontextprotocol.registry/official", "network.a2b/inscription"
GIT, BURNED = "network.a2b.17b01dbf423e/Git-History", "network.a2b.c4678a9e4830/PDF-Extractor"


def pages(url: str, **parameters: Any) -> Iterator[list[dict[str, Any]]]:
    """The pages of a list."""
    cursor = ""
    while True:
        page = read_json(f"{url}/v0.1/servers", **parameters, **({"cursor": cursor} if cursor else {}))
        assert page["metadata"]["count"] == len(page["servers"]) <= parameters.get("limit", 30)
        yield page["servers"]
        cursor = page["metadata"].get("nextCursor")
        if not cursor:
            return


def keys(url: str, **parameters: Any) -> list[tuple[str, str]]:
    """Names and versions of a list, page by page."""
    rows = [row["server"] for page in pages(url, **parameters) for row in page]
    return [(row["name"], row["version"]) for row in rows]


def test_recorded_requests_of_real_clients_are_answered(overlay_url: str, shared: Path) -> None:
    for request in recorded(shared, "mcp_registry"):
        for mount in ("", "/registry"):
            response = send(overlay_url + mount, request)
            assert response.status_code == 200, f"{request.target}: {response.text}"
            assert "PDF-Extractor-reborn" in response.text or "Extractor" not in request.target


@pytest.mark.parametrize("version", [None, "latest"])
@pytest.mark.parametrize("deleted", [None, "true"])
def test_pages_of_any_size_hold_the_same(overlay_url: str, version: str | None, deleted: str | None) -> None:
    narrowed = {name: value for name, value in (("version", version), ("include_deleted", deleted)) if value}
    whole = keys(overlay_url, limit=100, **narrowed)
    assert len(whole) == len(set(whole))
    for limit in (1, 2, 3, 7):
        assert keys(overlay_url, limit=limit, **narrowed) == whole


def test_latest_versions_are_the_tools_of_the_api(overlay_url: str) -> None:
    items = {item["id"]: item for item in api_page(overlay_url, type="tool", status="live", limit=100)["items"]}
    rows = [row for page in pages(overlay_url, version="latest", limit=100) for row in page]
    assert {row["_meta"][INSCRIPTION]["id"] for row in rows} == items.keys()
    for row in rows:
        inscription = row["_meta"][INSCRIPTION]
        item = items[inscription["id"]]
        assert row["_meta"][OFFICIAL]["isLatest"]
        assert row["_meta"][OFFICIAL]["status"] == "active"
        assert inscription["cardSha256"] == item["cardSha256"]
        assert inscription["owner"] == item["owner"]
        assert row["_meta"][OFFICIAL]["publishedAt"] == item["timestamp"]
        assert read_json(inscription["url"])["id"] == inscription["id"]


def test_every_server_fits_the_schema_and_is_found_by_its_name(overlay_url: str, shared: Path) -> None:
    for row in (row for page in pages(overlay_url, include_deleted="true") for row in page):
        server = row["server"]
        schema(shared).validate(server)
        assert issues(server) == []
        for name in (quote(server["name"], safe=""), server["name"]):
            path = f"/v0/servers/{name}/versions/{server['version']}"
            assert read_json(overlay_url + path, include_deleted="true") == row


def test_revisions_are_versions(overlay_url: str) -> None:
    rows = read_json(f"{overlay_url}/v0.1/servers/{quote(GIT, safe='')}/versions")["servers"]
    assert [row["server"]["version"] for row in rows] == ["0.0.2", "0.0.1"]
    new, old = (row["_meta"][OFFICIAL] for row in rows)
    assert (new["isLatest"], old["isLatest"]) == (True, False)
    assert old["updatedAt"] == new["publishedAt"] > old["publishedAt"]
    assert "Release 2." in rows[0]["server"]["description"]
    assert "Release" not in rows[1]["server"]["description"]
    revisions = read_json(f"{overlay_url}/v1/listings/{rows[0]['_meta'][INSCRIPTION]['id']}/history")["revisions"]
    assert [row["_meta"][INSCRIPTION]["txid"] for row in rows] == [revision["txid"] for revision in revisions]
    latest = read_json(f"{overlay_url}/v0.1/servers/{quote(GIT, safe='')}/versions/latest")
    assert latest == rows[0] == read_json(f"{overlay_url}/v0.1/servers/{quote(GIT, safe='')}")
    assert (GIT, "0.0.1") in keys(overlay_url, version="0.0.1")


def test_burned_servers_are_tombstones(overlay_url: str) -> None:
    assert BURNED not in dict(keys(overlay_url))
    for path in (f"/v0/servers/{quote(BURNED, safe='')}/versions", f"/v0/servers/{BURNED}/versions/latest"):
        assert "burned" in read_json(overlay_url + path, 404)["detail"]
        assert read_json(overlay_url + path, include_deleted="true")
    row = read_json(f"{overlay_url}/v0/servers/{BURNED}/versions/latest", include_deleted="true")["_meta"][OFFICIAL]
    assert row["status"] == "deleted"
    assert row["statusChangedAt"] == row["updatedAt"] > row["publishedAt"]


def test_a_mirror_reads_what_changed_since_a_time(overlay_url: str) -> None:
    every = [row for page in pages(overlay_url, include_deleted="true", limit=100) for row in page]
    times = sorted({row["_meta"][OFFICIAL]["updatedAt"] for row in every})
    assert len(times) == 3
    for since in times:
        changed = {
            (row["server"]["name"], row["server"]["version"])
            for row in every
            if row["_meta"][OFFICIAL]["updatedAt"] >= since
        }
        for limit in (1, 2, 100):
            rows = keys(overlay_url, updated_since=since, limit=limit)
            assert set(rows) == changed
            assert len(rows) == len(changed)


def test_searching_a_name_finds_it(overlay_url: str) -> None:
    assert keys(overlay_url, search=GIT) == [(GIT, "0.0.2"), (GIT, "0.0.1")]
    assert keys(overlay_url, search=GIT.partition("/")[0], version="latest") == [(GIT, "0.0.2")]
    assert keys(overlay_url, search="network.a2b.000000000000") == []
    full = api_page(overlay_url, q="Git History")["items"][0]["id"].partition("_")[0]
    renamed = read_json(f"{overlay_url}/v0/servers/network.a2b.{full}/Git-History/versions/latest")
    assert renamed["server"]["name"] == GIT


def test_reads_are_conditional(overlay_url: str) -> None:
    for path in ("/v0.1/servers", f"/v0/servers/{GIT}/versions", "/registry/openapi.yaml"):
        tag = local_http.get(overlay_url + path).headers["ETag"]
        again = local_http.get(overlay_url + path, headers={"If-None-Match": tag})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("limit=0", "limit"), ("limit=101", "limit"), ("limit=x", "limit"), ("cursor=nobody", "cursor"),
        ("cursor=1~1~1", "cursor"), ("updated_since=noon", "updated_since"), ("page=2", "page"),
        ("updated_since=2020-01-01&include_deleted=false", "include_deleted"),
    ],
)  # fmt: skip
def test_bad_parameters_are_named_in_the_registrys_own_error(overlay_url: str, query: str, named: str) -> None:
    response = local_http.get(f"{overlay_url}/v0.1/servers?{query}")
    assert response.status_code == 400
    assert response.headers["Content-Type"] == "application/problem+json"
    problem = response.json()
    assert problem["status"] == 400
    assert problem["errors"][0]["location"] == f"query.{named}"


@pytest.mark.parametrize(
    "name",
    [
        "nobody", "com.example/a", "network.a2b.17b01dbf423e/Git", "network.a2b.17b0/Git-History",
        "network.a2b.id.-ff/a", "network.a2b.id./a", "network.a2b.17b01dbf423e.1/Git-History", "%00",
        "network.a2b.id.a%0A/x",
    ],
)  # fmt: skip
def test_unknown_names_are_not_found(overlay_url: str, name: str) -> None:
    for rest in ("", "/versions", "/versions/latest"):
        problem = read_json(f"{overlay_url}/v0.1/servers/{name}{rest}", 404)
        assert problem["title"] == "Not Found"
    assert read_json(f"{overlay_url}/v0.1/servers/{GIT}/versions/9.9.9", 404)["detail"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "publish"), ("DELETE", f"servers/{quote(GIT, safe='')}/versions/0.0.1"),
        ("PUT", f"servers/{quote(GIT, safe='')}/versions/0.0.1"),
        ("PATCH", f"servers/{quote(GIT, safe='')}/versions/0.0.1/status"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("root", ["v0", "v0.1", "registry/v0.1"])
def test_it_is_read_only_and_says_how_to_publish(overlay_url: str, root: str, method: str, path: str) -> None:
    response = local_http.request(method, f"{overlay_url}/{root}/{path}", json={})
    assert response.status_code == 501
    assert response.headers["Content-Type"] == "application/problem+json"
    assert "a2b-mcp" in response.json()["detail"]
    assert response.json()["error"] == response.json()["detail"]  # the member of the registry's OpenAPI document


def test_its_document_names_its_routes(overlay_url: str) -> None:
    document = json.loads(local_http.get(f"{overlay_url}/registry/openapi.yaml").text)
    assert document["info"]["version"] == "1.0.0"
    assert document["servers"] == [{"url": f"{overlay_url}/registry"}]
    assert "/v0.1/servers/{server}/versions/{version}" in document["paths"]
    assert not [path for path in document["paths"] if path.startswith("/v1/")]


def test_health(overlay_url: str) -> None:
    for root in ("/v0", "/registry/v0.1"):
        assert read_json(f"{overlay_url}{root}/health") == {"status": "ok"}
        assert read_json(f"{overlay_url}{root}/ping") == {"pong": True}
        assert read_json(f"{overlay_url}{root}/version")["version"]


async def test_a_page_of_servers_is_read_in_as_many_statements_as_two(empty: Path) -> None:
    kit = ChainKit()
    block = kit.mine(*(kit.inscribe(tool(f"clock {number}"), type="a2b-mcp") for number in range(8)))
    with fresh(empty, MemoryChain(*kit.blocks, name="live")) as indexing:
        await indexing.catch_up()
        repository, ids = ListingRepository(indexing.store), sorted(indexing.live("live"))
        assert (len(ids), block.height) == (8, 2)

        def statements(some: list[str]) -> int:
            def read() -> None:
                rows = [row for of_one in wanted_versions(repository, some, ServerQuery()) for row in of_one]
                assert len(rows) == len(some)

            return statements_of(indexing.store.engine, read)

        assert statements(ids) <= 12  # chains are remembered from now on
        assert statements(ids) == statements(ids[:2])


async def test_a_page_reads_few_bytes_of_cards_at_once_and_ends_where_it_read_many(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = ChainKit()
    first = [kit.inscribe(tool(f"clock {number}", description="x" * 1_000), type="a2b-mcp") for number in range(8)]
    kit.mine(*first)
    kit.mine(*(kit.update(tx, tool(f"clock {number}", description="y" * 1_000)) for number, tx in enumerate(first)))
    monkeypatch.setattr(server_pages, "CARD_BYTES", 5_000)
    monkeypatch.setattr(server_pages, "PAGE_BYTES", 9_000)
    with fresh(empty, MemoryChain(*kit.blocks, name="live")) as indexing:
        await indexing.catch_up()
        repository, ids = ListingRepository(indexing.store), sorted(indexing.live("live"))
        read: list[int] = []
        listings, cards = repository.listings, type(repository.store.content).cards

        def counted(content: Any, digests: Any) -> dict[bytes, bytes]:
            bodies = cards(content, digests)
            read.append(sum(map(len, bodies.values())))
            return bodies

        monkeypatch.setattr(type(repository.store.content), "cards", counted)
        assert listings(ids)
        in_all = read.pop()
        assert in_all > 16_000
        groups = list(wanted_versions(repository, ids, ServerQuery()))
        assert max(read) < 8_000
        assert 1 < len(groups) < len(ids)
        assert [len(group) for group in groups] == [2] * len(groups)
        rows, cut = fill(100, 1, len(ids), iter(groups))
        assert (len(rows), cut) == (2 * len(groups) - 1, (len(groups), 0))


async def test_the_earlier_cards_of_a_config_are_read_once_for_all_its_servers(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = ChainKit()
    configs = [
        {"mcpServers": {f"s{key}": {"command": "npx", "args": [f"tool@{number}"]} for key in range(5)}}
        for number in range(1, 4)
    ]
    tx = kit.inscribe(configs[0], type="a2b-mcp")
    kit.mine(tx)
    last = tx
    for config in configs[1:]:
        last = kit.update(last, config)
        kit.mine(last)
    with fresh(empty, MemoryChain(*kit.blocks, name="live")) as indexing:
        await indexing.catch_up()
        repository = ListingRepository(indexing.store)
        listings, examined = lookup.listings(repository, str(tx)), list[bytes]()
        examine = cards.examine

        def counted(body: bytes, kind: Any) -> Any:
            examined.append(body)
            return examine(body, kind)

        monkeypatch.setattr(cards, "examine", counted)
        of_each = versions(repository, listings)
        assert [len(rows) for rows in of_each] == [3] * 5
        assert len(examined) == 2
