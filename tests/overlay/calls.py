"""Requests of tests over HTTP, by a session of a server in this process or by `local_http` to another process, and what
every problem must have."""

from __future__ import annotations

import asyncio
import json
import ssl
from typing import Any

import httpx
from aiohttp import ClientResponse, ClientSession
from yarl import URL

from overlay.api.services import AppServices
from tests.overlay.fakes import FakeEngine
from tests.waiting import PATIENCE

TOWER = "854803e9a3dfe70ec53f93824a07ed2696ffb1ad9c04054a7f0c2766abdf2897_0"

local_http = httpx.Client(
    verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)
)
"""A client of servers on this machine: `httpx.get` and its like would load the system's certificates for each request,
28 ms of processor time. Connections are not kept, so that a server can end between two requests."""


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
    """The JSON at a path, with this status."""
    async with client.get(raw(path)) as response:
        assert response.status == status, await response.text()
        return json.loads(await response.read())


async def post(client: ClientSession, path: str, value: Any, status: int = 200, **headers: str) -> Any:
    """The JSON that answers a JSON value, with this status."""
    async with client.post(path, json=value, headers=headers) as response:
        assert response.status == status, await response.text()
        return json.loads(await response.read())


def read_json(url: str, status: int = 200, **parameters: Any) -> Any:
    """The JSON at the URL of another process, with this status."""
    response = local_http.get(url, params=parameters or None)
    assert response.status_code == status, response.text
    return response.json()


def post_json(url: str, value: Any, status: int = 200, **headers: str) -> Any:
    """The JSON of another process that answers a JSON value, with this status."""
    response = local_http.post(url, json=value, headers=headers)
    assert response.status_code == status, response.text
    return response.json()


async def talk(client: ClientSession, request: bytes) -> bytes:
    """Send bytes as they are and read until the server closes or pauses."""
    base = client._base_url
    assert base is not None
    reader, writer = await asyncio.open_connection(base.host, base.port)
    try:
        writer.write(request)
        received = b""
        while b"\r\n\r\n" not in received and (chunk := await asyncio.wait_for(reader.read(65_536), PATIENCE)):
            received += chunk
        return received
    finally:
        writer.close()
