"""Handshakes with the MCP endpoints of Motebit agents: servers of the official package over TLS, pinned manifests, and
what listings say of a change."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
import trustme
import uvicorn
from mcp.server import MCPServer

from indexer.fetcher.dns import SystemResolver, TxtRecords
from indexer.fetcher.http_fetcher import HttpFetcher
from indexer.fetcher.mcp_session import MAX_EVENTS
from indexer.fetcher.reasons import FetchError
from indexer.store.checks import CHECK_INTERVAL, PIN_DURATION
from indexer.store.requests import Rechecks
from overlay.systems.motebit.mcp_handshake import McpHandshakes, handshake
from overlay.systems.motebit.store_endpoints import EndpointKey
from parsers.claims.canonical_json import jcs
from tests.chainkit import agent
from tests.hostile import Hostile, Net, answer, authority, net, ok, raw, redirect, server
from tests.indexer.fetcher.test_motebit_identity import FILE, HOST, IDENTITY, KEYS, MotebitRegistry, identity_file
from tests.names import NameServer, names
from tests.pointer_facts import Clock, clock

ENDPOINT = f"https://{HOST}/mcp"
KEY = EndpointKey(HOST, ENDPOINT, KEYS[0].hex())

__all__ = ["authority", "clock", "names", "net", "server"]


def named(key: int = 0) -> str:
    return json.dumps({"motebit_id": IDENTITY, "public_key": KEYS[key].hex()})


def mcp_server(identity: str, **more: Callable[..., Any]) -> MCPServer:
    """A server of the official package, with these further tools."""
    mcpserver = MCPServer("agent")
    mcpserver.add_tool(lambda: identity, name="motebit_identity", description="who this is")
    for name, function in more.items():
        mcpserver.add_tool(function, name=name, description=name)
    return mcpserver


@asynccontextmanager
async def running(authority: trustme.CA, mcpserver: MCPServer, **options: Any) -> AsyncIterator[HttpFetcher]:
    """A fetcher that reaches a server at `ENDPOINT`, over TLS."""
    config = uvicorn.Config(
        mcpserver.streamable_http_app(host=HOST, **options), port=0, log_level="error", lifespan="on"
    )
    config.load()
    config.ssl = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(config.ssl)
    listening = uvicorn.Server(config)
    task = asyncio.create_task(listening.serve())
    while not listening.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    port = listening.servers[0].sockets[0].getsockname()[1]
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(tls)
    yield HttpFetcher(SystemResolver(), tls, {(HOST, 443): ("127.0.0.1", port)})
    listening.should_exit = True
    await task


@pytest.mark.parametrize("options", [{}, {"json_response": True}, {"stateless_http": True}], ids=str)
async def test_a_server_of_the_official_package_is_verified(authority: trustme.CA, options: dict[str, Any]) -> None:
    def add(a: int, b: int) -> int:
        return a + b

    created = mcp_server(named(), add=add)
    async with running(authority, created, **options) as fetcher:
        outcome = await handshake(fetcher, KEY)
        assert (outcome.reason, outcome.manifest is not None) == ("", True)
        assert outcome.manifest is not None
        tools = sorted(await created.list_tools(), key=lambda tool: tool.name)
        rows = [[tool.name, tool.description, tool.input_schema] for tool in tools]
        assert outcome.manifest.sha256 == sha256(jcs(rows)).hexdigest()
        assert list(outcome.manifest.tools) == ["add", "motebit_identity"]
        assert (await handshake(fetcher, KEY._replace(public_key=KEYS[1].hex()))).reason == "key-mismatch"


@pytest.mark.parametrize(
    ("identity", "reason"),
    [
        (identity_file().decode(), ""), (identity_file(1).decode(), "key-mismatch"),
        (identity_file().decode().replace("web_search", "other"), "bad-signature"),
        ("{}", "no-identity"), ('{"public_key": "00"}', "no-identity"), ("{", "truncated"), ("hello", "malformed"),
    ],
)  # fmt: skip
async def test_the_identity_has_to_be_readable_and_signed(authority: trustme.CA, identity: str, reason: str) -> None:
    async with running(authority, mcp_server(identity)) as fetcher:
        assert (await handshake(fetcher, KEY)).reason == reason


# -- what fails


def say(message: Any) -> Any:
    return ok(json.dumps(message).encode(), "Content-Type: application/json")


@pytest.mark.parametrize(
    ("behave", "reason"),
    [
        (raw(answer("404 Not Found")), "mcp-error"), (redirect("https://other.example/mcp"), "mcp-error"),
        (ok(b"hello"), "not-json"), (say([]), "mcp-error"), (say({"id": 1}), "mcp-error"),
        (say({"id": 2, "result": {}}), "mcp-error"),
        (say({"id": 1, "result": {"protocolVersion": "a\r\nb"}}), "mcp-error"),
        (say({"id": 1, "error": {"code": 1, "message": "no"}}), "mcp-error"),
        (ok(b"data: {\r\n\r\n", "Content-Type: text/event-stream"), "truncated"),
        (ok(b"data: {}\n\n" * MAX_EVENTS + b"data: {\n\n", "Content-Type: text/event-stream"), "mcp-error"),
        (ok(b"[" * 4_000), "too-deep"), (ok(b"[" * 9_000), "too-many-values"),
    ],
)  # fmt: skip
async def test_other_answers_are_refused(server: Hostile, net: Net, behave: Any, reason: str) -> None:
    server.say("/mcp", behave)
    assert (await handshake(net.fetcher(), KEY)).reason == reason


async def test_a_host_that_opts_out_is_sent_nothing(server: Hostile, net: Net) -> None:
    server.say("/robots.txt", ok(b"User-agent: a2b-registry\nDisallow: /mcp"))
    mcp(server)
    with pytest.raises(FetchError, match="disallows"):
        await handshake(net.fetcher(), KEY)
    assert server.paths() == []


# -- pins


class McpRegistry(MotebitRegistry):
    """Agents at a host with an MCP endpoint, whose answers come from a table by method."""

    def create_checks(self, fetcher: HttpFetcher, txt: TxtRecords) -> list[Any]:
        return [*super().create_checks(fetcher, txt), McpHandshakes(fetcher, self.indexing.writer)]

    def handshake(self, id_: str) -> Any:
        shown = self.motebit(id_)
        return (shown["verified"], shown["handshake"]["state"], shown["handshake"]["reason"])


def mcp(server: Hostile, *names: str, key: int = 0, path: str = "/mcp") -> None:
    """The server answers as an MCP server with these tools."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = int(server.requests[-1].headers["content-length"])
        message = json.loads(await reader.readexactly(length))
        tools = [{"name": name, "inputSchema": {}} for name in ("motebit_identity", *names)]
        results = {
            "initialize": {"protocolVersion": "2025-06-18"},
            "tools/list": {"tools": tools},
            "tools/call": {"content": [{"type": "text", "text": named(key)}]},
        }
        result = results.get(message["method"])
        body = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": result}).encode() if result else b""
        writer.write(answer("200 OK" if result else "202 Accepted", body, "Content-Type: application/json"))
        await writer.drain()

    server.say(path, behave)


