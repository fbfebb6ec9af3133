"""The handshake with the MCP endpoint of a Motebit agent: `initialize`, `tools/list`, and `tools/call` of
`motebit_identity`, over streamable HTTP. An endpoint is refused after any failure; on another port than 443 it is
unchecked as long as no server is reached there."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from indexer.fetcher.connections import Admit
from indexer.fetcher.http_fetcher import HttpFetcher, Visit, open_admit
from indexer.fetcher.limits import PRODUCT
from indexer.fetcher.ports import is_endpoint_port, is_https_port
from indexer.fetcher.reasons import OFF_PORT, PORT_LIMIT, FetchError
from indexer.fetcher.schedule import Priority
from indexer.fetcher.target import target
from indexer.store import Writer, visits
from indexer.store.motebit_endpoints import ENDPOINT_CHECK, EndpointKey, HandshakeOutcome
from overlay.text.event_data import event_data
from parsers.claims.canonical_json import MAX_BYTES, DocumentError, read
from parsers.claims.motebit.tool_manifest import IDENTITY_TOOL, MAX_TOOLS, ToolManifest, named_key, tool_manifest

PROTOCOL_VERSION = "2025-06-18"
MAX_PAGES = 16
MAX_HEADER = 512
MAX_EVENTS = 256
"""Events of one answer that are read: notifications may come before the result."""

SECONDS = 60.0
"""Seconds of a whole handshake."""

_NO_ADDRESS = frozenset(("fetch-resolve", "fetch-resolve-slow", "fetch-address"))


class McpHandshakes:
    """Queries endpoints, and stores their answers."""

    kind, priority = ENDPOINT_CHECK, Priority.BADGE

    def __init__(self, fetcher: HttpFetcher, writer: Writer) -> None:
        self._fetcher, self._writer = fetcher, writer

    async def check(self, name: str, now: int, admit: Admit = open_admit) -> tuple[int, FetchError | None]:
        """Query an endpoint, which must name the key of its listing. Raises FetchError, StoreError."""
        key = EndpointKey.parse(name)
        return await self._store(key, await handshake(self._fetcher, key, admit), now), None

    async def fail(self, name: str, reason: str, now: int) -> int:
        """Store that a handshake failed. Raises StoreError."""
        key = EndpointKey.parse(name)
        is_unreached = reason in OFF_PORT or (reason in _NO_ADDRESS and _has_other_port(key.endpoint))
        return await self._store(key, HandshakeOutcome(None, reason, is_unreached, reason == PORT_LIMIT), now)

    async def _store(self, key: EndpointKey, outcome: HandshakeOutcome, now: int) -> int:
        return await asyncio.to_thread(visits.record_handshake, self._writer, key, outcome, now)


def _has_other_port(endpoint: str) -> bool:
    try:
        return not is_https_port(target(endpoint, is_permitted=is_endpoint_port).port)
    except FetchError:
        return False


async def handshake(fetcher: HttpFetcher, key: EndpointKey, admit: Admit = open_admit) -> HandshakeOutcome:
    """The manifest of an endpoint where it names the key, else the reason. Raises FetchError."""
    try:
        async with asyncio.timeout(SECONDS), fetcher.visit(admit, is_endpoint=True) as visit:
            await visit.check_opt_out(key.endpoint)  # a stranger's card may name any URL
            session = McpSession(visit, key.endpoint)
            manifest, result = await session.introduce()
        if await asyncio.to_thread(named_key, result) != key.public_key:
            return HandshakeOutcome(None, "key-mismatch")
    except DocumentError as error:
        return HandshakeOutcome(None, error.code)
    except TimeoutError:
        return HandshakeOutcome(None, "fetch-slow")
    return HandshakeOutcome(manifest)


class McpSession:
    """The requests of one handshake, one after another."""

    def __init__(self, visit: Visit, endpoint: str) -> None:
        self._visit, self._endpoint, self._number = visit, endpoint, 0
        self._headers = {"Accept": "application/json, text/event-stream", "User-Agent": f"{PRODUCT}/1 (handshake)"}

    async def introduce(self) -> tuple[ToolManifest, Any]:
        """The manifest of the server, and the result of its tool `motebit_identity`. Raises FetchError,
        DocumentError."""
        client = {"name": PRODUCT, "version": "1"}
        parameters = {"protocolVersion": PROTOCOL_VERSION, "capabilities": {}, "clientInfo": client}
        version = (await self._request("initialize", parameters)).get("protocolVersion")
        if not isinstance(version, str) or not _is_header(version):
            raise DocumentError("mcp-error", "initialize names no protocolVersion")
        self._headers["MCP-Protocol-Version"] = version
        await self._send({"method": "notifications/initialized"})
        manifest = await asyncio.to_thread(tool_manifest, await self._tools())
        return manifest, await self._request("tools/call", {"name": IDENTITY_TOOL, "arguments": {}})

    async def _tools(self) -> list[Any]:
        tools: list[Any] = []
        parameters: dict[str, Any] = {}
        for _ in range(MAX_PAGES):
            page = await self._request("tools/list", parameters)
            listed, cursor = page.get("tools"), page.get("nextCursor")
            if not isinstance(listed, list) or len(tools) + len(listed) > MAX_TOOLS:
                raise DocumentError("bad-manifest", f"tools/list gives no list of at most {MAX_TOOLS} tools")
            tools += listed
            if cursor is None:
                return tools
            parameters = {"cursor": cursor}
        raise DocumentError("bad-manifest", f"tools/list has more than {MAX_PAGES} pages")

    async def _request(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """The result of a request."""
        self._number += 1
        content_type, body = await self._send({"id": self._number, "method": method, "params": parameters})
        is_stream = content_type.startswith("text/event-stream")
        result = await asyncio.to_thread(_result, body, self._number, is_stream=is_stream)
        if result is None:
            raise DocumentError("mcp-error", f"{method} is not answered with a result")
        return result

    async def _send(self, message: dict[str, Any]) -> tuple[str, bytes]:
        """The content type and the body that answer a message; the session that the server names is kept."""
        content = json.dumps({"jsonrpc": "2.0", **message}).encode()
        answer = await self._visit.post(self._endpoint, content, self._headers, MAX_BYTES)
        if not 200 <= answer.status < 300:
            raise DocumentError("mcp-error", f"status {answer.status}")
        session = answer.headers.get("mcp-session-id", "")
        if session and _is_header(session):
            self._headers["Mcp-Session-Id"] = session
        return answer.headers.get("content-type", "").lower(), answer.body


def _is_header(text: str) -> bool:
    return 0 < len(text) <= MAX_HEADER and text.isascii() and text.isprintable()


def _result(body: bytes, number: int, *, is_stream: bool) -> dict[str, Any] | None:
    """The result of a request in the answer to it, or in the first `MAX_EVENTS` events of that. Raises
    DocumentError."""
    for document in event_data(body)[:MAX_EVENTS] if is_stream else [body]:
        message = read(document)
        if isinstance(message, dict) and message.get("id") == number and isinstance(message.get("result"), dict):
            return dict(message["result"])
    return None
