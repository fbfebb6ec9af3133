"""The client of a node where the server, and so aiohttp, is not installed."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from indexer.chains import http_client, httpx_session
from indexer.chains.http_client import HttpClient
from indexer.chains.jsonrpc import JsonRpc
from indexer.chains.node import client as node_client
from indexer.chains.node.address import read as read_address
from indexer.chains.node.client import NodeClient, RpcError
from indexer.chains.node.rest import Rest, RestOffError
from indexer.errors import SourceError, SourceRefusalError, SourceUnavailableError
from tests.chainkit import ChainKit
from tests.fakes import MemoryChain
from tests.nodes import Node


@pytest.fixture(autouse=True)
def _without_aiohttp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "aiohttp", httpx_session)
    monkeypatch.setattr(http_client, "PAUSES", (0.0, 0.0))
    monkeypatch.setattr(node_client, "PAUSES", (0.0, 0.0))


@pytest.fixture
def kit() -> ChainKit:
    mint = ChainKit(funds=2)
    mint.mine_empty(3)
    return mint


@pytest.fixture
async def node(kit: ChainKit) -> AsyncIterator[Node]:
    async with Node(MemoryChain(*kit.blocks)) as node:
        yield node


async def height(url: str, cookie: str | None = None) -> int:
    client = NodeClient(read_address("node", url, cookie))
    try:
        return await client.fetch(int, "getblockcount")
    finally:
        await client.close()


async def test_a_node_answers_calls_and_batches_and_refuses_by_its_codes(node: Node, kit: ChainKit) -> None:
    assert await height(node.url) == kit.tip.height
    client = NodeClient(read_address("node", node.url))
    first, second, failed = await client.batch(
        [("getblockhash", (0,)), ("getblockhash", (1,)), ("getblockhash", (99,))]
    )
    assert [first, second] == [block.hash[::-1].hex() for block in kit.blocks[:2]]
    assert isinstance(failed, RpcError)
    assert failed.code == -8
    await client.close()


async def test_a_login_is_refused_and_a_new_cookie_is_read(node: Node, kit: ChainKit, tmp_path: Path) -> None:
    with pytest.raises(SourceRefusalError, match=r"refuses the login \(401\)"):
        await height(f"http://user:wrong@127.0.0.1:{node.port}")
    cookie = tmp_path / ".cookie"
    cookie.write_text("__cookie__:one")
    node.login = ("__cookie__", "one")
    client = NodeClient(read_address("node", node.bare_url, str(cookie)))
    assert await client.fetch(int, "getblockcount") == kit.tip.height
    cookie.write_text("__cookie__:two")
    node.login = ("__cookie__", "two")
    assert await client.fetch(int, "getblockcount") == kit.tip.height
    await client.close()


@pytest.mark.parametrize("has_cookie", [False, True])
@pytest.mark.parametrize("status", [200, 500, 503])
async def test_a_login_that_a_node_or_an_endpoint_repeats_is_masked(
    status: int, has_cookie: bool, tmp_path: Path
) -> None:
    async def repeat(request: web.Request) -> web.Response:
        header = request.headers["Authorization"]
        echo = f"{header} {b64decode(header.split()[1]).decode()} p%40ss-w0rd p@ss-w0rd"
        text = echo if request.method == "GET" else json.dumps({"id": 1, "error": {"code": -8, "message": echo}})
        return web.Response(status=status, text=text, content_type="application/json")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", repeat)
    async with TestServer(app) as server:
        cookie = tmp_path / ".cookie"
        cookie.write_text("user:p@ss-w0rd")
        base = f"127.0.0.1:{server.port}"
        with_login = f"http://user:p%40ss-w0rd@{base}"
        node = NodeClient(
            read_address("node", f"http://{base}" if has_cookie else with_login, str(cookie) if has_cookie else None)
        )
        endpoint, messages = JsonRpc("eth", with_login), list[str]()
        node.pauses = endpoint.pauses = ()
        requests = [node.fetch(int, "getblockcount"), endpoint.call("eth_chainId")]
        for ask in [*requests, *([Rest(node).headers(bytes(32))] if status != 200 else [])]:
            with pytest.raises((RpcError, SourceError, RestOffError)) as raised:
                await ask
            messages.append(str(raised.value))
        await node.close()
        await endpoint.close()
    for message in messages:
        assert "ss-w0rd" not in message
        assert b64encode(b"user:p@ss-w0rd").decode() not in message
    assert any("***" in message for message in messages)


async def test_what_cannot_be_reached_or_is_no_url_is_named(node: Node) -> None:
    with pytest.raises(SourceUnavailableError, match="does not answer: connection refused"):
        await height("http://user:password@127.0.0.1:9")
    with pytest.raises(SourceUnavailableError, match=r"does not answer: .*name"):
        await height("http://user:password@nowhere.invalid:1")
    with pytest.raises(SourceRefusalError, match="supports no known version of TLS"):
        await height(f"https://user:password@127.0.0.1:{node.port}")
    with pytest.raises(SourceError, match="has no valid URL"):
        await _get("ftp://example.com/", 10)


async def test_a_certificate_is_checked_and_its_authority_can_be_named(
    kit: ChainKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(  # noqa: ASYNC221 - nothing else waits
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    async with Node(MemoryChain(*kit.blocks), tls=context) as node:
        url = f"https://user:pass%2Fword@localhost:{node.port}"
        with pytest.raises(SourceRefusalError, match="name the file of its authority in SSL_CERT_FILE"):
            await height(url)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert await height(url) == kit.tip.height


async def _get(url: str, limit: int, seconds: float = 5.0) -> tuple[int, bytes]:
    client = HttpClient("server", "the server", whole_seconds=5.0, silence_seconds=seconds, pauses=(0.0,))
    try:
        status, _, body = await client.retry(lambda: client.request("GET", url, limit))
        return status, body
    finally:
        await client.close()


async def test_answers_are_bounded_in_size_and_time_and_redirects_are_not_followed() -> None:
    async def large(_: web.Request) -> web.Response:
        return web.Response(body=bytes(2_000))

    async def elsewhere(_: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": "/large"}, body=b"elsewhere")

    async def silent(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "10"})
        await response.prepare(request)
        await response.write(b"12345")
        await asyncio.sleep(2.0)
        return response

    app = web.Application()
    app.add_routes([web.get("/large", large), web.get("/elsewhere", elsewhere), web.get("/silent", silent)])
    async with TestServer(app) as server:
        url = f"http://127.0.0.1:{server.port}"
        assert await _get(f"{url}/large", 2_000) == (200, bytes(2_000))
        with pytest.raises(http_client.TooLargeError):
            await _get(f"{url}/large", 1_999)
        assert await _get(f"{url}/elsewhere", 100) == (307, b"elsewhere")
        with pytest.raises(SourceUnavailableError, match="it was silent for too long"):
            await _get(f"{url}/silent", 100, seconds=0.1)
