"""A registry whose listings are visited, and endpoints that answer as a test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from indexer.fetcher.dns import TxtRecords
from indexer.fetcher.http_fetcher import HttpFetcher
from overlay.systems.liveness.liveness_checks import LivenessChecks
from overlay.systems.liveness.probe_targets import TargetQueue
from tests.hostile import Behave, Hostile, answer, ok
from tests.indexer.fetcher.checked_registry import CheckedRegistry

PUBLIC_URL = "https://registry.example"
HOST = "agent.example"
JSON = "Content-Type: application/json"


class ProbedRegistry(CheckedRegistry):
    """Its listings are read for their URLs before each look."""

    queue: TargetQueue

    def create_checks(self, fetcher: HttpFetcher, txt: TxtRecords) -> list[Any]:  # noqa: ARG002
        writer = self.indexing.writer
        self.queue = TargetQueue(self.store, writer, lambda: None, is_probing=True, clock=self.clock)
        return [LivenessChecks(fetcher, self.store, writer, PUBLIC_URL)]

    def read_targets(self) -> None:
        """Read which URLs the listings name."""
        while self.queue.step()[0]:
            pass

    async def after(self, milliseconds: int = 0) -> None:
        """Advance the clock, and make the visits that are due then; listings that these change are read again."""
        for _ in range(2):
            self.read_targets()
            await super().after(milliseconds)
            milliseconds = 0

    def health(self, id_: str) -> Any:
        """The member of a listing, None without it."""
        return self.item(id_).get("health")

    def state(self, id_: str) -> tuple[str, str | None] | None:
        """The state of a listing, and its reason."""
        shown = self.health(id_)
        return None if shown is None else (shown["state"], shown.get("reason"))

    def announced(self) -> list[str]:
        """The listings whose state has changed, in order."""
        return [change.id for change in self.store.outbox.after(0, 1_000) if change.reason == "health"]


def speaks(server: Hostile, reply: Callable[[Any], tuple[str, Any]]) -> Behave:
    """The server answers posted JSON by a status and a JSON value (None: no body), and nothing else."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = int(server.requests[-1].headers.get("content-length", "0"))
        message = json.loads(await reader.readexactly(length)) if length else None
        status, value = ("405 Method Not Allowed", None) if message is None else reply(message)
        writer.write(answer(status, b"" if value is None else json.dumps(value).encode(), JSON))
        await writer.drain()

    return behave


def mcp_server(*tools: str) -> Callable[[Any], tuple[str, Any]]:
    """The replies of an MCP server with these tools."""
    results = {
        "initialize": {"protocolVersion": "2025-06-18"},
        "tools/list": {"tools": [{"name": name, "inputSchema": {}} for name in tools]},
    }

    def reply(message: Any) -> tuple[str, Any]:
        result = results.get(message["method"])
        body = {"jsonrpc": "2.0", "id": message.get("id"), "result": result}
        return ("200 OK", body) if result else ("202 Accepted", None)

    return reply


def a2a_server(message: Any) -> tuple[str, Any]:
    """The reply of an A2A agent that has no such task."""
    error = {"code": -32001, "message": "task not found"}
    return "200 OK", {"jsonrpc": "2.0", "id": message["id"], "error": error}


def names(server: Hostile, *ids: str) -> None:
    """The host serves a card that names these ids."""
    server.say("/.well-known/agent.json", ok(json.dumps({"x-a2b-id": list(ids)}).encode()))
