"""The answer of every system to an unreadable body, in its own shape of an error."""

from __future__ import annotations

from typing import Any

import pytest

from tests.overlay.calls import local_http, read_json

SHAPES = {
    "/v1/": {"type", "status", "title", "detail", "errors", "requestId", "error"},
    "/a2a": {"jsonrpc", "id", "error"},
    "/mcp": {"jsonrpc", "id", "error"},
    "/mrp/": {
        "mrp_version",
        "msg_id",
        "msg_type",
        "timestamp",
        "sender",
        "receiver",
        "in_reply_to",
        "payload",
        "nonce",
        "expires_at",
        "auth",
    },
    "/agent/": {"error", "status", "code"},
    "/api/v1/": {"error", "status", "code"},
    "/mrp/registry/": {"mrp_version", "error", "message", "retryable", "retry_after_ms", "details"},
    "/search": {"errorCode", "message"},
    "/explore": {"errorCode", "message"},
    "/lookup": {"status", "message", "requestId", "code"},
    "/submit": {"status", "message", "requestId", "code"},
    "/request": {"status", "message", "requestId", "code"},
    "/arc-ingest": {"status", "message", "requestId", "code"},
    "/register": {"type", "status", "title", "detail", "errors", "requestId", "error"},
    "/publish": {"type", "status", "title", "detail", "errors", "requestId", "error"},
}
"""The members of an error by the beginning of the path, the longest one that fits."""

HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    "X-BSV-Topic": "tm_a2b",
    "X-Topics": "tm_a2b",
}


def posts(url: str) -> dict[str, Any]:
    """The operations that declare a body, by path."""
    paths = read_json(f"{url}/openapi.json")["paths"]
    return {path: item["post"] for path, item in paths.items() if "requestBody" in item.get("post", {})}


@pytest.mark.parametrize("body", [b"", b"\xff\x00", b"[]", b"null"])
def test_what_is_no_body_is_refused_in_the_shape_of_the_protocol(overlay_url: str, body: bytes) -> None:
    for path, operation in posts(overlay_url).items():
        [media] = operation["requestBody"]["content"]
        url = overlay_url + path.replace("{", "").replace("}", "")
        response = local_http.post(url, content=body, headers=HEADERS | {"Content-Type": media})
        assert response.status_code < 500, path
        if path == "/v1/check" and body:
            assert not response.json()["ok"]  # it is what this route is for
            continue
        shape = SHAPES[max((prefix for prefix in SHAPES if path.startswith(prefix)), key=len)]
        assert response.json().keys() <= shape, path
        assert response.json().keys() >= shape - {"code", "in_reply_to", "receiver"}, path
        if not path.startswith(("/a2a", "/mrp/")):
            assert response.status_code >= 400, path


def test_preflights_name_the_methods_of_every_path_and_the_headers_that_it_reads(overlay_url: str) -> None:
    paths = read_json(f"{overlay_url}/openapi.json")["paths"]
    for path, item in paths.items():
        url = overlay_url + path.replace("{", "").replace("}", "")
        response = local_http.options(
            url, headers={"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
        )
        methods = {method.upper() for method in item} | {"OPTIONS"} | ({"HEAD"} if "get" in item else set())
        assert response.status_code == 204, path
        assert set(response.headers["Allow"].split(", ")) == methods, path
        assert set(response.headers["Access-Control-Allow-Methods"].split(", ")) == methods, path
        allowed = {name.lower() for name in response.headers["Access-Control-Allow-Headers"].split(", ")}
        read = {one["name"].lower() for entry in item.values() for one in entry["parameters"] if one["in"] == "header"}
        assert read <= allowed, path
