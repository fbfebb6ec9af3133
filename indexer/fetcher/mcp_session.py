"""A visit of an MCP endpoint over streamable HTTP: `initialize`, `tools/list` and `tools/call`, within the budgets of
fetching."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from indexer.fetcher.connections import Admit
from indexer.fetcher.event_data import event_data
from indexer.fetcher.http_fetcher import HttpFetcher, PostAnswer, Visit, open_admit
from indexer.fetcher.limits import PRODUCT
from parsers.claims.canonical_json import MAX_BYTES, DocumentError, read
from parsers.claims.tool_manifest import MAX_TOOLS

PROTOCOL_VERSION = "2025-06-18"
MAX_PAGES = 16
MAX_HEADER = 512
MAX_EVENTS = 256
"""Events of one answer that are read: notifications may come before the result."""

SECONDS = 60.0
"""Seconds of a whole visit."""


class McpStatusError(DocumentError):
    """A request was answered with another status than 2xx."""

    def __init__(self, answer: PostAnswer) -> None:
        super().__init__("mcp-error", f"status {answer.status}")
        self.answer = answer


@asynccontextmanager
async def mcp_session(
    fetcher: HttpFetcher, endpoint: str, purpose: str, admit: Admit = open_admit
) -> AsyncIterator[McpSession]:
    """An initialized session with an endpoint, unless its host opts out. `purpose` is named in the User-Agent. Raises
    FetchError, DocumentError and TimeoutError, as do the requests of the session."""
    async with asyncio.timeout(SECONDS), fetcher.visit(admit, is_endpoint=True) as visit:
        await visit.check_opt_out(endpoint)  # a stranger's card may name any URL
        session = McpSession(visit, endpoint, purpose)
        await session.initialize()
        yield session


class McpSession:
    """The requests of one visit, one after another."""

    def __init__(self, visit: Visit, endpoint: str, purpose: str) -> None:
        self._visit, self._endpoint, self._number = visit, endpoint, 0
        self._headers = {"Accept": "application/json, text/event-stream", "User-Agent": f"{PRODUCT}/1 ({purpose})"}

    async def initialize(self) -> None:
        """Agree on a version of the protocol."""
        client = {"name": PRODUCT, "version": "1"}
        parameters = {"protocolVersion": PROTOCOL_VERSION, "capabilities": {}, "clientInfo": client}
        version = (await self._request("initialize", parameters)).get("protocolVersion")
        if not isinstance(version, str) or not _is_header(version):
            raise DocumentError("mcp-error", "initialize names no protocolVersion")
        self._headers["MCP-Protocol-Version"] = version
        await self._send({"method": "notifications/initialized"})

    async def tools(self) -> list[Any]:
        """The tools of the server, unchecked: at most `MAX_TOOLS`."""
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

    async def call(self, tool: str) -> dict[str, Any]:
        """The result of a tool without arguments, unchecked."""
        return await self._request("tools/call", {"name": tool, "arguments": {}})

    async def end(self) -> None:
        """End the session, where the server named one. Raises FetchError."""
        if "Mcp-Session-Id" in self._headers:
            await self._visit.look(self._endpoint, self._headers, "DELETE")

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
            raise McpStatusError(answer)
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
