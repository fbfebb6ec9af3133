"""The servers that langchain-mcp-registry and mcp-lookup read from a registry, as JSON. Runs in an environment of its
own."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from langchain_mcp_registry.client import MCPRegistryClient
from langchain_mcp_registry.converter import RegistryToMCPConverter
from mcp_lookup.registry import RegistryClient

GIT = "network.a2b.17b01dbf423e/Git-History"


async def langchain(url: str, version: str) -> dict[str, Any]:
    async with MCPRegistryClient(f"{url}/{version}/servers", cache_enabled=False) as client:
        servers = await client.search_servers(limit=100, version="latest")
        [hit] = await client.search_servers("Extractor")
        details = await client.get_server_details(hit.name)
        versions = await client.get_server_versions(GIT)
        try:
            await client.get_server_details("network.a2b.000000000000/nobody")
        except Exception as error:
            missing = type(error).__name__
    configs = {server.title: RegistryToMCPConverter().convert(server) for server in servers}
    return {
        "titles": [server.title for server in servers],
        "commands": {title: [config.command, *config.args] for title, config in configs.items()},
        "details": details.title,
        "versions": [server.version for server in versions],
        "missing": missing,
    }


async def main(url: str) -> dict[str, Any]:
    new, old = await langchain(url, "v0.1"), await langchain(url, "v0")
    lookup = RegistryClient(url)
    looked_up = [lookup.search("Extractor")[0]["server"]["title"], (lookup.get(GIT) or {})["server"]["version"]]
    return new | {"titles": {"v0.1": new["titles"], "v0": old["titles"]}, "looked_up": looked_up}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1]))))
