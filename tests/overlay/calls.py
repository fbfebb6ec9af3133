"""Calls that the tests of the HTTP side make, and what every problem must have."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import ClientResponse, ClientSession
from yarl import URL

from overlay.api.services import AppServices
from tests.overlay.fakes import FakeEngine

TOWER = "854803e9a3dfe70ec53f93824a07ed2696ffb1ad9c04054a7f0c2766abdf2897_0"


def engine_of(services: AppServices) -> FakeEngine:
    assert isinstance(services.engine, FakeEngine)
    return services.engine


def raw(path: str) -> URL:
    """A URL sent exactly as written."""
    return URL(path, encoded=True)


async def problem(response: ClientResponse, status: int) -> dict[str, Any]:
    """The problem an answer holds, after checking what every problem must have."""
    assert response.status == status
    assert response.content_type == "application/problem+json"
    body: dict[str, Any] = json.loads(await response.read())
    assert body["status"] == status
    assert body["requestId"] == response.headers["X-Request-Id"]
    assert body["error"] == body["detail"]
    assert body["detail"]
    assert isinstance(body["title"], str)
    assert all(entry["code"] and entry["detail"] for entry in body["errors"])
    return body


async def get(client: ClientSession, path: str, status: int = 200) -> Any:
    async with client.get(raw(path)) as response:
        assert response.status == status, await response.text()
        return json.loads(await response.read())


async def talk(client: ClientSession, request: bytes) -> bytes:
    """Send bytes as they are and read until the server closes or pauses."""
    base = client._base_url
    assert base is not None
    reader, writer = await asyncio.open_connection(base.host, base.port)
    try:
        writer.write(request)
        received = b""
        while b"\r\n\r\n" not in received and (chunk := await asyncio.wait_for(reader.read(65_536), 60)):
            received += chunk
        return received
    finally:
        writer.close()
