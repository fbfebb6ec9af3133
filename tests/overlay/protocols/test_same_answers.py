"""One search through every protocol: the same listings in the same order, and the same totals where there are any."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import pytest

from overlay.client import OverlayClient
from tests.overlay.calls import post_json, read_json
from tests.overlay.protocols.vectors import api_page

LIMIT = 50
QUESTIONS = ("watchtower", "dex chart", "clause summariser", "agent", "trial", "zzqxjkv")
Answer = tuple[list[str], int | None]
"""Ids in order, and the total, None where the protocol has none."""


def a2a_page(url: str, **parameters: Any) -> dict[str, Any]:
    part = {"kind": "data", "data": {"limit": LIMIT} | parameters}
    message = {"kind": "message", "messageId": "m", "role": "user", "parts": [part]}
    call = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
    [data] = [part["data"] for part in post_json(f"{url}/a2a", call)["result"]["parts"] if part["kind"] == "data"]
    return dict(data)


def a2a(url: str, words: str) -> Answer:
    data = a2a_page(url, q=words)
    return [item["id"] for item in data["items"]], data["total"]


def ard(url: str, words: str) -> Answer:
    """ARD's search has no total."""
    entries = post_json(f"{url}/search", {"query": {"text": words}, "pageSize": LIMIT})["results"]
    return [entry["metadata"]["id"] for entry in entries], None


def bsv(url: str, words: str) -> Answer:
    """An answer to a lookup has no total."""
    query = {"q": words, "limit": LIMIT}
    outputs = post_json(f"{url}/lookup", {"service": "ls_agent_registry", "query": query})["outputs"]
    return [json.loads(bytes(output["context"]))["id"] for output in outputs], None


def mcp_page(url: str, **parameters: Any) -> dict[str, Any]:
    params = {"name": "search", "arguments": {"limit": LIMIT} | parameters}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    result = post_json(f"{url}/mcp", call, Accept="application/json, text/event-stream")["result"]
    return dict(result["structuredContent"])


def mcp(url: str, words: str) -> Answer:
    page = mcp_page(url, q=words)
    return [item["id"] for item in page["items"]], page["total"]


def mrp(url: str, words: str) -> Answer:
    message = {
        "mrp_version": "0.1", "msg_id": str(uuid4()), "msg_type": "DISCOVER",
        "timestamp": datetime.now(UTC).isoformat(),
        "sender": {"id": "agent:test/one"}, "payload": {"intent": words},
    }  # fmt: skip
    payload = post_json(f"{url}/mrp/discover", message)["payload"]
    return [offer["listing"] for offer in payload["offers"]], payload["page"]["total"]


def feed(url: str, words: str) -> Answer:
    """A feed has no total."""
    items = read_json(f"{url}/v1/feeds/search.json", q=words, limit=LIMIT)["items"]
    return [unquote(item["url"].rpartition("/")[2]) for item in items], None


SYSTEMS: dict[str, Callable[[str, str], Answer]] = {"a2a": a2a, "ard": ard, "bsv": bsv, "mcp": mcp, "mrp": mrp}


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("words", QUESTIONS)
def test_a_system_answers_a_search_as_the_api_does(overlay_url: str, system: str, words: str) -> None:
    page = api_page(overlay_url, q=words, limit=20 if system == "mrp" else LIMIT)  # MRP has no size of a page
    items = page["items"]
    if system == "bsv":  # one output for all servers of a config, and none for pointers of other chains
        items = [item for item in items if item["outpoint"]]
    ids, total = SYSTEMS[system](overlay_url, words)
    expected = [item["id"] for item in items]
    if system == "bsv":
        expected = list(dict.fromkeys(id_.partition("#")[0] for id_ in expected))
    assert ids == expected
    assert total in (None, page["total"])


@pytest.mark.parametrize(
    ("parameters", "comparison"),
    [({"sort": "price"}, "amount"), ({"sort": "price_per_day"}, "per-day"), ({"q": "agent"}, None)],
)
def test_every_page_of_prices_names_the_comparison(
    overlay_url: str, parameters: dict[str, str], comparison: str | None
) -> None:
    with OverlayClient(overlay_url) as overlay:
        assert overlay.search(**parameters).price_comparison == comparison
    for page in (
        api_page(overlay_url, **parameters),
        a2a_page(overlay_url, **parameters),
        mcp_page(overlay_url, **parameters),
    ):
        assert page.get("priceComparison") == comparison


@pytest.mark.parametrize("words", QUESTIONS)
def test_a_feed_has_the_listings_with_all_words(overlay_url: str, words: str) -> None:
    """In the order of time, so that a listing with some of the words would come before better ones."""
    page = api_page(overlay_url, q=words, limit=LIMIT)
    ids, _ = feed(overlay_url, words)
    assert len(ids) == page["matched"]
    assert set(ids) <= {item["id"] for item in page["items"]}


@pytest.mark.parametrize("words", QUESTIONS)
def test_the_mcp_registry_has_the_tools_without_duplicates(overlay_url: str, words: str) -> None:
    """Its servers are tools that are confirmed, and its limit counts versions."""
    servers = read_json(f"{overlay_url}/v0.1/servers", search=words, version="latest", limit=LIMIT)["servers"]
    ids = [server["server"]["_meta"]["network.a2b/inscription"]["id"] for server in servers]
    items = api_page(overlay_url, q=words, type="tool", status="live", limit=LIMIT)["items"]
    assert sorted(ids) == sorted(item["id"] for item in items)


@pytest.mark.parametrize("words", QUESTIONS)
def test_the_bazaar_has_what_can_be_paid_in_bsv(overlay_url: str, words: str) -> None:
    """It has no listing whose amount in satoshis is unknown."""
    resources = read_json(f"{overlay_url}/discovery/search", query=words, limit=LIMIT)["resources"]
    priced = {"acceptedCurrency": "BSV", "priceCurrency": "BSV", "minPrice": "0", "status": "live"}
    items = api_page(overlay_url, q=words, limit=LIMIT, **priced)["items"]
    assert [resource["metadata"]["id"] for resource in resources] == [item["id"] for item in items]
