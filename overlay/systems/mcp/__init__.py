"""The Model Context Protocol at `/mcp`, and over standard input and output."""

from __future__ import annotations

from overlay.installation import System

SYSTEM = System(name="mcp", api="mcp_api", commands=("mcp_stdio",))
