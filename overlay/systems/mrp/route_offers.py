"""Listings as MRP offers, registry entries and manifests. A capability is a skill of an agent or a tool of an MCP
server, by its id.

The id of a route is `route:a2b/<listing>/<capability>@<txid>`, the first two percent-encoded. The txid is that of the
revision with the terms of the route. `mrp://route/<route id>` is another spelling, and `mrp://capability/<name>`
requests routes to a capability.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from overlay.api.base_url import listing_url
from overlay.systems.mrp.store import MrpProvider
from overlay.text.timestamps import timestamp
from parsers.local_hosts import shared_url

PREFIX = "route:a2b/"
_LONGEST = 2_000


class RouteId(NamedTuple):
    """The id of a listing, the name of its capability, and the txid (hex) of the revision."""

    listing: str
    capability: str
    txid: str

    def __str__(self) -> str:
        return f"{PREFIX}{quote(self.listing, safe='')}/{quote(self.capability, safe='')}@{self.txid}"


_ADDRESS = "mrp://route/"


class CapabilityAddress(NamedTuple):
    """The query in `mrp://capability/<capability>?intent=&budget=&format=`."""

    capability: str
    intent: str
    budget: str | None
    format: str | None


def parse_route(text: str) -> RouteId | None:
    """A route id, bare or as `mrp://route/…`, there also percent-encoded or without `route:`; None for any other
    text."""
    if (address := text.removeprefix(_ADDRESS)) != text:
        text = address if "/" in address else unquote(address)
        text = f"route:{text.removeprefix('route:')}"
    if not text.startswith(PREFIX) or len(text) > _LONGEST:
        return None
    path, _, txid = text.removeprefix(PREFIX).rpartition("@")
    listing, _, capability = path.partition("/")
    if not (listing and capability and txid) or "/" in capability:
        return None
    return RouteId(unquote(listing), unquote(capability), txid)


def parse_capability(text: str) -> CapabilityAddress | None:
    """A `mrp://capability/…` address; None for any other text."""
    if not text.startswith("mrp://capability/") or len(text) > _LONGEST:
        return None
    parts = urlsplit(text)
    query = dict(parse_qsl(parts.query, max_num_fields=16))
    capability = unquote(parts.path.removeprefix("/"))
    if not capability:
        return None
    return CapabilityAddress(capability, query.get("intent", ""), query.get("budget"), query.get("format"))


_HALF_SCORE = 2.0
"""The score of a search at which the confidence is 0.5."""


def capabilities(item: dict[str, Any]) -> list[str]:
    """The names of a listing's abilities, without repetitions; its own name where it has none."""
    names = [skill["id"] or skill["name"] for skill in item["skills"]] + item["tools"]
    return list(dict.fromkeys(name for name in names if name)) or [item["name"] or item["id"]]


def best_capability(item: dict[str, Any], intent: str) -> str:
    """The capability that shares most words with an intent, the first of several."""
    names, words = capabilities(item), set(intent.lower().split())
    texts = {
        skill["id"] or skill["name"]: " ".join((skill["id"], skill["name"], skill["description"], *skill["tags"]))
        for skill in item["skills"]
    }
    return max(names, key=lambda name: len(words & set(str(texts.get(name, name)).lower().split())))


def proofs(item: dict[str, Any]) -> list[str]:
    """The proofs of a listing that anyone can check: its inscription or the hash of its card, its domain, its
    signature."""
    shown = []
    if item["origin"]:
        shown.append(f"a2b:inscription:{item['origin']}")
    if item["integrity"] == "hash-verified":
        shown.append(f"a2b:card-hash:{item['cardSha256']}")
    if item["domain"] and item["domain"]["verified"]:
        shown.append(f"a2b:domain:{item['domain']['host']}")
    if "signed" in item:
        shown.append(f"a2b:card-signature:{item['signed']['by']}")
    return shown


def has_proof(item: dict[str, Any], required: str) -> bool:
    """Whether a listing has a proof, named whole or by its kind (`a2b:domain`)."""
    return any(proof == required or proof.startswith(f"{required}:") for proof in proofs(item))


def route_id(item: dict[str, Any], capability: str) -> RouteId:
    """The route to a capability of a listing, at its present terms."""
    return RouteId(item["id"], capability, item["txid"])


def cost(base: str, item: dict[str, Any]) -> dict[str, Any]:
    """The cheapest price of a listing, with the URL of a quote; empty where it names none."""
    cheapest = item["cheapest"]
    if cheapest is None:
        return {}
    query = f"id={quote(item['id'], safe='')}&configId={quote(cheapest['offerId'], safe='')}"
    members = ("amount", "currency", "interval", "converted")
    price = {name: cheapest[name] for name in members if cheapest.get(name) is not None}
    return price | {"unit": cheapest["currency"], "configId": cheapest["offerId"], "quote": f"{base}/v1/quote?{query}"}


