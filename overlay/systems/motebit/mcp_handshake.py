"""The handshake with the MCP endpoint of a Motebit agent: its tools, and the key that its tool `motebit_identity`
names. An endpoint is refused after any failure; on another port than 443 it is unchecked as long as no server is
reached there."""

from __future__ import annotations

import asyncio
from typing import Any

from indexer.fetcher.connections import Admit
from indexer.fetcher.http_fetcher import HttpFetcher, open_admit
from indexer.fetcher.mcp_session import mcp_session
from indexer.fetcher.ports import is_endpoint_port, is_https_port
from indexer.fetcher.reasons import OFF_PORT, PORT_LIMIT, FetchError
from indexer.fetcher.schedule import Priority
from indexer.fetcher.target import target
from indexer.store import Writer
from overlay.systems.motebit import store
from overlay.systems.motebit.store_endpoints import ENDPOINT_CHECK, EndpointKey, HandshakeOutcome
from parsers.claims.canonical_json import DocumentError
from parsers.claims.motebit.identity_tool import IDENTITY_TOOL, named_key
from parsers.claims.tool_manifest import tool_manifest

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
        return await asyncio.to_thread(store.record_handshake, self._writer, key, outcome, now)


def _has_other_port(endpoint: str) -> bool:
    try:
        return not is_https_port(target(endpoint, is_permitted=is_endpoint_port).port)
    except FetchError:
        return False


async def handshake(fetcher: HttpFetcher, key: EndpointKey, admit: Admit = open_admit) -> HandshakeOutcome:
    """The manifest of an endpoint where it names the key, else the reason. Raises FetchError."""
    tools: list[Any] | None = None
    try:
        async with mcp_session(fetcher, key.endpoint, "handshake", admit) as session:
            tools = await session.tools()
            manifest = await asyncio.to_thread(tool_manifest, tools)
            if IDENTITY_TOOL not in manifest.tools:
                return HandshakeOutcome(None, "no-identity-tool", tools=tools)
            result = await session.call(IDENTITY_TOOL)
        if await asyncio.to_thread(named_key, result) != key.public_key:
            return HandshakeOutcome(None, "key-mismatch", tools=tools)
    except DocumentError as error:
        return HandshakeOutcome(None, error.code, tools=tools)
    except TimeoutError:
        return HandshakeOutcome(None, "fetch-slow", tools=tools)
    return HandshakeOutcome(manifest, tools=tools)
