"""An overlay, and agents behind gates that it lists: each answers as a test says, on a node in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import base58
from aiohttp import web

from overlay.client.hire.wallet import Wallet
from overlay.systems.payments.aiohttp_gate import middleware
from overlay.systems.payments.gate import PaymentGate
from overlay.systems.payments.store import PaymentStore
from tests.chainkit import ChainKit, agent
from tests.overlay.client.world import overlay_over
from tests.overlay.payments.fake_node import PAYER, FakeNode, address_of, price

MCP = {"initialize": {"protocolVersion": "2025-06-18", "capabilities": {}}, "notifications/initialized": None}
"""Methods of MCP that are free, with their results."""

Answer = Callable[[Any], Awaitable[Any]]


async def echo(params: Any) -> Any:
    """A completed task with the text that came."""
    text = next(part["text"] for part in params["message"]["parts"] if "text" in part)
    artifact = {"artifactId": "1", "parts": [{"kind": "text", "text": f"echo: {text}"}]}
    return {"kind": "task", "id": "agent-task-0000001", "status": {"state": "completed"}, "artifacts": [artifact]}


@dataclass
class AgentServer:
    """An agent of A2A at `/`, and of plain HTTP at `/plain`, behind a gate. `calls` are the requests that reached the
    work; `answer` does it; `before` may answer before the gate."""

    node: Any = field(default_factory=FakeNode)
    answer: Answer = echo
    before: Callable[[web.Request], Awaitable[web.StreamResponse | None]] | None = None
    calls: list[Any] = field(default_factory=list)
    url: str = ""

    async def rpc(self, request: web.Request) -> web.Response:
        message = await request.json()
        if message["method"] in MCP:
            return web.json_response({"jsonrpc": "2.0", "id": message.get("id"), "result": MCP[message["method"]]})
        self.calls.append(message)
        if message["method"] == "tools/call":
            words = json.dumps(message["params"]["arguments"])
            result = {"content": [{"type": "text", "text": words}], "structuredContent": {"length": len(words)}}
            return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": result})
        return web.json_response(
            {"jsonrpc": "2.0", "id": message["id"], "result": await self.answer(message["params"])}
        )

    async def plain(self, request: web.Request) -> web.Response:
        text = await request.text()
        self.calls.append(text)
        return web.Response(text=f"plain: {text}")

    @web.middleware
    async def first(self, request: web.Request, handler: Any) -> web.StreamResponse:
        early = await self.before(request) if self.before is not None else None
        return early if early is not None else await handler(request)

    def reset(self) -> None:
        self.answer, self.before, self.calls = echo, None, []


@contextmanager
def agent_server(
    folder: Path, *prices: dict[str, Any], node: Any = None, signing_key: bytes | None = None
) -> Iterator[AgentServer]:
    """A running agent, in a thread, with a node in memory unless it is another one."""
    server = AgentServer() if node is None else AgentServer(node)
    store = PaymentStore.open(f"sqlite:///{folder / 'payments.db'}")
    gate = PaymentGate(list(prices), store, server.node, signing_key=signing_key)
    app = web.Application(middlewares=[server.first, middleware(gate, {"/": None, "/plain": ""})])
    app.add_routes([web.post("/", server.rpc), web.post("/plain", server.plain)])
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()
    runner = web.AppRunner(app)

    async def start() -> str:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}/"

    server.url = asyncio.run_coroutine_threadsafe(start(), loop).result()
    try:
        yield server
    finally:
        for ending in (runner.cleanup(), server.node.close()):
            asyncio.run_coroutine_threadsafe(ending, loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        store.close()


@dataclass
class World:
    """The URL of an overlay, the agent, and the ids of its listings: `full` is paid at once, `deposit` in two parts,
    `plain` by plain HTTP."""

    overlay: str
    agent: AgentServer
    ids: dict[str, str]

    def wallet(self, folder: Path, policy: str = "", coins: int = 4) -> Wallet:
        """A wallet with coins of 100,000 satoshis."""
        folder.mkdir(exist_ok=True)
        (folder / "key.txt").write_bytes(base58.b58encode_check(b"\xef" + PAYER + b"\x01"))
        (folder / "key.txt").chmod(0o600)
        outpoints = [self.agent.node.mint(100_000) for _ in range(coins)]
        listed = [{"outpoint": str(outpoint), "satoshis": 100_000} for outpoint in outpoints]
        (folder / "coins.json").write_text(json.dumps(listed))
        if policy:
            (folder / "policy.toml").write_text(policy)
        return Wallet(folder)


@contextmanager
def hiring_world(home: Path) -> Iterator[World]:
    tills = [address_of(bytes([number]) * 32) for number in range(11, 16)]
    prices = {
        "full": price(id="full", address=tills[0]),
        "deposit": price(id="deposit", amount="0.0006", depositPct="0.5", address=tills[1]),
        "plain": price(id="plain", address=tills[2]),
        "old": price(id="old", address=tills[3]),
        "tool": price(id="tool", address=tills[4], skillIds=["words"]),
        "placeholder": price(id="placeholder", address="1WatchtowerAddr"),
    }
    with agent_server(home, *prices.values()) as served:
        kit = ChainKit()
        more = {"plain": {"url": f"{served.url}plain"}, "old": {"x-a2b-deprecated": {}}}
        cards = {
            name: agent(f"Echo {name}", **{"url": served.url, "x-payment-config": [one], **more.get(name, {})})
            for name, one in prices.items()
            if name != "tool"
        }
        listed = {name: kit.inscribe(card, owner=name) for name, card in cards.items()}
        config = {
            "mcpServers": {"words": {"url": served.url, "tools": ["words"], "x-payment-config": [prices["tool"]]}}
        }
        listed["tool"] = kit.inscribe(config, type="a2b-mcp", owner="tool")
        kit.mine(*listed.values())
        with overlay_over(kit, home) as url:
            yield World(url, served, {name: str(outpoint) for name, outpoint in listed.items()})
