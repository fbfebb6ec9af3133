"""The API of the official MCP registry."""

from __future__ import annotations

from overlay.installation import System

SYSTEM = System(name="mcp_registry", api="registry_api")
