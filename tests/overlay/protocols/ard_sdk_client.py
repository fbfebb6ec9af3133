"""The results of ard-sdk in a registry, as JSON lines. Runs in an environment of its own, as ard-sdk needs Python
3.13."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import httpx
from ard.exceptions import InvalidArgumentError
from ard.http import ArdClient

REGISTRY = "https://overlay.example"


class ToOverlay(httpx.AsyncHTTPTransport):
    """Connects to the overlay on this machine, without TLS: ard-sdk takes only https addresses."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = httpx.URL(url)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(scheme="http", host=self._url.host, port=self._url.port)
        return await super().handle_async_request(request)


async def main(url: str) -> dict[str, Any]:
    async with httpx.AsyncClient(transport=ToOverlay(url)) as http, ArdClient(http) as sdk:
        registry = sdk.registry(REGISTRY)
        page = await registry.search("watchtower")
        paged = [str(hit.identifier) async for hit in registry.search_all("a", page_size=3)]
        federated = await sdk.search("a", registries=[registry], page_size=50)
        explored = await registry.explore(["type"], filter={})
        listing = await registry.list(page_size=100)
        manifest = await sdk.fetch_manifest(f"{REGISTRY}/.well-known/ai-catalog.json")
        try:
            await registry.search("a", filter={"no.such.path": ["1"]})
        except InvalidArgumentError as error:
            refused = str(error)
        return {
            "first": [hit.metadata["id"] for hit in page],
            "scores": [int(hit.score) for hit in page],
            "paged": paged,
            "federated": sum(len(source.results) for source in federated),
            "explored": {bucket.value: bucket.count for bucket in explored.facets["type"].buckets},
            "explores": await registry.supports_explore(),
            "lists": await registry.supports_list(),
            "listed": [str(entry.identifier) for entry in listing.items],
            "total": listing.total,
            "registries": [str(entry.url) for entry in manifest.entries],
            "refused": refused,
        }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1]))))
