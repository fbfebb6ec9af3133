"""Versions of servers as `server.json` (schema 2025-12-11) with the metadata of a subregistry."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from overlay.answers.record import as_json
from overlay.api.base_url import listing_url
from overlay.listings.item_json import item_domain, offer_json, warning_json
from overlay.systems.mcp_registry.official_rules import MAX_PUBLISHER, is_local, is_url, is_version, size
from overlay.systems.mcp_registry.placeholders import header, is_secret, read_template
from overlay.systems.mcp_registry.server_versions import ServerVersion
from overlay.text.timestamps import timestamp
from parsers.cards import McpServer
from parsers.cards.command_packages import installed
from parsers.cards.deprecation import MAX_MESSAGE

SCHEMA_URL = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
OFFICIAL = "io.modelcontextprotocol.registry/official"
PUBLISHER = "io.modelcontextprotocol.registry/publisher-provided"
INSCRIPTION = "network.a2b/inscription"
MAX_TEXT = 100
"""Characters of a description and a title."""

MAX_ICON = 255


def server_json(name: str, version: str, server: McpServer) -> dict[str, Any]:
    """The `server.json` of a server under a name and version."""
    members: dict[str, Any] = {
        "$schema": SCHEMA_URL,
        "name": name,
        "title": _cut(server.name),
        "description": _cut(server.description) or _cut(server.name) or "No description.",
        "version": version,
        "packages": _packages(server),
        "remotes": _remotes(server),
    }
    if server.logo.startswith("https://") and len(server.logo) <= MAX_ICON and is_url(server.logo):
        members["icons"] = [{"src": server.logo}]
    website = server.provider.get("url", "")
    if website.startswith("https://") and is_url(website):
        members["websiteUrl"] = website
    config = {"command": server.command, "args": list(server.args), "url": server.url, "env": server.env}
    config |= {"type": server.transport} if server.transport else {}
    config |= {"headers": list(server.headers)} if server.headers else {}
    provided = {"description": server.description, "keywords": list(server.keywords), "config": config}
    if size(provided) <= MAX_PUBLISHER:
        members["_meta"] = {PUBLISHER: provided}
    return {key: value for key, value in members.items() if value}


def _packages(server: McpServer) -> list[dict[str, Any]]:
    """The package that the command runs: by stdio, or by another transport where it serves at a local URL. None where
    another transport is stated without a local URL."""
    packaged = package(server.command, server.args, server.env)
    if packaged is None:
        return []
    if server.transport != "stdio" and is_url(server.url) and is_local(server.url):
        return [packaged | {"transport": {"type": _type(server), "url": server.url}}]
    return [packaged] if server.transport in ("", "stdio") else []


def _remotes(server: McpServer) -> list[dict[str, Any]]:
    """The URL as a remote, with its headers: an https one that is not local, with placeholders as variables."""
    template = read_template(server.url)
    example = re.sub(r"\{[^}]*\}", "x", template.text) if template else ""
    is_remote = example.startswith("https://") and is_url(example) and not is_local(example)
    if template is None or server.transport == "stdio" or not is_remote:
        return []
    headers = list(filter(None, (header(name, value) for name, value in server.headers.items())))
    members = {"type": _type(server), "url": template.text, "headers": headers, "variables": template.variables()}
    return [{key: value for key, value in members.items() if value}]


def _type(server: McpServer) -> str:
    """The stated transport of a URL, else the one that its path suggests."""
    guessed = "sse" if urlsplit(server.url).path.rstrip("/").endswith("/sse") else "streamable-http"
    return server.transport if server.transport not in ("", "stdio") else guessed


def response(base: str, version: ServerVersion) -> dict[str, Any]:
    """A server with its metadata. The metadata that the official registry gives about itself are here about this
    registry."""
    published, changed = timestamp(version.published), timestamp(version.changed)
    official = {
        **_status(version),
        "publishedAt": published,
        "updatedAt": changed,
        "isLatest": version.latest,
    }
    server = server_json(version.name, version.version, version.server)
    return {"server": server, "_meta": {OFFICIAL: official, INSCRIPTION: _inscription(base, version)}}


def _status(version: ServerVersion) -> dict[str, Any]:
    """The status of a version, since when, and why: a notice of its owner is about every version."""
    if version.deleted:
        return {"status": "deleted", "statusChangedAt": timestamp(version.changed)}
    published, notice = timestamp(version.published), version.listing.deprecation
    if notice is None:
        taken_back = max(version.published, version.listing.notice_time or 0)
        return {"status": "active", "statusChangedAt": timestamp(taken_back)}
    message = notice.message or (f"Use {notice.successor} instead." if notice.successor else "")
    members = {"status": "deprecated", "statusChangedAt": version.listing.deprecated_since or published}
    return members | ({"statusMessage": message[:MAX_MESSAGE]} if message else {})


def _inscription(base: str, version: ServerVersion) -> dict[str, Any]:
    listing = version.listing
    members: dict[str, Any] = {
        "id": listing.id,
        "url": listing_url(base, listing.id),
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
            "owner": listing.owner,
            "signer": listing.signer,
            "app": listing.state.map.get("app", ""),
            "integrity": listing.integrity.value,
            "domain": as_json(item_domain(listing)),
            "offers": [offer_json(offer) for offer in version.server.offers],
            "warnings": [warning_json(reason) for reason in (*version.server.warnings, *listing.all_warnings)],
        }
    return members


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1].rstrip() + "…"


def package(command: str, args: Sequence[str], env: dict[str, str]) -> dict[str, Any] | None:
    """The package (`Package` of server.json) that a command runs by stdio, None where it is not certain. `env` holds
    the descriptions of variables by name."""
    run = installed(command, args)
    if run is None or (run.version and not is_version(run.version)):
        return None
    members: dict[str, Any] = {
        "registryType": run.runner.registry,
        "identifier": run.name,
        "version": run.version,
        "runtimeHint": run.runner.hint,
        "runtimeArguments": [*map(_positional, run.flags)],
        "packageArguments": [*map(_positional, run.arguments)],
        "environmentVariables": [_variable(name, env[name]) for name in env if name],
    }
    return {name: value for name, value in members.items() if value} | {"transport": {"type": "stdio"}}


def _positional(value: str) -> dict[str, str]:
    return {"type": "positional", "value": value}


def _variable(name: str, description: str) -> dict[str, Any]:
    members: dict[str, Any] = {"name": name}
    if description:
        members["description"] = description
    return members | {"isSecret": True} if is_secret(name) else members
