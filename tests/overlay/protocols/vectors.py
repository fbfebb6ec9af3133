"""Requests that real clients sent, and small helpers for asking over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tests.overlay.calls import local_http


class Recorded(NamedTuple):
    """A request that a real client sent: method, path with query, headers but for the host, and body."""

    method: str
    target: str
    headers: dict[str, str]
    body: str


def recorded(shared: Path, name: str) -> list[Recorded]:
    """The requests of one client, in the order they were sent."""
    requests = []
    for line in (shared / "vectors" / "clients" / f"{name}.jsonl").read_text().splitlines():
        entry = json.loads(line)
        method, _, target = entry["request"].partition(" ")
        headers = {key: value for key, value in entry["headers"].items() if key.lower() != "host"}
        requests.append(Recorded(method, target, headers, entry["body"]))
    return requests


def send(url: str, request: Recorded) -> httpx.Response:
    return local_http.request(request.method, url + request.target, headers=request.headers, content=request.body)


def api_page(url: str, **parameters: Any) -> dict[str, Any]:
    """A page of the API."""
    response = local_http.get(f"{url}/v1/search", params=parameters)
    assert response.status_code == 200, response.text
    page: dict[str, Any] = response.json()
    return page
