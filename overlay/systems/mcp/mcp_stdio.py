"""`a2b mcp`: the registry's tools for an MCP client that starts its servers, over standard input and output."""

from __future__ import annotations

import sys
from argparse import Namespace
from io import TextIOWrapper
from typing import TYPE_CHECKING

from overlay.commands.options import URL, command

if TYPE_CHECKING:
    from overlay.commands.options import Commands

DEFAULT_URL = "http://127.0.0.1:8080"


def add(commands: Commands) -> None:
    """Add `a2b mcp`."""
    parser = command(
        commands, "mcp", mcp,
        "Serve the registry's tools to an MCP client over standard input and output, until it closes them.",
        more="Listings come from a running overlay; `verify` checks their proofs here, without trusting it. With a "
        "wallet (A2B_WALLET), `hire` pays for work: within `mcp_satoshis_per_day` of its policy, else once you agree.",
    )  # fmt: skip
    parser.add_argument(
        "--chain", metavar="CAIP2", help="the chain on which `verify` expects listings [any main network]"
    )
    parser.add_argument("--url", help=f"the overlay to ask [{URL}, else {DEFAULT_URL}]")


def mcp(args: Namespace) -> int:
    """Serve until standard input ends."""
    import asyncio

    asyncio.run(_serve(args.url or DEFAULT_URL, args.chain))
    return 0


async def _serve(url: str, chain: str | None) -> None:
    import anyio
    from mcp.server.stdio import stdio_server

    from overlay.app import version
    from overlay.client import AsyncOverlayClient
    from overlay.client.hire.wallet import wallet_at
    from overlay.systems.mcp.hire_tool import HIRE, HireTool
    from overlay.systems.mcp.mcp_server import server
    from overlay.systems.mcp.remote_source import RemoteSource

    # a client on Windows may begin with a byte order mark
    lines = anyio.wrap_file(TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig", errors="replace"))
    async with AsyncOverlayClient(url) as client, stdio_server(lines) as (reading, writing):
        source, wallet = RemoteSource(client, chain), wallet_at()
        more = [(HIRE, HireTool(client, wallet, chain).call)] if (wallet.folder / "key.txt").exists() else []
        served = server(version(), lambda _context: source, more=more)
        await served.run(reading, writing, served.create_initialization_options())