def offer(base: str, item: dict[str, Any], capability: str) -> dict[str, Any]:
    """An offer of the OFFER payload; `confidence` from 0 to 1 in the order of the search."""
    score = max(item.get("score") or 0.0, 0.0)
    members = {
        "route_id": str(route_id(item, capability)),
        "capability": capability,
        "confidence": round(score / (score + _HALF_SCORE), 4),
        "cost": cost(base, item),
        "proofs": proofs(item),
        "policy": [],
        "endpoint": shared_url(item["url"]),
    }
    about = {"listing": item["id"], "name": item["name"], "summary": item["summary"], "status": item["status"]}
    return {name: value for name, value in members.items() if value not in ("", {})} | about


def entry(base: str, item: dict[str, Any], capability: str | None = None) -> dict[str, Any]:
    """A registry entry, with the manifest of `capability` where one was requested. A listing that its domain confirms
    is attested by this registry, others assert themselves."""
    shown = proofs(item)
    is_confirmed = bool(item["domain"] and item["domain"]["verified"])
    trust: dict[str, Any] = {"proofs": shown, "level": "registry_attested" if is_confirmed else "self_asserted"}
    return {
        "id": item["id"],
        "canonical_id": f"a2b:{item['id']}",
        "provider": item["id"],
        "kind": "provider",
        "name": item["name"] or item["id"],
        "description": item["description"],
        "manifest_url": manifest_url(base, item["id"], capability),
        "capabilities": capabilities(item),
        "policies": [],
        "proofs": shown,
        "trust": trust,
        "metadata": {name: item[name] for name in ("type", "status", "chain", "warnings")}
        | {"url": shared_url(item["url"]), "listing": listing_url(base, item["id"])},
    }


def provider_entry(provider: MrpProvider) -> dict[str, Any]:
    """The registry entry of a provider outside the chains. This registry attests that the host confirms the manifest;
    the content of the manifest is the provider's statement."""
    manifest, shown = provider.manifest, [f"mrp:http-01:{provider.host}"]
    return {
        "id": provider.manifest_url,
        "canonical_id": f"mrp:{provider.manifest_url}",
        "provider": provider.manifest_url,
        "kind": "provider",
        "name": manifest.name,
        "description": manifest.description,
        "manifest_url": provider.manifest_url,
        "capabilities": [manifest.capability],
        "policies": list(manifest.policies),
        "proofs": shown,
        "trust": {"proofs": shown, "level": "registry_attested"},
        "metadata": {
            "host": provider.host,
            "capability_id": manifest.capability_id,
            "version": manifest.version,
            "tags": list(manifest.tags),
            "endpoints": dict(manifest.endpoints),
            "proofs_required": list(manifest.proofs_required),
            "verified_at": timestamp(provider.verified_at // 1_000),
        },
    }


def manifest_url(base: str, id_: str, capability: str | None = None) -> str:
    """The URL of the manifest of a listing, or of one of its capabilities."""
    chosen = "" if capability is None else f"?capability={quote(capability, safe='')}"
    return f"{base}/mrp/manifest/{quote(id_, safe='')}{chosen}"


def manifest(base: str, item: dict[str, Any], capability: str) -> dict[str, Any]:
    """The manifest of a capability of a listing. Its endpoints are this registry's, which finds, quotes and refers to
    the agent, but executes nothing."""
    document = {
        "capability_id": f"capability:a2b/{quote(item['id'], safe='')}/{quote(capability, safe='')}",
        "capability": capability,
        "version": item["version"] or "0",
        "tags": item["tags"],
        "inputs": [],
        "outputs": [],
        "proofs_required": [],
        "endpoints": endpoints(base),
    }
    price = cost(base, item)
    return document | ({"cost": price} if price else {})


def own_manifest(base: str, version: str) -> dict[str, Any]:
    """The manifest of this registry's own capability."""
    return {
        "capability_id": "capability:a2b/registry-search",
        "capability": "registry-search",
        "version": version,
        "tags": ["registry", "search", "agents", "mcp", "a2b"],
        "inputs": [{"type": "text"}],
        "outputs": [{"type": "offers"}],
        "proofs_required": [],
        "endpoints": endpoints(base),
    }


def endpoints(base: str) -> dict[str, str]:
    """The URLs of the routes that take envelopes."""
    return {name: f"{base}/mrp/{name}" for name in ("discover", "negotiate", "execute")}