@pytest.fixture
def registry(database_url: str, net: Net, names: NameServer, clock: Clock) -> Iterator[McpRegistry]:
    with McpRegistry.open(database_url, net, names, clock) as opened:
        yield opened


async def test_the_endpoint_of_an_identity_file_is_visited_and_its_manifest_pinned(
    server: Hostile, registry: McpRegistry
) -> None:
    server.say(FILE, ok(identity_file(service_url=ENDPOINT)))
    mcp(server, "search", "read")
    id_ = await registry.inscribe()
    await registry.after()
    await registry.after()
    assert registry.handshake(id_) == (True, "verified", None)
    pinned = registry.motebit(id_)["handshake"]["manifestSha256"]
    mcp(server, "search", "pay")
    await registry.after(CHECK_INTERVAL)
    shown = registry.motebit(id_)
    assert registry.handshake(id_) == (False, "refused", "manifest-changed")
    assert (shown["handshake"]["added"], shown["handshake"]["removed"]) == (["pay"], ["read"])
    assert shown["handshake"]["manifestSha256"] == pinned
    mcp(server, "search", "read")
    await registry.after(CHECK_INTERVAL)
    assert registry.handshake(id_) == (True, "verified", None)
    mcp(server, "search", "pay")
    await registry.after(PIN_DURATION + CHECK_INTERVAL)
    await registry.after(CHECK_INTERVAL)
    assert registry.handshake(id_) == (True, "verified", None)
    assert registry.motebit(id_)["handshake"]["manifestSha256"] != pinned


async def test_the_tools_of_a_handshake_are_those_of_listings_with_the_url(
    server: Hostile, registry: McpRegistry
) -> None:
    server.say(FILE, ok(identity_file(service_url=ENDPOINT)))
    mcp(server, "search", "read")
    elsewhere = await registry.inscribe()
    id_ = await registry.mine(registry.kit.inscribe(agent("Tools", url=ENDPOINT)))
    await registry.after()
    await registry.after()
    assert registry.item(id_)["observedTools"]["count"] == 3
    assert "observedTools" not in registry.item(elsewhere)
    mcp(server, "search", "pay", key=1)
    await registry.after(CHECK_INTERVAL)
    assert registry.item(id_)["motebit"]["handshake"]["reason"] == "key-mismatch"
    [warning] = [entry for entry in registry.item(id_)["warnings"] if entry["code"] == "tools-changed"]
    assert "added pay; removed read" in warning["detail"], "tools are observed whoever serves them"


