"""Versions of servers as `server.json` (schema 2025-12-11) with the metadata of a subregistry."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, urlsplit

from overlay.listings.item_json import domain_json, offer_json, warning_json
from overlay.protocols.mcp_registry.command_packages import package
from overlay.protocols.mcp_registry.server_versions import ServerVersion
from overlay.text.compact_json import encode
from overlay.text.timestamps import timestamp
from parsers.cards import McpServer

SCHEMA_URL = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
OFFICIAL = "io.modelcontextprotocol.registry/official"
PUBLISHER = "io.modelcontextprotocol.registry/publisher-provided"
INSCRIPTION = "network.a2b/inscription"
MAX_TEXT = 100
"""Characters of a description and a title."""

MAX_PUBLISHER = 4_000
"""Bytes of what the publisher provided; the whole card is at the listing's `card`."""

MAX_ICON = 255
_URL = re.compile(r"https?://[A-Za-z0-9][A-Za-z0-9.-]{0,252}(?::[0-9]{1,5})?(?:[/?#][\x21\x23-\x3b\x3d\x3f-\x7a~]*)?")


def server_json(name: str, version: str, server: McpServer) -> dict[str, Any]:
    """The `server.json` of a server under a name and version."""
    members: dict[str, Any] = {
        "$schema": SCHEMA_URL,
        "name": name,
        "title": _cut(server.name),
        "description": _cut(server.description) or _cut(server.name) or "No description.",
        "version": version,
    }
    if (installed := package(server.command, server.args, server.env)) is not None:
        members["packages"] = [installed]
    if is_url(server.url):
        sse = urlsplit(server.url).path.rstrip("/").endswith("/sse")
        members["remotes"] = [{"type": "sse" if sse else "streamable-http", "url": server.url}]
    if server.logo.startswith("https://") and len(server.logo) <= MAX_ICON and is_url(server.logo):
        members["icons"] = [{"src": server.logo}]
    if is_url(server.provider.get("url", "")):
        members["websiteUrl"] = server.provider["url"]
    config = {"command": server.command, "args": list(server.args), "url": server.url, "env": server.env}
    provided = {"description": server.description, "keywords": list(server.keywords), "config": config}
    if len(encode(provided)) <= MAX_PUBLISHER:
        members["_meta"] = {PUBLISHER: provided}
    return {key: value for key, value in members.items() if value}


def is_url(text: str) -> bool:
    """Whether a text is an http or https URL that strict readers take."""
    if not _URL.fullmatch(text):
        return False
    try:
        return urlsplit(text).port != 0
    except ValueError:  # a port above 65535
        return False


def response(base: str, version: ServerVersion) -> dict[str, Any]:
    """A server with its metadata. What the official registry says of its servers is said here of this registry."""
    published, changed = timestamp(version.published), timestamp(version.changed)
    official = {
        "status": "deleted" if version.deleted else "active",
        "publishedAt": published,
        "updatedAt": changed,
        "statusChangedAt": changed if version.deleted else published,
        "isLatest": version.latest,
    }
    server = server_json(version.name, version.version, version.server)
    return {"server": server, "_meta": {OFFICIAL: official, INSCRIPTION: _inscription(base, version)}}


def _inscription(base: str, version: ServerVersion) -> dict[str, Any]:
    listing = version.listing
    members: dict[str, Any] = {
        "id": listing.id,
        "url": f"{base}/v1/listings/{quote(listing.id, safe='')}",
        "chain": listing.caip2,
        "origin": listing.state.id if listing.pointers is None else None,
        "txid": version.txid,
        "height": version.height,
        "cardSha256": version.sha256,
    }
    if version.latest:
        members |= {
            "status": listing.status,
            "outpoint": str(listing.state.outpoint) if listing.state.outpoint else None,
            "owner": listing.state.owner,
            "signer": listing.signer,
            "app": listing.state.map.get("app", ""),
            "integrity": listing.integrity.value,
            "domain": domain_json(listing),
            "offers": [offer_json(offer) for offer in version.server.offers],
            "warnings": [warning_json(reason) for reason in (*version.server.warnings, *listing.all_warnings)],
        }
    return members


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1].rstrip() + "…"
