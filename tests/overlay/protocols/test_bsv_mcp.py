"""bsv-mcp, which no package registry has: the requests that its `a2b_discover` sent are replayed, and what it prints of
the answers is formed as it forms it. Its publisher posts a txid after broadcasting."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.overlay.calls import local_http
from tests.overlay.protocols.vectors import Recorded, api_page, recorded, send

TXID = "ab" * 32


def printed(answer: httpx.Response, kind: str) -> str:
    """The text that `a2b_discover` prints of an answer, reading the members that it reads and no other."""
    if not answer.is_success:
        return f"Error querying A2B Overlay: API returned status {answer.status_code}: {answer.reason_phrase}"
    items = answer.json()["items"]
    if not items:
        return f"No {kind} results found."
    return "\n".join([f"Found {len(items)} {kind}(s):", *(_item(i, item) for i, item in enumerate(items, 1))])


def _item(number: int, item: dict[str, Any]) -> str:
    lines = [f"{number}. **{item.get('serverName') or 'Unknown'}** - {item.get('description') or 'No description'}"]
    if item["command"]:
        arguments = item["args"].values() if isinstance(item["args"], dict) else item["args"]
        lines.append(f"Command: `{item['command']} {' '.join(arguments)}`")
    if item.get("tools"):
        lines.append(f"Tools: {len(item['tools'])} available")
    if item["keywords"]:
        lines.append(f"Keywords: {', '.join(item['keywords'])}")
    lines.append(f"Outpoint: {item['outpoint']}")
    if "blockHeight" in item:
        lines.append(f"Block: {item['blockHeight']}, {datetime.fromisoformat(item['timestamp']):%Y-%m-%d}")
    return "\n   ".join(lines)


def query(request: Recorded) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(request.target).query).items()}


def test_every_recorded_search_is_answered_with_what_the_client_reads(overlay_url: str, shared: Path) -> None:
    for request in recorded(shared, "bsv_mcp"):
        response, parsed = send(overlay_url, request), query(request)
        assert response.status_code == 200, (request.target, response.text)
        page = response.json()
        assert {"items", "total", "limit", "offset"} <= page.keys()
        assert page["queryType"] == parsed["type"]
        for item in page["items"]:
            assert item["type"] == parsed["type"]
            assert isinstance(item["env"], dict)
            assert all(isinstance(item[name], str) for name in ("txid", "outpoint", "app", "serverName", "command"))
            assert isinstance(item["blockHeight"], int)
        assert printed(response, parsed["type"]).startswith(("Found ", "No "))


def test_a_tool_is_printed_with_its_command_and_outpoint(overlay_url: str, shared: Path) -> None:
    request = next(request for request in recorded(shared, "bsv_mcp") if "q=Extractor" in request.target)
    response = send(overlay_url, request)
    item = response.json()["items"][0]
    assert printed(response, "tool").splitlines()[:7] == [
        "Found 1 tool(s):",
        "1. **PDF Extractor, reborn** - Extract text and tables from PDF files",
        "   Command: `docker run -i --rm example/pdf-extractor`",
        "   Tools: 2 available",
        "   Keywords: pdf, documents, tables",
        f"   Outpoint: {item['outpoint']}",
        "   Block: 120, 2026-05-01",
    ]


def test_an_agent_is_printed_without_a_command(overlay_url: str, shared: Path) -> None:
    request = next(request for request in recorded(shared, "bsv_mcp") if "q=Finder" in request.target)
    items = api_page(overlay_url, q="Finder", type="agent")["items"]
    text = printed(send(overlay_url, request), "agent")
    assert [line[3:] for line in text.splitlines() if line[:1].isdigit()] == [
        f"**{item['name']}** - {item['description'] or 'No description'}" for item in items
    ]
    assert "Command:" not in text


def test_what_finds_nothing_is_no_error(overlay_url: str, shared: Path) -> None:
    request = next(request for request in recorded(shared, "bsv_mcp") if "zzqxjkv" in request.target)
    assert printed(send(overlay_url, request), "agent") == "No agent results found."


def test_pages_by_offset_make_up_the_whole(overlay_url: str, shared: Path) -> None:
    pages = {request.target.partition("?")[2]: send(overlay_url, request) for request in recorded(shared, "bsv_mcp")}
    ids = {question: [item["id"] for item in page.json()["items"]] for question, page in pages.items()}
    first, second = ids["type=agent&limit=3&offset=0"], ids["type=agent&limit=3&offset=3"]
    assert first + second == ids["type=agent&limit=6&offset=0"]
    between = pages["type=agent&limit=100&offset=0&fromBlock=104&toBlock=122"].json()["items"]
    assert between
    assert all(104 <= item["blockHeight"] <= 122 for item in between)


@pytest.mark.parametrize("base", ["/v1", "/v1/"])
def test_the_publisher_reports_a_transaction_twice_and_reads_json_each_time(overlay_url: str, base: str) -> None:
    url = f"{overlay_url}{base}".rstrip("/") + "/ingest"
    for _ in range(2):
        response = local_http.post(url, json={"txid": TXID}, headers={"User-Agent": "Bun/1.4.5"})
        assert response.is_success
        assert response.json()["txid"] == TXID