async def test_another_key_or_no_answer_is_refused(server: Hostile, registry: McpRegistry) -> None:
    server.say(FILE, ok(identity_file(service_url=ENDPOINT)))
    mcp(server, key=1)
    id_ = await registry.inscribe()
    await registry.after()
    await registry.after()
    assert registry.handshake(id_) == (False, "refused", "key-mismatch")
    server.say("/mcp", raw(answer("500 Internal Server Error")))
    await registry.after(CHECK_INTERVAL)
    assert registry.handshake(id_) == (False, "refused", "mcp-error")


async def test_an_endpoint_on_another_port_is_unchecked(server: Hostile, registry: McpRegistry) -> None:
    server.say(FILE, ok(identity_file(service_url=f"https://{HOST}:3200/mcp")))
    id_ = await registry.inscribe()
    await registry.after()
    await registry.after()
    assert registry.handshake(id_) == (True, "unchecked", "fetch-port")


class AnyPortRegistry(McpRegistry):
    """A registry whose endpoints are reached on high ports, too."""

    endpoint_ports = True
    limits = replace(McpRegistry.limits, connect=1.5)


@pytest.fixture
def reaching(database_url: str, net: Net, names: NameServer, clock: Clock) -> Iterator[AnyPortRegistry]:
    with AnyPortRegistry.open(database_url, net, names, clock) as opened:
        yield opened


OTHER_PORT = f"https://{HOST}:3200/mcp"


async def test_an_endpoint_on_a_high_port_is_verified_and_unchecked_where_no_server_is_reached(
    server: Hostile, net: Net, reaching: AnyPortRegistry
) -> None:
    net.closed.add(3200)
    server.say(FILE, ok(identity_file(service_url=OTHER_PORT)))
    mcp(server)
    id_ = await reaching.inscribe()
    await reaching.after()
    await reaching.after()
    assert reaching.handshake(id_) == (True, "unchecked", "fetch-port-silent")
    net.closed.clear()
    await reaching.after(CHECK_INTERVAL)
    assert reaching.handshake(id_) == (True, "verified", None)
    net.closed.add(3200)
    await reaching.after(CHECK_INTERVAL)
    assert reaching.handshake(id_) == (True, "unchecked", "fetch-port-silent")
    net.names[HOST] = OSError("no address")
    await reaching.after(CHECK_INTERVAL)
    assert reaching.handshake(id_)[1:] == ("unchecked", "fetch-resolve")
    assert {port for _, port in net.dialled} == {443, 3200}


async def test_silence_takes_back_no_refusal_of_an_answer(server: Hostile, net: Net, reaching: AnyPortRegistry) -> None:
    server.say(FILE, ok(identity_file(service_url=OTHER_PORT)))
    mcp(server, key=1)
    id_ = await reaching.inscribe()
    await reaching.after()
    await reaching.after()
    refused = reaching.motebit(id_)["handshake"]
    assert reaching.handshake(id_) == (False, "refused", "key-mismatch")
    net.closed.add(3200)
    await reaching.after(CHECK_INTERVAL)
    assert reaching.motebit(id_)["handshake"] == refused


async def test_a_third_port_of_a_host_is_left_for_another_day(
    server: Hostile, net: Net, reaching: AnyPortRegistry
) -> None:
    claim = {"motebit_id": IDENTITY, "public_key": KEYS[0].hex()}
    mcp(server)
    ids = {}
    for port in (3200, 3201, 3202):
        card = agent("Echo", url=f"https://{HOST}:{port}/mcp", **{"x-motebit": claim})
        ids[port] = await reaching.mine(reaching.kit.inscribe(card))
        await reaching.after()
        assert Rechecks(reaching.store.engine).request(ids[port], int(reaching.clock() * 1000))
        await reaching.after()
    states = [(port, *reaching.handshake(id_)[1:]) for port, id_ in ids.items()]
    assert states == [(3200, "verified", None), (3201, "verified", None), (3202, "unchecked", "fetch-port-limit")]
    assert {port for _, port in net.dialled} == {443, 3200, 3201}
    for _ in range(3):
        await reaching.after(CHECK_INTERVAL // 2)
    assert 3202 in {port for _, port in net.dialled}
    assert [reaching.handshake(id_)[1:] for id_ in ids.values()] == [("verified", None)] * 3


async def test_the_url_of_a_claiming_card_is_visited_on_request_only(server: Hostile, registry: McpRegistry) -> None:
    claim = {"motebit_id": IDENTITY, "public_key": KEYS[0].hex()}
    id_ = await registry.inscribe(**{"x-motebit": claim})
    mcp(server, path="/a2a")
    await registry.after()
    assert "handshake" not in registry.motebit(id_)
    assert Rechecks(registry.store.engine).request(id_, int(registry.clock() * 1000))
    await registry.after()
    assert registry.handshake(id_) == (False, "verified", None)


def test_names_of_jobs_are_read_back() -> None:
    assert EndpointKey.parse(str(KEY)) == KEY
