"""Listings as entries of an AI catalog (`catalogEntry` of ARD v0.9 §4.2), and listing ids in `urn:air:` names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from overlay.api.base_url import listing_url
from overlay.text.compact_json import encode
from parsers.cards import encoded_key, split_id

MEDIA_TYPES = {"agent": "application/a2a-agent-card+json", "tool": "application/mcp-server-card+json"}
"""The media type of the artifact of each kind of listing."""

REGISTRY_TYPE = "application/ai-registry+json"
_NAMESPACE = "a2b"
_PLAIN = re.compile(r"[0-9a-f]{64}_[0-9]{1,10}")
_ESCAPE = re.compile(r"_([0-9A-F]{2})")
_MOST_QUERIES, _FEWEST_QUERIES = 5, 2


def publisher(base: str) -> str:
    """The domain under which this registry names entries: its own, as none may name entries for a domain of others."""
    host = urlsplit(base).hostname or ""
    return host if re.fullmatch(r"[a-zA-Z0-9.-]+", host) else "localhost"


def identifier(base: str, id_: str) -> str:
    """The URN of a listing: an outpoint unchanged; a server's key, or any other id, with bytes escaped as `_XX`."""
    registration, key = split_id(id_)
    if not _PLAIN.fullmatch(registration):
        return f"urn:air:{publisher(base)}:{_NAMESPACE}:{_escaped(id_)}"
    segments = (registration,) if key is None else (registration, _escaped(unquote(key)))
    return ":".join(("urn:air", publisher(base), _NAMESPACE, *segments))


def listing_id(text: str) -> str:
    """The listing id in a URN under any domain; any other text unchanged."""
    match text.split(":"):
        case ["urn", "air", _, namespace, name] if namespace == _NAMESPACE:
            return name if _PLAIN.fullmatch(name) else _unescaped(name)
        case ["urn", "air", _, namespace, registration, key] if namespace == _NAMESPACE:
            return f"{registration}#{encoded_key(_unescaped(key))}"
    return text


def _escaped(text: str) -> str:
    return "".join(
        chr(byte) if (chr(byte).isalnum() and byte < 128) or byte in b".-" else f"_{byte:02X}"
        for byte in text.encode("utf-8", "surrogatepass")
    )


def _unescaped(text: str) -> str:
    raw = _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), text)
    return raw.encode("latin-1", "replace").decode("utf-8", "replace")


def entry(base: str, item: dict[str, Any], note: Mapping[str, str]) -> dict[str, Any]:
    """The catalog entry of an item. Its artifact is the card's exact bytes; members of `metadata` are scalars;
    those of `note`, which is about `base`, are added to them."""
    skills = item["skills"]
    members: dict[str, Any] = {
        "identifier": identifier(base, item["id"]),
        "displayName": item["name"] or item["id"],
        "type": MEDIA_TYPES[item["type"]],
        "url": f"{listing_url(base, item['id'])}/card",
        "description": item["description"],
        "tags": item["tags"],
        "capabilities": [skill["id"] for skill in skills],
        "version": item["version"],
        "updatedAt": item["timestamp"],
    }
    queries = list(dict.fromkeys(example for skill in skills for example in skill["examples"] if example))
    if len(queries) >= _FEWEST_QUERIES:
        members["representativeQueries"] = queries[:_MOST_QUERIES]
    present = {name: value for name, value in members.items() if value}
    return present | {"metadata": {**_metadata(item), **note}, "trustManifest": _trust(base, item)}


def _metadata(item: dict[str, Any]) -> dict[str, str | int | bool | None]:
    domain, cheapest = item["domain"] or {}, item.get("cheapest") or {}
    members = {
        "id": item["id"],
        "status": item["status"],
        "chain": item["caip2"],
        "outpoint": item["outpoint"],
        "txid": item["txid"],
        "owner": item["owner"],
        "updatedHeight": item["updatedHeight"],
        "integrity": item["integrity"],
        "domain": domain.get("host"),
        "domainVerified": domain.get("verified"),
        "price": cheapest.get("amount"),
        "priceCurrency": cheapest.get("currency"),
        "priceInterval": cheapest.get("interval"),
        "warnings": len(item["warnings"]),
        "lacks": ", ".join(item["lacks"]) if "lacks" in item else None,
        "byMeaning": item.get("byMeaning"),
    }
    return {name: value for name, value in members.items() if value is not None}


def _trust(base: str, item: dict[str, Any]) -> dict[str, Any]:
    """The publisher of the entry, and the source of its artifact. There is no signature: the chain is the proof."""
    digest = f"sha256:{item['cardSha256']}"
    source = f"ord://{item['origin']}" if item["origin"] else item["id"]
    members: dict[str, Any] = {
        "identity": base,
        "identityType": "https",
        "provenance": [{"relation": "publishedFrom", "sourceId": source, "sourceDigest": digest}],
    }
    if item["status"] == "live" and item["integrity"] == "inscribed":
        uri = f"{listing_url(base, split_id(item['id'])[0])}/proof"
        members["attestations"] = [{"type": "SPV", "uri": uri, "mediaType": "application/json"}]
    return members


def manifest(base: str, note: Mapping[str, str]) -> bytes:
    """The manifest of this host (`ai-catalog.schema.json`), which names its registry; `note` is its metadata."""
    name = publisher(base)
    registry: dict[str, Any] = {
        "identifier": f"urn:air:{name}:registry:{_NAMESPACE}",
        "displayName": "A2B registry overlay",
        "type": REGISTRY_TYPE,
        "url": base,
        "description": "Search over AI agents and MCP tools that are registered on chain.",
        "tags": ["a2b", "a2a", "mcp", "registry"],
        "representativeQueries": ["an agent that watches payment channels", "an MCP tool that reads PDF files"],
    }
    registry |= {"metadata": dict(note)} if note else {}
    host = {"displayName": "A2B registry overlay", "documentationUrl": f"{base}/docs"}
    return encode({"specVersion": "1.0", "host": host, "entries": [registry]})
