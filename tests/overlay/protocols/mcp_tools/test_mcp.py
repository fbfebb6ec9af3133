"""MCP over the sample chain: the official Python client in two versions of the protocol, the Inspector's CLI, recorded
requests, and bad input."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

from overlay.systems.mcp.listing_forms import compact
from overlay.systems.mcp.listing_forms import listing as listing_form
from overlay.systems.mcp.tools import NOTICE, TOOLS
from tests.conftest import ROOT, missing
from tests.overlay.calls import local_http, read_json
from tests.overlay.protocols.vectors import api_page, recorded, send
from tests.waiting import PATIENCE

HERE = Path(__file__).parent
WATCHTOWER = "dc35745fe6bf0623a33a2d79bcfeaeb9d34808c5d37d772598ebe5fa93db9dd7_0"
Ask = Callable[[Callable[[Client], Awaitable[Any]]], Any]
MODES = {"2026-07-28": "auto", "2025-11-25": "legacy"}
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def started(url: str) -> Any:
    """The connection of a client that starts `a2b mcp`."""
    arguments = ["-m", "overlay", "mcp", "--url", f"{url}/v1", "--chain", "bsv:regtest"]
    return stdio_client(StdioServerParameters(command=sys.executable, args=arguments, cwd=ROOT))


@pytest.fixture(
    scope="module", params=[(version, transport) for version in MODES for transport in ("http", "stdio")], ids="-".join
)
def ask(request: pytest.FixtureRequest, overlay_url: str) -> Iterator[Ask]:
    """Runs work with a client of one version, which stays connected for all tests."""
    version, transport = request.param
    with asyncio.Runner() as runner:
        connected, over = runner.get_loop().create_future(), asyncio.Event()

        async def connection() -> None:
            server = f"{overlay_url}/mcp" if transport == "http" else started(overlay_url)
            async with Client(server, mode=MODES[version]) as client:
                assert client.protocol_version == version
                connected.set_result(client)
                await over.wait()

        async def connect() -> Client:
            await asyncio.wait([connecting, connected], return_when=asyncio.FIRST_COMPLETED)
            if connecting.done():
                connecting.result()
            client: Client = await connected
            return client

        async def close() -> None:
            over.set()
            await connecting

        connecting = runner.get_loop().create_task(connection())
        client = runner.run(connect())
        yield lambda work: runner.run(work(client))
        runner.run(close())


def test_tools_have_schemas_and_descriptions(ask: Ask) -> None:
    listed = [tool for tool in ask(lambda client: client.list_tools()).tools if tool.name != "motebit_identity"]
    assert [tool.name for tool in listed] == ["search", "get", "history", "diagnose", "verify", "quote"]
    for tool in listed:
        Draft202012Validator.check_schema(tool.input_schema)
        Draft202012Validator.check_schema(tool.output_schema)
        assert tool.input_schema["additionalProperties"] is False
        assert len(tool.description) > 80
        assert tool.annotations.read_only_hint


def test_every_tool_answers_as_the_api_does(ask: Ask, overlay_url: str) -> None:
    async def work(client: Client) -> dict[str, Any]:
        calls = {
            "search": {"q": "watchtower", "type": "agent"},
            "get": {"id": WATCHTOWER},
            "history": {"id": WATCHTOWER},
            "diagnose": {"what": WATCHTOWER[:64]},
            "verify": {"id": WATCHTOWER},
            "quote": {"id": WATCHTOWER, "configId": "watchtower-month"},
        }
        return {name: await client.call_tool(name, arguments) for name, arguments in calls.items()}

    answers = ask(work)
    for tool in TOOLS:
        answer = answers[tool.name]
        assert not answer.is_error, answer
        assert json.loads(answer.content[0].text) == answer.structured_content
        assert answer.structured_content["notice"] == NOTICE
        Draft202012Validator(tool.output_schema).validate(answer.structured_content)
    shown = {name: answer.structured_content for name, answer in answers.items()}
    page = api_page(overlay_url, q="watchtower", type="agent")
    assert [item["id"] for item in shown["search"]["items"]] == [item["id"] for item in page["items"]]
    assert shown["search"]["total"] == page["total"]
    listing = read_json(f"{overlay_url}/v1/listings/{WATCHTOWER}")
    form = listing_form(listing)
    assert shown["get"] == {"notice": NOTICE, **form}
    assert form.keys() - {"runnable"} <= listing.keys()
    history = read_json(f"{overlay_url}/v1/listings/{WATCHTOWER}/history")
    assert shown["history"]["revisions"] == [compact(revision) for revision in history["revisions"]]
    diagnosis = read_json(f"{overlay_url}/v1/diagnose/{WATCHTOWER[:64]}")
    assert shown["diagnose"] == {"notice": NOTICE, "listed": diagnosis["listed"], **compact(diagnosis)}
    assert (shown["verify"]["proved"], shown["verify"]["notProved"]) == (True, [])
    assert "verified" not in shown["verify"]
    assert shown["quote"]["configId"] == "watchtower-month"
    for name in ("search", "verify", "quote"):
        assert list(shown[name])[1] == "testNetwork", name
    assert shown["quote"]["network"] == "regtest"
    assert "validUntil" not in shown["quote"]


def test_all_pages_together_are_everything(ask: Ask, overlay_url: str) -> None:
    async def work(client: Client) -> list[str]:
        ids: list[str] = []
        arguments: dict[str, Any] = {"limit": 7}
        while True:
            page = (await client.call_tool("search", arguments)).structured_content
            ids += [item["id"] for item in page["items"]]
            if "nextCursor" not in page:
                return ids
            arguments["cursor"] = page["nextCursor"]

    assert sorted(ask(work)) == sorted(item["id"] for item in api_page(overlay_url, limit=100)["items"])


def test_a_note_on_what_was_not_compared_contradicts_no_list_of_filters(ask: Ask, overlay_url: str) -> None:
    arguments = {"maxPrice": "5", "priceCurrency": "XYZ"}

    async def work(client: Client) -> Any:
        return (await client.call_tool("search", arguments)).structured_content

    page, expected = ask(work), api_page(overlay_url, **arguments)
    assert page["notes"] == expected["notes"]
    assert "only offers priced in 'XYZ' were compared" in page["notes"][0]["detail"]
    assert not {"unappliedFilters"} & (page.keys() | expected.keys())
    assert list(page)[:2] == ["notice", "testNetwork"]
    assert page["testNetwork"] == expected["testNetwork"]
    assert page["testNetwork"].startswith("bsv:regtest is a test network: its work proves nothing")


def test_filters_are_taken_by_their_other_names_too(ask: Ask, overlay_url: str) -> None:
    arguments: dict[str, Any] = {"type": "a2b-agent", "skill": ["GETDEXCHART", "watchchannels"]}

    async def work(client: Client) -> Any:
        (tool, *_) = (await client.list_tools()).tools
        return tool.input_schema["properties"], (await client.call_tool("search", arguments)).structured_content

    properties, page = ask(work)
    assert {"skillId", "acceptedCurrency"} <= properties.keys()
    assert not {"skill", "currency", "query"} & properties.keys()
    expected = api_page(overlay_url, type="agent", skillId="getDexChart,watchChannels")
    assert page["total"] == expected["total"] > 0


def test_a_bound_without_a_currency_is_refused_with_the_currencies_in_use(ask: Ask) -> None:
    async def work(client: Client) -> list[Any]:
        calls = ({"maxPrice": 1}, {"maxPrice": 1, "priceCurrency": "USD"}, {"sort": "price"})
        return [await client.call_tool("search", arguments) for arguments in calls]

    refused, *answered = ask(work)
    assert refused.is_error
    text = refused.content[0].text
    assert "maxPrice needs priceCurrency here: there are no exchange rates" in text
    assert re.search(r"in use are .*\bUSD\b", text)
    assert not any(answer.is_error for answer in answered)


def test_the_list_of_tools_is_short(ask: Ask) -> None:
    listed = ask(lambda client: client.list_tools())
    assert len(listed.model_dump_json(by_alias=True, exclude_none=True)) <= 12_000
    (search, *_) = listed.tools
    assert len(search.input_schema["properties"]["q"]["description"]) <= 300
    assert search.input_schema["properties"]["limit"]["default"] == 10


def test_a_raw_transaction_is_diagnosed(ask: Ask, overlay_url: str) -> None:
    raw = read_json(f"{overlay_url}/v1/listings/{WATCHTOWER}/proof")["rawTx"]
    answer = ask(lambda client: client.call_tool("diagnose", {"what": raw})).structured_content
    assert answer["records"]


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("search", {"nonsense": 1}, "there is no argument 'nonsense'; there are q, query, type"),
    ("search", {"facets": "all"}, "there is no argument 'facets'"),
    ("search", {"limit": "many"}, "limit: 'many' is not a number"),
    ("search", {"type": ["agent", "gopher"]}, "type: 'gopher'"),
    ("search", {"q": "x" * 5_000}, "q: 5,000 bytes"),
    ("search", {"q": {"a": 1}, "maxPrice": "cheap"}, "maxPrice: 'cheap'"),
    ("get", {}, "'/id': field required"),
    ("get", {"id": 7}, "'/id'"),
    ("get", {"id": WATCHTOWER, "x": 1}, "'/x': extra inputs are not permitted"),
    ("get", {"id": "0" * 64 + "_0"}, "no listing has the id"),
    ("history", {"id": "nobody"}, "nobody"),
    ("verify", {"id": "nobody"}, "nobody"),
    ("diagnose", {"what": "zz"}, "is neither a txid"),
    ("diagnose", {"what": "zz" * 40}, "pairs of hex digits"),
    ("diagnose", {"what": "ff" * 40}, "is not a transaction"),
    ("quote", {"id": WATCHTOWER}, "configId is needed"),
    ("quote", {"id": WATCHTOWER, "configId": "x"}, "no price has the id 'x'"),
    ("quote", {"id": WATCHTOWER, "stage": "later"}, "'/stage'"),
]


def test_wrong_arguments_are_answered_with_what_would_be_right(ask: Ask) -> None:
    async def work(client: Client) -> list[Any]:
        return [await client.call_tool(tool, arguments) for tool, arguments, _ in WRONG]

    for (tool, _, message), answer in zip(WRONG, ask(work), strict=True):
        assert answer.is_error, tool
        assert message in answer.content[0].text


def test_an_unknown_tool_is_an_error_of_the_protocol(ask: Ask) -> None:
    async def work(client: Client) -> str:
        with pytest.raises(MCPError) as raised:
            await client.call_tool("nothing", {})
        return str(raised.value)

    assert ask(work) == "there is no tool 'nothing'; there are search, get, history, diagnose, verify, quote"


def test_the_inspector_lists_and_calls_tools(overlay_url: str) -> None:
    program = HERE / "node_modules" / ".bin" / "mcp-inspector"
    if not program.exists() or shutil.which("node") is None:
        missing("@modelcontextprotocol/inspector (npm ci in tests/overlay/protocols/mcp_tools)")

    def inspect(*arguments: str) -> dict[str, Any]:
        command = [program, "--cli", f"{overlay_url}/mcp", "--transport", "http", *arguments]
        environment = {**os.environ, "HOME": str(HERE / "node_modules")}
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environment)
        assert done.returncode == 0, done.stderr
        printed: dict[str, Any] = json.loads(done.stdout)
        return printed

    names = [tool["name"] for tool in inspect("--method", "tools/list")["tools"]]
    assert names == [*(tool.name for tool in TOOLS), "motebit_identity"]
    searched = inspect("--method", "tools/call", "--tool-name", "search", "--tool-arg", "q=watchtower", "limit=3")
    assert searched["structuredContent"]["items"][0]["id"] == WATCHTOWER


@pytest.mark.parametrize("client", ["mcp_client", "mcp_inspector"])
def test_recorded_requests_are_answered(overlay_url: str, shared: Path, client: str) -> None:
    wrong = {"get": ({}, {"id": "0" * 64 + "_0"}), "search": ({"limit": "many"}, {"nonsense": 1})}
    for request in recorded(shared, client):
        response = send(overlay_url, request)
        if request.method != "POST":
            assert response.status_code == 405
            assert response.headers["Allow"] == "OPTIONS, POST"
            continue
        call = json.loads(request.body)
        if "id" not in call:
            assert (response.status_code, response.content) == (202, b"")
            continue
        answer = response.json()
        assert answer["id"] == call["id"]
        if call["method"] != "tools/call":
            assert "result" in answer, answer
        elif (name := call["params"]["name"]) == "nothing":
            assert answer["error"]["code"] == -32602
        else:
            is_wrong = call["params"]["arguments"] in wrong.get(name, ())
            assert answer["result"].get("isError", False) is is_wrong, answer


CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "get", "arguments": {"id": WATCHTOWER}}}


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"", 400, -32700),
        (b"{", 400, -32700),
        (b"\xff", 400, -32700),
        (b" [" + json.dumps(CALL).encode() + b"]", 400, -32600),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', 400, -32600),
        (b"7", 400, -32602),
        (b"{}", 400, -32602),
        (json.dumps(CALL | {"method": "nothing"}).encode(), 200, -32601),
        (json.dumps(CALL | {"params": {"name": 5}}).encode(), 200, -32602),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, 400, -32700),
        (b" " * (5 << 20), 413, -32600),
    ],
    ids=["empty", "cut", "no text", "batch", "null id", "number", "no call", "no method", "no name", "deep", "large"],
)
def test_bad_messages_are_answered_in_json_rpc(overlay_url: str, content: bytes, status: int, code: int) -> None:
    response = local_http.post(f"{overlay_url}/mcp", content=content, headers=HEADERS)
    assert response.status_code == status, response.text
    assert response.json()["error"]["code"] == code


def test_other_content_types_are_refused(overlay_url: str) -> None:
    response = local_http.post(
        f"{overlay_url}/mcp", content=json.dumps(CALL), headers=HEADERS | {"Content-Type": "text/plain"}
    )
    assert (response.status_code, response.json()["error"]["code"]) == (415, -32600)


@pytest.mark.parametrize("accepted", ["text/event-stream", "*/*", ""])
def test_a_client_is_answered_whatever_it_accepts(overlay_url: str, accepted: str) -> None:
    """The proxy of a widely used client accepts events only; the answer is one JSON object (RFC 9110 §12.5.1)."""
    response = local_http.post(f"{overlay_url}/mcp", json=CALL, headers=HEADERS | {"Accept": accepted})
    assert response.headers["Content-Type"].startswith("application/json")
    assert response.json()["result"]["structuredContent"]["id"] == WATCHTOWER


@pytest.mark.parametrize("path", ["/mcp/", "/a2a/"])
def test_a_slash_at_the_end_changes_nothing(overlay_url: str, path: str) -> None:
    for url in (overlay_url + path, overlay_url + path.rstrip("/")):
        assert local_http.post(url, json=CALL, headers=HEADERS).json()["id"] == 1
    assert local_http.request("GET", overlay_url + path).headers["Allow"] == "OPTIONS, POST"


def test_a_byte_order_mark_begins_the_input_of_the_command(overlay_url: str) -> None:
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    begin = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    command = [sys.executable, "-m", "overlay", "mcp", "--url", overlay_url]
    done = subprocess.run(command, cwd=ROOT, input=f"\ufeff{begin}\n".encode(), capture_output=True, timeout=PATIENCE)
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "a2b-registry"


def test_any_origin_may_ask_and_nothing_streams(overlay_url: str) -> None:
    response = local_http.post(f"{overlay_url}/mcp", json=CALL, headers={**HEADERS, "Origin": "https://a.example"})
    assert response.headers["Access-Control-Allow-Origin"] == "*"
    assert response.headers["Content-Type"].startswith("application/json")
    assert response.json()["result"]["structuredContent"]["id"] == WATCHTOWER


def test_strangers_texts_cannot_break_out_of_the_answer(overlay_url: str) -> None:
    """They come as JSON strings after the notice, in `content` as in `structuredContent`."""
    answer = local_http.post(f"{overlay_url}/mcp", json=CALL, headers=HEADERS).json()["result"]
    assert answer["content"][0]["text"].startswith('{"notice":' + json.dumps(NOTICE))
    assert len(answer["content"]) == 1
