"""ARD over the sample chain: what the recorded clients sent, and what the specification says of the answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from overlay.api.problems import BadRequestError
from overlay.systems.ard.ard_requests import expression, order
from overlay.systems.ard.catalog_entries import identifier, listing_id
from parsers.cards import server_id
from tests.overlay.calls import local_http, post_json, read_json
from tests.overlay.protocols.vectors import api_page, recorded, send

MCP, A2A = "application/mcp-server-card+json", "application/a2a-agent-card+json"


def search(url: str, text: str, **more: Any) -> dict[str, Any]:
    query = {"text": text} | ({"filter": more.pop("filter")} if "filter" in more else {})
    answer: dict[str, Any] = post_json(f"{url}/search", {"query": query, **more})
    return answer


def everything(url: str, text: str, **more: Any) -> list[dict[str, Any]]:
    """All results, page by page."""
    results, token = [], None
    while True:
        page = search(url, text, **more, **({"pageToken": token} if token else {}))
        results += page["results"]
        token = page.get("pageToken")
        if not token:
            return results


def catalog_schema(shared: Path, name: str | None = None) -> Draft202012Validator:
    schema = json.loads((shared / "data" / "specs" / "ai-catalog.schema.json").read_text())
    subschema = schema if name is None else {"$ref": f"#/$defs/{name}", "$defs": schema["$defs"]}
    return Draft202012Validator(subschema, format_checker=Draft202012Validator.FORMAT_CHECKER)


@pytest.mark.parametrize("client", ["ard_conformance", "ard_sdk"])
def test_recorded_requests_are_answered(overlay_url: str, shared: Path, client: str) -> None:
    for request in recorded(shared, client):
        response = send(overlay_url, request)
        if "no.such.path" in request.body:
            assert response.status_code == 400
            assert response.json()["errorCode"] == "INVALID_ARGUMENT"
            assert "no.such.path" in response.json()["message"]
        else:
            assert response.status_code == 200, response.text


def test_entries_and_manifest_fit_the_schema(overlay_url: str, shared: Path) -> None:
    entries = local_http.get(f"{overlay_url}/agents", params={"pageSize": 100}).json()["items"]
    assert len(entries) > 30
    for entry in [*entries, *search(overlay_url, "weather", pageSize=100)["results"]]:
        catalog_schema(shared, "catalogEntry").validate(entry)
    catalog_schema(shared).validate(read_json(f"{overlay_url}/.well-known/ai-catalog.json"))


def test_totals_ids_and_order_are_those_of_the_api(overlay_url: str) -> None:
    for text in ("weather", "a", ""):
        items = api_page(overlay_url, q=text, limit=100)["items"]
        results = everything(overlay_url, text, pageSize=3)
        assert [result["metadata"]["id"] for result in results] == [item["id"] for item in items]
        scores = [result["score"] for result in results]
        assert all(0 <= score <= 100 for score in scores)
        assert not scores or scores[0] == max(scores)
    listed = local_http.get(f"{overlay_url}/agents", params={"pageSize": 100}).json()
    assert listed["total"] == api_page(overlay_url)["total"] == len(listed["items"])


def test_an_entry_leads_to_the_exact_card_and_to_itself(overlay_url: str) -> None:
    for result in search(overlay_url, "calendar contacts", pageSize=5)["results"]:
        card = local_http.get(result["url"])
        assert card.status_code == 200
        [source] = result["trustManifest"]["provenance"]
        assert card.headers["ETag"].strip('"') == source["sourceDigest"].removeprefix("sha256:")
        entry = read_json(f"{overlay_url}/agents/{result['identifier']}")
        assert entry["metadata"]["id"] == result["metadata"]["id"]
        proof = result["trustManifest"]["attestations"][0]["uri"]
        assert read_json(proof)["txid"] == result["metadata"]["txid"]


def test_filters_select_by_every_constraint(overlay_url: str) -> None:
    tools = everything(overlay_url, "", filter={"type": MCP}, pageSize=100)
    assert len(tools) == api_page(overlay_url, type="tool")["total"]
    assert {tool["type"] for tool in tools} == {MCP}
    both = everything(overlay_url, "", filter={"type": [MCP, A2A]}, pageSize=100)
    assert len(both) == api_page(overlay_url)["total"]
    tagged = search(overlay_url, "", filter={"type": [A2A], "tags": ["lightning"]})["results"]
    assert tagged
    assert all("lightning" in entry["tags"] for entry in tagged)
    capable = search(overlay_url, "", filter={"capabilities": ["watchChannels", "query"]}, pageSize=100)["results"]
    assert {kind["type"] for kind in capable} == {MCP, A2A}
    publisher = capable[0]["identifier"].split(":")[2]
    assert search(overlay_url, "", filter={"publisher": publisher})["results"]
    assert search(overlay_url, "", filter={"metadata.chain": "bsv:regtest"})["results"]


@pytest.mark.parametrize(
    "filters", [{"type": "application/ai-registry+json"}, {"publisher": ["acme.com"]}, {"metadata.chain": "eip155:1"}]
)
def test_filters_that_nothing_can_satisfy_find_nothing(overlay_url: str, filters: dict[str, Any]) -> None:
    assert search(overlay_url, "weather", filter=filters) == {"results": []}
    body = {"query": {"filter": filters}, "resultType": {"facets": [{"field": "tags"}]}}
    assert local_http.post(f"{overlay_url}/explore", json=body).json()["facets"] == {"tags": {"buckets": []}}


def test_referrals_are_none(overlay_url: str) -> None:
    assert search(overlay_url, "weather", federation="referrals")["referrals"] == []
    assert "referrals" not in search(overlay_url, "weather", federation="auto")


def explore(url: str, *facets: dict[str, Any], **query: Any) -> Any:
    body = {"query": query, "resultType": {"facets": list(facets)}}
    response = local_http.post(f"{url}/explore", json=body)
    assert response.status_code == 200, response.text
    assert response.json()["resultType"] == "facets"
    return response.json()["facets"]


def test_facets_count_what_search_finds(overlay_url: str) -> None:
    types = explore(overlay_url, {"field": "type"})["type"]
    counts = {bucket["value"]: bucket["count"] for bucket in types["buckets"]}
    assert counts == {
        media: api_page(overlay_url, type=kind)["total"] for media, kind in ((MCP, "tool"), (A2A, "agent"))
    }
    [only] = explore(overlay_url, {"field": "type"}, text="weather", filter={"type": MCP})["type"]["buckets"]
    assert only == {"value": MCP, "count": api_page(overlay_url, q="weather", type="tool")["total"]}
    tags = explore(overlay_url, {"field": "tags", "limit": 2}, text="weather")["tags"]
    for bucket in tags["buckets"]:
        assert bucket["count"] == api_page(overlay_url, q="weather", tag=bucket["value"])["total"]
    every = explore(overlay_url, {"field": "tags", "limit": 1000}, text="weather")["tags"]
    assert tags["otherCount"] == sum(bucket["count"] for bucket in every["buckets"][2:])
    frequent = explore(overlay_url, {"field": "tags", "minCount": 2}, text="weather")["tags"]["buckets"]
    assert frequent == [bucket for bucket in every["buckets"] if bucket["count"] >= 2]
    chains = explore(overlay_url, {"field": "metadata.chain"}, {"field": "publisher"})
    assert chains["metadata.chain"]["buckets"] == [{"value": "bsv:regtest", "count": api_page(overlay_url)["total"]}]
    assert chains["publisher"]["buckets"][0]["count"] == api_page(overlay_url)["total"]


def test_lists_are_filtered_by_expression_and_ordered(overlay_url: str) -> None:
    def listed(**parameters: str) -> list[dict[str, Any]]:
        response = local_http.get(f"{overlay_url}/agents", params={"pageSize": "100", **parameters})
        assert response.status_code == 200, response.text
        items: list[dict[str, Any]] = response.json()["items"]
        return items

    names = [entry["displayName"].casefold() for entry in listed(orderBy="displayName")]
    assert names == sorted(names)
    updated = [entry["updatedAt"] for entry in listed(orderBy="updatedAt DESC")]
    assert updated == sorted(updated, reverse=True)
    middle = updated[len(updated) // 2]
    later = listed(filter=f"type = '{MCP},{A2A}' AND updatedAt > '{middle}'")
    assert {entry["updatedAt"] for entry in later} == {time for time in updated if time > middle}
    assert {entry["type"] for entry in listed(filter=f'type = "{MCP}"')} == {MCP}
    page = local_http.get(f"{overlay_url}/agents", params={"pageSize": 4}).json()
    following = local_http.get(f"{overlay_url}/agents", params={"pageSize": 4, "pageToken": page["pageToken"]}).json()
    assert len({entry["identifier"] for entry in page["items"] + following["items"]}) == 8


def test_reads_are_conditional(overlay_url: str) -> None:
    for path in ("/agents?pageSize=3", "/.well-known/ai-catalog.json"):
        response = local_http.get(overlay_url + path)
        again = local_http.get(overlay_url + path, headers={"If-None-Match": response.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ('{"query": {"text": "a"}, "page": 1}', "page"),
        ('{"query": {}}', "text"),
        ('{"query": {"text": "a", "filter": {"type": 1}}}', "type"),
        ('{"query": {"text": "a"}, "federation": "all"}', "federation"),
        ('{"query": {"text": "a"}, "pageSize": 0}', "pageSize"),
        ('{"query": {"text": "a"}, "pageToken": "nobody"}', "cursor"),
        ("[", "body"),
        ("[" * 20_000, "body"),
    ],
)
def test_bad_bodies_are_named_in_the_protocols_own_error(overlay_url: str, body: str, named: str) -> None:
    response = local_http.post(f"{overlay_url}/search", content=body)
    assert response.status_code == 400
    assert response.json().keys() == {"errorCode", "message"}
    assert response.json()["errorCode"] == "INVALID_ARGUMENT"
    assert named in response.json()["message"]


def test_other_errors_have_the_protocols_shape(overlay_url: str) -> None:
    for response, status, code in (
        (local_http.get(f"{overlay_url}/agents/urn:air:a.example:a2b:{'0' * 64}_0"), 404, "NOT_FOUND"),
        (local_http.post(f"{overlay_url}/search", content=b" " * 70_000), 413, "INVALID_ARGUMENT"),
        (local_http.get(f"{overlay_url}/agents?orderBy=stars"), 400, "INVALID_ARGUMENT"),
        (local_http.get(f"{overlay_url}/agents?filter=type"), 400, "INVALID_ARGUMENT"),
        (local_http.get(f"{overlay_url}/agents?filter=stars%3D'1'"), 400, "INVALID_ARGUMENT"),
    ):
        assert response.status_code == status
        assert response.json()["errorCode"] == code
        assert response.json()["message"]


def test_a_config_of_several_servers_names_its_entries(overlay_url: str) -> None:
    item = next(item for item in api_page(overlay_url, q="calendar")["items"] if "#" in item["id"])
    response = local_http.get(f"{overlay_url}/agents/{item['id'].partition('#')[0]}")
    assert response.status_code == 404
    named = [word for word in response.json()["message"].replace(",", "").split() if word.startswith("urn:air:")]
    assert len(named) == 2
    assert {read_json(f"{overlay_url}/agents/{urn}")["displayName"] for urn in named} == {
        "Calendar",
        "Contacts",
    }


@given(st.text(min_size=1, max_size=40))
def test_a_urn_gives_back_the_id_that_it_was_made_from(key: str) -> None:
    servers = [server_id("ab" * 32 + end, key, 2) for end in ("_0", "_0#3")]
    for id_ in ("ab" * 32 + "_7", "ab" * 32 + "_7#12", *servers, key.replace("#", ""), "eip155:1:0xab:7"):
        if id_:
            assert listing_id(identifier("http://a.example:80", id_)) == id_


@pytest.mark.parametrize("text", ["type", "type = mcp", "name > 'a'", "type = 'a' OR type = 'b'", "updatedAt > 'noon'"])
def test_expressions_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(BadRequestError, match="filter"):
        expression(text, "a.example", {})


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59-12:00"])
def test_a_time_at_the_end_of_dates_is_the_last_one(text: str) -> None:
    for operator in (">", ">="):
        pairs = expression(f"updatedAt {operator} '{text}'", "a2b", {}).pairs
        assert ("updatedSince", "9999-12-31T23:59:59Z") in pairs


def test_orders_that_are_none_are_refused() -> None:
    for text in ("name UP", "stars", "name ASC DESC"):
        with pytest.raises(BadRequestError, match="orderBy"):
            order(text)
